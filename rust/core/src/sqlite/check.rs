//! Checks a store: reads every row, and lists every fault.

use hashbrown::{HashMap, HashSet};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use crate::error::{Error, ErrorKind, Field, Result};
use crate::id::EntryId;
use crate::sqlite::compactions::{self, Compaction, Piece};
use crate::sqlite::session::{self, SessionRow};
use crate::sqlite::vectors::{self, SELECT_ALL, TABLE, embedders};
use crate::sqlite::{deletion, derived, entry, fact, forgotten, log, meta, recall_log};

/// A fault of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of damage as a fixed word: `checksum`, `count`, `head` …
    pub code: &'static str,
    /// The table with the fault; empty where it is not known.
    pub table: &'static str,
    /// The key of the row, if the fault is in one row.
    pub id: Option<i64>,
    /// One sentence about the fault.
    pub message: String,
}

/// The faults of a store, and its intact sessions.
pub(crate) struct Examined {
    pub findings: Vec<Finding>,
    /// The sessions with intact rows, each with the ids of its intact entries, ascending.
    pub sessions: Vec<(SessionRow, Vec<EntryId>)>,
}

/// Reads all rows. A row that cannot be read is a finding, not an error.
pub(crate) fn examine(connection: &Connection) -> Examined {
    let mut check = Check::default();
    check.pages(connection);
    check.settings(connection);
    let sessions = check.rows(
        connection,
        session::TABLE,
        session::SELECT_ALL,
        session::read,
    );
    let compactions = check.rows(
        connection,
        compactions::TABLE,
        compactions::SELECT_ALL,
        compactions::read,
    );
    let entries = check.rows(connection, entry::TABLE, entry::SELECT_ALL, |row| {
        let stored = entry::read(row)?;
        Ok(Entry {
            id: stored.id,
            session: stored.session,
            compaction: stored.compaction,
            is_findable: entry::fingerprint(&stored.entry) == row.get::<_, i64>(12)?,
        })
    });
    let messages = check.rows(connection, log::TABLE, log::SELECT_ALL, log::read_place);
    check.ids(connection, &entries);
    let texts = check.texts(connection);
    check.facts(connection, &sessions);
    check.checksums(connection);
    check.vectors(
        connection,
        entries.iter().map(|stored| (stored.id, stored.session)),
    );
    let departing = check.departing(connection);
    let sessions = sessions
        .into_iter()
        .filter(|row| !departing.contains(&row.id));
    let sessions: Vec<SessionRow> = sessions.collect();
    let sessions = check.sessions(&sessions, &compactions, &texts, &entries, &messages);
    Examined {
        findings: check.0,
        sessions,
    }
}

/// The part of an entry that the check keeps. It leaves out the text, which may be long.
pub(super) struct Entry {
    pub(super) id: EntryId,
    pub(super) session: i64,
    pub(super) compaction: Option<i64>,
    is_findable: bool,
}

/// A message: its session and its sequence number.
pub(super) type MessageId = (i64, i64);

#[derive(Default)]
pub(super) struct Check(Vec<Finding>);

impl Check {
    pub(super) fn found(
        &mut self,
        code: &'static str,
        table: &'static str,
        id: Option<i64>,
        message: impl Into<String>,
    ) {
        self.0.push(Finding {
            code,
            table,
            id,
            message: message.into(),
        });
    }

    fn failed(&mut self, table: &'static str, error: &Error) {
        let id = error.fields().iter().find_map(|(name, value)| match value {
            Field::Integer(id) if *name == "id" => Some(*id),
            _ => None,
        });
        let code = match (error.kind(), id) {
            (ErrorKind::StoreCorrupt, Some(_)) => "checksum",
            _ => "unreadable",
        };
        self.found(code, table, id, error.to_string());
    }

