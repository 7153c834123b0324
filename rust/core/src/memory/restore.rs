//! Restores the marks of forgetting in a copy of a session from another store.

use rusqlite::Connection;

use crate::error::{Error, ErrorKind, Result};
use crate::id::SessionId;
use crate::memory::store::Store;
use crate::sqlite::{SessionRow, derived, forgotten, meta, session};

/// The marks that forgetting left in a session of another store.
#[derive(Clone, Copy, Debug)]
pub struct Marks<'a> {
    /// The salt of the digests.
    pub salt: &'a str,
    /// Digests of messages with their sequence numbers, and of derived texts with their ids in this store as negative
    /// numbers.
    pub digests: &'a [(i64, Vec<u8>)],
    /// Ids of derived texts of this store that replaced forgotten texts.
    pub redacted: &'a [i64],
}

impl Store {
    /// Gives a session the marks that it had in the store it was copied from, and their salt. A session that does not
    /// exist stays so.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] where the session has digests of another salt; otherwise the errors of a write.
    pub fn restore_marks(&self, session: &SessionId, marks: Marks<'_>) -> Result<()> {
        self.database.writer()?.transaction(|transaction| {
            let Some(mut row) = session::find(transaction, session)? else {
                return Ok(());
            };
            if !marks.digests.is_empty() && salt_of(transaction, Some(&row))? != marks.salt {
                if !forgotten::of_session(transaction, row.id)?.is_empty() {
                    let message = format!(
                        "the forgotten messages of session {:?} have another salt here, got digests of {:?}",
                        session.as_str(),
                        marks.salt
                    );
                    return Err(
                        Error::new(ErrorKind::InvalidArgument, message).with("field", "salt")
                    );
                }
                forgotten::set_salt(transaction, row.id, marks.salt)?;
            }
            forgotten::add(transaction, row.id, marks.digests)?;
            derived::mark(transaction, &row, marks.redacted)?;
            row.redactions += 1;
            row.counter += 1;
            session::save(transaction, &row)
        })
    }
}

/// The salt of the session's digests: its own, or the store's.
pub(super) fn salt_of(connection: &Connection, session: Option<&SessionRow>) -> Result<String> {
    let own = session.map(|row| forgotten::own_salt(connection, row.id));
    match own.transpose()?.flatten() {
        Some(own) => Ok(own),
        None => meta::get(connection, meta::SALT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::handle::Handle;
    use crate::sqlite::NewEntry;

    #[test]
    fn digests_keep_the_salt_they_were_made_with_and_never_stand_beside_those_of_another() {
        let session = SessionId::new("chat").unwrap();
        let handle = Handle::open_memory(None).unwrap();
        let store = handle.store().unwrap();
        let entry = NewEntry {
            text: "silt".to_owned(),
            ..NewEntry::default()
        };
        store.insert(&session, &[entry]).unwrap();
        let digests = [(0, vec![1, 2, 3])];
        let marks = Marks {
            salt: "5a17",
            digests: &digests,
            redacted: &[],
        };
        store.restore_marks(&session, marks).unwrap();
        assert_eq!(store.salt(&session).unwrap(), "5a17");
        assert_eq!(store.forgotten(&session).unwrap(), digests);
        let stranger = SessionId::new("other").unwrap();
        assert_ne!(store.salt(&stranger).unwrap(), "5a17");
        assert!(store.check().unwrap().is_empty());
        store.restore_marks(&session, marks).unwrap();
        let other = Marks {
            salt: "5a18",
            ..marks
        };
        let error = store.restore_marks(&session, other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(store.salt(&session).unwrap(), "5a17");
    }
}
