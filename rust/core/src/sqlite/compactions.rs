//! The compactions of a session. Each one leaves a view, and names its parent: the compaction whose view it rewrote.

use std::fmt::Write as _;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use crate::error::{Error, Result};
use crate::sqlite::derived::{self, NewDerived};
use crate::sqlite::row::{Checksum, Value, check_list, first, list, run, table};
use crate::sqlite::session::SessionRow;
use crate::sqlite::transaction::Transaction;

table!($ "compaction",
    [id session parent policy reason state covers view derived next_seq model usage tokens_before tokens_after
     messages_before messages_after created_at notes] []:
    Compaction {
        id, session, parent, derived,
        body: CompactionBody {
            policy, reason, state, covers, view, next_seq, model, usage, tokens_before, tokens_after, messages_before,
            messages_after, created_at, notes
        }
    }
);

/// The content of a compaction: its ranges, its view and its figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactionBody {
    /// The policy's name.
    pub policy: String,
    /// The trigger's reason.
    pub reason: String,
    /// The policy's own state, as JSON; empty for none.
    pub state: String,
    /// The ranges of messages that have left the view so far, as JSON.
    pub covers: String,
    /// The view that it leaves, as JSON: `[start, end]` for messages, and the id of each derived text. In a new
    /// compaction, -1 stands for the first of its own texts, -2 for the second.
    pub view: String,
    /// The first message after the view.
    pub next_seq: i64,
    /// The model that wrote its texts; empty for none.
    pub model: String,
    /// The model calls and their tokens, as JSON.
    pub usage: String,
    /// Tokens of the view before.
    pub tokens_before: i64,
    /// Tokens of the view after.
    pub tokens_after: i64,
    /// Messages of the view before.
    pub messages_before: i64,
    /// Messages of the view after.
    pub messages_after: i64,
    /// Milliseconds since 1970, UTC.
    pub created_at: i64,
    /// The caller's account of how the compaction was made, as JSON; empty for none.
    pub notes: String,
}

/// A compaction to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewCompaction {
    /// Its content.
    pub body: CompactionBody,
    /// The texts that it brings.
    pub derived: Vec<NewDerived>,
}

/// A compaction as the log holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// Its id, never reused.
    pub id: i64,
    /// The key of its session.
    pub(crate) session: i64,
    /// The compaction whose view it rewrote.
    pub parent: Option<i64>,
    /// The derived texts that it brought.
    pub derived: Vec<i64>,
    /// Its content.
    pub body: CompactionBody,
}

/// Writes a compaction and its texts, and makes it the session's head. The caller saves `session`.
pub(crate) fn append(
    transaction: &Transaction<'_>,
    session: &mut SessionRow,
    new: &NewCompaction,
) -> Result<Compaction> {
    let Some(view) = parse(&new.body.view) else {
        return Err(refused("view", &new.body.view));
    };
    if parse_ranges(&new.body.covers).is_none() {
        return Err(refused("covers", &new.body.covers));
    }
    let mut brought = Vec::with_capacity(new.derived.len());
    for text in &new.derived {
        brought.push(derived::insert(
            transaction,
            session.id,
            text,
            new.body.created_at,
        )?);
    }
    let mut named = Vec::with_capacity(view.len());
    for piece in view {
        named.push(match piece {
            Piece::Text(id) if id < 0 => usize::try_from(-1 - id)
                .ok()
                .and_then(|place| brought.get(place))
                .map(|&id| Piece::Text(id))
                .ok_or_else(|| refused("view", &new.body.view))?,
            Piece::Text(id) => {
                derived::of(transaction, session, id)?;
                piece
            }
            Piece::Messages(_) => piece,
        });
    }
    let body = CompactionBody {
        view: write(&named),
        ..new.body.clone()
    };
    run(transaction, "INSERT INTO compaction (session, parent, policy, reason, state, covers, view, derived, next_seq,
                 model, usage, tokens_before, tokens_after, messages_before, messages_after, created_at, notes,
                 checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, 0)", params![
            session.id,
            session.head,
            body.policy,
            body.reason,
            body.state,
            body.covers,
            body.view,
            ids_of(&brought),
            body.next_seq,
            body.model,
            body.usage,
            body.tokens_before,
            body.tokens_after,
            body.messages_before,
            body.messages_after,
            body.created_at,
            body.notes,
        ])?;
    let row = Compaction {
        id: transaction.last_insert_rowid(),
        session: session.id,
        parent: session.head,
        derived: brought,
        body,
    };
    run(
        transaction,
        "UPDATE compaction SET checksum = ?2 WHERE id = ?1",
        [row.id, checksum(&row).finish()],
    )?;
    session.head = Some(row.id);
    session.compactions += 1;
    Ok(row)
}

