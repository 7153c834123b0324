//! The tables of the database: the SQL of each version.

/// Marks the file as a siltstone store: `stne` in the header of the file (`PRAGMA application_id`).
pub(super) const APPLICATION_ID: i64 = 0x7374_6E65;

/// The steps from each version to the next; the first begins with an empty database. A released step never changes: a
/// store of version n is the result of the first n steps.
///
/// The fourth step creates tables that existed before; [`RESHAPED`] are their names. In a store with rows, the old
/// tables are renamed first, and their rows are moved afterwards (`reshape.rs`).
pub(super) const STEPS: [&str; 6] = [FIRST, STAGING, VECTORS, NAMED, EXPIRY, ACCOUNTS];

/// The number of steps before the step that creates existing tables again.
pub(super) const BEFORE_RESHAPE: usize = 3;

/// The tables that version 4 creates again. Tables that refer to others come first.
pub(super) const RESHAPED: [&str; 5] = ["entry", "staged", "message", "compaction", "session"];

/// The version that this code writes (`PRAGMA user_version`): the number of steps.
#[expect(clippy::cast_possible_wrap, reason = "there are a few")]
pub(super) const VERSION: i64 = STEPS.len() as i64;

/// The digest of all tables and indexes of that version (`migrate.rs`): it tells a store of this version without making
/// another one to compare it with, which takes longer than all else of an opening.
pub(super) const SHAPE: u128 = 0x6b6e_2eff_e752_2386_fbc6_b166_3487_3e1f;

