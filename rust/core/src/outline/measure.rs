//! Measures a message for an outline: its line, its ties, and its size by every rule.

use super::groups::{Key, Keys};
use super::lines::{Line, Provenance, Role, Tie};
use super::read::{Arguments, Fields, MAX_MESSAGE_BYTES, Sink};
use super::read::{Dialect, is_marked, read};
use super::value::{Field, Value};
use crate::json::string_size;
use crate::tokens::{TextSize, at_least_one, bytes_over_four, chars_over_three};

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

/// The same for a message that has only a role and a text; `None` if it needs the full reader.
fn plainly_measured<V: Value>(raw: &V) -> Option<Measured> {
    let (role, content) = raw.role_and_text()?;
    let text = content.text()?;
    let spoken = role.text()?;
    let role = match spoken {
        "user" if !is_marked(text) => Role::User,
        "assistant" => Role::Assistant,
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
    let (bytes, code_points) = (text.len(), 0); // the rule asks for bytes alone
    let blocks = match role {
        Role::User if text.is_empty() => 0,
        Role::User => at_least_one(TextSize { bytes, code_points }),
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
    fn count(&mut self, bytes: usize) {
        self.count += 1;
        if bytes > 0 {
            let code_points = 0; // the rule asks for bytes alone
            self.tokens += at_least_one(TextSize { bytes, code_points });
        }
    }
}

impl<V: Value> Sink<V> for Parts<'_> {
    fn said(&mut self, text: &str) -> Option<()> {
        self.speaks |= !text.is_empty();
        self.texts += u32::from(!text.is_empty());
        self.count(text.len());
        Some(())
    }

    fn reasoned(&mut self, text: &str) -> Option<()> {
        self.reasons = true;
        self.count(text.len());
        Some(())
    }

    fn called(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        arguments: Arguments<'_, V>,
    ) -> Option<()> {
        self.speaks = true;
        let bytes = if self.by_json { 0 } else { arguments.len()? };
        self.count(name.map_or(0, str::len) + bytes);
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
        self.count(text.len());
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
