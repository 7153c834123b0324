//! The entries of a session. Searches find entries.

use hashbrown::HashMap;
use rusqlite::{CachedStatement, Connection, Row, params};

use crate::error::{ErrorKind, Result};
use crate::id::EntryId;
use crate::json::{first_string, write_string};
use crate::sqlite::log;
use crate::sqlite::meta;
use crate::sqlite::row::{Checksum, Columns, check_list, corrupt, list, run};
use crate::sqlite::session::SessionRow;
use crate::sqlite::transaction::Transaction;

pub(super) const TABLE: &str = "entry";

/// A text of fewer bytes is stored again, beside its message.
const SHORT: usize = 24;

/// A query of the columns that `read` expects, with a condition.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT id, session, source_start, source_end, role, name, kind, created_at, repaired, compaction,
                    text, checksum, fingerprint, expires_at, said_at, said_bytes,
                    CASE WHEN text IS NULL
                        THEN (SELECT raw FROM message WHERE message.id = session << 32 | source_start) END
             FROM entry ",
            $condition
        )
    };
}

/// Selects every row, with its fingerprint, for a check or a repair.
pub(super) const SELECT_ALL: &str = select!("ORDER BY id");

/// An entry to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewEntry {
    /// Its text. The indexes read it, and searches return it.
    pub text: String,
    /// Whether the text had lone surrogates, each replaced by U+FFFD.
    pub repaired: bool,
    /// The first message it came from.
    pub start: i64,
    /// The end of the messages it came from, exclusive.
    pub end: i64,
    /// The role of the speaker.
    pub role: String,
    /// The speaker's or the tool's name.
    pub name: Option<String>,
    /// Its kind.
    pub kind: String,
    /// Milliseconds since 1970, UTC.
    pub created_at: i64,
    /// The time from which searches no longer find it: milliseconds since 1970, UTC. None for an entry that never
    /// expires.
    pub expires_at: Option<i64>,
}

impl NewEntry {
    /// Whether it has expired at `now`.
    #[must_use]
    pub fn is_expired(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

#[cfg(test)]
impl NewEntry {
    /// What a user said in that message, for tests.
    pub(crate) fn said(number: i64, text: String) -> Self {
        Self {
            text,
            start: number,
            end: number + 1,
            role: "user".to_owned(),
            kind: "message".to_owned(),
            ..Self::default()
        }
    }
}

/// An entry as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// Its id.
    pub id: EntryId,
    /// The key of its session.
    pub session: i64,
    /// The compaction that discarded it; None for an entry that a caller indexed.
    pub compaction: Option<i64>,
    /// The entry.
    pub entry: NewEntry,
}

/// A row of a list of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// An intact row.
    Whole(StoredEntry),
    /// A row with a wrong checksum. It is counted, but never returned.
    Damaged(EntryId),
}

/// The outcome of writing one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Its id.
    pub id: EntryId,
    /// Whether this call wrote it. Otherwise the store had it already.
    pub is_new: bool,
    /// The time at which the stored entry expires. Equal entries of a batch expire at the time of the last of them.
    pub expires_at: Option<i64>,
}

