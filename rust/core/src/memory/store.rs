//! The store of one file: the database, the scopes, and the writes that couple them.

use std::path::Path;
use std::time::Instant;

use rusqlite::Transaction;

use crate::analyse;
use crate::embed::hash::HashRule;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::analysed::Analysed;
use crate::memory::caches::Caches;
use crate::memory::check::{check, is_blank};
use crate::memory::required_indexes::RequiredIndexes;
use crate::memory::scope_map::ScopeMap;
use crate::sqlite::{Database, NewEntry, SessionRow, entry, meta, session};
use crate::tokenize::words;

/// What is remembered of sessions, in one file. Safe to use from many threads.
pub struct Store {
    pub(super) database: Database,
    pub(super) scopes: ScopeMap,
    pub(super) caches: Caches,
    hash_rule: HashRule,
}

impl Store {
    /// Opens the file, or makes it. `hash_rule` is that of a new store.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreOpen`], [`ErrorKind::StoreVersion`]
    pub(super) fn open(
        file: &Path,
        read_only: bool,
        hash_rule: Option<HashRule>,
        mode: Option<u32>,
    ) -> Result<Self> {
        let database = Database::open(file, read_only, mode, &birth(hash_rule))?;
        // Texts are stored, and terms are not: a store of another analyser needs no more than this.
        database.remember(meta::ANALYSER, analyse::ID)?;
        let hash_rule = stored_rule(&database)?;
        let store = Self {
            scopes: ScopeMap::new(hash_rule),
            caches: Caches::beside(database.file()),
            database,
            hash_rule,
        };
        if !store.is_read_only() {
            store.sweep();
            store.erase()?; // what a process forgot that was killed before it was done
        }
        Ok(store)
    }

    /// A store in memory, by that rule. It has no file, and no caches.
    pub(super) fn in_memory(hash_rule: Option<HashRule>) -> Result<Self> {
        let database = Database::in_memory(&birth(hash_rule))?;
        let hash_rule = stored_rule(&database)?;
        Ok(Self {
            scopes: ScopeMap::new(hash_rule),
            caches: Caches::none(),
            database,
            hash_rule,
        })
    }

    /// Whether the file at its path is still the one that was opened.
    pub(super) fn is_current(&self) -> bool {
        self.database.is_current()
    }

    /// Closes the connections until they are next needed; whether all of them are closed by then.
    pub(super) fn suspend(&self, deadline: Instant) -> bool {
        self.database.suspend(deadline)
    }

    /// Nothing, if the store was made with that rule, or the caller does not care.
    pub(super) fn accepts(&self, asked: Option<HashRule>) -> Result<()> {
        let stored = self.hash_rule;
        match asked.filter(|&asked| asked != stored) {
            None => Ok(()),
            Some(asked) => {
                let message = format!(
                    "the store '{}' was made with hash_rule '{stored}', not '{asked}': open it without one",
                    self.database.file().display()
                );
                Err(Error::new(ErrorKind::InvalidArgument, message)
                    .with("field", "hash_rule")
                    .with("value", asked.name()))
            }
        }
    }

    /// The rule of the cosine embedding.
    #[must_use]
    pub fn hash_rule(&self) -> HashRule {
        self.hash_rule
    }

    /// Whether it can only be read.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.database.is_read_only()
    }

    /// Writes `entries`, and whatever `also` writes of the session, in one transaction, then indexes them.
    ///
    /// `also` gives the compaction that discarded them, if one did. The id of each entry, None for a blank
    /// one, which is not stored; an entry that the session has already keeps its id. What is written to a
    /// session that was dropped is accepted as nothing.
    pub(super) fn write_entries(
        &self,
        session: &SessionId,
        entries: &[NewEntry],
        also: impl FnOnce(&Transaction<'_>, &mut SessionRow) -> Result<Option<i64>>,
    ) -> Result<Vec<Option<EntryId>>> {
        check(entries)?;
        let kept: Vec<&NewEntry> = entries.iter().filter(|entry| !is_blank(entry)).collect();
        // Before the transaction, for the indexes that there are: one that was not needed yet, or comes in
        // between, is made of rows.
        let needs = match self.scopes.get(session) {
            Some(scope) => scope.read().made(),
            None => RequiredIndexes::NOTHING,
        };
        let analysed = kept
            .iter()
            .map(|entry| Analysed::of(entry, self.hash_rule, needs));
        let analysed: Vec<Analysed> = analysed.collect();

        let mut writer = self.database.writer()?;
        let written = writer.transaction(|transaction| {
            let before = session::find_or_create(transaction, session)?;
            if before.dropped {
                return Ok(None);
            }
            let mut after = before.clone();
            let compaction = also(transaction, &mut after)?;
            let placed = entry::insert(transaction, &mut after, compaction, &kept)?;
            session::save(transaction, &after)?;
            Ok(Some((before, after, placed)))
        })?;
        let Some((before, after, placed)) = written else {
            return Ok(vec![None; entries.len()]);
        };
        // The writer is still held, so scopes see commits in their order. One that entries left begins anew
        // when it is next needed.
        if before.epoch == after.epoch
            && let Some(scope) = self.scopes.get(session)
        {
            let rows = placed.iter().zip(analysed);
            let added = rows
                .filter(|(placed, _)| placed.is_new)
                .map(|(placed, analysed)| {
                    let expires_at = placed.expires_at;
                    (
                        placed.id,
                        Analysed {
                            expires_at,
                            ..analysed
                        },
                    )
                });
            scope.write().advance(&before, &after, added);
        }
        drop(writer);

        let mut ids = placed.into_iter().map(|placed| placed.id);
        let id = |entry| if is_blank(entry) { None } else { ids.next() };
        Ok(entries.iter().map(id).collect())
    }
}

/// What a new store remembers of how its rows are to be read.
fn birth(hash_rule: Option<HashRule>) -> [(&'static str, &'static str); 4] {
    [
        (meta::HASH_RULE, hash_rule.unwrap_or_default().name()),
        (meta::TOKENIZER, words::ID),
        (meta::ANALYSER, analyse::ID),
        (meta::ERASURE, meta::DONE),
    ]
}

fn stored_rule(database: &Database) -> Result<HashRule> {
    let unknown = |what: &str, value: &str| {
        let file = database.file();
        let message = format!(
            "the store '{}' needs {what} {value:?}, which this siltstone lacks",
            file.display()
        );
        Error::new(ErrorKind::StoreOpen, message).with("path", file.to_string_lossy().into_owned())
    };
    let tokenizer = database.meta(meta::TOKENIZER)?;
    if tokenizer != words::ID {
        return Err(unknown("tokenizer", &tokenizer));
    }
    let rule = database.meta(meta::HASH_RULE)?;
    rule.parse().map_err(|_| unknown("hash_rule", &rule))
}