    /// Lists the findings of SQLite's own checks: damaged pages, and references to missing rows.
    fn pages(&mut self, connection: &Connection) {
        let problems = || -> rusqlite::Result<Vec<String>> {
            let mut statement = connection.prepare("PRAGMA integrity_check")?;
            statement.query_map([], |row| row.get(0))?.collect()
        };
        match problems() {
            Ok(problems) => {
                for problem in problems.into_iter().filter(|problem| problem != "ok") {
                    self.found("integrity", "", None, problem);
                }
            }
            Err(error) => self.found("unreadable", "", None, Error::from(error).to_string()),
        }
        let orphans = || -> rusqlite::Result<Vec<(String, Option<i64>, String)>> {
            // The session of a message or a recall is part of its key, which SQLite does not check.
            let mut statement = connection.prepare(
                "SELECT \"table\", rowid, parent FROM pragma_foreign_key_check
                 UNION ALL
                 SELECT 'message', id, 'session' FROM message WHERE id >> 32 NOT IN (SELECT id FROM session)
                 UNION ALL
                 SELECT 'recall', id, 'session' FROM recall WHERE id >> 32 NOT IN (SELECT id FROM session)",
            )?;
            let rows =
                statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect()
        };
        match orphans() {
            Ok(orphans) => {
                for (table, id, parent) in orphans {
                    let message = format!("{table} refers to a row of {parent} that is not there");
                    self.found("foreign_key", known(&table), id, message);
                }
            }
            Err(error) => self.found("unreadable", "", None, Error::from(error).to_string()),
        }
    }

    /// Checks the settings in `meta`.
    fn settings(&mut self, connection: &Connection) {
        let keys = [meta::HASH_RULE, meta::TOKENIZER, meta::ERASURE];
        for key in keys.into_iter().chain([meta::SALT, meta::LINEAGE]) {
            if let Err(error) = meta::get(connection, key) {
                self.found("checksum", "meta", None, error.to_string());
            }
        }
    }

    /// The keys of deleted sessions that may still have rows.
    fn departing(&mut self, connection: &Connection) -> Vec<i64> {
        deletion::unfinished(connection).unwrap_or_else(|error| {
            self.failed("meta", &error);
            Vec::new()
        })
    }

    /// The rows of a table with right checksums. Each other row is a finding.
    pub(super) fn rows<T>(
        &mut self,
        connection: &Connection,
        table: &'static str,
        sql: &str,
        read: impl Fn(&Row<'_>) -> Result<T>,
    ) -> Vec<T> {
        let mut believed = Vec::new();
        let mut walk = || -> Result<()> {
            let mut statement = connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                match read(row) {
                    Ok(value) => believed.push(value),
                    Err(error) => {
                        let id = match row.get_ref(0) {
                            Ok(ValueRef::Integer(id)) => Some(id),
                            _ => None,
                        };
                        self.found("checksum", table, id, error.to_string());
                    }
                }
            }
            Ok(())
        };
        // A page that cannot be read ends the loop: the rows behind it cannot be reached this way.
        if let Err(error) = walk() {
            self.failed(table, &error);
        }
        believed
    }

    /// The derived texts with right checksums, each with its session. A text with a wrong digest is a finding.
    fn texts(&mut self, connection: &Connection) -> Vec<(i64, i64)> {
        let texts = self.rows(connection, derived::TABLE, derived::SELECT_ALL, |row| {
            let found = derived::read(row)?;
            let is_findable = derived::digest(&found.text.raw) == row.get::<_, i64>("digest")?;
            Ok((found.session, found.id, is_findable))
        });
        for (_, id, _) in texts.iter().filter(|(_, _, is_findable)| !is_findable) {
            let message = format!("text {id} has a digest of another text");
            self.found("digest", derived::TABLE, Some(*id), message);
        }
        let places = texts.into_iter().map(|(session, id, _)| (session, id));
        places.collect()
    }

    /// Checks that each fact has the namespace of its session.
    fn facts(&mut self, connection: &Connection, sessions: &[SessionRow]) {
        let namespaces: HashMap<i64, &str> = sessions
            .iter()
            .map(|row| (row.id, row.namespace.as_str()))
            .collect();
        for fact in self.rows(connection, fact::TABLE, fact::SELECT_ALL, fact::read) {
            let owner = namespaces.get(&fact.session);
            if owner.is_some_and(|&namespace| namespace != fact.namespace) {
                let message = format!("fact {} is of another namespace than its session", fact.id);
                self.found("namespace", fact::TABLE, Some(fact.id), message);
            }
        }
    }

    /// Compares the checksums of rows that nothing else refers to: of the forgotten digests and of recalls.
    fn checksums(&mut self, connection: &Connection) {
        let read = forgotten::read;
        let _ = self.rows(connection, forgotten::TABLE, forgotten::SELECT_ALL, read);
        let _ = self.rows(
            connection,
            recall_log::TABLE,
            recall_log::SELECT_ALL,
            recall_log::read,
        );
    }

