//! The connection that writes, and what becomes of it when the disk fails under it, or the process forks.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::migrate::{self, Found};
use crate::sqlite::place::Place;
use crate::sqlite::schema::VERSION;
use crate::sqlite::{connection, failure};

/// A connection that is not trusted any more once the disk has failed under it.
///
/// A system says once that it could not sync, and then forgets what it could not write; so nobody may
/// sync again on the same connection and believe it. And a commit that failed in its sync stands in the
/// log all the same: whoever opens the file next, after a crash, would find it done.
pub(super) struct WriteConnection {
    file: PathBuf,
    /// None from a fork, or a failure, until it is next needed.
    connection: Option<Connection>,
    failed: bool,
}

impl WriteConnection {
    pub(super) fn new(file: &Path, connection: Connection) -> Self {
        Self {
            file: file.to_owned(),
            connection: Some(connection),
            failed: false,
        }
    }

    /// Runs `work` in one transaction, which takes the lock at once, if the file at the path is the one that
    /// was opened, and still was when it was committed.
    pub(super) fn transaction<T>(
        &mut self,
        place: &Place,
        work: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        place.check()?;
        let value = self.run(place, |connection, file| {
            let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
            migrate::check_version(&transaction, file)?;
            place.check_lineage(&transaction)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })?;
        place.check_content()?;
        Ok(value)
    }

    /// Runs `work` on the connection to the file; where the disk fails in it, another takes its place.
    pub(super) fn run<T>(
        &mut self,
        place: &Place,
        work: impl FnOnce(&mut Connection, &Path) -> Result<T>,
    ) -> Result<T> {
        self.open(place)?;
        let Some(connection) = &mut self.connection else {
            let message = "the connection that writes is not open";
            return Err(Error::new(ErrorKind::Internal, message));
        };
        let outcome = work(connection, &self.file);
        if outcome.as_ref().is_err_and(failure::is_of_the_disk) {
            self.failed = true;
            // At once, so that what failed is not found done after a crash. Where the disk takes nothing
            // at all, the next write tries again before anything else.
            let _ = self.open(place);
        }
        outcome
    }

    /// Closes it, and leaves the log as it is: it is opened again when it is next needed.
    pub(super) fn close(&mut self) {
        connection::leave(self.connection.take());
    }

    fn open(&mut self, place: &Place) -> Result<()> {
        if self.connection.is_some() && !self.failed {
            return Ok(());
        }
        place.check()?;
        let mut connection = connection::existing(&self.file)?;
        place.check()?;
        if self.failed {
            // A commit that changes nothing takes the place in the log of the one that failed.
            let transaction = Transaction::new(&mut connection, TransactionBehavior::Immediate)?;
            if migrate::identify(&transaction, &self.file)? != Found::Store {
                let message = format!("the store '{}' has lost its tables", self.file.display());
                return Err(Error::new(ErrorKind::StoreCorrupt, message));
            }
            transaction.pragma_update(None, "user_version", VERSION)?;
            transaction.commit()?;
        }
        self.connection = Some(connection);
        self.failed = false;
        Ok(())
    }
}