/// Writes the `entries` that the session does not have yet. The figures in `session` change, and the caller saves it.
///
/// `compaction` is the compaction that discarded them; None where a caller indexes them. An entry that a caller
/// indexed stays when a compaction is undone. The last writer of an entry decides when it expires: if the
/// stored entry expires at another time, it is deleted, and a new entry with a new id replaces it.
pub(crate) fn insert(
    transaction: &Transaction<'_>,
    session: &mut SessionRow,
    compaction: Option<i64>,
    entries: &[&NewEntry],
) -> Result<Vec<Placed>> {
    let mut twins = Vec::with_capacity(entries.len());
    let mut ends: Vec<Option<i64>> = Vec::with_capacity(entries.len());
    let mut seen = HashMap::new();
    let fingerprints: Vec<i64> = entries.iter().map(|entry| fingerprint(entry)).collect();
    let mut equal = transaction.prepare_cached(select!(
        "WHERE session = ?1 AND fingerprint = ?2 ORDER BY id"
    ))?;
    let has_any = session.entries != 0; // the first compaction of a long history looks nothing up
    for (place, (entry, &fingerprint)) in entries.iter().zip(&fingerprints).enumerate() {
        ends.push(entry.expires_at);
        let first = *seen.entry(fingerprint).or_insert(place);
        twins.push(if first != place && are_one(entries[first], entry) {
            ends[first] = entry.expires_at;
            Twin::InBatch(first)
        } else {
            let stored = has_any && entry.start != entry.end; // else it equals no other
            let stored = stored.then(|| find_twin(&mut equal, session.id, entry, fingerprint));
            stored
                .transpose()?
                .flatten()
                .map_or(Twin::None, Twin::Stored)
        });
    }
    for (twin, end) in twins.iter_mut().zip(&ends) {
        if let Twin::Stored(stored) = twin
            && stored.entry.expires_at != *end
        {
            run(
                transaction,
                "DELETE FROM entry WHERE id = ?1",
                [stored.id.0],
            )?;
            session.entries -= 1;
            session.epoch += 1;
            *twin = Twin::Left(stored.compaction);
        }
    }
    let new = twins
        .iter()
        .filter(|twin| matches!(twin, Twin::None | Twin::Left(_)))
        .count();
    let mut next = match new {
        0 => EntryId(0),
        _ => meta::take_ids(transaction, new)?,
    };
    let mut placed: Vec<Placed> = Vec::with_capacity(entries.len());
    let mut statement = transaction.prepare_cached(
        "INSERT INTO entry (id, session, source_start, source_end, role, name, kind, created_at, expires_at, repaired,
             compaction, text, fingerprint, checksum, said_at, said_bytes)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?;
    for (((entry, twin), end), fingerprint) in entries.iter().zip(twins).zip(ends).zip(fingerprints)
    {
        placed.push(match twin {
            Twin::Stored(stored) => {
                if compaction.is_none() && stored.compaction.is_some() {
                    keep(transaction, &stored)?;
                }
                Placed {
                    id: stored.id,
                    is_new: false,
                    expires_at: end,
                }
            }
            Twin::InBatch(first) => Placed {
                is_new: false,
                ..placed[first]
            },
            Twin::None | Twin::Left(_) => {
                let compaction = match twin {
                    Twin::Left(before) => before.and(compaction),
                    _ => compaction,
                };
                let later; // a copy with the time from the last equal entry of the batch
                let entry = if entry.expires_at == end {
                    *entry
                } else {
                    later = NewEntry {
                        expires_at: end,
                        ..(*entry).clone()
                    };
                    &later
                };
                let row = (next.0, session.id, compaction);
                write(transaction, &mut statement, row, entry, fingerprint)?;
                let id = next;
                next = EntryId(id.0 + 1);
                Placed {
                    id,
                    is_new: true,
                    expires_at: end,
                }
            }
        });
    }
    if new > 0 {
        session.entries += i64::try_from(new).unwrap_or(i64::MAX);
        session.revision += 1;
    }
    Ok(placed)
}

/// The place of an equal entry, if there is one.
enum Twin {
    None,
    InBatch(usize),
    Stored(StoredEntry),
    /// An equal entry was stored, and was deleted because it expired at another time. Holds its compaction.
    Left(Option<i64>),
}

fn write(
    transaction: &Transaction<'_>,
    statement: &mut CachedStatement<'_>,
    (id, session, compaction): (i64, i64, Option<i64>),
    entry: &NewEntry,
    fingerprint: i64,
) -> Result<()> {
    let said_at = place_in_message(transaction, session, entry)?;
    statement.execute(params![
        id,
        session,
        entry.start,
        entry.end,
        entry.role,
        entry.name,
        entry.kind,
        entry.created_at,
        entry.expires_at,
        entry.repaired,
        compaction,
        said_at.is_none().then_some(&entry.text),
        fingerprint,
        checksum(id, session, compaction, entry).finish(),
        said_at,
        said_at.map(|_| i64::try_from(entry.text.len()).unwrap_or(i64::MAX)),
    ])?;
    Ok(())
}

/// Where the text of `entry` stands as a string in the JSON of its message, so that it is stored once. None for an
/// entry of another message or of several, and for a short text, which takes less room than its place.
fn place_in_message(
    transaction: &Transaction<'_>,
    session: i64,
    entry: &NewEntry,
) -> Result<Option<i64>> {
    if entry.repaired || entry.end != entry.start + 1 || entry.text.len() < SHORT {
        return Ok(None);
    }
    let mut literal = String::with_capacity(entry.text.len() + entry.text.len() / 16);
    write_string(&entry.text, &mut literal);
    let mut statement = transaction.prepare_cached("SELECT raw FROM message WHERE id = ?1")?;
    let mut rows = statement.query([log::key(session, entry.start)])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let place = row
        .get_ref(0)?
        .as_str()
        .ok()
        .and_then(|raw| raw.find(&literal));
    Ok(place.and_then(|at| i64::try_from(at).ok()))
}

