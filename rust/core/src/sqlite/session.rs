//! The row of a session: its version, the end of its log, its current view, the number of its entries. The
//! counts of a store are the sums over these rows.

use std::sync::Arc;

use hashbrown::HashMap;
use rusqlite::{Connection, params};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, ErrorKind, Result};
use crate::id::SessionId;
use crate::sqlite::row::{Columns, corrupt, first, list, run, table};
use crate::sqlite::transaction::Transaction;

/// The highest key of a session. The keys of its messages contain it (`log.rs`).
const LAST: i64 = (1 << 31) - 1;

table!($ "session": SessionRow {
    id, name, namespace, next_seq, entries, compactions, revision, epoch, redactions, counter, write_id, dropped, head,
    clock, settings, tokens, first_at, last_at, title
});

/// The version of a session. A writer names the version that it has read. Equal versions mean equal states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionVersion {
    /// The sequence number that the next message gets.
    pub next_seq: i64,
    /// The compaction whose view is current.
    pub head: Option<i64>,
    /// The number of times that messages or derived texts were forgotten, or earlier messages were rewritten.
    pub redactions: i64,
    /// The number of writes of the session's own state: log, view, clock or settings.
    pub counter: i64,
}

/// A row of `session`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionRow {
    /// Its key. Other tables refer to it.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// The namespace that it shares with other sessions; empty for none.
    pub namespace: String,
    /// The sequence number that the next message gets.
    pub next_seq: i64,
    /// The number of its entries.
    pub entries: i64,
    /// The number of its compactions.
    pub compactions: i64,
    /// Raised by every write of entries. An index of another revision is stale.
    pub revision: i64,
    /// Raised when entries are deleted. An index of another epoch cannot catch up by reading the new entries.
    pub epoch: i64,
    /// Raised when messages are forgotten or rewritten. Views that were read before may still show them.
    pub redactions: i64,
    /// Raised by every write of the session's own state.
    pub counter: i64,
    /// The caller's id of the last write of the session's own state.
    pub write_id: i64,
    /// Whether it was deleted. The row is a tombstone then, and accepts no writes.
    pub dropped: bool,
    /// The compaction whose view is current.
    pub head: Option<i64>,
    /// The caller's own state, stored with each of the session's commits.
    pub clock: String,
    /// The caller's settings for the session.
    pub settings: String,
    /// Tokens of all its messages.
    pub tokens: i64,
    /// The time of its first message: milliseconds since 1970, UTC.
    pub first_at: Option<i64>,
    /// The time of its last message.
    pub last_at: Option<i64>,
    /// The beginning of its first request.
    pub title: String,
}

impl SessionRow {
    /// Its version.
    #[must_use]
    pub fn version(&self) -> SessionVersion {
        SessionVersion {
            next_seq: self.next_seq,
            head: self.head,
            redactions: self.redactions,
            counter: self.counter,
        }
    }

