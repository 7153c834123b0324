//! Moves the rows of a store of version 3 into the tables of version 4.
//!
//! The old tables get other names, the new tables are created, and every row is moved, all in the
//! transaction of the migration. A row with a wrong checksum gets a wrong checksum in the new table too, so
//! damage stays visible.

use hashbrown::HashMap;
use rusqlite::types::ValueRef;
use rusqlite::{Row, params};

use crate::error::Result;
use crate::sqlite::checksum::Checksum;
use crate::sqlite::compactions::{self, Compaction, CompactionBody};
use crate::sqlite::derived::{self, Derived, DerivedKind, NewDerived};
use crate::sqlite::entry::{self, NewEntry};
use crate::sqlite::log::{self, NewMessage};
use crate::sqlite::schema::RESHAPED;
use crate::sqlite::session::{self, SessionRow};
use crate::sqlite::transaction::Transaction;
use crate::sqlite::{ranges, staged};

/// Renames the old tables, and drops their indexes.
///
/// `foreign_keys` must be off and `legacy_alter_table` on, so that other tables keep referring to the old names.
pub(super) fn set_aside(transaction: &Transaction<'_>) -> Result<()> {
    let mut statement = transaction.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?1 AND sql IS NOT NULL",
    )?;
    for table in RESHAPED {
        let names = statement.query_map([table], |row| row.get::<_, String>(0))?;
        for name in names.collect::<rusqlite::Result<Vec<_>>>()? {
            transaction.execute_batch(&format!("DROP INDEX \"{name}\""))?;
        }
        transaction.execute_batch(&format!("ALTER TABLE {table} RENAME TO old_{table}"))?;
    }
    Ok(())
}

/// Moves every row into the new tables, and drops the old tables.
pub(super) fn move_rows(transaction: &Transaction<'_>) -> Result<()> {
    let figures = messages(transaction)?;
    sessions(transaction, &figures)?;
    compactions_and_texts(transaction)?;
    entries(transaction)?;
    staged_entries(transaction)?;
    for table in ["session", "compaction"] {
        // Keeps the highest key that was ever given, so that keys of deleted rows are not given again.
        transaction.execute("DELETE FROM sqlite_sequence WHERE name = ?1", [table])?;
        transaction.execute(
            "INSERT INTO sqlite_sequence (name, seq)
             SELECT ?1, seq FROM sqlite_sequence WHERE name = 'old_' || ?1",
            [table],
        )?;
    }
    for table in RESHAPED {
        transaction.execute_batch(&format!("DROP TABLE old_{table}"))?;
    }
    Ok(())
}

/// A row of the old version, read column by column. The checksum of its version is computed on the way.
struct Old<'row> {
    row: &'row Row<'row>,
    column: usize,
    sum: Option<Checksum>,
    is_whole: bool,
}

impl<'row> Old<'row> {
    fn of(table: &'static str, row: &'row Row<'row>) -> Self {
        Self {
            row,
            column: 0,
            sum: Some(Checksum::of(table)),
            is_whole: true,
        }
    }

    fn value(&mut self) -> Result<ValueRef<'row>> {
        let value = self.row.get_ref(self.column)?;
        self.column += 1;
        Ok(value)
    }

    fn add(&mut self, with: impl FnOnce(Checksum) -> Checksum) {
        self.sum = self.sum.take().map(with);
    }

    fn integer(&mut self) -> Result<i64> {
        Ok(self.optional_integer()?.unwrap_or_default())
    }

    fn optional_integer(&mut self) -> Result<Option<i64>> {
        let value = match self.value()? {
            ValueRef::Integer(value) => Some(value),
            _ => None,
        };
        self.add(|sum| sum.optional_integer(value));
        Ok(value)
    }

    fn text(&mut self) -> Result<String> {
        Ok(self.optional_text()?.unwrap_or_default())
    }

    fn optional_text(&mut self) -> Result<Option<String>> {
        let value = match self.value()? {
            ValueRef::Text(bytes) => {
                self.is_whole &= std::str::from_utf8(bytes).is_ok();
                Some(String::from_utf8_lossy(bytes).into_owned())
            }
            _ => None,
        };
        self.add(|sum| sum.optional_text(value.as_deref()));
        Ok(value)
    }

    /// The checksum of the new row: `right` if the old row matched its checksum, else a wrong one.
    ///
    /// The next column of the old row must be its checksum.
    fn carried(&mut self, right: Checksum) -> Result<i64> {
        let stored = match self.value()? {
            ValueRef::Integer(stored) => Some(stored),
            _ => None,
        };
        let sum = self.sum.take().map(Checksum::finish);
        self.is_whole &= sum.is_some() && sum == stored;
        let right = right.finish();
        Ok(if self.is_whole { right } else { !right })
    }
}

