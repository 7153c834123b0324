//! An open database. A database file has one connection that writes and several that read. A database in memory has one
//! connection for both.

use std::path::{Path, PathBuf};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, TransactionBehavior};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::file_identity::{self, Content, Place};
use crate::sqlite::files::Exclusive;
use crate::sqlite::group_commit::WriteLock;
use crate::sqlite::mirror::{self, Keeper};
use crate::sqlite::probe::{
    Probe, cut_log, has_log, is_unwritable, probe, refused, sync_log, unopened,
};
use crate::sqlite::readers::{self, Reader, Readers};
use crate::sqlite::schema::{self, Found};
use crate::sqlite::transaction::{Begun, Transaction};
use crate::sqlite::wal::Moment;
use crate::sqlite::writer::WriteConnection;
use crate::sqlite::{connection, files, meta, repair};
use crate::whole_file::beside;

/// The name of a database in memory.
const MEMORY: &str = ":memory:";

/// The suffixes of the two files beside the database: the write-ahead log, and the memory that processes share.
pub(super) const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// The database of a store.
///
/// The write lock comes first in the order of locks: take it before any lock of the structures in memory.
pub(crate) struct Database {
    file: PathBuf,
    connections: Connections,
    /// The end of the log when the last erasure was done, if nobody else wrote meanwhile.
    pub(super) erased: Mutex<Option<Moment>>,
}

enum Connections {
    File {
        place: Box<Place>,
        /// They close before the writer, because the last connection to close moves the write-ahead log into the file,
        /// and only a connection that writes can do this.
        readers: Readers,
        writer: Option<Box<WriteLock>>,
    },
    Memory {
        /// A writer holds this. It locks the connection for one transaction at a time, so that it can wait
        /// for a search, which reads through the same connection.
        turn: Mutex<()>,
        connection: Mutex<Connection>,
        /// The keeper of the rows of a mirror; None for a database that is no mirror.
        keeper: Option<Box<dyn Keeper>>,
    },
}

/// The right to write, held for as long as this lives.
pub(crate) struct Writer<'database> {
    database: &'database Database,
    held: Held<'database>,
}

enum Held<'database> {
    File(MutexGuard<'database, WriteConnection>, &'database Place),
    Memory {
        connection: &'database Mutex<Connection>,
        keeper: Option<&'database dyn Keeper>,
        _turn: MutexGuard<'database, ()>,
    },
}

impl Database {
    /// Opens the file, or makes a new store with the settings `birth` and the permissions `mode`.
    ///
    /// A file is opened for reading only, if it cannot be written or has several names (hard links).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreOpen`] and [`ErrorKind::StoreVersion`] name the file, which stays as it was.
    pub(crate) fn open(
        file: &Path,
        read_only: bool,
        mode: Option<u32>,
        birth: &[(&str, &str)],
    ) -> Result<Self> {
        let Probe {
            found,
            content,
            is_unfinished,
        } = probe(file)?;
        if read_only && found == Some(Found::Nothing) {
            return Err(unopened(file, "there is no store to read"));
        }
        if read_only {
            return Self::open_for_reading(file, content);
        }
        // Each name of a file would have a write-ahead log of its own.
        let is_alone = file
            .metadata()
            .map_or(true, |metadata| file_identity::names(&metadata) <= 1);
        if !is_alone {
            return Self::open_for_reading(file, content);
        }
        if found == Some(Found::Nothing) {
            files::make_file(file, mode);
        }
        match connection::writable(file) {
            Ok(writer) => Self::open_for_writing(file, writer, content, is_unfinished, birth),
            Err(error) if found != Some(Found::Nothing) && is_unwritable(&error) => {
                Self::open_for_reading(file, content)
            }
            Err(error) => Err(refused(file, error)),
        }
    }