    /// The row `found` with `id` in `table`, to which this session `refers`. It is an error if there is no such row, or
    /// if it belongs to another session (`home`).
    pub(super) fn own<T>(
        &self,
        found: Option<T>,
        home: impl FnOnce(&T) -> i64,
        refers: &str,
        (table, id): (&'static str, i64),
    ) -> Result<T> {
        let fault = match found {
            Some(row) if home(&row) == self.id => return Ok(row),
            Some(_) => "is of another session",
            None => "is missing",
        };
        let message = format!("session {:?} {refers} {id}, which {fault}", self.name);
        Err(Error::new(ErrorKind::StoreCorrupt, message)
            .with("table", table)
            .with("id", id))
    }

    /// Counts a write of the session's own state.
    pub(crate) fn count(&mut self, write_id: i64) {
        self.counter += 1;
        self.write_id = write_id;
    }
}

/// The session of that name; None if it has never written, or was deleted.
pub(crate) fn find(connection: &Connection, session: &SessionId) -> Result<Option<SessionRow>> {
    Ok(find_any(connection, session)?.filter(|row| !row.dropped))
}

/// The session of that name, or its tombstone.
pub(crate) fn find_any(connection: &Connection, session: &SessionId) -> Result<Option<SessionRow>> {
    let sql = select!("WHERE name = ?1");
    match first(connection, sql, [session.as_str()], read)? {
        Some(row) => Ok(Some(row)),
        None => check_absent(connection, session).map(|()| None),
    }
}

/// The texts beside what was said, of the session of that name or of all, deleted ones too: what each is, and the text.
/// Names of sessions, namespaces, policies, models and embedders are `""`, roles and kinds of entries as well.
pub(crate) fn labels(
    connection: &Connection,
    session: Option<&str>,
) -> Result<Vec<(String, String)>> {
    let sql = "WITH own AS (SELECT * FROM session WHERE ?1 IS NULL OR name = ?1),
              made AS (SELECT * FROM compaction WHERE session IN (SELECT id FROM own))
         SELECT '', name FROM own UNION SELECT '', namespace FROM own
         UNION ALL SELECT 'settings of a session', settings FROM own
         UNION ALL SELECT 'clock of a session', clock FROM own
         UNION SELECT '', policy FROM made UNION SELECT '', reason FROM made UNION SELECT '', model FROM made
         UNION ALL SELECT 'state of a compaction', state FROM made
         UNION ALL SELECT 'usage of a compaction', usage FROM made
         UNION ALL SELECT 'notes of a compaction', notes FROM made
         UNION SELECT '', role FROM entry WHERE session IN (SELECT id FROM own)
             AND role NOT IN ('user', 'assistant', 'system', 'tool')
         UNION SELECT '', kind FROM entry WHERE session IN (SELECT id FROM own) AND kind <> 'message'
         UNION ALL SELECT '', name FROM embedder WHERE ?1 IS NULL";
    list(connection, sql, [session], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
}

/// The most sessions whose rows a connection keeps.
const SEEN: usize = 16;

/// The rows that a connection has read. The most recently used is the last.
#[derive(Default)]
struct Seen(Vec<Arc<SessionRow>>);

/// As [`find`]; the row is read once until the file is written.
pub(crate) fn seen(
    transaction: &Transaction<'_>,
    session: &SessionId,
) -> Result<Option<Arc<SessionRow>>> {
    Ok(seen_any(transaction, session)?.filter(|row| !row.dropped))
}

/// As [`find_any`]; the row is read once until the file is written.
pub(crate) fn seen_any(
    transaction: &Transaction<'_>,
    session: &SessionId,
) -> Result<Option<Arc<SessionRow>>> {
    let find = || Ok(find_any(transaction, session)?.map(Arc::new));
    let Some(mut seen) = transaction.seen::<Seen>()? else {
        return find();
    };
    let rows = &mut seen.0;
    if let Some(place) = rows.iter().rposition(|row| row.name == session.as_str()) {
        rows[place..].rotate_left(1);
    } else {
        let Some(row) = find()? else { return Ok(None) };
        if rows.len() == SEEN {
            rows.remove(0);
        }
        rows.push(row);
    }
    Ok(rows.last().cloned())
}

/// Sessions that were not deleted, in the order of their first writes: at most `limit` of them after the first
/// `offset`. If `namespace` is given, only its sessions. One that was deleted and begun again is in the list when it has
/// something: a message, an entry, settings or a fact.
pub(crate) fn page(
    connection: &Connection,
    namespace: Option<&str>,
    offset: i64,
    limit: i64,
) -> Result<Vec<SessionRow>> {
    let sql = match namespace {
        None => select!(
            "WHERE dropped = 0 AND ?1 IS NULL AND (redactions = 0 OR next_seq + entries > 0 OR settings <> ''
             OR id IN (SELECT session FROM fact)) ORDER BY id LIMIT ?2 OFFSET ?3"
        ),
        Some(_) => select!(
            "WHERE dropped = 0 AND namespace = ?1 AND (redactions = 0 OR next_seq + entries > 0 OR settings <> ''
             OR id IN (SELECT session FROM fact)) ORDER BY id LIMIT ?2 OFFSET ?3"
        ),
    };
    list(connection, sql, params![namespace, limit, offset], read)
}

