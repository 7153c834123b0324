//! Facts of a session or of its namespace, and the digests by which forgotten messages are recognised.

use crate::error::{Error, Result};
use crate::id::SessionId;
use crate::memory::forget::salt_of;
use crate::memory::store::Store;
use crate::sqlite::group_commit::size;
use crate::sqlite::{Fact, NewFact, fact, forgotten, session};

impl Store {
    /// Writes `facts` of the session in one transaction, and gives their ids. A fact with an id replaces the fact of
    /// that id. A deleted session keeps nothing, and gives no ids.
    ///
    /// # Errors
    ///
    /// [`InvalidEntry`](crate::ErrorKind::InvalidEntry) where neither the session nor its namespace has a fact of a given id;
    /// [`StoreConflict`](crate::ErrorKind::StoreConflict) where the body of a fact is no longer the expected one; otherwise the errors of a
    /// write. Nothing is written then.
    pub fn put_facts(&self, session: &SessionId, facts: &[NewFact], now: i64) -> Result<Vec<i64>> {
        let size = size(facts.iter().map(|fact| fact.body.as_str()));
        let written = self.database.write_short(size, |transaction| {
            let row = session::find_or_create(transaction, session)?;
            if row.dropped {
                return Ok(Vec::new());
            }
            let ids = facts
                .iter()
                .map(|new| fact::put(transaction, &row, new, now));
            ids.collect()
        });
        written.map(|(ids, _)| ids)
    }

    /// The facts of the session in the order of their first writes; with `state`, only the facts of that state.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn facts(&self, session: &SessionId, state: Option<&str>) -> Result<Vec<Fact>> {
        self.database
            .read(|transaction| match session::find(transaction, session)? {
                Some(row) => fact::of_session(transaction, &row, state),
                None => Ok(Vec::new()),
            })
    }

    /// A text that changes with every change of any fact in the store; empty before the first fact. None where its row
    /// is damaged, so the facts themselves must be read.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn facts_revision(&self) -> Result<Option<String>> {
        self.database.read_once(fact::revision)
    }

    /// The facts of all sessions of the namespace, in the order and with the filter of [`facts`](Self::facts).
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for an empty name, which stands for no namespace; otherwise the errors of a read.
    pub fn namespace_facts(&self, namespace: &str, state: Option<&str>) -> Result<Vec<Fact>> {
        if namespace.is_empty() {
            let message = "a namespace must not be empty: sessions without one share nothing";
            return Err(Error::refused("namespace", namespace, message));
        }
        self.database
            .read(|transaction| fact::of_namespace(transaction, namespace, state))
    }

    /// The salt for digests of the session's messages: 128 random bits as text. It is this store's salt, or the salt of
    /// the store from which the session was copied.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn salt(&self, session: &SessionId) -> Result<String> {
        self.database.read(|transaction| {
            let row = session::find_any(transaction, session)?;
            salt_of(transaction, row.as_ref())
        })
    }

    /// The digests of the forgotten messages of the session, ordered by number: the sequence number of a message, or the id
    /// of a summary as a negative number.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn forgotten(&self, session: &SessionId) -> Result<Vec<(i64, Vec<u8>)>> {
        self.database
            .read(|transaction| match session::find(transaction, session)? {
                Some(row) => forgotten::of_session(transaction, row.id),
                None => Ok(Vec::new()),
            })
    }
}
