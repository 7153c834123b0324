//! The tables of a store, and their version.

use std::path::Path;
use std::sync::LazyLock;

use rusqlite::{Connection, TransactionBehavior};
use xxhash_rust::xxh3::Xxh3;

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::meta;
use crate::sqlite::transaction::Transaction;

/// Marks the file as a siltstone store: `stne` in the header of the file (`PRAGMA application_id`).
const APPLICATION_ID: i64 = 0x7374_6E65;

/// The statements that make a store. They are the only place where a table is defined.
///
/// Their text is the [version](version) of the store, comments included. If the meaning of a column changes, and not
/// its definition, then its comment changes: a store with the other meaning is refused, and never read wrongly.
///
/// Tables are `STRICT`, so a column holds values of its type, or NULL. `checksum` is xxh3-64 over the other columns of
/// its row (`row.rs`). It finds damage that SQLite does not find: a flipped bit inside a value.
const STATEMENTS: [&str; 26] = [
    // How the rows are to be read: hash_rule (the rule of the cosine embedding), tokenizer (the analyser's id).
    "CREATE TABLE meta (
        key TEXT PRIMARY KEY,
        value TEXT NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID",
    // The highest id that any entry ever had. It outlives the entries, so that no id comes back.
    "CREATE TABLE allocator (
        id INTEGER PRIMARY KEY CHECK (id = 0),
        high_water INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT",
    // A session: the end of its log, the number of its entries, and where it stands. `head` and `compaction.parent` name rows
    // without `REFERENCES`: with it, SQLite would search the whole table for referring rows whenever a session is deleted.
    // AUTOINCREMENT: a session that is dropped and begun again is another one.
    "CREATE TABLE session (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        name_hash INTEGER NOT NULL,     -- xxh3-64 of the name
        namespace TEXT NOT NULL,        -- fixed when the session is first written; '' is none
        next_seq INTEGER NOT NULL,      -- messages 0 .. next_seq are in the log
        entries INTEGER NOT NULL,       -- how many entries it has: an index that lost one is found out
        compactions INTEGER NOT NULL,   -- and how many compactions
        revision INTEGER NOT NULL,      -- raised by every write of entries: an index of another one is stale
        epoch INTEGER NOT NULL,         -- raised when entries leave: an index of another one begins anew
        redactions INTEGER NOT NULL,    -- raised when messages are forgotten: a view from before is stale
        counter INTEGER NOT NULL,       -- raised by every write of what the session itself keeps
        write_id INTEGER NOT NULL,      -- the caller's id of the last such write
        dropped INTEGER NOT NULL,       -- a tombstone: what is written to it is accepted as nothing
        head INTEGER,                   -- the compaction whose view is current
        clock TEXT NOT NULL,            -- the caller's own state, written with whatever it commits
        settings TEXT NOT NULL,         -- what the caller settled for the session
        tokens INTEGER NOT NULL,        -- of all its messages
        first_at INTEGER,               -- when its first message was appended: milliseconds since 1970, UTC
        last_at INTEGER,                -- and its last
        title TEXT NOT NULL,            -- how its first request begins
        checksum INTEGER NOT NULL
    ) STRICT",
    // A second way to a session: one that the index of names does not lead to is damaged, not new.
    "CREATE INDEX session_name_hash ON session (name_hash)",
    "CREATE INDEX session_namespace ON session (namespace)",
    // The log. Rows are added, and never changed but to forget what they say. The key contains the session and the place,
    // so the log of a session is one ordered stretch of the table, and needs no second index.
    "CREATE TABLE message (
        id INTEGER PRIMARY KEY,         -- session << 32 | seq
        write_id INTEGER NOT NULL,      -- the caller's id of the call that brought it
        raw TEXT NOT NULL,
        role TEXT NOT NULL,
        dialect TEXT NOT NULL,
        provenance TEXT NOT NULL,
        tokens INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT",
    // Compactions. Each rewrote the view that its parent left; undoing one moves session.head to the parent.
    "CREATE TABLE compaction (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL REFERENCES session (id),
        parent INTEGER,
        policy TEXT NOT NULL,
        reason TEXT NOT NULL,
        state TEXT NOT NULL,            -- the policy's own, as JSON; '' is none
        covers TEXT NOT NULL,           -- JSON: ranges of messages that left the view up to now
        view TEXT NOT NULL,             -- JSON: ranges of messages, and ids of derived texts
        derived TEXT NOT NULL,          -- JSON: ids of the derived texts that it brought
        next_seq INTEGER NOT NULL,      -- messages from here on follow the view
        model TEXT NOT NULL,
        usage TEXT NOT NULL,            -- JSON
        tokens_before INTEGER NOT NULL,
        tokens_after INTEGER NOT NULL,
        messages_before INTEGER NOT NULL,
        messages_after INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        notes TEXT NOT NULL,            -- JSON: how long it took, and by which rule messages were kept or left; '' is none
        checksum INTEGER NOT NULL
    ) STRICT",
    "CREATE INDEX compaction_session ON compaction (session)",
    // Texts that stand in a view in the place of messages. Written once, and named by every view that shows them.
    "CREATE TABLE derived (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL REFERENCES session (id),
        kind TEXT NOT NULL,             -- 'summary' or 'substitute'
        seq INTEGER,                    -- the message that a substitute stands in for
        level INTEGER NOT NULL,
        degraded INTEGER NOT NULL,
        redacted INTEGER NOT NULL,      -- it was forgotten, and another text stands in its place
        dialect TEXT NOT NULL,          -- how a substitute's message is to be read
        covers TEXT NOT NULL,           -- JSON: ranges of messages that it stands for
        raw TEXT NOT NULL,              -- a summary's text, a substitute's message as JSON
        created_at INTEGER NOT NULL,
        digest INTEGER NOT NULL,        -- xxh3-64 of raw
        checksum INTEGER NOT NULL
    ) STRICT",
    "CREATE INDEX derived_session ON derived (session)",
    "CREATE INDEX derived_digest ON derived (session, digest)",
    // What can be found again. Ids come from the allocator.
    "CREATE TABLE entry (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (id),
        source_start INTEGER NOT NULL,  -- half-open range of sequence numbers
        source_end INTEGER NOT NULL,
        role TEXT NOT NULL,
        name TEXT,
        kind TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER,             -- from when on it may leave
        repaired INTEGER NOT NULL,      -- the text had lone surrogates, which became U+FFFD
        compaction INTEGER,             -- the compaction that discarded it; NULL for one that a caller indexed
        text TEXT,                      -- NULL where its message has the text
        said_at INTEGER,                -- then where that string begins in the JSON of message source_start
        said_bytes INTEGER,             -- and the size of the text
        fingerprint INTEGER NOT NULL,   -- xxh3-64 of what makes it the same entry
        checksum INTEGER NOT NULL
    ) STRICT",
    "CREATE INDEX entry_session ON entry (session)",
    // The same text of the same messages is one entry, however often it is handed over.
    "CREATE INDEX entry_fingerprint ON entry (session, fingerprint)",
    // What a compaction brought is taken back without a look at the rest.
    "CREATE INDEX entry_compaction ON entry (compaction) WHERE compaction IS NOT NULL",
    // Expired entries are found without reading the others.
    "CREATE INDEX entry_expiry ON entry (session, expires_at) WHERE expires_at IS NOT NULL",
    // What a repair took out of entry, because it does not match its checksum.
    "CREATE TABLE quarantine (
        id INTEGER PRIMARY KEY,         -- as it had in entry
        session INTEGER NOT NULL,       -- as the row said, which may be wrong
        text BLOB NOT NULL,             -- the same
        found_at INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT",
    "CREATE INDEX quarantine_session ON quarantine (session)",
    // Whose vectors there are: one row, or none. Another embedder gets another id, and no vector of this one.
    "CREATE TABLE embedder (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,             -- the embedder's own id
        dimension INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT",
    // The vectors of an entry's passages, one after another. A vector is deleted with its entry, whatever deletes the entry.
    // So a forgotten entry leaves no vector behind.
    "CREATE TABLE vector (
        entry INTEGER PRIMARY KEY REFERENCES entry (id) ON DELETE CASCADE,
        session INTEGER NOT NULL,       -- that of the entry
        revision INTEGER NOT NULL,      -- rises within a session: an index reads what it lacks
        embedder INTEGER NOT NULL,
        data BLOB NOT NULL,             -- float32, little-endian
        checksum INTEGER NOT NULL
    ) STRICT",
    "CREATE INDEX vector_session ON vector (session, revision)",
    // What is known of a session or of its namespace, in the caller's own form.
    "CREATE TABLE fact (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL REFERENCES session (id),
        namespace TEXT NOT NULL,        -- that of the session
        state TEXT NOT NULL,
        key TEXT NOT NULL,
        body TEXT NOT NULL,             -- JSON
        created_at INTEGER NOT NULL,
        changed_at INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT",
    "CREATE INDEX fact_session ON fact (session, state)",
    "CREATE INDEX fact_namespace ON fact (namespace, state)",
    // What was placed before a model, or left out: ids and figures, and no text.
    "CREATE TABLE recall (
        id INTEGER PRIMARY KEY,         -- session << 32 | the number of messages that the log had
        created_at INTEGER NOT NULL,
        body TEXT NOT NULL,             -- JSON
        checksum INTEGER NOT NULL
    ) STRICT",
    // Messages that were forgotten, by salted digests: one that is sent again is known, and stays out.
    "CREATE TABLE forgotten (
        session INTEGER NOT NULL REFERENCES session (id),
        seq INTEGER NOT NULL,
        digest BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (session, seq, digest)
    ) STRICT, WITHOUT ROWID",
];