    /// A new database in memory with the settings `birth`. It ends with its only connection.
    pub(crate) fn in_memory(birth: &[(&str, &str)]) -> Result<Self> {
        let file = Path::new(MEMORY);
        let mut connection = connection::in_memory()?;
        schema::create(&mut connection, file, birth)?;
        Ok(Self {
            file: file.to_owned(),
            erased: Mutex::default(),
            connections: Connections::Memory {
                turn: Mutex::new(()),
                connection: Mutex::new(connection),
                keeper: None,
            },
        })
    }

    /// A database in memory that mirrors rows. `keeper` keeps the rows themselves.
    pub(crate) fn mirror(birth: &[(&str, &str)], keeper: Box<dyn Keeper>) -> Result<Self> {
        let mut database = Self::in_memory(birth)?;
        if let Connections::Memory {
            connection,
            keeper: own,
            ..
        } = &mut database.connections
        {
            let connection = connection.get_mut();
            mirror::begin(connection)?;
            *own = Some(keeper);
        }
        Ok(database)
    }

    fn open_for_writing(
        file: &Path,
        mut writer: Connection,
        content: Option<Content>,
        is_unfinished: bool,
        birth: &[(&str, &str)],
    ) -> Result<Self> {
        let found = schema::identify(&writer, file)?;
        if is_unfinished {
            cut_log(file, &mut writer)?;
        }
        match found {
            Found::Store => sync_log(file, &mut writer)?,
            Found::Nothing => schema::create(&mut writer, file, birth)?,
        }
        let reader = connection::readable(file).map_err(|error| refused(file, error))?;
        let place = Place::of(file, &reader, content)?;
        place.check_lineage(&writer)?;
        Ok(Self {
            file: file.to_owned(),
            erased: Mutex::default(),
            connections: Connections::File {
                place: Box::new(place),
                readers: Readers::new(file, connection::readable, reader),
                writer: Some(Box::new(WriteLock::new(WriteConnection::new(file, writer)))),
            },
        })
    }

    fn open_for_reading(file: &Path, content: Option<Content>) -> Result<Self> {
        let mut open_reader: readers::Open = connection::readable;
        let reader = match connection::readable(file) {
            Ok(reader) => reader,
            // SQLite cannot read a cleanly closed store where it may create no file beside it. A file without a log is
            // complete, so it can be read as immutable.
            Err(error) if is_unwritable(&error) && !has_log(file) => {
                open_reader = connection::immutable;
                connection::immutable(file).map_err(|error| refused(file, error))?
            }
            Err(error) => return Err(refused(file, error)),
        };
        if schema::identify(&reader, file)? == Found::Nothing {
            return Err(unopened(file, "there is no store to read"));
        }
        let place = Place::of(file, &reader, content)?;
        Ok(Self {
            file: file.to_owned(),
            erased: Mutex::default(),
            connections: Connections::File {
                place: Box::new(place),
                readers: Readers::new(file, open_reader, reader),
                writer: None,
            },
        })
    }

