//! The stores that are open in this process. Handles on the same file share one store.
//!
//! So they share its indexes and its writer, and each session is indexed once. A store whose file was replaced is
//! no longer shared: a new handle opens the new file.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Instant;

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::error::Result;
use crate::fork;
use crate::memory::store::Store;

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

/// Prepares a fork: waits until no work is running and closes all connections to files, for [`fork::PATIENCE`] at most.
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
