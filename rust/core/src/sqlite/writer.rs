//! The connection that writes. It is replaced after a failed write or a fork.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rusqlite::{Connection, DropBehavior, TransactionBehavior};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::file_identity::Place;
use crate::sqlite::group_commit::{End, Group};
use crate::sqlite::schema::{self, Found};
use crate::sqlite::transaction::Transaction;
use crate::sqlite::{connection, wal};

/// A connection that writes, and is not used again after a write that failed.
///
/// The system reports a failed sync once, and may then drop the data that it could not write. So a second sync on
/// the same connection could succeed without that data. Also, the failed transaction is still in the log: after a
/// crash, the next process that opens the file could find it committed. So it is cut off (`wal.rs`).
pub(super) struct WriteConnection {
    file: PathBuf,
    /// None after a fork or a close, until it is needed again.
    connection: Option<Connection>,
    failed: bool,
    /// The writes whose transaction is open while nobody holds this.
    group: Option<Group>,
}

/// What came of a write: its result, or its panic.
pub(super) type Outcome<T> = thread::Result<Result<T>>;

/// What came of a write that may share its transaction.
pub(super) enum Shared<T> {
    /// It has ended.
    Done(Outcome<T>),
    /// It ends with the group, which the thread that gets the connection next is responsible for.
    Waits(Arc<End>, Outcome<T>),
}

impl WriteConnection {
    pub(super) fn new(file: &Path, connection: Connection) -> Self {
        Self {
            file: file.to_owned(),
            connection: Some(connection),
            failed: false,
            group: None,
        }
    }

    /// Runs `work` in one transaction, which takes the lock at its beginning. Checks before it and after the commit
    /// that the file at the path is the one that was opened.
    pub(super) fn transaction<T>(
        &mut self,
        place: &Place,
        work: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let value = self.begin(place, work)?;
        self.commit(place)?;
        Ok(value)
    }