/// The first session whose settings contain the text `has` and do not contain the text `lacks`; an empty `lacks`
/// excludes nothing. Deleted sessions do not count.
pub(crate) fn with_settings(
    connection: &Connection,
    has: &str,
    lacks: &str,
) -> Result<Option<SessionRow>> {
    let sql = select!(
        "WHERE settings <> '' AND dropped = 0 AND instr(settings, ?1) > 0
         AND (?2 = '' OR instr(settings, ?2) = 0) ORDER BY id LIMIT 1"
    );
    first(connection, sql, [has, lacks], read)
}

/// The state of a session as far as searches depend on it. An index of another standing is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The key of the session.
    pub id: i64,
    /// The sequence number that its next message gets.
    pub next_seq: i64,
    /// Raised by every write of entries.
    pub revision: i64,
    /// Raised when entries leave.
    pub(crate) epoch: i64,
    /// Raised when messages are forgotten.
    pub redactions: i64,
    /// The compaction whose view is current.
    pub head: Option<i64>,
}

impl SessionRow {
    /// The standing of this row.
    pub(crate) fn standing(&self) -> Standing {
        Standing {
            id: self.id,
            next_seq: self.next_seq,
            revision: self.revision,
            epoch: self.epoch,
            redactions: self.redactions,
            head: self.head,
        }
    }
}

/// The standings of the sessions of a namespace that were not deleted, by key.
///
/// Every search reads them, so checksums are not compared here. A caller that finds a changed standing reads the whole
/// row, and that read compares its checksum. A connection reads them once for each state of the file.
pub(crate) fn standings(transaction: &Transaction<'_>, namespace: &str) -> Result<Arc<[Standing]>> {
    let mut seen = transaction.seen::<HashMap<String, Arc<[Standing]>>>()?;
    if let Some(known) = seen.as_ref().and_then(|seen| seen.get(namespace)) {
        return Ok(Arc::clone(known));
    }
    let sql = "SELECT id, next_seq, revision, epoch, redactions, head FROM session
         WHERE namespace = ?1 AND NOT dropped ORDER BY id";
    let found = list(transaction, sql, [namespace], |row| {
        Ok(Standing {
            id: row.get(0)?,
            next_seq: row.get(1)?,
            revision: row.get(2)?,
            epoch: row.get(3)?,
            redactions: row.get(4)?,
            head: row.get(5)?,
        })
    })?;
    let found: Arc<[Standing]> = found.into();
    if let Some(seen) = &mut seen {
        seen.insert(namespace.to_owned(), Arc::clone(&found));
    }
    Ok(found)
}

/// Looks for the session by the hash of its name, in another index. If the session is found there, an index is damaged.
/// This is an error, because otherwise the session would be created a second time.
fn check_absent(connection: &Connection, session: &SessionId) -> Result<()> {
    let mut statement =
        connection.prepare_cached("SELECT id, name FROM session WHERE name_hash = ?1")?;
    let mut rows = statement.query([hash(session.as_str())])?;
    while let Some(row) = rows.next()? {
        if Columns::of(TABLE, row).get::<String>(1)? == session.as_str() {
            return Err(corrupt(TABLE, row.get_ref(0)?, "is not found by its name"));
        }
    }
    Ok(())
}

/// The session of that key, or its tombstone.
pub(crate) fn by_key(connection: &Connection, id: i64) -> Result<Option<SessionRow>> {
    first(connection, select!("WHERE id = ?1"), [id], read)
}

/// The session of that name, or its tombstone. If there is neither, a new session without a namespace.
pub(crate) fn find_or_create(
    transaction: &Transaction<'_>,
    session: &SessionId,
) -> Result<SessionRow> {
    match find_any(transaction, session)? {
        Some(row) => Ok(row),
        None => create(transaction, session, ""),
    }
}

/// Creates a session.
pub(crate) fn create(
    transaction: &Transaction<'_>,
    session: &SessionId,
    namespace: &str,
) -> Result<SessionRow> {
    run(transaction, "INSERT INTO session (name, name_hash, namespace, next_seq, entries, compactions, revision, epoch,
                 redactions, counter, write_id, dropped, head, clock, settings, tokens, first_at, last_at, title,
                 checksum)
             VALUES (?1, ?2, ?3, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, '', '', 0, NULL, NULL, '', 0)", params![session.as_str(), hash(session.as_str()), namespace])?;
    let row = SessionRow {
        id: transaction.last_insert_rowid(),
        name: session.as_str().to_owned(),
        namespace: namespace.to_owned(),
        ..SessionRow::default()
    };
    if row.id > LAST {
        let message = format!("a store has at most {LAST} sessions, those deleted included");
        return Err(Error::new(ErrorKind::InvalidEntry, message).with("limit", LAST));
    }
    save(transaction, &row)?;
    Ok(row)
}

