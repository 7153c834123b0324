//! Which sessions are indexed in memory, and which namespaces?

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;

use crate::embed::hash::HashRule;
use crate::id::SessionId;
use crate::memory::namespace::Namespace;
use crate::memory::scope::Scope;

/// The scopes that were needed so far. The map is locked for a look-up only, never while a scope works.
pub(super) struct ScopeMap {
    hash_rule: HashRule,
    scopes: RwLock<HashMap<SessionId, Arc<RwLock<Scope>>>>,
    namespaces: RwLock<HashMap<String, Arc<RwLock<Namespace>>>>,
    /// The keys of sessions, and their namespaces, as far as they were searched.
    members: RwLock<HashMap<SessionId, (i64, Arc<str>)>>,
}

impl ScopeMap {
    pub(super) fn new(hash_rule: HashRule) -> Self {
        Self {
            hash_rule,
            scopes: RwLock::default(),
            namespaces: RwLock::default(),
            members: RwLock::default(),
        }
    }

    /// The scope of the session, if it was needed before.
    pub(super) fn get(&self, session: &SessionId) -> Option<Arc<RwLock<Scope>>> {
        self.scopes.read().get(session).cloned()
    }

    /// The scope of the session; an empty one if it was not needed before.
    pub(super) fn get_or_create(&self, session: &SessionId) -> Arc<RwLock<Scope>> {
        if let Some(scope) = self.get(session) {
            return scope;
        }
        let mut scopes = self.scopes.write();
        let scope = scopes
            .entry_ref(session)
            .or_insert_with(|| Arc::new(RwLock::new(Scope::new(self.hash_rule))));
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
    pub(super) fn namespace(&self, name: &str) -> Option<Arc<RwLock<Namespace>>> {
        self.namespaces.read().get(name).cloned()
    }

    /// The index of the namespace; an empty one if it was not needed before.
    pub(super) fn namespace_or_new(&self, name: &str) -> Arc<RwLock<Namespace>> {
        if let Some(namespace) = self.namespace(name) {
            return namespace;
        }
        let mut namespaces = self.namespaces.write();
        let namespace = namespaces
            .entry_ref(name)
            .or_insert_with(|| Arc::new(RwLock::new(Namespace::new(self.hash_rule))));
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