    /// Runs a short write in a transaction, which writes of other threads may share.
    ///
    /// A write that fails in a shared transaction is undone alone. `is_awaited` says whether another short write waits
    /// for this connection.
    pub(super) fn share<T>(
        &mut self,
        place: &Place,
        is_awaited: impl Fn() -> bool,
        work: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Shared<T> {
        let outcome = if self.group.is_some() {
            self.join(place, work)
        } else {
            match self.begin(place, work) {
                // Outside a transaction, a savepoint would commit at its end.
                Ok(value) if is_awaited() && self.is_in_transaction() => {
                    self.group = Some(Group::begin());
                    Ok(Ok(value))
                }
                begun => {
                    let alone = begun.and_then(|value| self.commit(place).map(|()| value));
                    return Shared::Done(Ok(alone));
                }
            }
        };
        match &self.group {
            Some(group) if is_awaited() && group.has_room() => Shared::Waits(group.end(), outcome),
            Some(_) => {
                let ended = self.end_group(place);
                Shared::Done(outcome.map(|own| ended.and(own)))
            }
            None => Shared::Done(outcome), // it took the others with it
        }
    }

    /// Commits the transaction of the group that is open, if there is one, and tells its writers.
    pub(super) fn end_group(&mut self, place: &Place) -> Result<()> {
        let Some(group) = self.group.take() else {
            return Ok(());
        };
        let ended = self.commit(place);
        group.tell(match &ended {
            Ok(()) => Ok(()),
            Err(error) => Err(error.again()),
        });
        ended
    }

    /// Runs `work` on the connection. If that leaves an unfinished transaction in the log, a new connection cuts it off
    /// and replaces this one.
    pub(super) fn run<T>(
        &mut self,
        place: &Place,
        work: impl FnOnce(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        self.open(place)?;
        let Some(connection) = &mut self.connection else {
            return Err(not_open());
        };
        let outcome = work(connection);
        let is_unfinished = outcome
            .as_ref()
            .is_err_and(|error| is_unfinished(connection, error));
        self.recover(place, is_unfinished);
        outcome
    }

    /// Closes the connection, and leaves the log as it is. It is opened again when it is needed.
    pub(super) fn close(&mut self, place: &Place) {
        let _ = self.end_group(place); // its writers are told
        connection::leave(self.connection.take());
    }

    /// Begins a transaction and runs `work` in it. It stays open, unless there is an error.
    fn begin<T>(
        &mut self,
        place: &Place,
        work: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        place.check()?;
        self.run(place, |connection| {
            let behavior = TransactionBehavior::Immediate;
            let mut begun = rusqlite::Transaction::new(connection, behavior)?;
            place.check_lineage(&begun)?;
            let value = work(&Transaction::on(&begun))?;
            begun.set_drop_behavior(DropBehavior::Ignore);
            Ok(value)
        })
    }

    /// Runs `work` in the open transaction of the group. If it fails, it alone is undone.
    ///
    /// If that is not possible, or SQLite has undone the whole transaction, the group ends with the error.
    fn join<T>(
        &mut self,
        place: &Place,
        work: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Outcome<T> {
        let Some(connection) = &self.connection else {
            return Ok(Err(not_open()));
        };
        let (outcome, undone) = in_savepoint(connection, work);
        let is_whole = undone.is_ok() && !connection.is_autocommit();
        let is_unfinished = match &outcome {
            Ok(Ok(_)) => false,
            Ok(Err(error)) => is_unfinished(connection, error),
            Err(_) => wal::has_spilled(connection),
        };
        let why = match (&outcome, undone) {
            (Ok(Err(error)), _) if !is_whole || is_unfinished => error.again(),
            (_, Err(error)) => error,
            (Err(_), _) if is_unfinished => {
                let message =
                    "a write of the same transaction panicked, and could not be undone alone";
                Error::new(ErrorKind::Internal, message)
            }
            _ => return outcome,
        };
        self.roll_back();
        self.recover(place, is_unfinished);
        if let Some(group) = self.group.take() {
            group.tell(Err(why));
        }
        outcome
    }

    /// Commits the open transaction, and checks that the file at the path is the one that was opened.
    fn commit(&mut self, place: &Place) -> Result<()> {
        let Some(connection) = &self.connection else {
            return Err(not_open());
        };
        let committed = connection.execute_batch("COMMIT").map_err(Error::from);
        let is_unfinished = committed
            .as_ref()
            .is_err_and(|error| is_unfinished(connection, error));
        if committed.is_err() {
            self.roll_back();
        }
        self.recover(place, is_unfinished);
        committed?;
        place.check_content()
    }

    fn is_in_transaction(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|connection| !connection.is_autocommit())
    }

    /// Ends the transaction without a commit, if SQLite has not ended it. A connection that cannot do so is closed.
    fn roll_back(&mut self) {
        if self.is_in_transaction()
            && let Some(connection) = &self.connection
            && connection.execute_batch("ROLLBACK").is_err()
            && self.is_in_transaction()
        {
            connection::leave(self.connection.take());
        }
    }

    /// Replaces the connection if it left an unfinished transaction in the log. No transaction may be open.
    fn recover(&mut self, place: &Place, is_unfinished: bool) {
        if is_unfinished {
            self.failed = true;
            // At once, so that the failed transaction is not found in the log after a crash. If the disk accepts no
            // change at all, the next transaction tries again first.
            let _ = self.open(place);
        }
    }

    fn open(&mut self, place: &Place) -> Result<()> {
        if self.connection.is_some() && !self.failed {
            return Ok(());
        }
        place.check()?;
        let mut connection = connection::existing(&self.file)?;
        place.check()?;
        if self.failed {
            let behavior = TransactionBehavior::Immediate;
            let transaction = rusqlite::Transaction::new(&mut connection, behavior)?;
            if schema::identify(&transaction, &self.file)? != Found::Store {
                let message = format!("the store '{}' has lost its tables", self.file.display());
                return Err(Error::new(ErrorKind::StoreCorrupt, message));
            }
            wal::cut_tail(&transaction, &self.file)?;
        }
        self.connection = Some(connection);
        self.failed = false;
        Ok(())
    }
}

/// Runs `work` in a savepoint. Also gives the error because of which its writes could not be kept or undone alone.
fn in_savepoint<T>(
    connection: &Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T>,
) -> (Outcome<T>, Result<()>) {
    if let Err(error) = connection.execute_batch("SAVEPOINT own") {
        return (Ok(Err(error.into())), Ok(()));
    }
    let transaction = Transaction::on(connection);
    // A panic must reach neither the writers that are in the transaction already, nor the next one.
    let outcome = catch_unwind(AssertUnwindSafe(|| work(&transaction)));
    if let Ok(Ok(value)) = outcome {
        return match connection.execute_batch("RELEASE own").map_err(Error::from) {
            Ok(()) => (Ok(Ok(value)), Ok(())),
            Err(error) => {
                let undone = Err(error.again());
                (Ok(Err(error)), undone)
            }
        };
    }
    let undone = connection.execute_batch("ROLLBACK TO own; RELEASE own");
    (outcome, undone.map_err(Error::from))
}

/// Whether a write that failed may have left frames in the log.
fn is_unfinished(connection: &Connection, error: &Error) -> bool {
    connection::is_of_the_disk(error)
        || connection::is_of_a_full_disk(error)
        || wal::has_spilled(connection)
}

fn not_open() -> Error {
    Error::new(
        ErrorKind::Internal,
        "the connection that writes is not open",
    )
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A store of one file.
    struct Opened {
        _directory: TempDir,
        file: PathBuf,
        place: Place,
        writer: WriteConnection,
    }

    fn opened() -> Opened {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.sqlite3");
        let mut connection = connection::writable(&file).unwrap();
        schema::create(&mut connection, &file, &[]).unwrap();
        let place = Place::of(&file, &connection, None).unwrap();
        Opened {
            _directory: directory,
            writer: WriteConnection::new(&file, connection),
            place,
            file,
        }
    }

    impl Opened {
        /// Writes `key`, and then does `then`.
        fn share<T>(
            &mut self,
            is_awaited: bool,
            key: &str,
            then: impl FnOnce(&Transaction<'_>) -> Result<T>,
        ) -> Shared<T> {
            self.writer.share(
                &self.place,
                || is_awaited,
                |transaction| {
                    let sql = "INSERT INTO meta (key, value, checksum) VALUES (?1, '', 0)";
                    transaction.execute(sql, [key])?;
                    then(transaction)
                },
            )
        }

        /// Which of "1", "2" and "3" a reader finds.
        fn found(&self) -> String {
            let sql = "SELECT COALESCE(group_concat(key, '' ORDER BY key), '') FROM meta
                       WHERE key IN ('1', '2', '3')";
            let reader = connection::readable(&self.file).unwrap();
            reader.query_row(sql, [], |row| row.get(0)).unwrap()
        }
    }

    fn refused<T>(_: &Transaction<'_>) -> Result<T> {
        Err(Error::new(ErrorKind::StoreConflict, "refused"))
    }

    fn waiting<T>(shared: Shared<T>) -> (Arc<End>, Outcome<T>) {
        match shared {
            Shared::Waits(end, outcome) => (end, outcome),
            Shared::Done(_) => panic!("it did not wait"),
        }
    }

    fn done<T>(shared: Shared<T>) -> Result<T> {
        match shared {
            Shared::Done(outcome) => outcome.unwrap_or_else(|_| panic!("it panicked")),
            Shared::Waits(..) => panic!("it waits"),
        }
    }

    #[test]
    fn nobody_is_told_before_the_commit_and_then_all_are() {
        let mut store = opened();
        let (first, own) = waiting(store.share(true, "1", |_| Ok(1)));
        assert_eq!(own.unwrap().unwrap(), 1);
        let (second, _) = waiting(store.share(true, "2", |_| Ok(2)));
        assert!(!first.is_told() && !second.is_told());
        assert_eq!(store.found(), "");
        assert_eq!(done(store.share(false, "3", |_| Ok(3))).unwrap(), 3);
        assert!(first.is_told() && second.is_told());
        assert_eq!(store.found(), "123");
        first.wait().unwrap();
        second.wait().unwrap();
        assert!(store.writer.group.is_none());
    }

    #[test]
    fn who_has_nobody_behind_him_waits_for_nobody() {
        let mut store = opened();
        done(store.share(false, "1", |_| Ok(()))).unwrap();
        assert_eq!(store.found(), "1");
    }

    #[test]
    fn what_fails_in_a_group_fails_alone_first_last_or_between() {
        let mut store = opened();
        let failed = done(store.share(true, "1", refused::<()>)).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::StoreConflict);
        assert!(store.writer.group.is_none(), "there is nothing to share");
        let (end, _) = waiting(store.share(true, "1", |_| Ok(())));
        let (_, own) = waiting(store.share(true, "2", refused::<()>));
        assert_eq!(own.unwrap().unwrap_err().kind(), ErrorKind::StoreConflict);
        let _ = waiting(store.share(true, "3", |_| Ok(())));
        assert!(done(store.share(false, "2", refused::<()>)).is_err());
        end.wait().unwrap();
        assert_eq!(store.found(), "13");
    }

    #[test]
    fn a_panic_takes_nobody_with_it() {
        let mut store = opened();
        let (end, _) = waiting(store.share(true, "1", |_| Ok(())));
        let panicked = store.share(false, "2", |_| -> Result<()> { panic!("on purpose") });
        assert!(matches!(panicked, Shared::Done(Err(_))));
        end.wait().unwrap();
        assert_eq!(store.found(), "1");
        done(store.share(false, "2", |_| Ok(()))).unwrap();
    }

    #[test]
    fn an_error_of_the_commit_is_told_to_all_and_nothing_stays() {
        let mut store = opened();
        let (first, _) = waiting(store.share(true, "1", |_| Ok(())));
        let (second, own) = waiting(store.share(true, "2", refused::<()>));
        let error = done(store.share(false, "3", |transaction| {
            // It refers to no entry, which only the commit finds out.
            transaction.pragma_update(None, "defer_foreign_keys", true)?;
            let sql = "INSERT INTO vector (entry, session, revision, embedder, data, checksum)
                       VALUES (9, 1, 1, 1, x'', 0)";
            Ok(transaction.execute(sql, [])?)
        }))
        .unwrap_err();
        assert!(own.unwrap().is_err());
        for end in [first, second] {
            let told = end.wait().unwrap_err();
            assert_eq!(told.kind(), error.kind());
            assert_eq!(told.to_string(), error.to_string());
        }
        assert_eq!(store.found(), "");
        done(store.share(false, "1", |_| Ok(()))).unwrap();
        assert_eq!(store.found(), "1");
    }

    #[test]
    fn whoever_loses_the_whole_transaction_fails_with_all_others() {
        for is_noticed in [true, false] {
            let mut store = opened();
            let (first, _) = waiting(store.share(true, "1", |_| Ok(())));
            let lost = store.share(true, "2", |transaction| {
                transaction.execute_batch("ROLLBACK")?; // as SQLite does when the disk fails
                if is_noticed {
                    refused(transaction)
                } else {
                    Ok(())
                }
            });
            assert!(done(lost).is_err());
            assert!(first.wait().is_err());
            assert_eq!(store.found(), "");
            done(store.share(false, "3", |_| Ok(()))).unwrap();
            assert_eq!(store.found(), "3");
        }
    }

    #[test]
    fn who_has_lost_his_own_transaction_leaves_none_to_others() {
        let mut store = opened();
        let lost = store.share(true, "1", |transaction| {
            Ok(transaction.execute_batch("ROLLBACK")?)
        });
        assert!(done(lost).is_err());
        done(store.share(false, "2", |_| Ok(()))).unwrap();
        assert_eq!(store.found(), "2");
    }

    #[test]
    fn a_group_takes_no_more_when_it_has_taken_long() {
        let mut store = opened();
        let (end, _) = waiting(store.share(true, "1", |_| Ok(())));
        let long = store.share(true, "2", |_| {
            thread::sleep(std::time::Duration::from_millis(10));
            Ok(())
        });
        done(long).unwrap();
        assert!(end.is_told());
        assert_eq!(store.found(), "12");
    }

    #[test]
    fn who_closes_the_connection_ends_the_group_first() {
        let mut store = opened();
        let (end, _) = waiting(store.share(true, "1", |_| Ok(())));
        store.writer.close(&store.place);
        assert!(end.is_told());
        end.wait().unwrap();
        assert_eq!(store.found(), "1");
    }

    #[test]
    fn a_file_that_was_replaced_is_told_to_all() {
        let mut store = opened();
        let (end, _) = waiting(store.share(true, "1", |_| Ok(())));
        std::fs::rename(&store.file, store.file.with_extension("old")).unwrap();
        let error = done(store.share(false, "2", |_| Ok(()))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreReplaced);
        assert_eq!(end.wait().unwrap_err().kind(), ErrorKind::StoreReplaced);
    }
}
