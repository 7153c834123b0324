//! The connection that writes, and what becomes of it when the disk fails under it.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::migrate::{self, Found};
use crate::sqlite::schema::VERSION;
use crate::sqlite::{connection, failure};

/// A connection that is not trusted any more once the disk has failed under it.
///
/// A system says once that it could not sync, and then forgets what it could not write; so nobody may
/// sync again on the same connection and believe it. And a commit that failed in its sync stands in the
/// log all the same: whoever opens the file next, after a crash, would find it done.
pub(super) struct WriteConnection {
    file: PathBuf,
    connection: Connection,
    failed: bool,
}

impl WriteConnection {
    pub(super) fn new(file: &Path, connection: Connection) -> Self {
        Self {
            file: file.to_owned(),
            connection,
            failed: false,
        }
    }

    /// Runs `work` in one transaction, which takes the lock at once.
    pub(super) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        self.run(|connection, file| {
            let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
            migrate::check_version(&transaction, file)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })
    }

    /// Runs `work` on the connection to the file; where the disk fails in it, another takes its place.
    pub(super) fn run<T>(
        &mut self,
        work: impl FnOnce(&mut Connection, &Path) -> Result<T>,
    ) -> Result<T> {
        self.replace_if_failed()?;
        let outcome = work(&mut self.connection, &self.file);
        if outcome.as_ref().is_err_and(failure::is_of_the_disk) {
            self.failed = true;
            // At once, so that what failed is not found done after a crash. Where the disk takes nothing
            // at all, the next write tries again before anything else.
            let _ = self.replace_if_failed();
        }
        outcome
    }

    fn replace_if_failed(&mut self) -> Result<()> {
        if !self.failed {
            return Ok(());
        }
        let mut connection = connection::writable(&self.file)?;
        // A commit that changes nothing takes the place in the log of the one that failed.
        let transaction = Transaction::new(&mut connection, TransactionBehavior::Immediate)?;
        if migrate::identify(&transaction, &self.file)? != Found::Store {
            let message = format!("the store '{}' has lost its tables", self.file.display());
            return Err(Error::new(ErrorKind::StoreCorrupt, message));
        }
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()?;
        self.connection = connection;
        self.failed = false;
        Ok(())
    }
}
