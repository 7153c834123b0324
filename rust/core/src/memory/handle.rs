//! A caller's handle on a store, and the stores that are open. A handle is valid until the caller closes it or forks.

use std::fs;
use std::io::ErrorKind as Io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Instant;

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};

use crate::cache::give_back_freed;
use crate::embed::hash::HashRule;
use crate::error::{Error, ErrorKind, Result, check_memory};
use crate::fork;
use crate::memory::store::Store;
use crate::sqlite::{Keeper, files};

/// A handle on a store. The store stays open until all handles on its file are closed.
///
/// Closing the last handle empties the write-ahead log into the file.
pub struct Handle {
    path: PathBuf,
    /// The process that opened it. A forked child must neither use nor close the connections of its parent.
    process: u32,
    hash_rule: HashRule,
    read_only: bool,
    store: RwLock<Option<Arc<Store>>>,
}

impl Handle {
    /// Opens the store in the directory `path`, or makes a new one.
    ///
    /// A store that cannot be written is opened for reading only. `hash_rule` is the rule of a new store; None takes
    /// the stored rule, or the default for a new store. New files get the permissions `mode`, as for `chmod`, whatever
    /// the umask of the process is. With None, only the owner can read and write them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreOpen`], [`ErrorKind::StoreVersion`], or [`ErrorKind::InvalidArgument`] where the
    /// store was made with another rule; [`ErrorKind::StoreForked`] in a forked process whose parent had a store at
    /// work for too long when it forked.
    pub fn open(
        path: &Path,
        read_only: bool,
        hash_rule: Option<HashRule>,
        mode: Option<u32>,
    ) -> Result<Self> {
        if fork::is_unclean() {
            let message = format!(
                "cannot open the store '{}' in this process: its parent's stores had been at work for more than \
                 {:?} when it forked, and left locks behind; begin such a process anew (multiprocessing: 'spawn')",
                path.display(),
                fork::PATIENCE
            );
            return Err(Error::new(ErrorKind::StoreForked, message)
                .with("path", path.to_string_lossy().into_owned()));
        }
        let key = Key {
            file: file_of_store(path, read_only, mode)?,
            process: std::process::id(),
            read_only,
        };
        let store = share(&key, || Store::open(&key.file, read_only, hash_rule, mode))?;
        store.accepts(hash_rule)?;
        store.follow_languages()?;
        Ok(Self::of(path.to_owned(), store))
    }

    /// A store in memory. It ends with this handle, and has no file and no caches. Otherwise it is like any other
    /// store.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreIo`] where memory is exhausted.
    pub fn open_memory(hash_rule: Option<HashRule>) -> Result<Self> {
        let store = Arc::new(Store::in_memory(hash_rule)?);
        Ok(Self::of(PathBuf::from(":memory:"), store))
    }

    /// A store in memory that mirrors rows of `keeper`. Each write is passed to the keeper before it is committed here.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreIo`] where memory is exhausted.
    pub fn open_mirror(hash_rule: HashRule, keeper: Box<dyn Keeper>) -> Result<Self> {
        let store = Arc::new(Store::mirror(hash_rule, keeper)?);
        Ok(Self::of(PathBuf::from(":mirror:"), store))
    }

    fn of(path: PathBuf, store: Arc<Store>) -> Self {
        Self {
            path,
            process: std::process::id(),
            hash_rule: store.hash_rule(),
            read_only: store.is_read_only(),
            store: RwLock::new(Some(store)),
        }
    }

    /// The store.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreClosed`] after [`close`](Self::close), and [`ErrorKind::StoreForked`] in a process that
    /// was forked after the store was opened; [`ErrorKind::OutOfMemory`] near a limit of memory.
    pub fn store(&self) -> Result<Arc<Store>> {
        let process = std::process::id();
        if process != self.process {
            let message = format!(
                "the store '{}' was opened in process {} and is of no use in its fork {process}: open it again",
                self.path.display(),
                self.process
            );
            return Err(Error::new(ErrorKind::StoreForked, message)
                .with("path", self.path.to_string_lossy().into_owned()));
        }
        check_memory(0)?;
        self.store.read().clone().ok_or_else(|| {
            let message = format!("the store '{}' is closed", self.path.display());
            Error::new(ErrorKind::StoreClosed, message)
        })
    }

    /// Releases the store. A second call does nothing.
    pub fn close(&self) {
        if std::process::id() == self.process {
            let store = self.store.write().take();
            // Outside the lock, because closing the file takes time.
            if store.is_some_and(|store| Arc::into_inner(store).is_some()) {
                give_back_freed();
            }
        }
    }

