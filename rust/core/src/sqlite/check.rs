//! Is everything in the file what it should be? Every row is looked at, and what is wrong is listed.

use hashbrown::{HashMap, HashSet};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use crate::error::{Error, ErrorKind, Field, Result};
use crate::id::EntryId;
use crate::sqlite::compactions::{self, Compaction};
use crate::sqlite::entry;
use crate::sqlite::ranges::{self, Range};
use crate::sqlite::session::{self, SessionRow};
use crate::sqlite::{allocator, log, meta};

/// Something in the store that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of damage it is, a word that does not change: `checksum`, `count`, `head` …
    pub code: &'static str,
    /// The table it was found in, empty where that is not known.
    pub table: &'static str,
    /// The row, where it is one.
    pub id: Option<i64>,
    /// One sentence.
    pub message: String,
}

/// What was read of the file, as far as it could be believed.
pub(crate) struct Examined {
    pub findings: Vec<Finding>,
    /// The sessions that are whole, with the ids of their entries in ascending order.
    pub sessions: Vec<(SessionRow, Vec<EntryId>)>,
}

/// Reads everything. What cannot be read is a finding, and not an error.
pub(crate) fn examine(connection: &Connection) -> Examined {
    let mut check = Check::default();
    check.pages(connection);
    check.rules(connection);
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
    let sessions = check.sessions(&sessions, &compactions, &entries, &messages);
    Examined {
        findings: check.0,
        sessions,
    }
}

/// What the check keeps of an entry: its text may be long.
struct Entry {
    id: EntryId,
    session: i64,
    compaction: Option<i64>,
    is_findable: bool,
}

/// A session and a sequence number.
pub(super) type Place = (i64, i64);

#[derive(Default)]
struct Check(Vec<Finding>);

impl Check {
    fn found(
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

    /// What SQLite says of its pages, and of rows that refer to others.
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
            let mut statement = connection
                .prepare("SELECT \"table\", rowid, parent FROM pragma_foreign_key_check")?;
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

    /// How the rows are to be read.
    fn rules(&mut self, connection: &Connection) {
        for key in [meta::HASH_RULE, meta::TOKENIZER, meta::ERASURE] {
            if let Err(error) = meta::get(connection, key) {
                self.found("checksum", "meta", None, error.to_string());
            }
        }
    }

    /// The rows of a table that can be believed; each other one is a finding.
    fn rows<T>(
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
        // A page that cannot be read ends the walk: what lies behind it cannot be reached this way.
        if let Err(error) = walk() {
            self.failed(table, &error);
        }
        believed
    }

    /// No id was given that the allocator does not know of, and each entry can be found by what it says.
    fn ids(&mut self, connection: &Connection, entries: &[Entry]) {
        match allocator::high_water(connection) {
            Err(error) => self.found("checksum", allocator::TABLE, None, error.to_string()),
            Ok(high_water) => {
                let highest = entries.iter().map(|stored| stored.id.0).max();
                if let Some(highest) = highest.filter(|&highest| highest > high_water) {
                    let message =
                        format!("entry {highest} is above the highest id given, {high_water}");
                    self.found("allocator", allocator::TABLE, Some(highest), message);
                }
            }
        }
        for stored in entries.iter().filter(|stored| !stored.is_findable) {
            let message = format!("entry {} has a fingerprint of another text", stored.id);
            self.found("fingerprint", entry::TABLE, Some(stored.id.0), message);
        }
    }

    fn sessions(
        &mut self,
        sessions: &[SessionRow],
        compactions: &[Compaction],
        entries: &[Entry],
        messages: &[Place],
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

    /// The log counts from 0 without a gap.
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

    /// The head and every parent are there, parents are older, and views stay within the log.
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
            let end = view.compaction.next_seq;
            if !(0..=row.next_seq).contains(&end) {
                let message = format!(
                    "compaction {} read messages up to {end} of a log of {}",
                    view.id, row.next_seq
                );
                self.found("view", compactions::TABLE, id, message);
            }
            for (code, text) in [
                ("covers", &view.compaction.covers),
                ("view", &view.compaction.view),
            ] {
                if !is_within(text, end, code == "view") {
                    let message = format!(
                        "compaction {} has {code} that are no ascending ranges below {end}: {text}",
                        view.id
                    );
                    self.found(code, compactions::TABLE, id, message);
                }
            }
        }
    }

    /// What a compaction brought is there only as long as the view stands on it.
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

/// Whether `text` is a list of ascending ranges, none of them empty, in `0..end`.
fn is_within(text: &str, end: i64, with_summary: bool) -> bool {
    let Some(pieces) = ranges::parse(text) else {
        return false;
    };
    let mut last = 0;
    for piece in pieces {
        match piece {
            None if with_summary => {}
            None => return false,
            Some(Range { start, end: stop }) => {
                if start < last || stop <= start || stop > end {
                    return false;
                }
                last = stop;
            }
        }
    }
    true
}

fn known(table: &str) -> &'static str {
    [session::TABLE, log::TABLE, compactions::TABLE, entry::TABLE]
        .into_iter()
        .find(|&known| known == table)
        .unwrap_or("")
}
