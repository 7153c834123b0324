//! Which sessions are indexed in memory, and which namespaces? And which of them have to go, so that others fit?

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::RwLock;

use crate::embed::hash::HashRule;
use crate::id::SessionId;
use crate::memory::namespace::Namespace;
use crate::memory::scope::Scope;

/// Bytes that the indexes of a store may take in memory, about, whoever opened it how often.
pub const MAX_INDEX_BYTES: usize = 256 << 20;

/// Bytes of a scope beside its indexes: its own fields, its name, and what the allocator adds to the pieces of a
/// small one. So much is what 4,000 sessions of 100 entries took beside what their indexes say.
const OWN_BYTES: usize = 40 << 10;

/// What is left, of eighths, once something has to go: so not every search looks for what goes.
const LEFT: usize = 7;

/// An index that is counted, from when it was measured until nobody has it any more.
pub(super) struct Counted<T> {
    index: RwLock<T>,
    bytes: AtomicUsize,
    /// Those of all indexes of the store.
    total: Arc<AtomicUsize>,
}

impl<T> Counted<T> {
    /// Notes what it takes now.
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

/// An index that may go.
pub(super) enum Leaving {
    Session(SessionId),
    Namespace(String),
}

/// The scopes that were needed so far. The map is locked for a look-up only, never while a scope works.
pub(super) struct ScopeMap {
    hash_rule: HashRule,
    scopes: RwLock<HashMap<SessionId, HeldScope>>,
    namespaces: RwLock<HashMap<String, HeldNamespace>>,
    /// The keys of sessions, and their namespaces, as far as they were searched.
    members: RwLock<HashMap<SessionId, (i64, Arc<str>)>>,
    /// Bytes of all indexes, those included that a search still has and the map has not.
    total: Arc<AtomicUsize>,
    /// Bytes that they may take.
    most: AtomicUsize,
}

impl ScopeMap {
    pub(super) fn new(hash_rule: HashRule) -> Self {
        Self {
            hash_rule,
            scopes: RwLock::default(),
            namespaces: RwLock::default(),
            members: RwLock::default(),
            total: Arc::default(),
            most: AtomicUsize::new(MAX_INDEX_BYTES),
        }
    }

    /// Lets indexes take that many bytes, about.
    #[cfg(test)]
    pub(super) fn set_most(&self, bytes: usize) {
        self.most.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that the indexes take, about.
    pub(super) fn bytes(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// What has to go, where the indexes take more than they may: those that were not searched for longest, but for
    /// the one that was searched last.
    pub(super) fn leaving(&self) -> Vec<Leaving> {
        let most = self.most.load(Ordering::Relaxed);
        if self.bytes() <= most {
            return Vec::new();
        }
        let mut held = Vec::new();
        for (name, scope) in self.scopes.read().iter() {
            // One that is being made has not been measured yet, and is not the one that was used least.
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
        // What is not in the map any more goes by itself.
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

    /// The scope of the session, if it was needed before.
    pub(super) fn get(&self, session: &SessionId) -> Option<HeldScope> {
        self.scopes.read().get(session).cloned()
    }

    /// The scope of the session; an empty one if it was not needed before.
    pub(super) fn get_or_create(&self, session: &SessionId) -> HeldScope {
        if let Some(scope) = self.get(session) {
            return scope;
        }
        let mut scopes = self.scopes.write();
        let scope = scopes
            .entry_ref(session)
            .or_insert_with(|| self.counted(Scope::new(self.hash_rule)));
        Arc::clone(scope)
    }

    /// The sessions that have one.
    pub(super) fn sessions(&self) -> Vec<SessionId> {
        self.scopes.read().keys().cloned().collect()
    }

    /// How many damaged entries all scopes together leave out.
    pub(super) fn damaged(&self) -> usize {
        let scopes: Vec<_> = self.scopes.read().values().cloned().collect();
        scopes
            .iter()
            .map(|scope| scope.read().damaged().len())
            .sum()
    }

    /// The index of the namespace, if it was needed before.
    pub(super) fn namespace(&self, name: &str) -> Option<HeldNamespace> {
        self.namespaces.read().get(name).cloned()
    }

    /// The index of the namespace; an empty one if it was not needed before.
    pub(super) fn namespace_or_new(&self, name: &str) -> HeldNamespace {
        if let Some(namespace) = self.namespace(name) {
            return namespace;
        }
        let mut namespaces = self.namespaces.write();
        let namespace = namespaces
            .entry_ref(name)
            .or_insert_with(|| self.counted(Namespace::new(self.hash_rule)));
        Arc::clone(namespace)
    }

    /// The key of a session and its namespace, if it was asked for before.
    pub(super) fn namespace_of(&self, session: &SessionId) -> Option<(i64, Arc<str>)> {
        self.members.read().get(session).cloned()
    }

    /// Notes the key of a session and its namespace.
    pub(super) fn remember_namespace(&self, session: &SessionId, found: &(i64, Arc<str>)) {
        self.members.write().insert(session.clone(), found.clone());
    }

    /// Lets go of the index of a namespace.
    pub(super) fn remove_namespace(&self, name: &str) {
        self.namespaces.write().remove(name);
    }

    /// Takes a session out of the index of its namespace, if there is one.
    pub(super) fn leave_namespace(&self, name: &str, session: i64) {
        if let Some(namespace) = self.namespace(name) {
            namespace.write().forget(session);
        }
    }

    /// Lets go of every scope, and of every namespace.
    pub(super) fn clear(&self) {
        self.scopes.write().clear();
        self.namespaces.write().clear();
        self.members.write().clear();
    }

    /// Lets go of the session's scope. Who still searches it finds the session gone.
    pub(super) fn remove(&self, session: &SessionId) {
        self.scopes.write().remove(session);
    }
}