/// Writes the columns of a session that can change, and its checksum.
pub(crate) fn save(transaction: &Transaction<'_>, row: &SessionRow) -> Result<()> {
    run(transaction, "UPDATE session SET next_seq = ?2, entries = ?3, compactions = ?4, revision = ?5, epoch = ?6,
                 redactions = ?7, counter = ?8, write_id = ?9, dropped = ?10, head = ?11, clock = ?12,
                 settings = ?13, tokens = ?14, first_at = ?15, last_at = ?16, title = ?17, checksum = ?18
             WHERE id = ?1", params![
            row.id,
            row.next_seq,
            row.entries,
            row.compactions,
            row.revision,
            row.epoch,
            row.redactions,
            row.counter,
            row.write_id,
            row.dropped,
            row.head,
            row.clock,
            row.settings,
            row.tokens,
            row.first_at,
            row.last_at,
            row.title,
            checksum(row).finish(),
        ])?;
    Ok(())
}

/// The checksum does not cover the hash, because it is computed from the name and always compared with it.
pub(super) fn hash(name: &str) -> i64 {
    xxh3_64(name.as_bytes()).cast_signed()
}

// Counts of a store and of a session.

/// The counts of a store, or of one session of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions with a message or an entry.
    pub sessions: i64,
    /// Messages in their logs.
    pub messages: i64,
    /// Entries.
    pub entries: i64,
    /// Compactions.
    pub compactions: i64,
    /// Bytes of the entries' texts. SQLite sums their lengths without reading them.
    pub text_bytes: i64,
}

/// The counts of all sessions.
pub(crate) fn counts_of_store(connection: &Connection) -> Result<Counts> {
    let mut counts = Counts {
        text_bytes: connection
            .prepare_cached(
                "SELECT COALESCE(SUM(COALESCE(octet_length(text), said_bytes)), 0) FROM entry
                 WHERE session NOT IN (SELECT id FROM session WHERE dropped = 1)",
            )?
            .query_row([], |row| row.get(0))?,
        ..Counts::default()
    };
    // The rows are read one by one, and their checksums are compared. An SQL sum would include damaged values.
    list(connection, SELECT_ALL, [], |row| {
        let row = read(row)?;
        counts.sessions += i64::from(row.next_seq > 0 || row.entries > 0);
        counts.messages += row.next_seq;
        counts.entries += row.entries;
        counts.compactions += row.compactions;
        Ok(())
    })?;
    Ok(counts)
}

