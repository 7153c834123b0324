//! Which stores are open in this process? Two handles on one file share one store.
//!
//! So they share its indexes and its writer, and a session is never indexed twice.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::error::Result;
use crate::memory::store::Store;

/// What a shared store is known by. A process that was forked knows none of its parent's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) file: PathBuf,
    pub(super) process: u32,
    pub(super) read_only: bool,
}

/// The place of a store that is open, or is being opened by who holds its lock.
type Slot = Arc<Mutex<Weak<Store>>>;

/// Locked for a look-up only: a fork in between would leave it locked for ever in the child.
static SLOTS: Mutex<Option<HashMap<Key, Slot>>> = Mutex::new(None);

/// The open store of that key, or else what `open` makes.
pub(super) fn share(key: &Key, open: impl FnOnce() -> Result<Store>) -> Result<Arc<Store>> {
    let slot = slot(key);
    let mut held = slot.lock();
    if let Some(store) = held.upgrade() {
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