/// All compactions of the session, in the order of their commits.
pub(crate) fn of_session(connection: &Connection, session: &SessionRow) -> Result<Vec<Compaction>> {
    let sql = select!("WHERE session = ?1 ORDER BY id");
    let compactions = list(connection, sql, [session.id], read)?;
    let ids = compactions.iter().map(|compaction| compaction.id);
    check_list(TABLE, &session.name, session.compactions, ids)?;
    Ok(compactions)
}

/// The compaction of that id, if it exists.
pub(crate) fn get(connection: &Connection, id: i64) -> Result<Option<Compaction>> {
    first(connection, select!("WHERE id = ?1"), [id], read)
}

/// The compaction of that id. It is an error if the session has no such compaction.
pub(crate) fn of(connection: &Connection, session: &SessionRow, id: i64) -> Result<Compaction> {
    let found = get(connection, id)?;
    session.own(
        found,
        |found| found.session,
        "stands on compaction",
        (TABLE, id),
    )
}

/// The messages that the view of a compaction shows unchanged: half-open ranges, in the order of the view.
pub(crate) fn messages_of(body: &CompactionBody) -> Result<Vec<(i64, i64)>> {
    let pieces = parse(&body.view).ok_or_else(|| refused("view", &body.view))?;
    let shown = pieces.into_iter().filter_map(|piece| match piece {
        Piece::Messages(range) => Some((range.start, range.end)),
        Piece::Text(_) => None,
    });
    Ok(shown.collect())
}

fn refused(what: &str, text: &str) -> Error {
    let message = format!(
        "the {what} of a compaction must be a list of [start, end] and of texts that there are, got {text}"
    );
    Error::refused("compaction", text, message)
}

// Views and ranges as a compaction keeps them. `[[0, 3], 17, [5, 9]]` means: messages 0 to 2, derived text 17,
// messages 5 to 8.

/// A half-open range of sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub start: i64,
    pub end: i64,
}

impl Range {
    /// Whether one of `seqs`, which ascend, is in the range.
    pub(crate) fn holds_one(self, seqs: &[i64]) -> bool {
        let first = seqs.partition_point(|&seq| seq < self.start);
        seqs.get(first).is_some_and(|&seq| seq < self.end)
    }
}

/// A piece of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Messages as they were appended.
    Messages(Range),
    /// The derived text of that id.
    Text(i64),
}

/// The pieces of the list in `text`, or None if it is anything else.
pub(crate) fn parse(text: &str) -> Option<Vec<Piece>> {
    let mut rest = text.trim().strip_prefix('[')?.strip_suffix(']')?.trim();
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, after) = piece(rest)?;
        pieces.push(piece);
        rest = after.trim_start();
        if let Some(next) = rest.strip_prefix(',') {
            rest = next.trim_start();
            if rest.is_empty() {
                return None;
            }
        } else if !rest.is_empty() {
            return None;
        }
    }
    Some(pieces)
}

