//! The indexes in memory, of sessions and of namespaces. When they take too much, the least recently searched leave.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::RwLock;

use crate::id::SessionId;
use crate::memory::namespace::Namespace;
use crate::memory::session_index::{Reading, Scope};

/// The approximate number of bytes that the indexes of a store may take in memory, however many handles it has.
const MAX_INDEX_BYTES: usize = 256 << 20;

/// The bytes of a scope without its indexes: its fields, its name, and the overhead of the allocator. Measured with
/// 4,000 sessions of 100 entries.
const OWN_BYTES: usize = 40 << 10;

/// The most sessions whose namespace is remembered. When there are more, all are read again as they are asked for.
const MOST_MEMBERS: usize = 4_096;

/// The eighths of the limit that are left in use after indexes had to leave. So not every search drops one.
const LEFT: usize = 7;

/// An index whose bytes are counted until its last holder drops it.
pub(super) struct Counted<T> {
    index: RwLock<T>,
    bytes: AtomicUsize,
    /// The bytes of all indexes of the store.
    total: Arc<AtomicUsize>,
}

impl<T> Counted<T> {
    /// Records the bytes that the index takes now.
    pub(super) fn measure(&self, bytes: usize) {
        let bytes = bytes + OWN_BYTES;
        self.total.fetch_add(bytes, Ordering::Relaxed);
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        self.total.fetch_sub(before, Ordering::Relaxed);
    }
}

impl<T> Deref for Counted<T> {
    type Target = RwLock<T>;

