//! The messages of a history, without what they say: one line for each.

use super::keys::Key;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Rules.
    System,
    /// Rules too, under their newer name.
    Developer,
    /// Somebody who asks, or what a tool gave, where that is the user's to say.
    User,
    /// The model.
    Assistant,
    /// What a tool gave.
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

/// Where a message came from, as far as it decides anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// It was said, or stands for what was said: a substitute.
    Original,
    /// A summary of ours.
    Summary,
    /// Placed before the model: injected or recalled context.
    Injected,
    /// Anything else, a repair for one.
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

/// What a part of a message ties it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// A call.
    Call(Key),
    /// A result.
    Result(Key),
    /// An unknown part that has the id of a call.
    Shared(Key),
    /// A reference, which may stand for any call.
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

/// What a message is, without what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Who speaks.
    pub role: Role,
    /// Where it came from.
    pub provenance: Provenance,
    /// It is an item of the Responses API.
    pub is_item: bool,
    /// It is nothing but reasoning.
    pub is_reasoning: bool,
    /// It is a user's request, and opens a turn.
    pub opens_turn: bool,
    /// How many parts it has.
    pub parts: u32,
}

/// Lines in order, each with its ties.
#[derive(Debug, Default)]
pub struct Lines {
    pub(super) all: Vec<Line>,
    ties: Vec<Tie>,
    ends: Vec<usize>,
}

impl Lines {
    /// Room for `count` messages.
    #[must_use]
    pub fn with_capacity(count: usize) -> Self {
        Self {
            all: Vec::with_capacity(count),
            ties: Vec::new(),
            ends: Vec::with_capacity(count),
        }
    }

    /// Adds a message with what its parts tie it to, in their order.
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

    /// What the parts of the message at `position` tie it to, in their order.
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