/// Whether `text` is a list of ascending, non-empty ranges within `0..end`. Ids of texts are allowed with `with_texts`.
pub(crate) fn is_within(text: &str, end: i64, with_texts: bool) -> bool {
    let Some(pieces) = parse(text) else {
        return false;
    };
    let mut last = 0;
    for piece in pieces {
        match piece {
            Piece::Text(_) if with_texts => {}
            Piece::Text(_) => return false,
            Piece::Messages(Range { start, end: stop }) => {
                if start < last || stop <= start || stop > end {
                    return false;
                }
                last = stop;
            }
        }
    }
    true
}

/// The list of `pieces` as text.
pub(crate) fn write(pieces: &[Piece]) -> String {
    let mut text = String::from("[");
    for (place, piece) in pieces.iter().enumerate() {
        let comma = if place == 0 { "" } else { ", " };
        let written = match piece {
            Piece::Messages(Range { start, end }) => write!(text, "{comma}[{start}, {end}]"),
            Piece::Text(id) => write!(text, "{comma}{id}"),
        };
        debug_assert!(written.is_ok(), "a text takes whatever is written to it");
    }
    text.push(']');
    text
}

/// Ids of derived texts, as the list of a view that shows nothing else.
impl Value for Vec<i64> {
    fn of(stored: ValueRef<'_>) -> std::result::Result<Self, &'static str> {
        parse_ids(&String::of(stored)?).ok_or("is no list of ids")
    }

    fn add_to(&self, checksum: Checksum) -> Checksum {
        checksum.text(&ids_of(self))
    }
}

/// A list of ids as text.
fn ids_of(ids: &[i64]) -> String {
    let pieces: Vec<Piece> = ids.iter().map(|&id| Piece::Text(id)).collect();
    write(&pieces)
}

/// The ids of the list in `text`, or None if it is anything else.
fn parse_ids(text: &str) -> Option<Vec<i64>> {
    let ids = parse(text)?.into_iter().map(|piece| match piece {
        Piece::Text(id) => Some(id),
        Piece::Messages(_) => None,
    });
    ids.collect()
}

/// The ranges of the list in `text`, or None if it is anything else.
pub(crate) fn parse_ranges(text: &str) -> Option<Vec<Range>> {
    let ranges = parse(text)?.into_iter().map(|piece| match piece {
        Piece::Messages(range) => Some(range),
        Piece::Text(_) => None,
    });
    ranges.collect()
}

fn piece(text: &str) -> Option<(Piece, &str)> {
    let Some(inside) = text.strip_prefix('[') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        let (id, rest) = text.split_at(end);
        return Some((Piece::Text(id.parse().ok()?), rest));
    };
    let (inside, rest) = inside.split_once(']')?;
    let (start, end) = inside.split_once(',')?;
    let start = start.trim().parse().ok()?;
    let end = end.trim().parse().ok()?;
    Some((Piece::Messages(Range { start, end }), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let range = |start, end| Piece::Messages(Range { start, end });
        assert_eq!(parse("[]"), Some(vec![]));
        let pieces = vec![range(0, 3), Piece::Text(17), range(5, 9), Piece::Text(-1)];
        assert_eq!(parse("[[0, 3], 17,[5,9] , -1]"), Some(pieces.clone()));
        assert_eq!(parse(&write(&pieces)), Some(pieces));
        assert_eq!(parse_ids(&ids_of(&[3, 5])), Some(vec![3, 5]));
        assert_eq!(parse_ids("[[3, 5]]"), None);
        for wrong in [
            "",
            "[",
            "[[0]]",
            "[[0, 1],]",
            "[[0, 1] [2, 3]]",
            "[[0, x]]",
            "{}",
            "[null]",
            "[1 2]",
            "[1,]",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_range_is_half_open() {
        let range = Range { start: 2, end: 4 };
        assert!(range.holds_one(&[0, 3]));
        assert!(!range.holds_one(&[0, 1, 4]));
        assert!(!range.holds_one(&[]));
        assert!(!Range { start: 2, end: 2 }.holds_one(&[2]));
    }
}