    fn deref(&self) -> &RwLock<T> {
        &self.index
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        self.total.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The index of a session.
pub(super) type HeldScope = Arc<Counted<Scope>>;

/// The index of a namespace.
pub(super) type HeldNamespace = Arc<Counted<Namespace>>;

/// An index to be dropped.
pub(super) enum Leaving {
    Session(SessionId),
    Namespace(String),
}

/// The indexes that searches have needed so far. The maps are locked for look-ups only, never while an index works.
pub(super) struct ScopeMap {
    reading: RwLock<Reading>,
    scopes: RwLock<HashMap<SessionId, HeldScope>>,
    namespaces: RwLock<HashMap<String, HeldNamespace>>,
    /// The key and the namespace of each session that a search of a namespace asked for.
    members: RwLock<HashMap<SessionId, (i64, Arc<str>)>>,
    /// The bytes of all indexes, including indexes that left the map while a search still holds them.
    total: Arc<AtomicUsize>,
    /// The limit of these bytes.
    most: AtomicUsize,
}

impl ScopeMap {
    pub(super) fn new(reading: Reading) -> Self {
        Self {
            reading: RwLock::new(reading),
            scopes: RwLock::default(),
            namespaces: RwLock::default(),
            members: RwLock::default(),
            total: Arc::default(),
            most: AtomicUsize::new(MAX_INDEX_BYTES),
        }
    }

    /// The rules by which texts are read.
    pub(super) fn reading(&self) -> Reading {
        *self.reading.read()
    }

    /// Changes the rules by which texts are read, and drops every index.
    pub(super) fn read_as(&self, reading: Reading) {
        *self.reading.write() = reading;
        self.clear();
    }

    /// Changes the limit of bytes.
    #[cfg(test)]
    pub(super) fn set_most(&self, bytes: usize) {
        self.most.store(bytes, Ordering::Relaxed);
    }

    /// The approximate bytes of the indexes.
    pub(super) fn bytes(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// The indexes that must leave, if all together take too many bytes: the least recently searched ones. The most
    /// recently searched index always stays.
    pub(super) fn leaving(&self) -> Vec<Leaving> {
        let most = self.most.load(Ordering::Relaxed);
        if self.bytes() <= most {
            return Vec::new();
        }
        let mut held = Vec::new();
        for (name, scope) in self.scopes.read().iter() {
            // A locked scope is being built or changed, so it was searched recently and is not measured yet.
            if let Some(known) = scope.try_read() {
                let bytes = scope.bytes.load(Ordering::Relaxed);
                held.push((known.used(), bytes, Leaving::Session(name.clone())));
            }
        }
        for (name, namespace) in self.namespaces.read().iter() {
            if let Some(known) = namespace.try_read() {
                let bytes = namespace.bytes.load(Ordering::Relaxed);
                held.push((known.scope.used(), bytes, Leaving::Namespace(name.clone())));
            }
        }
        held.sort_unstable_by_key(|&(used, ..)| used);
        held.pop();
        // Indexes that left the map earlier are counted in `over`, too; the searches that hold them free them.
        let mut over = self.bytes().saturating_sub(most / 8 * LEFT);
        let mut leaving = Vec::new();
        for (_, bytes, each) in held {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(bytes);
            leaving.push(each);
        }
        leaving
    }

    fn counted<T>(&self, index: T) -> Arc<Counted<T>> {
        Arc::new(Counted {
            index: RwLock::new(index),
            bytes: AtomicUsize::new(0),
            total: Arc::clone(&self.total),
        })
    }

    /// The scope of the session; None if no search needed it yet.
    pub(super) fn get(&self, session: &SessionId) -> Option<HeldScope> {
        self.scopes.read().get(session).cloned()
    }

    /// The scope of the session; an empty one if no search needed it yet.
    pub(super) fn get_or_create(&self, session: &SessionId) -> HeldScope {
        if let Some(scope) = self.get(session) {
            return scope;
        }
        let mut scopes = self.scopes.write();
        let scope = scopes
            .entry_ref(session)
            .or_insert_with(|| self.counted(Scope::new(self.reading())));
        Arc::clone(scope)
    }

    /// The sessions that have a scope.
    pub(super) fn sessions(&self) -> Vec<SessionId> {
        self.scopes.read().keys().cloned().collect()
    }

    /// The number of damaged entries in all scopes.
    pub(super) fn damaged(&self) -> usize {
        let scopes: Vec<_> = self.scopes.read().values().cloned().collect();
        scopes
            .iter()
            .map(|scope| scope.read().damaged().len())
            .sum()
    }

    /// The index of the namespace; None if no search needed it yet.
    pub(super) fn namespace(&self, name: &str) -> Option<HeldNamespace> {
        self.namespaces.read().get(name).cloned()
    }

    /// The index of the namespace; an empty one if no search needed it yet.
    pub(super) fn namespace_or_new(&self, name: &str) -> HeldNamespace {
        if let Some(namespace) = self.namespace(name) {
            return namespace;
        }
        let mut namespaces = self.namespaces.write();
        let namespace = namespaces
            .entry_ref(name)
            .or_insert_with(|| self.counted(Namespace::new(self.reading())));
        Arc::clone(namespace)
    }

    /// The key and the namespace of a session, if they are known.
    pub(super) fn namespace_of(&self, session: &SessionId) -> Option<(i64, Arc<str>)> {
        self.members.read().get(session).cloned()
    }

    /// Records the key and the namespace of a session.
    pub(super) fn remember_namespace(&self, session: &SessionId, found: &(i64, Arc<str>)) {
        let mut members = self.members.write();
        if members.len() >= MOST_MEMBERS {
            members.clear();
        }
        members.insert(session.clone(), found.clone());
    }

    /// Drops the index of a namespace.
    pub(super) fn remove_namespace(&self, name: &str) {
        self.namespaces.write().remove(name);
    }

    /// Removes a session from the index of its namespace, if there is one.
    pub(super) fn leave_namespace(&self, name: &str, session: i64) {
        if let Some(namespace) = self.namespace(name) {
            namespace.write().forget(session);
        }
    }

    /// Drops all indexes.
    pub(super) fn clear(&self) {
        self.scopes.write().clear();
        self.namespaces.write().clear();
        self.members.write().clear();
    }

    /// Drops the session's scope. A search that holds it finishes with it, if it is still current.
    pub(super) fn remove(&self, session: &SessionId) {
        self.scopes.write().remove(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespaces_of_so_many_sessions_are_remembered() {
        let map = ScopeMap::new(Reading::default());
        let found = (1, Arc::from("ann"));
        for number in 0..3 * MOST_MEMBERS {
            let session = SessionId::new(&format!("session-{number}")).unwrap();
            map.remember_namespace(&session, &found);
            assert_eq!(map.namespace_of(&session), Some(found.clone()));
            assert!(map.members.read().len() <= MOST_MEMBERS);
        }
    }
}