    /// Checks that no entry has an id above the allocator's mark, and that each entry has the right fingerprint.
    fn ids(&mut self, connection: &Connection, entries: &[Entry]) {
        match meta::high_water(connection) {
            Err(error) => self.found("checksum", meta::ALLOCATOR, None, error.to_string()),
            Ok(high_water) => {
                let highest = entries.iter().map(|stored| stored.id.0).max();
                if let Some(highest) = highest.filter(|&highest| highest > high_water) {
                    let message =
                        format!("entry {highest} is above the highest id given, {high_water}");
                    self.found("allocator", meta::ALLOCATOR, Some(highest), message);
                }
            }
        }
        for stored in entries.iter().filter(|stored| !stored.is_findable) {
            let message = format!("entry {} has a fingerprint of another text", stored.id);
            self.found("fingerprint", entry::TABLE, Some(stored.id.0), message);
        }
    }
}

fn known(table: &str) -> &'static str {
    let tables = [session::TABLE, log::TABLE, compactions::TABLE, entry::TABLE];
    let others = [
        derived::TABLE,
        fact::TABLE,
        forgotten::TABLE,
        recall_log::TABLE,
        vectors::TABLE,
    ];
    tables
        .into_iter()
        .chain(others)
        .find(|&known| known == table)
        .unwrap_or("")
}

// Checks that the rows of a store agree: each session with its log, its compactions and its entries.

impl Check {
    pub(super) fn sessions(
        &mut self,
        sessions: &[SessionRow],
        compactions: &[Compaction],
        derived: &[(i64, i64)],
        entries: &[Entry],
        messages: &[MessageId],
    ) -> Vec<(SessionRow, Vec<EntryId>)> {
        let mut logs: HashMap<i64, Vec<i64>> = HashMap::new();
        for &(session, seq) in messages {
            logs.entry(session).or_default().push(seq);
        }
        let mut texts: HashMap<i64, Vec<&Entry>> = HashMap::new();
        for stored in entries {
            texts.entry(stored.session).or_default().push(stored);
        }
        let mut views: HashMap<i64, Vec<&Compaction>> = HashMap::new();
        for row in compactions {
            views.entry(row.session).or_default().push(row);
        }
        let mut shown: HashMap<i64, HashSet<i64>> = HashMap::new();
        for &(session, id) in derived {
            shown.entry(session).or_default().insert(id);
        }
        let mut believed = Vec::new();
        for row in sessions {
            let seqs = logs.remove(&row.id).unwrap_or_default();
            let views = views.remove(&row.id).unwrap_or_default();
            let texts = texts.remove(&row.id).unwrap_or_default();
            self.count(row, "message", row.next_seq, seqs.len());
            self.count(row, "compaction", row.compactions, views.len());
            self.count(row, "entry", row.entries, texts.len());
            self.sequence(row, &seqs);
            self.lineage(row, &views);
            self.shown(&views, shown.get(&row.id));
            self.origins(row, &views, &texts);
            believed.push((row.clone(), texts.iter().map(|stored| stored.id).collect()));
        }
        believed
    }

    fn count(&mut self, row: &SessionRow, table: &'static str, expected: i64, found: usize) {
        if i64::try_from(found).is_ok_and(|found| found == expected) {
            return;
        }
        let message = format!(
            "session {:?} should have {expected} rows in {table}, and {found} can be believed",
            row.name
        );
        self.found("count", table, Some(row.id), message);
    }

    /// Checks that the sequence numbers of the log begin at 0 and have no gap.
    fn sequence(&mut self, row: &SessionRow, seqs: &[i64]) {
        let gap = (0..).zip(seqs).find(|(expected, seq)| expected != *seq);
        if let Some((expected, seq)) = gap {
            let message = format!(
                "the log of session {:?} goes on with {seq} where {expected} should be",
                row.name
            );
            self.found("sequence", log::TABLE, Some(row.id), message);
        }
    }