/// The text of an entry whose message has it.
fn text_in_message(row: &Row<'_>, columns: &Columns<'_>) -> Result<String> {
    let (at, bytes): (i64, i64) = (columns.get(14)?, columns.get(15)?);
    let raw = row.get_ref(16)?.as_str().ok();
    let rest = raw
        .zip(usize::try_from(at).ok())
        .and_then(|(raw, at)| raw.get(at..));
    match rest.and_then(first_string) {
        Some(text) if i64::try_from(text.len()) == Ok(bytes) => Ok(text.into_owned()),
        _ => Err(corrupt(
            TABLE,
            row.get_ref(0)?,
            "has no text in its message",
        )),
    }
}

/// The stored entry of the session that equals `entry`. A damaged row equals no other entry.
fn find_twin(
    equal: &mut CachedStatement<'_>,
    session: i64,
    entry: &NewEntry,
    fingerprint: i64,
) -> Result<Option<StoredEntry>> {
    let mut rows = equal.query([session, fingerprint])?;
    while let Some(row) = rows.next()? {
        match listed(row, session)? {
            Listed::Whole(stored) if are_one(&stored.entry, entry) => return Ok(Some(stored)),
            _ => {}
        }
    }
    Ok(None)
}

/// Whether two entries have the same text, source, speaker and kind. The time of the call does not matter.
fn are_one(one: &NewEntry, other: &NewEntry) -> bool {
    one.start < one.end
        && (one.start, one.end) == (other.start, other.end)
        && (&one.role, &one.name, &one.kind) == (&other.role, &other.name, &other.kind)
        && one.text == other.text
}

/// Turns an entry of a compaction into an entry of the caller.
fn keep(transaction: &Transaction<'_>, stored: &StoredEntry) -> Result<()> {
    let checksum = checksum(stored.id.0, stored.session, None, &stored.entry).finish();
    run(
        transaction,
        "UPDATE entry SET compaction = NULL, checksum = ?2 WHERE id = ?1",
        [stored.id.0, checksum],
    )?;
    Ok(())
}

/// The entry of that id, if it exists.
pub(crate) fn get(connection: &Connection, id: EntryId) -> Result<Option<StoredEntry>> {
    Reader::of(connection)?.get(id)
}

/// Whether an entry of the session has expired at `now`. An index finds it without reading the other entries.
pub(crate) fn is_any_expired(connection: &Connection, session: i64, now: i64) -> Result<bool> {
    let mut statement = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM entry WHERE session = ?1 AND expires_at <= ?2)",
    )?;
    Ok(statement.query_row([session, now], |row| row.get(0))?)
}

/// A prepared statement that reads entries by id.
pub(crate) struct Reader<'a>(CachedStatement<'a>);

impl<'a> Reader<'a> {
    pub(crate) fn of(connection: &'a Connection) -> Result<Self> {
        let statement = connection.prepare_cached(select!("WHERE id = ?1"))?;
        Ok(Self(statement))
    }

    /// The entry of that id, if it exists.
    pub(crate) fn get(&mut self, id: EntryId) -> Result<Option<StoredEntry>> {
        let mut rows = self.0.query([id.0])?;
        rows.next()?.map(read).transpose()
    }
}

/// Passes each entry of the session with an id above `after` to `take`, in order of id.
pub(crate) fn for_each_after(
    connection: &Connection,
    session: i64,
    mut after: EntryId,
    mut take: impl FnMut(Listed),
) -> Result<()> {
    let mut statement =
        connection.prepare_cached(select!("WHERE session = ?1 AND id > ?2 ORDER BY id"))?;
    let mut rows = statement.query([session, after.0])?;
    while let Some(row) = rows.next()? {
        let id = EntryId(row.get(0)?);
        if id <= after {
            return Err(corrupt(TABLE, row.get_ref(0)?, "is listed twice"));
        }
        after = id;
        take(listed(row, session)?);
    }
    Ok(())
}

/// Passes the role, kind and name of each entry of the session with an id above `after` to `take`, in order of id.
/// Checksums are not compared, because that needs the texts. A search reads each hit again, and that read compares
/// them.
pub(crate) fn for_each_label(
    connection: &Connection,
    session: i64,
    after: EntryId,
    mut take: impl FnMut(EntryId, &str, &str, Option<&str>),
) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "SELECT id, role, kind, name FROM entry WHERE session = ?1 AND id > ?2 ORDER BY id",
    )?;
    let mut rows = statement.query([session, after.0])?;
    while let Some(row) = rows.next()? {
        let columns = Columns::of(TABLE, row);
        let (role, kind): (String, String) = (columns.get(1)?, columns.get(2)?);
        let name: Option<String> = columns.get(3)?;
        take(EntryId(columns.get(0)?), &role, &kind, name.as_deref());
    }
    Ok(())
}