/// Moves the messages. Gives the tokens and the times of each session's log.
fn messages(transaction: &Transaction<'_>) -> Result<HashMap<i64, SessionRow>> {
    let mut figures: HashMap<i64, SessionRow> = HashMap::new();
    let mut statement = transaction.prepare(
        "SELECT id, session, seq, raw, role, dialect, provenance, tokens, created_at, checksum
         FROM old_message ORDER BY session, seq",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let mut old = Old::of(log::TABLE, row);
        let (_, session, seq) = (old.integer()?, old.integer()?, old.integer()?);
        let message = NewMessage {
            raw: old.text()?,
            role: old.text()?,
            dialect: old.text()?,
            provenance: old.text()?,
            tokens: old.integer()?,
            created_at: old.integer()?,
        };
        let key = log::key(session, seq);
        let checksum = old.carried(log::checksum(key, 0, &message))?;
        if old.is_whole {
            log::count_in(figures.entry(session).or_default(), &message);
        } else if log::session_and_seq(key) != (session, seq) {
            continue; // its key names no possible place, so a check reports the message as missing
        }
        log::write(transaction, key, 0, &message, checksum)?;
    }
    Ok(figures)
}

fn sessions(transaction: &Transaction<'_>, figures: &HashMap<i64, SessionRow>) -> Result<()> {
    let mut insert = transaction.prepare(
        "INSERT INTO session (id, name, name_hash, namespace, next_seq, entries, compactions, revision, epoch,
             redactions, counter, write_id, dropped, head, clock, settings, tokens, first_at, last_at, title,
             checksum)
         VALUES (?1, ?2, ?3, '', ?4, ?5, ?6, ?7, ?8, ?9, 0, 0, ?10, ?11, ?12, '', ?13, ?14, ?15, '', ?16)",
    )?;
    let mut statement = transaction.prepare(
        "SELECT id, name, next_seq, entries, compactions, revision, epoch, redactions, dropped, head, cadence,
             checksum, name_hash
         FROM old_session ORDER BY id",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let mut old = Old::of(session::TABLE, row);
        let mut new = SessionRow {
            id: old.integer()?,
            name: old.text()?,
            next_seq: old.integer()?,
            entries: old.integer()?,
            compactions: old.integer()?,
            revision: old.integer()?,
            epoch: old.integer()?,
            redactions: old.integer()?,
            dropped: old.integer()? != 0,
            head: old.optional_integer()?,
            clock: old.text()?,
            ..SessionRow::default()
        };
        if let Some(known) = figures.get(&new.id) {
            (new.tokens, new.first_at, new.last_at) = (known.tokens, known.first_at, known.last_at);
        }
        let checksum = old.carried(session::checksum(&new))?;
        let name_hash: i64 = row.get(12)?;
        insert.execute(params![
            new.id,
            new.name,
            name_hash,
            new.next_seq,
            new.entries,
            new.compactions,
            new.revision,
            new.epoch,
            new.redactions,
            new.dropped,
            new.head,
            new.clock,
            new.tokens,
            new.first_at,
            new.last_at,
            checksum
        ])?;
    }
    Ok(())
}

/// Moves the compactions, and their summaries into a table of their own. An old row repeated the summary that its
/// view showed. New rows that showed the same summary name one text.
fn compactions_and_texts(transaction: &Transaction<'_>) -> Result<()> {
    let mut insert = transaction.prepare(
        "INSERT INTO compaction (id, session, parent, policy, reason, state, covers, view, derived, next_seq,
             model, usage, tokens_before, tokens_after, messages_before, messages_after, created_at, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, '', ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
    )?;
    let mut known: HashMap<String, i64> = HashMap::new();
    let mut statement = transaction.prepare(
        "SELECT id, session, parent, policy, reason, level, degraded, summary, covers, view, next_seq, model, usage,
             tokens_before, tokens_after, messages_before, messages_after, created_at, redacted, checksum
         FROM old_compaction ORDER BY id",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let mut old = Old::of(compactions::TABLE, row);
        let mut new = Compaction {
            id: old.integer()?,
            session: old.integer()?,
            parent: old.optional_integer()?,
            derived: Vec::new(),
            body: CompactionBody {
                policy: old.text()?,
                reason: old.text()?,
                ..CompactionBody::default()
            },
        };
        let (level, degraded, raw) = (old.integer()?, old.integer()? != 0, old.text()?);
        let body = &mut new.body;
        body.covers = old.text()?;
        body.view = old.text()?;
        body.next_seq = old.integer()?;
        body.model = old.text()?;
        body.usage = old.text()?;
        body.tokens_before = old.integer()?;
        body.tokens_after = old.integer()?;
        body.messages_before = old.integer()?;
        body.messages_after = old.integer()?;
        body.created_at = old.integer()?;
        let redacted = old.integer()? != 0;
        // The old checksum is compared before the row's text is written.
        let is_whole = old.carried(Checksum::of(compactions::TABLE)).is_ok() && old.is_whole;
        if new.body.view.contains("null") || !raw.is_empty() {
            let text = Derived {
                id: 0,
                session: new.session,
                redacted,
                created_at: new.body.created_at,
                text: NewDerived {
                    kind: DerivedKind::Summary,
                    seq: None,
                    level,
                    degraded,
                    covers: new.body.covers.clone(),
                    raw,
                    dialect: "any".to_owned(),
                },
            };
            let same = Derived {
                created_at: 0,
                ..text.clone()
            };
            let same = derived::checksum(&same)
                .integer(i64::from(is_whole))
                .finish_wide();
            let id = if let Some(&id) = known.get(&same).filter(|_| is_whole) {
                id
            } else {
                let id = write_text(transaction, text, is_whole)?;
                new.derived.push(id);
                known.insert(same, id);
                id
            };
            new.body.view = new.body.view.replace("null", &id.to_string());
        }
        let right = compactions::checksum(&new).finish();
        let body = &new.body;
        insert.execute(params![
            new.id,
            new.session,
            new.parent,
            body.policy,
            body.reason,
            body.covers,
            body.view,
            ranges::ids(&new.derived),
            body.next_seq,
            body.model,
            body.usage,
            body.tokens_before,
            body.tokens_after,
            body.messages_before,
            body.messages_after,
            body.created_at,
            if is_whole { right } else { !right },
        ])?;
    }
    Ok(())
}

