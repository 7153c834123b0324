//! The store of one file: its database, its scopes, and the writes that change both.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::analyse::LanguageChoice;
use crate::embed::hash::HashRule;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryId, SessionId};
use crate::memory::cache_files::Caches;
use crate::memory::catch_up::Analysed;
use crate::memory::entries::{check_entries, is_blank};
use crate::memory::index_map::ScopeMap;
use crate::memory::session_index::{Reading, RequiredIndexes};
use crate::sqlite::group_commit::size;
use crate::sqlite::{
    Changes, Database, Keeper, NewEntry, SessionRow, Transaction, entry, meta, session,
};
use crate::tokenize::words;

/// The time that a writer waits for the lock of a scope, while other writers wait for it. It is longer than most
/// searches and shorter than the building of an index. A scope that the writer could not update catches up at its next
/// search.
const MOMENT: Duration = Duration::from_millis(2);

/// The memory of many sessions, in one file. It is safe to use from many threads.
pub struct Store {
    pub(super) database: Database,
    pub(super) scopes: ScopeMap,
    pub(super) caches: Caches,
}

impl Store {
    /// Opens the file, or makes a new store with `hash_rule`.
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
        let caches = Caches::beside(database.file());
        let store = Self::over(database, caches)?;
        if !store.is_read_only() {
            store.sweep();
            // Finishes deletions and erasures of processes that were killed.
            store.take_departing()?;
            store.erase()?;
        }
        Ok(store)
    }

    /// A store in memory with that rule. It has no file and no caches.
    pub(super) fn in_memory(hash_rule: Option<HashRule>) -> Result<Self> {
        Self::over(Database::in_memory(&birth(hash_rule))?, Caches::none())
    }

    /// A store in memory that mirrors rows. `keeper` keeps the rows themselves.
    pub(super) fn mirror(hash_rule: HashRule, keeper: Box<dyn Keeper>) -> Result<Self> {
        let database = Database::mirror(&birth(Some(hash_rule)), keeper)?;
        Self::over(database, Caches::none())
    }

    /// The store of that database, with no index yet.
    fn over(database: Database, caches: Caches) -> Result<Self> {
        Ok(Self {
            scopes: ScopeMap::new(stored_reading(&database)?),
            caches,
            database,
        })
    }

    /// Whether the file at the path is still the one that was opened.
    pub(super) fn is_current(&self) -> bool {
        self.database.is_current()
    }

    /// Closes the connections until they are needed again. True if all of them are closed by `deadline`.
    pub(super) fn suspend(&self, deadline: Instant) -> bool {
        self.database.suspend(deadline)
    }

    /// Refuses a rule that differs from the store's. None is accepted.
    pub(super) fn accepts(&self, asked: Option<HashRule>) -> Result<()> {
        let stored = self.hash_rule();
        match asked.filter(|&asked| asked != stored) {
            None => Ok(()),
            Some(asked) => {
                let message = format!(
                    "the store '{}' was made with hash_rule '{stored}', not '{asked}': open it without one, or \
                     copy it into a new store of that rule",
                    self.database.file().display()
                );
                Err(Error::refused("hash_rule", asked.name(), message))
            }
        }
    }

    /// The rule of the hashed embedding.
    #[must_use]
    pub fn hash_rule(&self) -> HashRule {
        self.reading().hash_rule
    }

    /// The rules by which texts are read.
    pub(super) fn reading(&self) -> Reading {
        self.scopes.reading()
    }

    /// The languages in which texts are read.
    #[must_use]
    pub fn languages(&self) -> LanguageChoice {
        self.reading().languages
    }

    /// Chooses the languages in which texts are read from now on. The store keeps the choice, and only a call with
    /// `anew` can change it. Indexes that were made with other languages are built again when they are needed.
    ///
    /// A read-only store without a stored choice uses these languages for itself.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] where other languages are stored, without `anew`; [`ErrorKind::ReadOnlyStore`]
    /// where a read-only store would have to change its stored languages; otherwise the errors of a write.
    pub fn settle_languages(&self, asked: LanguageChoice, anew: bool) -> Result<()> {
        let refused = |known: Option<LanguageChoice>| match known {
            Some(known) if known != asked && !anew => Err(self.other_languages(known, asked)),
            _ => Ok(()),
        };
        let known = self.database.read(stored_languages)?;
        refused(known)?;
        if known != Some(asked) && !(known.is_none() && self.is_read_only()) {
            self.database.writer()?.transaction(|transaction| {
                refused(stored_languages(transaction)?)?; // another process may have chosen meanwhile
                meta::put(transaction, meta::LANGUAGES, &asked.to_string())
            })?;
        }
        self.read_in(asked);
        Ok(())
    }

    /// Uses the languages that are stored, if there are any.
    pub(super) fn follow_languages(&self) -> Result<()> {
        if let Some(known) = self.database.read(stored_languages)? {
            self.read_in(known);
        }
        Ok(())
    }

    fn read_in(&self, languages: LanguageChoice) {
        let reading = self.reading();
        if languages != reading.languages {
            self.scopes.read_as(Reading {
                languages,
                ..reading
            });
        }
    }

    fn other_languages(&self, known: LanguageChoice, asked: LanguageChoice) -> Error {
        let message = format!(
            "the texts of the store '{}' are read with language '{known}', not '{asked}': open it without one, or \
                 read them anew with settle_language('{asked}', anew=True)",
            self.database.file().display()
        );
        Error::refused("language", asked.to_string(), message)
    }

    /// Whether the store is open for reading only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.database.is_read_only()
    }

    /// Writes `entries` and the changes of `also` to the session in one transaction, and then indexes the entries.
    ///
    /// `also` writes rows of the size `beside`, and returns the compaction that discarded the entries, if there is one. The result has the id of each entry,
    /// None for a blank entry, which is not stored. An entry that the session already has keeps its id. A deleted
    /// session accepts the write, and stores nothing.
    pub(super) fn write_entries(
        &self,
        session: &SessionId,
        entries: &[NewEntry],
        beside: usize,
        also: impl FnOnce(&Transaction<'_>, &mut SessionRow) -> Result<Option<i64>>,
    ) -> Result<Vec<Option<EntryId>>> {
        check_entries(entries)?;
        let kept: Vec<&NewEntry> = entries.iter().filter(|entry| !is_blank(entry)).collect();
        // The entries are analysed before the transaction, and only for the indexes in memory. An index that is built
        // later reads the rows.
        let needs = match self.scopes.get(session) {
            // Do not wait for a scope that is being built: it catches up at its next search.
            Some(scope) => match scope.try_read_for(MOMENT) {
                Some(scope) => scope.made(),
                None => RequiredIndexes::NOTHING,
            },
            None => RequiredIndexes::NOTHING,
        };
        let reading = self.reading();
        let analysed = kept.iter().map(|entry| Analysed::of(entry, reading, needs));
        let analysed: Vec<Analysed> = analysed.collect();

        let size = beside.saturating_add(size(kept.iter().map(|entry| entry.text.as_str())));
        let (written, writer) = self.database.write_short(size, |transaction| {
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
        // A writer that had a transaction of its own still holds the right to write, so scopes see commits in their order.
        // A scope that lost entries, or missed a commit, catches up at its next search.
        if before.epoch == after.epoch
            && let Some(held) = self.scopes.get(session)
            && let Some(mut scope) = held.try_write_for(MOMENT)
            && scope.reading == reading
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
            scope.advance(&before, &after, added);
            held.measure(scope.bytes());
        }
        drop(writer);

        let mut ids = placed.into_iter().map(|placed| placed.id);
        let id = |entry| if is_blank(entry) { None } else { ids.next() };
        Ok(entries.iter().map(id).collect())
    }
}

/// The settings of a new store, which say how its rows are read.
fn birth(hash_rule: Option<HashRule>) -> [(&'static str, &'static str); 3] {
    [
        (meta::HASH_RULE, hash_rule.unwrap_or_default().name()),
        (meta::TOKENIZER, words::ID),
        (meta::ERASURE, meta::DONE),
    ]
}

/// The stored languages, if there are any.
fn stored_languages(transaction: &Transaction<'_>) -> Result<Option<LanguageChoice>> {
    let stored = meta::find(transaction, meta::LANGUAGES)?;
    stored.map(|name| name.parse()).transpose()
}

fn stored_reading(database: &Database) -> Result<Reading> {
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
    Ok(Reading {
        hash_rule: rule.parse().map_err(|_| unknown("hash_rule", &rule))?,
        languages: database.read(stored_languages)?.unwrap_or_default(),
    })
}

// Mirrors: stores in memory whose rows are kept elsewhere.

impl Store {
    /// Writes rows of others into a mirror. Searches find them, and the keeper of the rows is not told.
    ///
    /// # Errors
    ///
    /// [`StoreIo`](crate::ErrorKind::StoreIo) where rows contradict each other, such as two sessions of one name.
    pub fn take(&self, changes: &Changes) -> Result<()> {
        self.database.writer()?.take(changes)
    }

    /// Makes new entries get ids above `high_water`.
    ///
    /// # Errors
    ///
    /// The errors of a write.
    pub fn give_ids_above(&self, high_water: i64) -> Result<()> {
        self.database.writer()?.give_ids_above(high_water)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::options::SearchOptions;
    use crate::sqlite::deletion;

    fn insert(store: &Store, name: &str, text: &str) {
        let entry = NewEntry {
            text: text.to_owned(),
            role: "user".to_owned(),
            kind: "message".to_owned(),
            ..NewEntry::default()
        };
        let session = SessionId::new(name).unwrap();
        store.insert(&session, &[entry]).unwrap();
    }

    fn found(store: &Store, name: &str, query: &str) -> usize {
        let session = SessionId::new(name).unwrap();
        let found = store.find(&session, query, None, &SearchOptions::default());
        found.unwrap().hits.len()
    }

    #[test]
    fn indexes_take_what_they_may_and_those_searched_longest_ago_go_first() {
        let store = Store::in_memory(None).unwrap();
        let names: Vec<String> = (0..40).map(|number| number.to_string()).collect();
        for name in &names {
            insert(&store, name, "silt in the river");
            assert_eq!(found(&store, name, "silt"), 1);
        }
        let all = store.scopes.bytes();
        store.scopes.set_most(all / 4);
        insert(&store, "0", "gravel on the bank");
        assert_eq!(found(&store, "0", "gravel"), 1);
        store.scopes.remove(&SessionId::new("1").unwrap());
        assert_eq!(found(&store, "1", "silt"), 1);
        assert!(store.scopes.bytes() <= all / 4);
        let mut left = store.scopes.sessions();
        left.sort_unstable_by_key(|name| name.as_str().parse::<u32>().unwrap());
        let left: Vec<&str> = left.iter().map(SessionId::as_str).collect();
        assert_eq!(left[..2], ["0", "1"]);
        assert!(left[2..].is_sorted() && left[2] > "25", "{left:?}");
        for name in &names {
            assert_eq!(found(&store, name, "silt"), 1, "{name}");
            assert!(store.scopes.bytes() <= all / 4);
        }
        store.scopes.set_most(1); // the index that was searched last stays, and answers
        assert_eq!(found(&store, "39", "silt"), 1);
        insert(&store, "38", "gravel");
        assert_eq!(found(&store, "38", "gravel"), 1);
    }

    #[test]
    fn an_index_is_counted_until_the_last_search_lets_go_of_it() {
        let store = Store::in_memory(None).unwrap();
        insert(&store, "a", "silt in the river");
        assert_eq!(found(&store, "a", "silt"), 1);
        let session = SessionId::new("a").unwrap();
        let held = store.scopes.get(&session);
        let all = store.scopes.bytes();
        store.scopes.remove(&session);
        assert!(all > 0 && store.scopes.bytes() == all);
        drop(held);
        assert_eq!(store.scopes.bytes(), 0);
    }

    #[test]
    fn who_writes_does_not_wait_for_an_index_that_is_being_made_and_is_found_afterwards() {
        let store = Store::in_memory(None).unwrap();
        insert(&store, "a", "silt in the river");
        assert_eq!(found(&store, "a", "silt"), 1);
        let scope = store.scopes.get(&SessionId::new("a").unwrap()).unwrap();
        let being_made = scope.write();
        insert(&store, "a", "gravel on the bank"); // the same thread holds the lock, so waiting would never end
        drop(being_made);
        assert_eq!(
            (found(&store, "a", "gravel"), found(&store, "a", "silt")),
            (1, 1)
        );
    }

    /// Deletes a session, and stops before all of its rows are deleted, as if the process had been killed.
    fn delete_some(store: &Store, name: &str) -> i64 {
        let name = SessionId::new(name).unwrap();
        let delete = |transaction: &Transaction<'_>| {
            let row = session::find(transaction, &name)?.unwrap();
            let key = row.id;
            deletion::drop_session(transaction, row)?;
            assert!(!deletion::take(transaction, &|| false)?);
            Ok(key)
        };
        store
            .database
            .writer()
            .unwrap()
            .transaction(delete)
            .unwrap()
    }

    fn rows(store: &Store) -> i64 {
        let count = |transaction: &Transaction<'_>| {
            let sql = "SELECT (SELECT COUNT(*) FROM entry) + (SELECT COUNT(*) FROM message)";
            Ok(transaction.query_row(sql, [], |row| row.get(0))?)
        };
        store.database.read(count).unwrap()
    }

    fn fill(store: &Store, name: &str) {
        for number in 0..100 {
            insert(store, name, &format!("silt in river {number}"));
        }
    }

    #[test]
    fn nobody_finds_a_deleted_session_while_its_rows_leave() {
        let store = Store::in_memory(None).unwrap();
        fill(&store, "a");
        insert(&store, "b", "silt in the river");
        delete_some(&store, "a");
        assert!((2..100).contains(&rows(&store)));
        assert!(store.check().unwrap().is_empty());
        assert_eq!(
            (found(&store, "a", "silt"), found(&store, "b", "silt")),
            (0, 1)
        );
        assert_eq!(store.figures(None).unwrap().counts.text_bytes, 17);
        let error = store.get(EntryId(90)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EntryNotFound);
        store.delete_session(&SessionId::new("c").unwrap()).unwrap(); // none: the due deletion is done
        store.forget(&[], "").unwrap();
        assert_eq!(rows(&store), 1);
    }

    #[test]
    fn a_session_that_is_begun_anew_has_no_row_of_before() {
        let store = Store::in_memory(None).unwrap();
        fill(&store, "a");
        delete_some(&store, "a");
        assert!(store.revive(&SessionId::new("a").unwrap()).unwrap());
        assert_eq!(rows(&store), 0);
        insert(&store, "a", "gravel");
        assert_eq!(
            (found(&store, "a", "silt"), found(&store, "a", "gravel")),
            (0, 1)
        );
        assert!(store.check().unwrap().is_empty());
    }

    #[test]
    fn who_opens_or_repairs_a_store_takes_the_rows_that_are_left() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.sqlite3");
        let open = || Store::open(&file, false, None, None).unwrap();
        let store = open();
        fill(&store, "a");
        delete_some(&store, "a");
        drop(store);
        assert!(
            Store::open(&file, true, None, None)
                .unwrap()
                .check()
                .unwrap()
                .is_empty()
        );
        let store = open();
        assert_eq!(rows(&store), 0);
        fill(&store, "b");
        delete_some(&store, "b");
        store.repair(0).unwrap();
        assert_eq!(rows(&store), 0);
        assert!(store.check().unwrap().is_empty());
        assert!(
            store
                .log_state(&SessionId::new("b").unwrap())
                .unwrap()
                .dropped
        );
    }
}
