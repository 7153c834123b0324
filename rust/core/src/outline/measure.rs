//! Measures a message for an outline: its line, its ties, and its size by every rule.

use super::groups::{Key, Keys};
use super::lines::{Line, Provenance, Role, Tie};
use super::read::{Arguments, Dialect, Fields, MAX_MESSAGE_BYTES, Sink, is_marked, read};
use super::value::{Field, MAX_DEPTH, Value};
use crate::json::{string_size, weigh};
use crate::tokens::{Family, TOKEN, TextSize, at_least_one, bytes_over_four, chars_over_three};

/// A rule for counting texts and messages, as in `siltstone.tokens`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A message counts the bytes of its JSON; a text counts a quarter of its bytes, rounded down.
    Bytes,
    /// A message counts the code points of its JSON; a text counts a third of its code points, rounded up.
    CodePoints,
    /// A message counts by its kind; a text counts a quarter of its bytes, rounded down, and at least 1.
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

    /// The units of a text of that size.
    #[must_use]
    pub fn text(self, size: TextSize) -> usize {
        match self {
            Self::Bytes => bytes_over_four(size),
            Self::CodePoints => chars_over_three(size),
            Self::Blocks => at_least_one(size),
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
    let spoken = fields.get(Field::Role).and_then(Value::text);
    let mut parts = Parts {
        by_json: matches!(spoken, Some("assistant" | "system" | "developer")),
        family: None,
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
        bytes_over_four(size)
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
    let spoken = fields.get(Field::Role).and_then(Value::text);
    let mut parts = Parts {
        by_json: matches!(spoken, Some("assistant" | "system" | "developer")),
        family: Some(family),
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
    let blocks = match role {
        Role::User if text.is_empty() => 0,
        Role::User => at_least_one(of_bytes(text.len())),
        _ => bytes_over_four(size),
    };
    Some(Measured {
        line: Line::of_text(role),
        units: Units::of(size, blocks),
        has_words_beside_results: false,
    })
}

/// Counts the parts of a message, and the tokens of users' and tools' parts.
struct Parts<'a> {
    by_json: bool, // the message counts by its JSON, so the tokens of its parts are not needed
    family: Option<Family>, // by whose weights the tokens are counted, or by bytes
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
        if let Some(family) = self.family {
            self.tokens += if self.by_json {
                0
            } else {
                family.tokens(text.as_bytes())
            };
        } else if !text.is_empty() {
            self.tokens += at_least_one(of_bytes(text.len()));
        }
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
        if let Some(family) = self.family
            && !self.by_json
        {
            let mut called = name.unwrap_or_default().to_owned();
            arguments.write(&mut called)?;
            self.tokens += family.tokens(called.as_bytes());
        } else if !self.by_json {
            let bytes = name.map_or(0, str::len) + arguments.len()?;
            self.tokens += at_least_one(of_bytes(bytes));
        }
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

/// A size of which the rule asks for the bytes alone.
fn of_bytes(bytes: usize) -> TextSize {
    TextSize {
        bytes,
        code_points: 0,
    }
}

fn key(keys: &mut Keys, id: Option<&str>, name: Option<&str>) -> Key {
    match id {
        Some(id) => keys.id(id.as_bytes()),
        None => keys.name(name.map(str::as_bytes)),
    }
}
