//! Checks vectors: each must have the session of its entry, and all must be of the current embedder.

use hashbrown::HashMap;
use rusqlite::Connection;

use crate::id::EntryId;
use crate::sqlite::check::Check;
use crate::sqlite::vectors::{self, EMBEDDER, SELECT_ALL, SELECT_EMBEDDERS, TABLE};

impl Check {
    /// Checks every vector. `entries` are the entries with right checksums, each with its session.
    pub(super) fn vectors(
        &mut self,
        connection: &Connection,
        entries: impl Iterator<Item = (EntryId, i64)>,
    ) {
        let sessions: HashMap<EntryId, i64> = entries.collect();
        let embedders = self.rows(
            connection,
            EMBEDDER,
            SELECT_EMBEDDERS,
            vectors::read_embedder,
        );
        let current = embedders.last();
        let rows = self.rows(connection, TABLE, SELECT_ALL, |row| {
            let row = vectors::read(row)?;
            let dimension = current.map_or(1, |current| current.dimension);
            let is_whole = vectors::is_whole(&row.numbers, dimension);
            Ok((
                row.entry,
                row.session,
                row.embedder,
                row.numbers.len(),
                is_whole,
            ))
        });
        for (entry, session, embedder, numbers, is_whole) in rows {
            let wrong = match current {
                _ if sessions.get(&entry).is_some_and(|&owner| owner != session) => {
                    "is of another session than its entry".to_owned()
                }
                Some(row) if row.id == embedder => {
                    if is_whole {
                        continue;
                    }
                    let dimension = row.dimension;
                    format!("has {numbers} numbers, which are no vectors of dimension {dimension}")
                }
                _ => "is not of the embedder of the store".to_owned(),
            };
            let message = format!("the vector of entry {entry} {wrong}");
            self.found("vector", TABLE, Some(entry.0), message);
        }
    }
}
