//! Measures a message for an outline: its line, its ties, and its size by every rule.

use super::groups::{Key, Keys};
use super::lines::{Line, Provenance, Role, Tie};
use super::read::{Arguments, Dialect, Fields, MAX_MESSAGE_BYTES, Sink, is_marked, read};
use super::value::{MAX_DEPTH, Value};
use crate::json::{string_size, weigh};
use crate::tokens::{Family, TOKEN, TextSize, bytes_over_four, chars_over_three};

/// A rule for counting texts and messages, as in `siltstone.tokens`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A message counts the bytes of its JSON; a text counts a quarter of its bytes, rounded down.
    Bytes,
    /// A message counts the code points of its JSON; a text counts a third of its code points, rounded up.
    CodePoints,
    /// A message counts by its kind; a text counts its characters by their weights.
    Blocks,
}

impl Measure {
    /// The rule of that name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "bytes" => Some(Self::Bytes),
            "code_points" => Some(Self::CodePoints),
            "blocks" => Some(Self::Blocks),
            _ => None,
        }
    }

    /// The units of a text.
    #[must_use]
    pub fn text(self, text: &[u8]) -> usize {
        match self {
            Self::Bytes => bytes_over_four(TextSize::of(text)),
            Self::CodePoints => chars_over_three(TextSize::of(text)),
            Self::Blocks => Family::BLOCKS.tokens(text),
        }
    }
}

/// The units of a message by each rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    bytes: usize,
    code_points: usize,
    blocks: usize,
}

impl Units {
    /// The units of a message whose JSON has this size.
    fn of(size: TextSize, blocks: usize) -> Self {
        Self {
            bytes: size.bytes,
            code_points: size.code_points,
            blocks,
        }
    }

    /// The units by `measure`.
    #[must_use]
    pub fn by(self, measure: Measure) -> usize {
        match measure {
            Measure::Bytes => self.bytes,
            Measure::CodePoints => self.code_points,
            Measure::Blocks => self.blocks,
        }
    }
}

/// The measured properties of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Its line.
    pub line: Line,
    /// Its units.
    pub units: Units,
    /// It has a user's words beside tool results: the words decide whether it begins a turn.
    pub(crate) has_words_beside_results: bool,
}

/// Measures a message; its ties are appended to `ties`. `None` if this reader cannot read it.
#[must_use]
pub fn measured<V: Value>(raw: &V, keys: &mut Keys, ties: &mut Vec<Tie>) -> Option<Measured> {
    if let Some(plain) = plainly_measured(raw) {
        return Some(plain);
    }
    let (fields, size) = Fields::measured(raw)?;
    let mut parts = Parts {
        family: Family::BLOCKS,
        keys,
        ties,
        count: 0,
        tokens: 0,
        reasons: false,
        speaks: false,
        texts: 0,
        results: 0,
    };
    let head = read(&fields, &mut parts)?;
    let line = Line {
        role: head.role,
        provenance: Provenance::Original,
        is_item: head.dialect == Dialect::Responses,
        is_reasoning: parts.reasons && !parts.speaks,
        opens_turn: head.role == Role::User && parts.results == 0,
        parts: parts.count,
    };
    let has_words_beside_results = head.role == Role::User && parts.results > 0 && parts.texts > 0;
    let by_json = matches!(head.role, Role::Assistant | Role::System | Role::Developer);
    let blocks = if by_json {
        bytes_over_four(size).max(parts.tokens)
    } else {
        parts.tokens
    };
    Some(Measured {
        line,
        units: Units::of(size, blocks),
        has_words_beside_results,
    })
}

/// The tokens of a message by the weights of its characters. `None` if this reader cannot read it.
#[must_use]
pub fn weighed<V: Value>(raw: &V, family: Family) -> Option<usize> {
    let (mut keys, mut ties) = (Keys::default(), Vec::new());
    let fields = Fields::of(raw)?;
    let mut parts = Parts {
        family,
        keys: &mut keys,
        ties: &mut ties,
        count: 0,
        tokens: 0,
        reasons: false,
        speaks: false,
        texts: 0,
        results: 0,
    };
    match read(&fields, &mut parts)?.role {
        Role::Assistant | Role::System | Role::Developer => {
            let (size, weight) = weigh(raw, MAX_DEPTH, family).ok()?;
            (size.bytes <= MAX_MESSAGE_BYTES).then_some(weight.div_ceil(TOKEN))
        }
        _ => Some(parts.tokens),
    }
}

/// The same for a message that has only a role and a text; `None` if it needs the full reader.
fn plainly_measured<V: Value>(raw: &V) -> Option<Measured> {
    let (role, content) = raw.role_and_text()?;
    let text = content.text()?;
    let spoken = role.text()?;
    let role = match spoken {
        "user" if !is_marked(text) => Role::User,
        "assistant" if !is_marked(text) => Role::Assistant,
        "system" => Role::System,
        _ => return None,
    };
    let frame = r#"{"role":"","content":}"#.len() + spoken.len();
    let size = string_size(text.as_bytes()).plus(TextSize {
        bytes: frame,
        code_points: frame,
    });
    if size.bytes > MAX_MESSAGE_BYTES {
        return None;
    }
    let tokens = Family::BLOCKS.tokens(text.as_bytes());
    let blocks = match role {
        Role::User => tokens,
        _ => tokens.max(bytes_over_four(size)),
    };
    Some(Measured {
        line: Line::of_text(role),
        units: Units::of(size, blocks),
        has_words_beside_results: false,
    })
}

/// The bytes that most calls have at most.
const TYPICAL_CALL: usize = 512;

/// Counts the parts of a message, and the tokens of users' and tools' parts.
struct Parts<'a> {
    family: Family, // by whose weights the tokens are counted
    keys: &'a mut Keys,
    ties: &'a mut Vec<Tie>,
    count: u32,
    tokens: usize,
    reasons: bool,
    speaks: bool, // says or does something besides
    texts: u32,   // that are not empty
    results: u32,
}

impl Parts<'_> {
    fn count(&mut self, text: &str) {
        self.count += 1;
        self.tokens += self.family.tokens(text.as_bytes());
    }
}

impl<V: Value> Sink<V> for Parts<'_> {
    fn said(&mut self, text: &str) -> Option<()> {
        self.speaks |= !text.is_empty();
        self.texts += u32::from(!text.is_empty());
        self.count(text);
        Some(())
    }

    fn reasoned(&mut self, text: &str) -> Option<()> {
        self.reasons = true;
        self.count(text);
        Some(())
    }

    fn called(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        arguments: Arguments<'_, V>,
    ) -> Option<()> {
        self.speaks = true;
        let mut called = String::with_capacity(TYPICAL_CALL);
        called.push_str(name.unwrap_or_default());
        arguments.write(&mut called)?;
        self.tokens += self.family.tokens(called.as_bytes());
        self.count += 1;
        let key = key(self.keys, id, name);
        self.ties.push(Tie::Call(key));
        Some(())
    }

    fn answered(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        text: &str,
        _: bool,
    ) -> Option<()> {
        self.speaks = true;
        self.results += 1;
        self.count(text);
        let key = key(self.keys, id, name);
        self.ties.push(Tie::Result(key));
        Some(())
    }
}

fn key(keys: &mut Keys, id: Option<&str>, name: Option<&str>) -> Key {
    match id {
        Some(id) => keys.id(id.as_bytes()),
        None => keys.name(name.map(str::as_bytes)),
    }
}
