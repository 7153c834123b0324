//! Is the store whole? Its rows, and the indexes in memory against them; and a copy that is.

use std::path::Path;

use crate::error::Result;
use crate::id::SessionId;
use crate::memory::store::Store;
use crate::memory::store_path;
use crate::sqlite::check::examine;
use crate::sqlite::{Finding, modes};

impl Store {
    /// Makes a store in the directory `path` of what is committed now, while others go on with this one. Nothing
    /// waits for it, and where there is a store at `path` afterwards, it is whole: everything in it was looked at.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreOpen`](crate::ErrorKind::StoreOpen) where `path` has a store already, or cannot be
    /// written; [`ErrorKind::StoreCorrupt`](crate::ErrorKind::StoreCorrupt) where something is damaged; otherwise
    /// those of a read. No store is left at `path` then.
    pub fn backup(&self, path: &Path) -> Result<()> {
        let mode = modes::mode_of(self.database.file());
        self.database.backup(&store_path::file(path, false, mode)?)
    }

    /// Computes again the values that follow from other rows, and sets aside entries with a wrong checksum. Gives every
    /// fault that was found, and whether it is repaired.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreBusy`](crate::ErrorKind::StoreBusy) where another process is at such work; otherwise
    /// those of a write. What could not be repaired whole is left as it was.
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

    /// Everything in the file, and in the indexes in memory, that is not what it should be.
    ///
    /// Nothing is repaired, and nothing that is wrong ends the check. It reads one state of the database.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read at all.
    pub fn check(&self) -> Result<Vec<Finding>> {
        let examined = self.database.read(|transaction| Ok(examine(transaction)))?;
        let mut findings = examined.findings;
        findings.extend(self.damaged_caches());
        for (row, ids) in examined.sessions {
            let namespace = self.scopes.namespace(&row.namespace);
            if let Some(found) = namespace.and_then(|namespace| namespace.read().ids(&row))
                && found.iter().any(|id| ids.binary_search(id).is_err())
            {
                findings.push(Finding {
                    code: "index",
                    table: "entry",
                    id: Some(row.id),
                    message: format!(
                        "the index of namespace {:?} has other entries of session {:?} than the file",
                        row.namespace, row.name
                    ),
                });
            }
            let Some(scope) = SessionId::new(&row.name)
                .ok()
                .and_then(|id| self.scopes.get(&id))
            else {
                continue;
            };
            let scope = scope.read();
            if scope.is_of(&row) && !scope.ids().eq(ids.iter().copied()) {
                findings.push(Finding {
                    code: "index",
                    table: "entry",
                    id: Some(row.id),
                    message: format!(
                        "the index of session {:?} has other entries than the file",
                        row.name
                    ),
                });
            }
        }
        Ok(findings)
    }
}