/// The ids of the session's entries, ascending. Only an index is read, not the rows.
pub(crate) fn ids(connection: &Connection, session: &SessionRow) -> Result<Vec<EntryId>> {
    let sql = "SELECT id FROM entry WHERE session = ?1 ORDER BY id";
    let ids = list(connection, sql, [session.id], |row| {
        Ok(EntryId(row.get(0)?))
    })?;
    check_list(
        TABLE,
        &session.name,
        session.entries,
        ids.iter().map(|id| id.0),
    )?;
    Ok(ids)
}

/// At most `limit` entries of the session in order of id, after the first `offset`.
pub(crate) fn page(
    connection: &Connection,
    session: &SessionRow,
    offset: i64,
    limit: i64,
) -> Result<Vec<Listed>> {
    let sql = select!("WHERE session = ?1 ORDER BY id LIMIT ?2 OFFSET ?3");
    let entries = list(connection, sql, [session.id, limit, offset], |row| {
        listed(row, session.id)
    })?;
    let expected = session.entries.saturating_sub(offset).clamp(0, limit);
    let ids = entries.iter().map(|found| match found {
        Listed::Whole(stored) => stored.id.0,
        Listed::Damaged(id) => id.0,
    });
    check_list(TABLE, &session.name, expected, ids)?;
    Ok(entries)
}

/// The entries of the session that `is_chosen` chooses, and the ids of its damaged ones, each in order of id.
pub(crate) fn chosen(
    connection: &Connection,
    session: &SessionRow,
    is_chosen: impl Fn(&NewEntry) -> bool,
) -> Result<(Vec<StoredEntry>, Vec<EntryId>)> {
    let (mut found, mut damaged, mut count) = (Vec::new(), Vec::new(), 0);
    for_each_after(connection, session.id, EntryId(0), |listed| {
        count += 1;
        match listed {
            Listed::Whole(stored) if is_chosen(&stored.entry) => found.push(stored),
            Listed::Whole(_) => {}
            Listed::Damaged(id) => damaged.push(id),
        }
    })?;
    check_list(TABLE, &session.name, session.entries, 1..=count)?;
    Ok((found, damaged))
}

/// Checks that a row belongs to `session`: a damaged index can lead to a row of another session.
fn listed(row: &Row<'_>, session: i64) -> Result<Listed> {
    match read(row) {
        Ok(stored) if stored.session == session => Ok(Listed::Whole(stored)),
        Ok(_) => Err(corrupt(
            TABLE,
            row.get_ref(0)?,
            "is listed under a session that it is not of",
        )),
        Err(error) if error.kind() == ErrorKind::StoreCorrupt => {
            Ok(Listed::Damaged(EntryId(row.get(0)?)))
        }
        Err(error) => Err(error),
    }
}

pub(super) fn read(row: &Row<'_>) -> Result<StoredEntry> {
    let columns = Columns::of(TABLE, row);
    let (id, session) = (columns.get(0)?, columns.get(1)?);
    let entry = NewEntry {
        start: columns.get(2)?,
        end: columns.get(3)?,
        role: columns.get(4)?,
        name: columns.get(5)?,
        kind: columns.get(6)?,
        created_at: columns.get(7)?,
        repaired: columns.get(8)?,
        text: match columns.get(10)? {
            Some(text) => text,
            None => text_in_message(row, &columns)?,
        },
        expires_at: columns.get(13)?,
    };
    let compaction = columns.get(9)?;
    columns.verify(checksum(id, session, compaction, &entry), 11)?;
    Ok(StoredEntry {
        id: EntryId(id),
        session,
        compaction,
        entry,
    })
}

/// The fingerprint of the fields that make two entries equal. It is computed from the row, so the checksum does not
/// cover it.
pub(crate) fn fingerprint(entry: &NewEntry) -> i64 {
    Checksum::of(TABLE)
        .integer(entry.start)
        .integer(entry.end)
        .text(&entry.role)
        .with(&entry.name)
        .text(&entry.kind)
        .text(&entry.text)
        .finish()
}

pub(super) fn checksum(
    id: i64,
    session: i64,
    compaction: Option<i64>,
    entry: &NewEntry,
) -> Checksum {
    Checksum::of(TABLE)
        .integer(id)
        .integer(session)
        .integer(entry.start)
        .integer(entry.end)
        .text(&entry.role)
        .with(&entry.name)
        .text(&entry.kind)
        .integer(entry.created_at)
        .with(&entry.expires_at)
        .integer(i64::from(entry.repaired))
        .with(&compaction)
        .text(&entry.text)
}
