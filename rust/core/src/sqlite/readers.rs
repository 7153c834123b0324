//! A pool of connections that read a file. Each reader has its own, so a long read does not delay the others.

use std::path::{Path, PathBuf};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use crate::error::{Error, Result};
use crate::sqlite::connection;
use crate::sqlite::transaction::Seen;

/// The number of idle connections that stay open. Each keeps its pages and statements for the next reader.
const IDLE: usize = 4;

/// The number of connections in use at the same time. A further reader waits for a free one.
const MOST: usize = 32;

/// A function that opens a connection.
pub(super) type Open = fn(&Path) -> rusqlite::Result<Connection>;

/// The connections that read one file.
pub(super) struct Readers {
    file: PathBuf,
    open: Open,
    pool: Mutex<Pool>,
    /// Notified when a connection is given back.
    given_back: Condvar,
}

/// A connection, and what it has read.
pub(super) struct Reader {
    pub(super) connection: Connection,
    pub(super) seen: Seen,
}

impl Reader {
    fn of(connection: Connection) -> Self {
        Self {
            connection,
            seen: Seen::default(),
        }
    }
}

struct Pool {
    /// The most recently used connection is the last.
    idle: Vec<Reader>,
    busy: usize,
    /// Raised when all connections are to be closed. A busy connection of an earlier generation closes when it is given
    /// back.
    generation: u64,
}

/// A connection in use.
struct Lease<'readers> {
    readers: &'readers Readers,
    reader: Option<Reader>,
    generation: u64,
}

impl Readers {
    /// The pool for `file`, with the open connection `first`.
    pub(super) fn new(file: &Path, open: Open, first: Connection) -> Self {
        Self {
            file: file.to_owned(),
            open,
            pool: Mutex::new(Pool {
                idle: vec![Reader::of(first)],
                busy: 0,
                generation: 0,
            }),
            given_back: Condvar::new(),
        }
    }

    /// Runs `work` on a connection of its own. `refused` turns a failure to open one into an error.
    pub(super) fn with<T>(
        &self,
        refused: impl FnOnce(rusqlite::Error) -> Error,
        work: impl FnOnce(&mut Reader) -> Result<T>,
    ) -> Result<T> {
        let mut lease = self.lease();
        let reader = match &mut lease.reader {
            Some(reader) => reader,
            none => none.insert(Reader::of((self.open)(&self.file).map_err(refused)?)),
        };
        work(reader)
    }

    /// Closes idle connections, and waits until `deadline` for the busy ones, which close when they are given back.
    /// True if all are closed by then. A connection that is busy for longer closes later.
    pub(super) fn close(&self, deadline: Instant) -> bool {
        let Some(mut pool) = self.pool.try_lock_until(deadline) else {
            return false;
        };
        pool.generation += 1;
        for reader in pool.idle.drain(..) {
            connection::leave(Some(reader.connection));
        }
        while pool.busy > 0 {
            if self.given_back.wait_until(&mut pool, deadline).timed_out() {
                return pool.busy == 0;
            }
        }
        true
    }

    fn lease(&self) -> Lease<'_> {
        let mut pool = self.pool.lock();
        while pool.busy >= MOST {
            self.given_back.wait(&mut pool);
        }
        pool.busy += 1;
        Lease {
            readers: self,
            reader: pool.idle.pop(),
            generation: pool.generation,
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let surplus = {
            let mut pool = self.readers.pool.lock();
            if pool.generation == self.generation && pool.idle.len() < IDLE {
                pool.idle.extend(self.reader.take());
            }
            // `close` waits for this connection, so it is closed before it counts as given back.
            if pool.generation != self.generation {
                connection::leave(self.reader.take().map(|reader| reader.connection));
            }
            pool.busy -= 1;
            self.reader.take()
        };
        self.readers.given_back.notify_all();
        connection::leave(surplus.map(|reader| reader.connection));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::error::ErrorKind;

    fn readers(directory: &Path) -> Readers {
        let file = directory.join("a.sqlite3");
        let writer = connection::writable(&file).unwrap();
        writer
            .execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (7)")
            .unwrap();
        let first = connection::readable(&file).unwrap();
        Readers::new(&file, connection::readable, first)
    }

    fn refused(error: rusqlite::Error) -> Error {
        Error::new(ErrorKind::StoreOpen, "refused").caused_by(error)
    }

    fn read(readers: &Readers) -> i64 {
        let value = readers.with(refused, |reader| {
            Ok(reader
                .connection
                .query_row("SELECT x FROM t", [], |row| row.get(0))?)
        });
        value.unwrap()
    }

    #[test]
    fn somebody_who_reads_long_keeps_nobody_waiting_and_few_stay_open() {
        let directory = tempfile::tempdir().unwrap();
        let readers = readers(directory.path());
        let (begun, is_begun) = mpsc::channel();
        thread::scope(|scope| {
            let mut ends = Vec::new();
            for _ in 0..IDLE + 2 {
                let (end, is_ended) = mpsc::channel::<()>();
                ends.push(end);
                let (readers, begun) = (&readers, begun.clone());
                scope.spawn(move || {
                    readers.with(refused, |_| {
                        begun.send(()).unwrap();
                        is_ended.recv().unwrap();
                        Ok(())
                    })
                });
            }
            for _ in &ends {
                is_begun.recv().unwrap();
            }
            assert_eq!(read(&readers), 7);
            assert_eq!(readers.pool.lock().busy, IDLE + 2);
            for end in ends {
                end.send(()).unwrap();
            }
        });
        let pool = readers.pool.lock();
        assert_eq!((pool.busy, pool.idle.len()), (0, IDLE));
    }

    #[test]
    fn what_is_at_work_is_waited_for_until_a_deadline_and_closed_when_it_is_given_back() {
        let directory = tempfile::tempdir().unwrap();
        let readers = readers(directory.path());
        let soon = || Instant::now() + Duration::from_millis(20);
        readers
            .with(refused, |_| {
                assert!(!readers.close(soon()));
                Ok(())
            })
            .unwrap();
        assert!(readers.pool.lock().idle.is_empty());
        assert_eq!(read(&readers), 7); // one is opened again
        assert_eq!(readers.pool.lock().idle.len(), 1);
        assert!(readers.close(soon()));
        assert!(readers.pool.lock().idle.is_empty());
    }

    #[test]
    fn work_that_panics_gives_its_connection_back() {
        let directory = tempfile::tempdir().unwrap();
        let readers = readers(directory.path());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _: Result<()> = readers.with(refused, |_| panic!("as a test may"));
        }));
        assert!(panicked.is_err());
        assert_eq!(readers.pool.lock().busy, 0);
        assert_eq!(read(&readers), 7);
    }
}
