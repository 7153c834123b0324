//! Texts that a view shows in place of messages: summaries, and substitutes of single messages.
//!
//! A compaction writes its texts once. Later views that show a text name its id.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result, named};
use crate::sqlite::compactions::{Range, parse_ranges};
use crate::sqlite::row::{Checksum, Value, corrupt, first, list, run, table};
use crate::sqlite::session::SessionRow;
use crate::sqlite::transaction::Transaction;

table!($ "derived",
    [id session kind seq level degraded redacted dialect covers raw created_at] [digest]:
    Derived {
        id, session, redacted, created_at, text: NewDerived { kind, seq, level, degraded, covers, raw, dialect }
    }
);

/// The kinds of derived texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DerivedKind {
    /// The content of a message that summarises others.
    #[default]
    Summary,
    /// A whole message, as JSON, in place of one message.
    Substitute,
}

named!(DerivedKind, "kind": Summary = "summary", Substitute = "substitute");

impl Value for DerivedKind {
    fn of(stored: ValueRef<'_>) -> std::result::Result<Self, &'static str> {
        let kind = String::of(stored)?.parse();
        kind.map_err(|_| "is no kind that there is")
    }

    fn add_to(&self, checksum: Checksum) -> Checksum {
        checksum.text(self.name())
    }
}

/// A derived text to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewDerived {
    /// Its kind.
    pub kind: DerivedKind,
    /// The message that a substitute replaces; None for a summary.
    pub seq: Option<i64>,
    /// A summary's level.
    pub level: i64,
    /// Whether it was made without the intended model.
    pub degraded: bool,
    /// The ranges of messages that it replaces, as JSON.
    pub covers: String,
    /// A summary's text, or a substitute's message as JSON.
    pub raw: String,
    /// The dialect of a substitute's message.
    pub dialect: String,
}

/// A derived text as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// Its id, never reused.
    pub id: i64,
    /// The key of its session.
    pub(crate) session: i64,
    /// Whether its first text was forgotten and replaced.
    pub redacted: bool,
    /// Milliseconds since 1970, UTC.
    pub created_at: i64,
    /// The text.
    pub text: NewDerived,
}

/// Writes a text of the session, and gives its id.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    session: i64,
    text: &NewDerived,
    created_at: i64,
) -> Result<i64> {
    if parse_ranges(&text.covers).is_none() {
        let message = format!(
            "a derived text must cover a list of [start, end], got {}",
            text.covers
        );
        return Err(Error::refused("covers", text.covers.clone(), message));
    }
    run(transaction, "INSERT INTO derived (session, kind, seq, level, degraded, redacted, dialect, covers, raw, created_at,
                 digest, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8, ?9, ?10, 0)", params![
            session,
            text.kind.name(),
            text.seq,
            text.level,
            text.degraded,
            text.dialect,
            text.covers,
            text.raw,
            created_at,
            digest(&text.raw),
        ])?;
    let row = Derived {
        id: transaction.last_insert_rowid(),
        session,
        redacted: false,
        created_at,
        text: text.clone(),
    };
    run(
        transaction,
        "UPDATE derived SET checksum = ?2 WHERE id = ?1",
        [row.id, checksum(&row).finish()],
    )?;
    Ok(row.id)
}

/// The text of that id. It is an error if the session has no such text.
pub(crate) fn of(connection: &Connection, session: &SessionRow, id: i64) -> Result<Derived> {
    let found = first(connection, select!("WHERE id = ?1"), [id], read)?;
    session.own(found, |found| found.session, "shows text", (TABLE, id))
}

/// The texts of the session with an id above `after`, in the order of their writes.
pub(crate) fn of_session(
    connection: &Connection,
    session: i64,
    after: i64,
) -> Result<Vec<Derived>> {
    let sql = select!("WHERE session = ?1 AND id > ?2 ORDER BY id");
    list(connection, sql, [session, after], read)
}

