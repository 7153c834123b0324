//! The connection that writes. It is replaced after a failed write or a fork.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::migrate::{self, Found};
use crate::sqlite::place::Place;
use crate::sqlite::{connection, failure, tail};

/// A connection that writes, and is not used again after a write that failed.
///
/// The system reports a failed sync once, and may then drop the data that it could not write. So a second sync on
/// the same connection could succeed without that data. Also, the failed transaction is still in the log: after a
/// crash, the next process that opens the file could find it committed. So it is cut off (`tail.rs`).
pub(super) struct WriteConnection {
    file: PathBuf,
    /// None after a fork or a close, until it is needed again.
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

    /// Runs `work` in one transaction, which takes the lock at its beginning. Checks before it and after the commit
    /// that the file at the path is the one that was opened.
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

    /// Runs `work` on the connection. If that leaves an unfinished transaction in the log, a new connection cuts it off
    /// and replaces this one.
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
        let is_unfinished = |error| {
            failure::is_of_the_disk(error)
                || failure::is_of_a_full_disk(error)
                || tail::has_spilled(connection)
        };
        if outcome.as_ref().is_err_and(is_unfinished) {
            self.failed = true;
            // At once, so that the failed transaction is not found in the log after a crash. If the disk accepts no
            // change at all, the next transaction tries again first.
            let _ = self.open(place);
        }
        outcome
    }

    /// Closes the connection, and leaves the log as it is. It is opened again when it is needed.
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
            let transaction = Transaction::new(&mut connection, TransactionBehavior::Immediate)?;
            if migrate::identify(&transaction, &self.file)? != Found::Store {
                let message = format!("the store '{}' has lost its tables", self.file.display());
                return Err(Error::new(ErrorKind::StoreCorrupt, message));
            }
            tail::cut(&transaction, &self.file)?;
        }
        self.connection = Some(connection);
        self.failed = false;
        Ok(())
    }
}
