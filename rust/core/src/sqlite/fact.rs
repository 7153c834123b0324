//! Facts of a session or of its namespace. The body of a fact has the caller's own form.

use rusqlite::{Connection, params};

use crate::error::{Error, ErrorKind, Result};
use crate::sqlite::meta;
use crate::sqlite::row::{believed, first, list, run, table};
use crate::sqlite::session::SessionRow;
use crate::sqlite::transaction::Transaction;

table!($ "fact": Fact { id, session, namespace, state, key, body, created_at, changed_at });

/// A fact to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewFact {
    /// The id of the fact that this one replaces; None for a new fact.
    pub id: Option<i64>,
    /// The caller's key.
    pub key: String,
    /// Its state.
    pub state: String,
    /// Its body, as JSON.
    pub body: String,
    /// The body that the replaced fact must still have; None for any.
    pub was: Option<String>,
}

/// A fact as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Its id, never reused.
    pub id: i64,
    /// The key of the session that it came from.
    pub(crate) session: i64,
    /// The namespace of that session.
    pub namespace: String,
    /// Its state.
    pub state: String,
    /// The caller's key.
    pub key: String,
    /// Its body, as JSON.
    pub body: String,
    /// When it was first written: milliseconds since 1970, UTC.
    pub created_at: i64,
    /// The time of the last write, in the same unit.
    pub changed_at: i64,
}

/// Writes a fact of the session, and gives its id. With an id, it replaces the fact of that id.
///
/// # Errors
///
/// [`ErrorKind::InvalidEntry`] where the session and its namespace have no fact of that id.
/// [`ErrorKind::StoreConflict`] where the body of that fact is no longer the expected one.
pub(crate) fn put(
    transaction: &Transaction<'_>,
    session: &SessionRow,
    new: &NewFact,
    now: i64,
) -> Result<i64> {
    let mut row = Fact {
        id: 0,
        session: session.id,
        namespace: session.namespace.clone(),
        state: new.state.clone(),
        key: new.key.clone(),
        body: new.body.clone(),
        created_at: now,
        changed_at: now,
    };
    if let Some(id) = new.id {
        let before = get(transaction, id)?.filter(|before| is_of(before, session));
        if let Some(was) = &new.was
            && before.as_ref().is_none_or(|before| before.body != *was)
        {
            let message = format!(
                "fact {id} of session {:?} was changed or forgotten by another worker; nothing was written",
                session.name
            );
            return Err(Error::new(ErrorKind::StoreConflict, message).with("id", id));
        }
        let Some(before) = before else {
            let message = format!("session {:?} has no fact {id}", session.name);
            return Err(Error::new(ErrorKind::InvalidEntry, message).with("id", id));
        };
        row.id = id;
        row.session = before.session;
        row.created_at = before.created_at;
    } else {
        run(transaction, "INSERT INTO fact (session, namespace, state, key, body, created_at, changed_at, checksum)
                     VALUES (?1, ?2, '', '', '', ?3, ?3, 0)", params![row.session, row.namespace, now])?;
        row.id = transaction.last_insert_rowid();
    }
    run(
        transaction,
        "UPDATE fact SET state = ?2, key = ?3, body = ?4, changed_at = ?5, checksum = ?6 WHERE id = ?1",
        params![
            row.id,
            row.state,
            row.key,
            row.body,
            row.changed_at,
            checksum(&row).finish()
        ],
    )?;
    meta::renew(transaction, meta::FACTS)?;
    Ok(row.id)
}

/// A text that changes with every change of any fact in the store. Empty before the first fact; None where its row
/// is damaged.
pub(crate) fn revision(connection: &Connection) -> Result<Option<String>> {
    let found = believed(meta::find(connection, meta::FACTS))?;
    Ok(found.map(Option::unwrap_or_default))
}

/// The revision that a connection has read.
#[derive(Default)]
struct Seen {
    is_read: bool,
    revision: Option<String>,
}

/// As [`revision`]; it is read once until the file is written.
pub(crate) fn seen_revision(transaction: &Transaction<'_>) -> Result<Option<String>> {
    let Some(mut seen) = transaction.seen::<Seen>()? else {
        return revision(transaction);
    };
    if !seen.is_read {
        seen.revision = revision(transaction)?;
        seen.is_read = true;
    }
    Ok(seen.revision.clone())
}

/// The facts of the session in the order of their first writes; with `state`, only the facts of that state.
pub(crate) fn of_session(
    connection: &Connection,
    session: &SessionRow,
    state: Option<&str>,
) -> Result<Vec<Fact>> {
    let Some(state) = state else {
        let all = select!("WHERE session = ?1 ORDER BY id");
        return list(connection, all, [session.id], read);
    };
    list(connection, OF_STATE, params![session.id, state], read)
}

/// Its whole condition is on an index: a state may be that of one fact among thousands.
const OF_STATE: &str = select!("WHERE session = ?1 AND state = ?2 ORDER BY id");

/// The facts of the namespace, in the same order and with the same filter as [`of_session`].
pub(crate) fn of_namespace(
    connection: &Connection,
    namespace: &str,
    state: Option<&str>,
) -> Result<Vec<Fact>> {
    let found = select!("WHERE namespace = ?1 AND (?2 IS NULL OR state = ?2) ORDER BY id");
    list(connection, found, params![namespace, state], read)
}

/// Deletes the facts `ids`, as far as they belong to the session or to its namespace. Gives the number of deleted
/// facts.
pub(crate) fn forget(
    transaction: &Transaction<'_>,
    session: &SessionRow,
    ids: &[i64],
) -> Result<i64> {
    let mut gone = 0;
    for &id in ids {
        let sql =
            "DELETE FROM fact WHERE id = ?1 AND (session = ?2 OR (?3 <> '' AND namespace = ?3))";
        let count = run(transaction, sql, params![id, session.id, session.namespace])?;
        gone += i64::from(count > 0);
    }
    if gone > 0 {
        meta::renew(transaction, meta::FACTS)?;
    }
    Ok(gone)
}

fn get(connection: &Connection, id: i64) -> Result<Option<Fact>> {
    first(connection, select!("WHERE id = ?1"), [id], read)
}

/// Whether the session may change the fact: it is the session's own, or of the same namespace.
fn is_of(fact: &Fact, session: &SessionRow) -> bool {
    let shared = !session.namespace.is_empty() && fact.namespace == session.namespace;
    fact.session == session.id || shared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::schema;
    use std::path::Path;

    #[test]
    fn facts_of_a_state_are_found_without_reading_others() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::create(&mut connection, Path::new("a.sqlite3"), &[]).unwrap();
        let plan: String = connection
            .query_row(
                &format!("EXPLAIN QUERY PLAN {OF_STATE}"),
                params![1, "x"],
                |row| row.get(3),
            )
            .unwrap();
        assert!(
            plan.contains("fact_session (session=? AND state=?)"),
            "{plan}"
        );
    }
}