    /// The path of the file.
    #[must_use]
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Whether the database is in memory, without a file.
    #[must_use]
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self.connections, Connections::Memory { .. })
    }

    /// Whether the database is open for reading only.
    #[must_use]
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.connections, Connections::File { writer: None, .. })
    }

    /// Bytes of the file and of its write-ahead log; 0 in memory.
    #[must_use]
    pub(crate) fn disk_bytes(&self) -> u64 {
        if self.is_in_memory() {
            return 0;
        }
        [self.file.clone(), beside(&self.file, "-wal")]
            .iter()
            .map(|file| file.metadata().map_or(0, |metadata| metadata.len()))
            .sum()
    }

    /// The value of the setting `key`.
    pub(crate) fn meta(&self, key: &'static str) -> Result<String> {
        self.read(|transaction| meta::get(transaction, key))
    }

    /// Runs `work` in a read transaction: all its reads see one state of the database.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        match &self.connections {
            Connections::Memory { connection, .. } => in_read(&mut connection.lock(), work),
            Connections::File { place, readers, .. } => {
                self.with(place, readers, |reader| reading(reader, work))
            }
        }
    }

    /// Runs `work`, which must be a single statement. One statement sees one state, so it needs no transaction.
    pub(crate) fn read_once<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.with_reader(|connection| work(connection))
    }

    pub(super) fn with_reader<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        match &self.connections {
            Connections::Memory { connection, .. } => work(&mut connection.lock()),
            Connections::File { place, readers, .. } => {
                self.with(place, readers, |reader| work(&mut reader.connection))
            }
        }
    }

    /// Runs `work` on a connection that reads the file, which must still be the one at `place`.
    fn with<T>(
        &self,
        place: &Place,
        readers: &Readers,
        work: impl FnOnce(&mut Reader) -> Result<T>,
    ) -> Result<T> {
        self.check(place)?;
        readers.with(|error| refused(&self.file, error), work)
    }

    /// Checks that the file is still the one at `place`. If not, the connections close.
    fn check(&self, place: &Place) -> Result<()> {
        place.check().inspect_err(|_| self.abandon(None))
    }

    /// Waits for the right to write.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ReadOnlyStore`]
    pub(crate) fn writer(&self) -> Result<Writer<'_>> {
        let held = match &self.connections {
            Connections::Memory {
                turn,
                connection,
                keeper,
            } => Held::Memory {
                connection,
                keeper: keeper.as_deref(),
                _turn: turn.lock(),
            },
            Connections::File {
                place,
                writer: Some(writer),
                ..
            } => Held::File(writer.alone(place), place),
            Connections::File { writer: None, .. } => {
                let why = if self
                    .file
                    .metadata()
                    .is_ok_and(|file| file_identity::names(&file) > 1)
                {
                    ": its file has more than one name (hard links), and writes under one would be missing \
                     under the others; copy it with store.backup instead"
                } else {
                    ""
                };
                let message = format!(
                    "the store '{}' is open for reading only{why}",
                    self.file.display()
                );
                return Err(Error::new(ErrorKind::ReadOnlyStore, message)
                    .with("path", self.file.to_string_lossy().into_owned()));
            }
        };
        Ok(Writer {
            database: self,
            held,
        })
    }

    /// The lock of the connection that writes a file, and the file's place; None in memory, or if it is read only.
    pub(super) fn write_lock(&self) -> Option<(&WriteLock, &Place)> {
        match &self.connections {
            Connections::File { place, writer, .. } => {
                writer.as_ref().map(|lock| (&**lock, &**place))
            }
            Connections::Memory { .. } => None,
        }
    }

    /// The file's place on the disk; None for a database in memory.
    pub(super) fn place(&self) -> Option<&Place> {
        match &self.connections {
            Connections::File { place, .. } => Some(place),
            Connections::Memory { .. } => None,
        }
    }

    /// Whether the file at the path is still the one that was opened. If not, the connections close.
    pub(crate) fn is_current(&self) -> bool {
        let Connections::File { place, .. } = &self.connections else {
            return true;
        };
        let is_current = place.check_content().is_ok();
        if !is_current {
            self.abandon(None);
        }
        is_current
    }

    /// Closes the connections until they are needed again, and leaves the log as it is. True if all of them were idle
    /// and closed by `deadline`.
    pub(crate) fn suspend(&self, deadline: Instant) -> bool {
        self.close(None, deadline)
    }

    /// Closes the connections. `held` is the connection that writes, where the caller holds its lock.
    fn close(&self, held: Option<&mut WriteConnection>, deadline: Instant) -> bool {
        let Connections::File {
            place,
            readers,
            writer,
        } = &self.connections
        else {
            return true;
        };
        let is_closed = readers.close(deadline);
        place.let_go_of_log();
        match (held, writer) {
            (Some(held), _) => held.close(place),
            (None, None) => {}
            (None, Some(writer)) => match writer.alone_until(place, deadline) {
                Some(mut writer) => writer.close(place),
                None => return false,
            },
        }
        is_closed
    }

    /// Closes the connections to a file that was replaced. The log of the old file is renamed, so that the last writes
    /// of this process do not get into the new file.
    pub(super) fn abandon(&self, held: Option<&mut WriteConnection>) {
        let Connections::File { place, .. } = &self.connections else {
            return;
        };
        let is_ours = place.is_replaced() && place.has_own_log();
        if self.close(held, Instant::now()) && is_ours {
            for suffix in BESIDE {
                // A missing file, or one that cannot be renamed, stays as it is.
                let aside = beside(&self.file, &format!("{suffix}-replaced"));
                let _ = std::fs::rename(beside(&self.file, suffix), aside);
            }
        }
    }
}