/// The counts of one session.
pub(crate) fn counts_of(connection: &Connection, row: &SessionRow) -> Result<Counts> {
    let mut statement = connection.prepare_cached(
        "SELECT COALESCE(SUM(COALESCE(octet_length(text), said_bytes)), 0) FROM entry WHERE session = ?1",
    )?;
    Ok(Counts {
        sessions: i64::from(row.next_seq > 0 || row.entries > 0),
        messages: row.next_seq,
        entries: row.entries,
        compactions: row.compactions,
        text_bytes: statement.query_row([row.id], |row| row.get(0))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::transaction::{self, Begun};
    use crate::sqlite::{connection, schema};

    /// A file with a session of each name, a connection that writes it, and one that reads it.
    fn file(names: &[&str]) -> (tempfile::TempDir, Connection, Connection) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sqlite3");
        let mut writer = connection::writable(&path).unwrap();
        schema::create(&mut writer, &path, &[]).unwrap();
        for name in names {
            find_or_create(&Transaction::on(&writer), &id(name)).unwrap();
        }
        let reader = connection::readable(&path).unwrap();
        (directory, writer, reader)
    }

    fn id(name: &str) -> SessionId {
        SessionId::new(name).unwrap()
    }

    /// The row that a new transaction sees.
    fn row(
        reader: &mut Connection,
        kept: &transaction::Seen,
        name: &str,
    ) -> Option<Arc<SessionRow>> {
        let begun = Begun::on(reader).unwrap();
        seen(&Transaction::reading(&begun, kept), &id(name)).unwrap()
    }

    /// Its sequence number.
    fn next_seq(reader: &mut Connection, kept: &transaction::Seen, name: &str) -> Option<i64> {
        row(reader, kept, name).map(|row| row.next_seq)
    }

    fn set(writer: &Connection, name: &str, next_seq: i64) {
        let transaction = Transaction::on(writer);
        let row = SessionRow {
            next_seq,
            ..find(&transaction, &id(name)).unwrap().unwrap()
        };
        save(&transaction, &row).unwrap();
    }

    #[test]
    fn a_row_is_read_again_after_each_write_and_not_before() {
        let (_directory, writer, mut reader) = file(&["a", "b"]);
        let kept = transaction::Seen::default();
        for round in 1..4 {
            set(&writer, "a", round);
            for _ in 0..3 {
                assert_eq!(next_seq(&mut reader, &kept, "a"), Some(round));
                assert_eq!(next_seq(&mut reader, &kept, "b"), Some(0));
                assert_eq!(next_seq(&mut reader, &kept, "c"), None);
            }
            let rows = [(); 2].map(|()| row(&mut reader, &kept, "a").unwrap());
            assert!(Arc::ptr_eq(&rows[0], &rows[1]));
        }
        writer
            .execute("UPDATE session SET next_seq = 9", [])
            .unwrap();
        let begun = Begun::on(&mut reader).unwrap();
        let found = seen(&Transaction::reading(&begun, &kept), &id("a"));
        assert!(found.is_err(), "its checksum is wrong");
    }

    #[test]
    fn a_deleted_session_is_seen_as_a_tombstone_alone() {
        let (_directory, writer, mut reader) = file(&["a"]);
        let kept = transaction::Seen::default();
        assert!(row(&mut reader, &kept, "a").is_some());
        let gone = SessionRow {
            dropped: true,
            ..find(&writer, &id("a")).unwrap().unwrap()
        };
        save(&Transaction::on(&writer), &gone).unwrap();
        assert!(row(&mut reader, &kept, "a").is_none());
        let begun = Begun::on(&mut reader).unwrap();
        let transaction = Transaction::reading(&begun, &kept);
        assert_eq!(
            seen_any(&transaction, &id("a")).unwrap().as_deref(),
            Some(&gone)
        );
    }

    #[test]
    fn a_transaction_sees_one_state_whatever_is_written_meanwhile() {
        let (_directory, writer, mut reader) = file(&["a", "b"]);
        let kept = transaction::Seen::default();
        assert_eq!(next_seq(&mut reader, &kept, "b"), Some(0));
        let begun = Begun::on(&mut reader).unwrap();
        let transaction = Transaction::reading(&begun, &kept);
        let read = |name| seen(&transaction, &id(name)).unwrap().unwrap().next_seq;
        assert_eq!(read("a"), 0);
        set(&writer, "a", 5);
        set(&writer, "b", 5);
        assert_eq!((read("a"), read("b")), (0, 0));
        drop(begun);
        assert_eq!(next_seq(&mut reader, &kept, "a"), Some(5));
        assert_eq!(next_seq(&mut reader, &kept, "b"), Some(5));
    }

    #[test]
    fn few_rows_are_kept_those_that_were_used_last() {
        let names: Vec<String> = (0..SEEN + 3).map(|number| format!("s{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (_directory, _writer, mut reader) = file(&names);
        let kept = transaction::Seen::default();
        for name in &names[..SEEN] {
            next_seq(&mut reader, &kept, name);
        }
        next_seq(&mut reader, &kept, names[0]);
        next_seq(&mut reader, &kept, names[SEEN]);
        let rows = kept.rows::<Seen>(&reader).unwrap();
        let rows: Vec<&str> = rows.0.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(rows.len(), SEEN);
        assert_eq!(rows[..2], names[2..4]);
        assert_eq!(rows[SEEN - 2..], [names[0], names[SEEN]]);
    }
}