fn write_text(transaction: &Transaction<'_>, mut row: Derived, is_whole: bool) -> Result<i64> {
    let text = &row.text;
    transaction
        .prepare_cached(
            "INSERT INTO derived (session, kind, seq, level, degraded, redacted, dialect, covers, raw, created_at,
                 digest, checksum)
             VALUES (?1, ?2, NULL, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0)",
        )?
        .execute(params![
            row.session,
            text.kind.name(),
            text.level,
            text.degraded,
            row.redacted,
            text.dialect,
            text.covers,
            text.raw,
            row.created_at,
            derived::digest(&text.raw),
        ])?;
    row.id = transaction.last_insert_rowid();
    let right = derived::checksum(&row).finish();
    transaction
        .prepare_cached("UPDATE derived SET checksum = ?2 WHERE id = ?1")?
        .execute([row.id, if is_whole { right } else { !right }])?;
    Ok(row.id)
}

fn entries(transaction: &Transaction<'_>) -> Result<()> {
    let mut insert = transaction.prepare(
        "INSERT INTO entry (id, session, source_start, source_end, role, name, kind, tags, created_at, expires_at,
             repaired, compaction, text, fingerprint, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, '', ?8, NULL, ?9, ?10, ?11, ?12, ?13)",
    )?;
    let mut statement = transaction.prepare(
        "SELECT id, session, source_start, source_end, role, name, kind, created_at, repaired, compaction, text,
             checksum, fingerprint
         FROM old_entry ORDER BY id",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let mut old = Old::of(entry::TABLE, row);
        let (id, session) = (old.integer()?, old.integer()?);
        let mut new = old_entry(&mut old)?;
        let compaction = old.optional_integer()?;
        new.text = old.text()?;
        let checksum = old.carried(entry::checksum(id, session, compaction, &new))?;
        let fingerprint: i64 = row.get(12)?;
        insert.execute(params![
            id,
            session,
            new.start,
            new.end,
            new.role,
            new.name,
            new.kind,
            new.created_at,
            new.repaired,
            compaction,
            new.text,
            fingerprint,
            checksum,
        ])?;
    }
    Ok(())
}

fn staged_entries(transaction: &Transaction<'_>) -> Result<()> {
    let mut insert = transaction.prepare(
        "INSERT INTO staged (id, stage, place, source_start, source_end, role, name, kind, tags, created_at,
             expires_at, repaired, text, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, '', ?9, NULL, ?10, ?11, ?12)",
    )?;
    let mut statement = transaction.prepare(
        "SELECT id, stage, place, source_start, source_end, role, name, kind, created_at, repaired, text, checksum
         FROM old_staged ORDER BY id",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let mut old = Old::of(staged::TABLE, row);
        let (id, stage, place) = (old.integer()?, old.integer()?, old.integer()?);
        let mut new = old_entry(&mut old)?;
        new.text = old.text()?;
        let checksum = old.carried(staged::checksum(id, stage, place, &new))?;
        insert.execute(params![
            id,
            stage,
            place,
            new.start,
            new.end,
            new.role,
            new.name,
            new.kind,
            new.created_at,
            new.repaired,
            new.text,
            checksum,
        ])?;
    }
    Ok(())
}

/// The columns that an entry and a waiting entry have in common, without the text, which is the last one.
fn old_entry(old: &mut Old<'_>) -> Result<NewEntry> {
    Ok(NewEntry {
        start: old.integer()?,
        end: old.integer()?,
        role: old.text()?,
        name: old.optional_text()?,
        kind: old.text()?,
        created_at: old.integer()?,
        repaired: old.integer()? != 0,
        ..NewEntry::default()
    })
}