impl<'database> Writer<'database> {
    /// The right to write the file of `database`, whose connection is `held`.
    pub(super) fn of_file(
        database: &'database Database,
        held: MutexGuard<'database, WriteConnection>,
        place: &'database Place,
    ) -> Self {
        let held = Held::File(held, place);
        Self { database, held }
    }

    /// Runs `work` in one transaction. When this returns, all its writes are on the disk, or none.
    ///
    /// The transaction takes the lock at its beginning (`IMMEDIATE`). A transaction that reads first and then writes
    /// would fail at once if another process wrote in between.
    pub(crate) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        match &mut self.held {
            Held::Memory {
                connection, keeper, ..
            } => in_memory(&mut connection.lock(), *keeper, work),
            Held::File(writer, place) => {
                let outcome = writer.transaction(place, work);
                if place.is_replaced() {
                    self.database.abandon(Some(writer));
                }
                outcome
            }
        }
    }

    /// Gives the right to write to the thread that has waited longest.
    pub(super) fn pass_on(self) {
        match self.held {
            Held::File(writer, _) => MutexGuard::unlock_fair(writer),
            Held::Memory { _turn: turn, .. } => MutexGuard::unlock_fair(turn),
        }
    }

    /// Runs `work` on the connection, outside a transaction.
    pub(super) fn run<T>(&mut self, work: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        match &mut self.held {
            Held::Memory { connection, .. } => work(&mut connection.lock()),
            Held::File(writer, place) => writer.run(place, work),
        }
    }
}

/// Runs `work` in a read transaction of `connection`, which also writes.
fn in_read<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T>,
) -> Result<T> {
    let begun = Begun::on(connection)?;
    work(&Transaction::on(&begun))
}

/// Runs `work` in a read transaction of `reader`.
fn reading<T>(reader: &mut Reader, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
    let begun = Begun::on(&mut reader.connection)?;
    work(&Transaction::reading(&begun, &reader.seen))
}

/// Runs `work` in one transaction of the database in memory behind `connection`.
fn in_memory<T>(
    connection: &mut Connection,
    keeper: Option<&dyn Keeper>,
    work: impl FnOnce(&Transaction<'_>) -> Result<T>,
) -> Result<T> {
    let begun = rusqlite::Transaction::new(connection, TransactionBehavior::Immediate)?;
    let transaction = Transaction::on(&begun);
    let value = work(&transaction)?;
    if let Some(keeper) = keeper {
        mirror::hand_over(&transaction, keeper)?;
    }
    begun.commit()?;
    Ok(value)
}

impl Database {
    /// Keeps other processes from long work of this kind while the returned lock lives; see `files.rs`.
    pub(crate) fn exclusive(&self, work: &'static str) -> Result<Exclusive> {
        if self.is_in_memory() {
            return Ok(Exclusive::unneeded());
        }
        Exclusive::wait(&self.file, work)
    }

    /// Rebuilds indexes and counts from the other rows, and sets aside rows with wrong checksums.
    pub(crate) fn repair(&self, now: i64) -> Result<()> {
        self.writer()?.transaction(|transaction| {
            repair::repair(transaction, now)?;
            let place = self.place();
            place.map_or(Ok(()), |place| place.take_over(transaction))
        })
    }
}
