//! Checks, repairs and backs up a store.

use std::path::Path;

use crate::error::Result;
use crate::id::SessionId;
use crate::memory::handle;
use crate::memory::store::Store;
use crate::sqlite::check::examine;
use crate::sqlite::{Finding, SessionRow, files};

impl Store {
    /// Makes a copy of the committed state as a store in the directory `path`. Readers and writers of this store do not
    /// wait for it. All rows of the copy are checked before it gets its name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreOpen`](crate::ErrorKind::StoreOpen) where `path` has a store already, or cannot be
    /// written; [`ErrorKind::StoreCorrupt`](crate::ErrorKind::StoreCorrupt) where the store is damaged; otherwise
    /// the errors of a read. After an error there is no store at `path`.
    pub fn backup(&self, path: &Path) -> Result<()> {
        let mode = files::mode_of(self.database.file());
        self.database
            .backup(&handle::file_of_store(path, false, mode)?)
    }

    /// Gives the pages of deleted rows back to the system: the file is written anew.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreBusy`](crate::ErrorKind::StoreBusy) where another process works on the store for too long;
    /// otherwise the errors of a write. The rows stay as they are, also after an error.
    pub fn shrink(&self) -> Result<()> {
        self.database.shrink()
    }

    /// Computes derived values again, and sets aside entries with a wrong checksum. Gives every fault that was found,
    /// and whether it is repaired now.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreBusy`](crate::ErrorKind::StoreBusy) where another process does such work; otherwise
    /// the errors of a write. The repair is one transaction, so an error leaves the store as it was.
    pub fn repair(&self, now: i64) -> Result<Vec<(Finding, bool)>> {
        let _exclusive = self.database.exclusive("repair")?;
        let before = self.check()?;
        self.database.repair(now)?;
        self.scopes.clear();
        self.sweep();
        let after = self.check()?;
        let repaired = before
            .into_iter()
            .filter(|finding| !after.contains(finding));
        let repaired: Vec<_> = repaired.map(|finding| (finding, true)).collect();
        let left = after.into_iter().map(|finding| (finding, false));
        Ok(repaired.into_iter().chain(left).collect())
    }

    /// Finds every fault in the file, in the caches and in the indexes in memory.
    ///
    /// It repairs nothing, goes on after every fault, and reads one state of the database.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read at all.
    pub fn check(&self) -> Result<Vec<Finding>> {
        let examined = self.database.read(|transaction| Ok(examine(transaction)))?;
        let mut findings = examined.findings;
        findings.extend(self.damaged_caches());
        let index = |row: &SessionRow, message: String| Finding {
            code: "index",
            table: "entry",
            id: Some(row.id),
            message,
        };
        for (row, ids) in examined.sessions {
            let namespace = self.scopes.namespace(&row.namespace);
            if let Some(found) = namespace.and_then(|namespace| namespace.read().ids(&row))
                && found != ids
            {
                let message = format!(
                    "the index of namespace {:?} has other entries of session {:?} than the file",
                    row.namespace, row.name
                );
                findings.push(index(&row, message));
            }
            let Some(scope) = SessionId::new(&row.name)
                .ok()
                .and_then(|id| self.scopes.get(&id))
            else {
                continue;
            };
            let scope = scope.read();
            if scope.is_of(&row) && !scope.ids().eq(ids.iter().copied()) {
                let message = format!(
                    "the index of session {:?} has other entries than the file",
                    row.name
                );
                findings.push(index(&row, message));
            }
        }
        Ok(findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::handle::Handle;
    use crate::memory::options::SearchOptions;
    use crate::sqlite::NewEntry;

    #[test]
    fn an_entry_that_the_index_of_a_namespace_lacks_is_found_by_a_check() {
        let handle = Handle::open_memory(None).unwrap();
        let (store, session) = (handle.store().unwrap(), SessionId::new("chat").unwrap());
        store.open_session(&session, Some("acme")).unwrap();
        let entry = |text: &str| NewEntry {
            text: text.to_owned(),
            ..NewEntry::default()
        };
        let entries = [entry("silt settles"), entry("the river")];
        store.insert(&session, &entries).unwrap();
        let options = SearchOptions::default();
        store.find_across(&session, "silt", None, &options).unwrap();
        assert!(store.check().unwrap().is_empty());
        store.scopes.namespace("acme").unwrap().write().lose(1);
        let findings = store.check().unwrap();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].message.contains("index of namespace \"acme\""));
    }
}