    /// The directory with which it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The rule of the hashed embedding.
    #[must_use]
    pub fn hash_rule(&self) -> HashRule {
        self.hash_rule
    }

    /// Whether the store is open for reading only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            // The connections belong to the parent. Closing them here could empty a log that the parent is writing.
            std::mem::forget(self.store.get_mut().take());
        }
    }
}

// The stores that are open in this process. Handles on the same file share one store.
//
// So they share its indexes and its writer, and each session is indexed once. A store whose file was replaced is
// no longer shared: a new handle opens the new file.

/// The key of a shared store. It contains the process, so a forked child shares no store with its parent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) file: PathBuf,
    pub(super) process: u32,
    pub(super) read_only: bool,
}

/// The slot of a store. Its lock is held while the store is opened.
type Slot = Arc<Mutex<Weak<Store>>>;

/// Locked for look-ups, and while a fork is prepared.
static SLOTS: Mutex<Option<HashMap<Key, Slot>>> = Mutex::new(None);

/// The open store of that key, or a new one from `open`.
pub(super) fn share(key: &Key, open: impl FnOnce() -> Result<Store>) -> Result<Arc<Store>> {
    let slot = slot(key);
    let mut held = slot.lock();
    if let Some(store) = held.upgrade()
        && store.is_current()
    {
        return Ok(store);
    }
    let store = Arc::new(open()?);
    *held = Arc::downgrade(&store);
    Ok(store)
}

fn slot(key: &Key) -> Slot {
    let mut slots = SLOTS.lock();
    let slots = slots.get_or_insert_default();
    // A slot that only the map refers to can be removed, once its store is closed.
    slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.lock().strong_count() > 0);
    Arc::clone(slots.entry_ref(key).or_default())
}

/// Prepares a fork: waits until no work is running and closes all connections to files, for a second at most.
/// The stores open them again when they are next used.
pub fn before_fork() {
    fork::before(close_connections);
}

/// Ends the preparation in the process that forked.
pub fn after_fork_in_parent() {
    fork::after_in_parent();
}

/// Ends the preparation in the child, which must call this first. Handles of the parent cannot be used there.
pub fn after_fork_in_child() {
    fork::after_in_child();
}

/// Closes all connections to files. False if some are still open at `deadline`.
fn close_connections(deadline: Instant) -> bool {
    let Some(slots) = SLOTS.try_lock_until(deadline) else {
        return false;
    };
    let process = std::process::id();
    let own = slots
        .iter()
        .flatten()
        .filter(|(key, _)| key.process == process);
    own.fold(true, |all, (_, slot)| {
        let closed = match slot.try_lock_until(deadline) {
            Some(held) => held.upgrade().is_none_or(|store| store.suspend(deadline)),
            None => false,
        };
        closed && all
    })
}

// Finds the file of a store, and checks that a store can be there.

/// The canonical path of the file of the store at `path`: `path/memory/memory.sqlite3`.
///
/// Unless the store is read-only, missing directories are made durably, with permissions from `mode`; by default only
/// the owner can enter them. Existing directories stay as they are.
pub(super) fn file_of_store(path: &Path, read_only: bool, mode: Option<u32>) -> Result<PathBuf> {
    let directory = path.join("memory");
    if !read_only {
        make_store(&directory, mode)
            .map_err(|error| unopened(path, &error.to_string()).caused_by(error))?;
    }
    let directory = match directory.canonicalize() {
        Ok(directory) if directory.is_dir() => directory,
        Ok(_) => return Err(unopened(path, "'memory' in it is not a directory")),
        Err(error) if error.kind() == Io::NotFound => {
            return Err(unopened(path, "there is no store to read").caused_by(error));
        }
        Err(error) => return Err(unopened(path, &error.to_string()).caused_by(error)),
    };
    let file = directory.join("memory.sqlite3");
    // Links are followed, so that a store has one name, whatever path leads to it.
    Ok(file.canonicalize().unwrap_or(file))
}

/// Makes `directory` and its missing parents. A new name is durable once its parent directory is synced.
fn make_store(directory: &Path, mode: Option<u32>) -> std::io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let parent = directory
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or_else(|| Path::new("."));
    make_store(parent, mode)?;
    match files::make_directory(directory, mode) {
        Err(error) if error.kind() == Io::AlreadyExists && directory.is_dir() => Ok(()),
        outcome => outcome,
    }?;
    if cfg!(unix) {
        fs::File::open(parent)?.sync_all()?;
    }
    Ok(())
}

fn unopened(path: &Path, why: &str) -> Error {
    Error::new(
        ErrorKind::StoreOpen,
        format!("cannot open a store at '{}': {why}", path.display()),
    )
    .with("path", path.to_string_lossy().into_owned())
}