/// The texts of the session that equal `raw`, newest first.
pub(crate) fn like(
    connection: &Connection,
    session: &SessionRow,
    raw: &str,
) -> Result<Vec<Derived>> {
    let sql = select!("WHERE session = ?1 AND digest = ?2 ORDER BY id DESC");
    let mut texts = list(connection, sql, [session.id, digest(raw)], read)?;
    texts.retain(|found| found.session == session.id && found.text.raw == raw);
    Ok(texts)
}

/// Replaces forgotten texts of the session, and gives their number. Texts that were redacted before stay.
///
/// - A text of `ids` gets the text beside its id.
/// - A substitute of a message of `messages` gets the text beside the message. `messages` ascend.
/// - Any other text that covers a message of `messages` gets `replacement`.
pub(crate) fn redact(
    transaction: &Transaction<'_>,
    session: &SessionRow,
    ids: &[(i64, String)],
    messages: &[(i64, &str)],
    replacement: &str,
) -> Result<i64> {
    let seqs: Vec<i64> = messages.iter().map(|&(seq, _)| seq).collect();
    let mut redacted = 0;
    for row in of_session(transaction, session.id, 0)? {
        let named = ids.iter().find(|(id, _)| *id == row.id);
        let of_message = row
            .text
            .seq
            .and_then(|seq| seqs.binary_search(&seq).ok())
            .map(|place| messages[place].1);
        let covers_one =
            || -> Result<bool> { Ok(covers(&row)?.iter().any(|range| range.holds_one(&seqs))) };
        let raw = match (named, of_message) {
            _ if row.redacted => continue,
            (Some((_, raw)), _) => raw,
            (None, Some(raw)) => raw,
            (None, None) if covers_one()? => replacement,
            (None, None) => continue,
        };
        put(transaction, row, raw, true)?;
        redacted += 1;
    }
    Ok(redacted)
}

/// Gives a redacted text of the session a new text. False where there is no such text.
pub(crate) fn renew(
    transaction: &Transaction<'_>,
    session: &SessionRow,
    id: i64,
    raw: &str,
) -> Result<bool> {
    let row = first(transaction, select!("WHERE id = ?1"), [id], read)?;
    match row.filter(|row| row.session == session.id && row.redacted) {
        Some(row) => put(transaction, row, raw, false).map(|()| true),
        None => Ok(false),
    }
}

/// Marks texts of the session as redacted, without changing them: they replaced forgotten texts in another store.
pub(crate) fn mark(transaction: &Transaction<'_>, session: &SessionRow, ids: &[i64]) -> Result<()> {
    for id in ids {
        let row = of(transaction, session, *id)?;
        let raw = row.text.raw.clone();
        put(transaction, row, &raw, true)?;
    }
    Ok(())
}

fn put(transaction: &Transaction<'_>, row: Derived, raw: &str, redacted: bool) -> Result<()> {
    let row = Derived {
        redacted,
        text: NewDerived {
            raw: raw.to_owned(),
            ..row.text
        },
        ..row
    };
    run(
        transaction,
        "UPDATE derived SET raw = ?2, redacted = ?3, digest = ?4, checksum = ?5 WHERE id = ?1",
        params![
            row.id,
            row.text.raw,
            row.redacted,
            digest(&row.text.raw),
            checksum(&row).finish()
        ],
    )?;
    Ok(())
}

/// The messages that the text replaces.
fn covers(row: &Derived) -> Result<Vec<Range>> {
    parse_ranges(&row.text.covers).ok_or_else(|| {
        corrupt(
            TABLE,
            ValueRef::Integer(row.id),
            "has a value of covers that is no list of ranges",
        )
    })
}

/// The digest by which a text is found. It is computed from the text, so the checksum does not cover it.
pub(super) fn digest(raw: &str) -> i64 {
    xxh3_64(raw.as_bytes()).cast_signed()
}
