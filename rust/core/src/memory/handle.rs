//! A caller's handle on a store. It is valid until the caller closes it or forks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::embed::hash::HashRule;
use crate::error::{Error, ErrorKind, Result};
use crate::fork;
use crate::memory::registry::{Key, share};
use crate::memory::store::Store;
use crate::memory::store_path;
use crate::sqlite::Keeper;

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
            file: store_path::file(path, read_only, mode)?,
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
    /// was forked after the store was opened.
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
        self.store.read().clone().ok_or_else(|| {
            let message = format!("the store '{}' is closed", self.path.display());
            Error::new(ErrorKind::StoreClosed, message)
        })
    }

    /// Releases the store. A second call does nothing.
    pub fn close(&self) {
        if std::process::id() == self.process {
            let store = self.store.write().take();
            drop(store); // outside the lock, because closing the file takes time
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