/// The version of a store that this code reads and writes (`PRAGMA user_version`): a digest of [`STATEMENTS`].
static VERSION: LazyLock<i64> = LazyLock::new(|| {
    let mut statements = STATEMENTS;
    statements.sort_unstable();
    digest(&statements)
});

/// The content of a database file that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// An empty database: new, or left behind when its creation was killed.
    Nothing,
    /// A store of this version.
    Store,
}

/// Finds out whether the database is a store. It only reads.
///
/// # Errors
///
/// [`ErrorKind::StoreOpen`] where it is no SQLite database, or no store; [`ErrorKind::StoreVersion`] where it is a
/// store of another version.
pub(super) fn identify(connection: &Connection, file: &Path) -> Result<Found> {
    let read =
        |error| not_a_store(file, "it cannot be read as an SQLite database").caused_by(error);
    // One transaction for all reads, because another process may be creating the store.
    let begun = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction());
    let _moment = begun.transpose().map_err(read)?;
    let application: i64 = pragma(connection, "application_id").map_err(read)?;
    let version = pragma(connection, "user_version").map_err(read)?;
    let definitions = definitions(connection).map_err(read)?;
    if application == 0 && version == 0 && definitions.is_empty() {
        return Ok(Found::Nothing);
    }
    if application != APPLICATION_ID {
        return Err(not_a_store(file, "it is a database of another application"));
    }
    if version != *VERSION {
        return Err(of_another_version(file, version));
    }
    if digest(&definitions) != version {
        return Err(not_a_store(file, "its tables are not those of its version"));
    }
    Ok(Found::Store)
}

