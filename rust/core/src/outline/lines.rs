//! The messages of a history without their texts: one line for each.

use super::groups::Key;

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Rules.
    System,
    /// Rules, under their newer name.
    Developer,
    /// A person who asks, or the result of a tool in dialects where the user reports it.
    User,
    /// The model.
    Assistant,
    /// The result of a tool.
    Tool,
}

impl Role {
    /// The role of that name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "system" => Self::System,
            "developer" => Self::Developer,
            "user" => Self::User,
            "assistant" => Self::Assistant,
            "tool" => Self::Tool,
            _ => return None,
        })
    }

    /// Whether messages of this role carry rules, and are never discarded.
    #[must_use]
    pub fn is_rule(self) -> bool {
        matches!(self, Self::System | Self::Developer)
    }
}

/// The origin of a message, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// It was said, or it is a substitute for a message that was said.
    Original,
    /// A summary by compaction.
    Summary,
    /// Context that was injected or recalled.
    Injected,
    /// Any other origin, such as a repair.
    Other,
}

impl Provenance {
    /// The provenance of that name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            "original" | "substitute" => Self::Original,
            "compaction_summary" => Self::Summary,
            "injected_context" | "recalled_context" => Self::Injected,
            _ => Self::Other,
        }
    }
}

/// A relation of a part of a message to other messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// A call.
    Call(Key),
    /// A result.
    Result(Key),
    /// An unknown part that has the id of a call.
    Shared(Key),
    /// A reference, which may represent any call.
    Reference,
}

impl Tie {
    /// The tie of a part of that kind to the call of that key.
    #[must_use]
    pub fn of(kind: &str, key: Key) -> Option<Self> {
        Some(match kind {
            "tool_call" => Self::Call(key),
            "tool_result" => Self::Result(key),
            "other" => Self::Shared(key),
            "reference" => Self::Reference,
            _ => return None,
        })
    }
}

/// The properties of a message without its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The role of the message.
    pub role: Role,
    /// Its origin.
    pub provenance: Provenance,
    /// It is an item of the Responses API.
    pub is_item: bool,
    /// It has only reasoning.
    pub is_reasoning: bool,
    /// It is a user's request, and begins a turn.
    pub opens_turn: bool,
    /// How many parts it has.
    pub parts: u32,
}

impl Line {
    /// The line of a message that has only a text.
    #[must_use]
    pub(crate) fn of_text(role: Role) -> Self {
        Self {
            role,
            provenance: Provenance::Original,
            is_item: false,
            is_reasoning: false,
            opens_turn: role == Role::User,
            parts: 1,
        }
    }
}

/// Lines in order, each with its ties.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    pub(super) all: Vec<Line>,
    ties: Vec<Tie>,
    ends: Vec<usize>,
}

impl Lines {
    /// Adds a message with the ties of its parts, in their order.
    pub fn push(&mut self, line: Line, ties: &[Tie]) {
        self.all.push(line);
        self.ties.extend_from_slice(ties);
        self.ends.push(self.ties.len());
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The ties of the message at `position`, in the order of its parts.
    pub(super) fn ties(&self, position: usize) -> &[Tie] {
        let start = position
            .checked_sub(1)
            .map_or(0, |before| self.ends[before]);
        &self.ties[start..self.ends[position]]
    }

    /// Whether the message at `position` has a call.
    pub(super) fn has_call(&self, position: usize) -> bool {
        self.ties(position)
            .iter()
            .any(|tie| matches!(tie, Tie::Call(_)))
    }
}
