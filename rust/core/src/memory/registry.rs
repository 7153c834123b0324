//! The stores that are open in this process. Two handles on one file share one store.
//!
//! So they share its indexes and its writer, and a session is never indexed twice. A store whose file was replaced is
//! shared no more: who opens its path has the file that is there now.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Instant;

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::error::Result;
use crate::fork;
use crate::memory::store::Store;

/// The key of a shared store. A process that was forked has none of its parent's stores.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) file: PathBuf,
    pub(super) process: u32,
    pub(super) read_only: bool,
}

/// The place of a store that is open, or is being opened by who holds its lock.
type Slot = Arc<Mutex<Weak<Store>>>;

/// Locked for a look-up only, and by who is about to fork.
static SLOTS: Mutex<Option<HashMap<Key, Slot>>> = Mutex::new(None);

/// The open store of that key, or else what `open` makes.
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
    // A slot that only the map holds is in nobody's hands: it may go if its store is closed.
    slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.lock().strong_count() > 0);
    Arc::clone(slots.entry_ref(key).or_default())
}

/// For who is about to fork: nobody is at work from now on, and every connection to a file is closed, unless work
/// takes longer than [`fork::PATIENCE`]. The stores open them again when they are next used.
pub fn before_fork() {
    fork::before(close_connections);
}

/// After a fork, in the process that forked.
pub fn after_fork_in_parent() {
    fork::after_in_parent();
}

/// After a fork, in the child, before anything else. Handles of the parent are of no use there.
pub fn after_fork_in_child() {
    fork::after_in_child();
}

/// Whether every connection to a file is closed by then.
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