/// Makes a store in an empty database. A store stays as it is. All of it is one transaction, so an interruption leaves
/// an empty database.
///
/// `birth` are the settings of a new store, which say how its rows are read.
pub(super) fn create(
    connection: &mut Connection,
    file: &Path,
    birth: &[(&str, &str)],
) -> Result<()> {
    // Another process may do the same. The second one to get the lock finds a finished store.
    let begun = rusqlite::Transaction::new(connection, TransactionBehavior::Immediate)?;
    let transaction = Transaction::on(&begun);
    if identify(&transaction, file)? == Found::Store {
        return Ok(());
    }
    for statement in STATEMENTS {
        transaction.execute_batch(statement)?;
    }
    meta::create_allocator(&transaction)?;
    for (key, value) in birth {
        meta::put(&transaction, key, value)?;
    }
    for key in [meta::SALT, meta::LINEAGE] {
        meta::renew(&transaction, key)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", *VERSION)?;
    Ok(begun.commit()?)
}

/// The version of a store that this code reads and writes, as it is told: eight hexadecimal digits.
#[must_use]
pub fn version() -> String {
    told(*VERSION)
}

fn told(version: i64) -> String {
    format!("{:08x}", version & 0xffff_ffff)
}

/// The definitions of all tables and indexes of the database, in order. SQLite keeps the text of each statement.
fn definitions(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(
        "SELECT sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY sql",
    )?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

/// A positive number of 31 bits by which one schema is told from another.
fn digest(definitions: &[impl AsRef<str>]) -> i64 {
    let mut hasher = Xxh3::new();
    for text in definitions.iter().map(AsRef::as_ref) {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    i64::from((hasher.digest() >> 33) as u32).max(1)
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

fn of_another_version(file: &Path, found: i64) -> Error {
    let (found, own) = (told(found), version());
    let message = format!(
        "the store '{}' has version {found}, and this siltstone reads and writes version {own}: it was left \
         untouched; open it with the siltstone that wrote it, or export its sessions with that one (siltstone export \
         --format everything) and import them into a new store",
        file.display()
    );
    Error::new(ErrorKind::StoreVersion, message)
        .with("path", file.to_string_lossy().into_owned())
        .with("version", found)
        .with("supported", own)
}

fn not_a_store(file: &Path, why: &str) -> Error {
    Error::new(
        ErrorKind::StoreOpen,
        format!("'{}' is not a siltstone store: {why}", file.display()),
    )
    .with("path", file.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "a.sqlite3";

    fn in_memory(sql: &str) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(sql).unwrap();
        connection
    }

    fn created(more: &str) -> Connection {
        let mut connection = in_memory("");
        create(&mut connection, Path::new(FILE), &[]).unwrap();
        connection.execute_batch(more).unwrap();
        connection
    }

    fn refused(connection: &Connection) -> Error {
        let error = identify(connection, Path::new(FILE)).unwrap_err();
        assert!(error.to_string().contains(FILE), "{error}");
        error
    }

    #[test]
    fn a_created_store_is_recognised_and_has_its_version_in_its_header() {
        let mut connection = in_memory("");
        let file = Path::new(FILE);
        assert_eq!(identify(&connection, file).unwrap(), Found::Nothing);
        create(&mut connection, file, &[(meta::HASH_RULE, "xxh3")]).unwrap();
        assert_eq!(identify(&connection, file).unwrap(), Found::Store);
        assert_eq!(meta::get(&connection, meta::HASH_RULE).unwrap(), "xxh3");
        assert_eq!(
            told(pragma(&connection, "user_version").unwrap()),
            version()
        );
        create(&mut connection, file, &[]).unwrap();
        connection.execute_batch("VACUUM").unwrap(); // it makes the tables again, in another order
        assert_eq!(identify(&connection, file).unwrap(), Found::Store);
    }

    #[test]
    fn every_statement_is_a_part_of_the_version() {
        let own = digest(&STATEMENTS);
        for place in 0..STATEMENTS.len() {
            let mut other = STATEMENTS.map(str::to_owned);
            other[place].push(' ');
            assert_ne!(digest(&other), own);
        }
        assert_ne!(digest(&STATEMENTS[1..]), own);
    }

    #[test]
    fn a_store_whose_tables_are_not_those_of_its_version_is_refused() {
        for change in [
            "CREATE TABLE more (text)",
            "DROP INDEX entry_expiry",
            "ALTER TABLE fact ADD COLUMN more TEXT",
        ] {
            let error = refused(&created(change));
            assert_eq!(error.kind(), ErrorKind::StoreOpen, "{change}: {error}");
        }
    }

    #[test]
    fn a_store_that_another_makes_meanwhile_is_nothing_or_a_store() {
        for _ in 0..40 {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join(FILE);
            let looking = Connection::open(&file).unwrap();
            looking.execute_batch("PRAGMA journal_mode = WAL").unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut making = Connection::open(&file).unwrap();
                    create(&mut making, &file, &[]).unwrap();
                });
                while identify(&looking, &file).unwrap() == Found::Nothing {}
            });
        }
    }

    #[test]
    fn what_is_not_ours_is_refused_by_name() {
        for sql in [
            "CREATE TABLE note (text)",
            "PRAGMA user_version = 1",
            "PRAGMA application_id = 7; CREATE TABLE entry (id)",
        ] {
            let error = refused(&in_memory(sql));
            assert_eq!(error.kind(), ErrorKind::StoreOpen, "{sql}: {error}");
        }
    }

    #[test]
    fn a_store_of_another_version_is_refused_with_both_versions_and_a_remedy() {
        for other in [0, 6, 0x7fff_ffff, -1] {
            let error = refused(&created(&format!("PRAGMA user_version = {other}")));
            assert_eq!(error.kind(), ErrorKind::StoreVersion);
            for part in [
                &format!("version {}", told(other)),
                &version(),
                "siltstone export",
            ] {
                assert!(error.to_string().contains(part), "{error}");
            }
        }
    }
}
