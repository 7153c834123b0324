//! What a message adds to an outline: its line, its ties and its sizes by every rule.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use siltstone_core::outline::{Key, Keys, Line, Provenance, Role, Tie};
use siltstone_core::tokens::{TextSize, at_least_one, bytes_over_four};

use super::read::{Arguments, Dialect, Fields, Sink};
use super::value::text;

/// The units of a message by each rule of `siltstone.tokens`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Units {
    pub(super) bytes: usize,
    pub(super) code_points: usize,
    pub(super) blocks: usize,
}

/// What is known of a message that this reader has read.
pub(super) struct Measured {
    pub(super) line: Line,
    pub(super) units: Units,
    /// A user's words stand in it beside results: the words decide whether it opens a turn.
    pub(super) has_words_beside_results: bool,
}

/// What is known of a message; its ties are appended to `ties`. `None`: it is not for this reader.
pub(super) fn measured(
    raw: &Bound<'_, PyDict>,
    keys: &mut Keys,
    ties: &mut Vec<Tie>,
) -> Option<Measured> {
    let (fields, size) = Fields::measured(raw)?;
    let spoken = fields.role.as_ref().and_then(text);
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
    let head = fields.read(&mut parts)?;
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
    let units = Units {
        bytes: size.bytes,
        code_points: size.code_points,
        blocks,
    };
    Some(Measured {
        line,
        units,
        has_words_beside_results,
    })
}

/// Counts parts, and what those of users and tools have in tokens.
struct Parts<'a> {
    by_json: bool, // it counts by its JSON, so nobody asks for the tokens of its parts
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

impl Sink for Parts<'_> {
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
        arguments: Arguments<'_, '_>,
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