    /// Checks that the head and every parent exist, that parents are older, and that views stay within the log.
    fn lineage(&mut self, row: &SessionRow, views: &[&Compaction]) {
        let known: HashSet<i64> = views.iter().map(|view| view.id).collect();
        if let Some(head) = row.head.filter(|head| !known.contains(head)) {
            let message = format!(
                "session {:?} stands on compaction {head}, which is not one of its own",
                row.name
            );
            self.found("head", session::TABLE, Some(row.id), message);
        }
        for view in views {
            let id = Some(view.id);
            if let Some(parent) = view.parent
                && (parent >= view.id || !known.contains(&parent))
            {
                let message = format!(
                    "compaction {} follows {parent}, which is no earlier one of its session",
                    view.id
                );
                self.found("parent", compactions::TABLE, id, message);
            }
            let end = view.body.next_seq;
            if !(0..=row.next_seq).contains(&end) {
                let message = format!(
                    "compaction {} read messages up to {end} of a log of {}",
                    view.id, row.next_seq
                );
                self.found("view", compactions::TABLE, id, message);
            }
            for (code, text) in [("covers", &view.body.covers), ("view", &view.body.view)] {
                if !compactions::is_within(text, end, code == "view") {
                    let message = format!(
                        "compaction {} has {code} that are no ascending ranges below {end}: {text}",
                        view.id
                    );
                    self.found(code, compactions::TABLE, id, message);
                }
            }
        }
    }

    /// Checks that every text exists which a view shows or a compaction brought.
    fn shown(&mut self, views: &[&Compaction], known: Option<&HashSet<i64>>) {
        for view in views {
            let pieces = compactions::parse(&view.body.view).unwrap_or_default();
            let named = pieces.into_iter().filter_map(|piece| match piece {
                Piece::Text(id) => Some(id),
                Piece::Messages(_) => None,
            });
            let mut named: Vec<i64> = named.chain(view.derived.iter().copied()).collect();
            named.sort_unstable();
            named.dedup();
            for id in named {
                if !known.is_some_and(|known| known.contains(&id)) {
                    let message = format!(
                        "compaction {} shows text {id}, which is not there or cannot be believed",
                        view.id
                    );
                    self.found("text", derived::TABLE, Some(id), message);
                }
            }
        }
    }

    /// Checks that entries of a compaction exist only while the compaction is the head or one of its ancestors.
    fn origins(&mut self, row: &SessionRow, views: &[&Compaction], texts: &[&Entry]) {
        let parents: HashMap<i64, Option<i64>> =
            views.iter().map(|view| (view.id, view.parent)).collect();
        let mut standing = HashSet::new();
        let mut next = row.head;
        while let Some(id) = next {
            if !standing.insert(id) {
                break;
            }
            next = parents.get(&id).copied().flatten();
        }
        for stored in texts {
            if let Some(origin) = stored
                .compaction
                .filter(|origin| !standing.contains(origin))
            {
                let message = format!(
                    "entry {} came with compaction {origin}, which the view does not stand on",
                    stored.id
                );
                self.found("origin", entry::TABLE, Some(stored.id.0), message);
            }
        }
    }
}

// Checks vectors: each must have the session of its entry, and all must be of the current embedder.

impl Check {
    /// Checks every vector. `entries` are the entries with right checksums, each with its session.
    pub(super) fn vectors(
        &mut self,
        connection: &Connection,
        entries: impl Iterator<Item = (EntryId, i64)>,
    ) {
        let sessions: HashMap<EntryId, i64> = entries.collect();
        let embedders = self.rows(
            connection,
            embedders::TABLE,
            embedders::SELECT_ALL,
            embedders::read,
        );
        let current = embedders.last();
        let rows = self.rows(connection, TABLE, SELECT_ALL, |row| {
            let row = vectors::read(row)?;
            let dimension = current.map_or(1, |current| current.dimension);
            let is_whole = vectors::is_whole(&row.numbers, dimension);
            Ok((
                row.entry,
                row.session,
                row.embedder,
                row.numbers.len(),
                is_whole,
            ))
        });
        for (entry, session, embedder, numbers, is_whole) in rows {
            let wrong = match current {
                _ if sessions.get(&entry).is_some_and(|&owner| owner != session) => {
                    "is of another session than its entry".to_owned()
                }
                Some(row) if row.id == embedder => {
                    if is_whole {
                        continue;
                    }
                    let dimension = row.dimension;
                    format!("has {numbers} numbers, which are no vectors of dimension {dimension}")
                }
                _ => "is not of the embedder of the store".to_owned(),
            };
            let message = format!("the vector of entry {entry} {wrong}");
            self.found("vector", TABLE, Some(entry.0), message);
        }
    }
}