/// Version 1.
///
/// Tables are `STRICT`, so a column holds values of its type, or NULL. `checksum` is xxh3-64 over the other columns
/// of its row (`checksum.rs`). It finds damage that SQLite does not find: a flipped bit inside a value.
///
/// `session.head` and `compaction.parent` name rows without `REFERENCES`. With it, SQLite would search the whole table
/// for referring rows whenever a session is deleted.
const FIRST: &str = "
-- How the rows are to be read: hash_rule (the rule of the cosine embedding), tokenizer (the analyser's id).
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The highest id that any entry ever had. It outlives the entries, so that no id comes back.
CREATE TABLE allocator (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    high_water INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- A session: the end of its log, the number of its entries, and where it stands.
-- AUTOINCREMENT: a session that is dropped and begun again is another one.
CREATE TABLE session (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    name_hash INTEGER NOT NULL,     -- xxh3-64 of the name
    next_seq INTEGER NOT NULL,      -- messages 0 .. next_seq are in the log
    entries INTEGER NOT NULL,       -- how many entries it has: an index that lost one is found out
    compactions INTEGER NOT NULL,   -- and how many compactions
    revision INTEGER NOT NULL,      -- raised by every write of entries: an index of another one is stale
    epoch INTEGER NOT NULL,         -- raised when entries leave: an index of another one begins anew
    redactions INTEGER NOT NULL,    -- raised when messages are forgotten: a view from before is stale
    dropped INTEGER NOT NULL,       -- a tombstone: what is written to it is accepted as nothing
    head INTEGER,                   -- the compaction whose view is current
    cadence TEXT NOT NULL,          -- the caller's own state, written with whatever it commits
    checksum INTEGER NOT NULL
) STRICT;

-- A second way to a session: one that the index of names does not lead to is damaged, not new.
CREATE INDEX session_name_hash ON session (name_hash);

-- The log. Rows are added, and never changed but to forget what they say.
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session (id),
    seq INTEGER NOT NULL,
    raw TEXT NOT NULL,
    role TEXT NOT NULL,
    dialect TEXT NOT NULL,
    provenance TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    created_at INTEGER NOT NULL,    -- milliseconds since 1970, UTC, as everywhere
    checksum INTEGER NOT NULL,
    UNIQUE (session, seq)
) STRICT;

-- Compactions. Each rewrote the view that its parent left; undoing one moves session.head to the parent.
CREATE TABLE compaction (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL REFERENCES session (id),
    parent INTEGER,
    policy TEXT NOT NULL,
    reason TEXT NOT NULL,
    level INTEGER NOT NULL,
    degraded INTEGER NOT NULL,
    summary TEXT NOT NULL,
    redacted INTEGER NOT NULL,      -- the summary was forgotten, and another text stands in its place
    covers TEXT NOT NULL,           -- JSON
    view TEXT NOT NULL,             -- JSON
    next_seq INTEGER NOT NULL,      -- messages from here on follow the view
    model TEXT NOT NULL,
    usage TEXT NOT NULL,            -- JSON
    tokens_before INTEGER NOT NULL,
    tokens_after INTEGER NOT NULL,
    messages_before INTEGER NOT NULL,
    messages_after INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX compaction_session ON compaction (session);

-- What can be found again. Ids come from the allocator.
CREATE TABLE entry (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session (id),
    source_start INTEGER NOT NULL,  -- half-open range of message.seq
    source_end INTEGER NOT NULL,
    role TEXT NOT NULL,
    name TEXT,
    kind TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    repaired INTEGER NOT NULL,      -- the text had lone surrogates, which became U+FFFD
    compaction INTEGER,             -- the compaction that discarded it; NULL for one that a caller indexed
    text TEXT NOT NULL,
    fingerprint INTEGER NOT NULL,   -- xxh3-64 of what makes it the same entry
    checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX entry_session ON entry (session);

-- The same text of the same messages is one entry, however often it is handed over.
CREATE INDEX entry_fingerprint ON entry (session, fingerprint);
";

/// Version 2: entries that a host has not committed yet, and rows that were set aside.
const STAGING: &str = "
-- A batch that a host handed over under a fingerprint of its own.
CREATE TABLE stage (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL REFERENCES session (id),
    token TEXT NOT NULL UNIQUE,     -- what the host keeps: xxh3-128 of session, fingerprint and content
    fingerprint TEXT NOT NULL,
    digest INTEGER NOT NULL,        -- xxh3-64 of the content
    state INTEGER NOT NULL,         -- 0 staged, 1 finalized, 2 dropped with its session
    size INTEGER NOT NULL,          -- how many entries were handed over
    held INTEGER NOT NULL,          -- how many of them are in staged
    receipt TEXT NOT NULL,          -- JSON: the id of each entry, once it is finalized
    created_at INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX stage_fingerprint ON stage (session, fingerprint);

-- The entries of a batch, until it is finalized or aborted: nobody finds them.
CREATE TABLE staged (
    id INTEGER PRIMARY KEY,
    stage INTEGER NOT NULL REFERENCES stage (id),
    place INTEGER NOT NULL,         -- in the batch, from 0
    source_start INTEGER NOT NULL,
    source_end INTEGER NOT NULL,
    role TEXT NOT NULL,
    name TEXT,
    kind TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    repaired INTEGER NOT NULL,
    text TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX staged_place ON staged (stage, place);

-- What a repair took out of entry, because it does not match its checksum.
CREATE TABLE quarantine (
    id INTEGER PRIMARY KEY,         -- as it had in entry
    session INTEGER NOT NULL,       -- as the row said, which may be wrong
    text BLOB NOT NULL,             -- the same
    found_at INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX quarantine_session ON quarantine (session);
";

/// Version 3: vectors of entries, which an embedder made.
///
/// A vector is deleted with its entry, whatever deletes the entry. So a forgotten entry leaves no vector behind.
const VECTORS: &str = "
-- Whose vectors there are: one row, or none. Another embedder gets another id, and no vector of this one.
CREATE TABLE embedder (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,             -- the embedder's own id
    dimension INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- The vectors of an entry's passages, one after another.
CREATE TABLE vector (
    entry INTEGER PRIMARY KEY REFERENCES entry (id) ON DELETE CASCADE,
    session INTEGER NOT NULL,       -- that of the entry
    revision INTEGER NOT NULL,      -- rises within a session: an index reads what it lacks
    embedder INTEGER NOT NULL,
    data BLOB NOT NULL,             -- float32, little-endian
    checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX vector_session ON vector (session, revision);
";

/// Version 4: sessions with a version and a namespace, a log in one B-tree, derived texts, facts.
///
/// The key of a message contains its session and its place, `session << 32 | seq`. So the log of a session is one
/// ordered stretch of the table, and needs no second index. `session.head`, `compaction.parent`, and the texts that a
/// view names have no `REFERENCES`, as before.
const NAMED: &str = "
CREATE TABLE session (
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
) STRICT;
CREATE INDEX session_name_hash ON session (name_hash);
CREATE INDEX session_namespace ON session (namespace);

-- The log. Rows are added, and never changed but to forget what they say.
CREATE TABLE message (
    id INTEGER PRIMARY KEY,         -- session << 32 | seq
    write_id INTEGER NOT NULL,      -- the caller's id of the call that brought it
    raw TEXT NOT NULL,
    role TEXT NOT NULL,
    dialect TEXT NOT NULL,
    provenance TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- Compactions. Each rewrote the view that its parent left; undoing one moves session.head to the parent.
CREATE TABLE compaction (
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
    checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX compaction_session ON compaction (session);

-- Texts that stand in a view in the place of messages. Written once, and named by every view that shows them.
CREATE TABLE derived (
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
) STRICT;
CREATE INDEX derived_session ON derived (session);
CREATE INDEX derived_digest ON derived (session, digest);

-- What can be found again. Ids come from the allocator.
CREATE TABLE entry (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session (id),
    source_start INTEGER NOT NULL,  -- half-open range of sequence numbers
    source_end INTEGER NOT NULL,
    role TEXT NOT NULL,
    name TEXT,
    kind TEXT NOT NULL,
    tags TEXT NOT NULL,             -- JSON list of texts; '' is none
    created_at INTEGER NOT NULL,
    expires_at INTEGER,             -- from when on it may leave
    repaired INTEGER NOT NULL,      -- the text had lone surrogates, which became U+FFFD
    compaction INTEGER,             -- the compaction that discarded it; NULL for one that a caller indexed
    text TEXT NOT NULL,
    fingerprint INTEGER NOT NULL,   -- xxh3-64 of what makes it the same entry
    checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX entry_session ON entry (session);

-- The same text of the same messages is one entry, however often it is handed over.
CREATE INDEX entry_fingerprint ON entry (session, fingerprint);

-- What a compaction brought is taken back without a look at the rest.
CREATE INDEX entry_compaction ON entry (compaction) WHERE compaction IS NOT NULL;

-- The entries of a batch, until it is finalized or aborted: nobody finds them.
CREATE TABLE staged (
    id INTEGER PRIMARY KEY,
    stage INTEGER NOT NULL REFERENCES stage (id),
    place INTEGER NOT NULL,         -- in the batch, from 0
    source_start INTEGER NOT NULL,
    source_end INTEGER NOT NULL,
    role TEXT NOT NULL,
    name TEXT,
    kind TEXT NOT NULL,
    tags TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    repaired INTEGER NOT NULL,
    text TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX staged_place ON staged (stage, place);

-- What is known of a session or of its namespace, in the caller's own form.
CREATE TABLE fact (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL REFERENCES session (id),
    namespace TEXT NOT NULL,        -- that of the session
    state TEXT NOT NULL,
    key TEXT NOT NULL,
    body TEXT NOT NULL,             -- JSON
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX fact_session ON fact (session, state);
CREATE INDEX fact_namespace ON fact (namespace, state);

-- Messages that were forgotten, by salted digests: one that is sent again is known, and stays out.
CREATE TABLE forgotten (
    session INTEGER NOT NULL REFERENCES session (id),
    seq INTEGER NOT NULL,
    digest BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (session, seq, digest)
) STRICT, WITHOUT ROWID;
";

/// Version 5: an index of expiry times, which finds expired entries without reading the others.
const EXPIRY: &str = "
CREATE INDEX entry_expiry ON entry (session, expires_at) WHERE expires_at IS NOT NULL;
";

/// Version 6: records of recalls, and notes on how compactions were made.
///
/// A compaction of an earlier version has no notes, and its checksum does not cover them (`compactions.rs`).
const ACCOUNTS: &str = "
-- What was placed before a model, or left out: ids and figures, and no text.
CREATE TABLE recall (
    id INTEGER PRIMARY KEY,         -- session << 32 | the number of messages that the log had
    created_at INTEGER NOT NULL,
    body TEXT NOT NULL,             -- JSON
    checksum INTEGER NOT NULL
) STRICT;

-- JSON: how long it took, and by which rule messages were kept or left; '' is not known.
ALTER TABLE compaction ADD COLUMN notes TEXT NOT NULL DEFAULT '';
";
