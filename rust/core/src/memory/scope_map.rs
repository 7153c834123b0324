//! Which sessions are indexed in memory?

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;

use crate::embed::hash::HashRule;
use crate::id::SessionId;
use crate::memory::scope::Scope;

/// The scopes that were needed so far. The map is locked for a look-up only, never while a scope works.
pub(super) struct ScopeMap {
    hash_rule: HashRule,
    scopes: RwLock<HashMap<SessionId, Arc<RwLock<Scope>>>>,
}

impl ScopeMap {
    pub(super) fn new(hash_rule: HashRule) -> Self {
        Self {
            hash_rule,
            scopes: RwLock::default(),
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

    /// Lets go of every scope.
    pub(super) fn clear(&self) {
        self.scopes.write().clear();
    }

    /// Lets go of the session's scope. Who still searches it finds the session gone.
    pub(super) fn remove(&self, session: &SessionId) {
        self.scopes.write().remove(session);
    }
}
