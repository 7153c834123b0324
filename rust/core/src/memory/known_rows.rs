//! The rows of sessions as they were at the newest commit that this process knows of.

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::id::SessionId;
use crate::sqlite::{CommitMark, SessionRow, SessionVersion};

/// The number of rows that are kept.
const MOST: usize = 256;

/// Rows that need not be read again while the store has the same newest commit.
#[derive(Default)]
pub(super) struct KnownRows(Mutex<Known>);

#[derive(Default)]
struct Known {
    mark: Option<CommitMark>,
    rows: HashMap<String, SessionRow>,
}

impl KnownRows {
    /// The version of the session, if the store still has the newest commit `mark`.
    pub(super) fn version(&self, mark: CommitMark, session: &SessionId) -> Option<SessionVersion> {
        let known = self.0.lock();
        if known.mark != Some(mark) {
            return None;
        }
        known.rows.get(session.as_str()).map(SessionRow::version)
    }

    /// Takes the row of the session out, if the store still has the newest commit `mark`. Who changes it puts it back.
    pub(super) fn take(&self, mark: CommitMark, session: &SessionId) -> Option<SessionRow> {
        let mut known = self.0.lock();
        if known.mark != Some(mark) {
            return None;
        }
        known.rows.remove(session.as_str())
    }

    /// Keeps a row that was read no earlier than `mark` was; not that of a deleted session.
    pub(super) fn read(&self, mark: CommitMark, row: SessionRow) {
        if !row.dropped {
            self.0.lock().keep(mark, row);
        }
    }

    /// Keeps a row that the commit `after` wrote, which changed nothing else since `before`.
    pub(super) fn written(&self, before: CommitMark, after: CommitMark, row: SessionRow) {
        let mut known = self.0.lock();
        if known.mark == Some(before) {
            known.mark = Some(after);
        }
        known.keep(after, row);
    }
}

impl Known {
    fn keep(&mut self, mark: CommitMark, row: SessionRow) {
        if self.mark != Some(mark) || self.rows.len() >= MOST {
            self.mark = Some(mark);
            self.rows.clear();
        }
        self.rows.insert(row.name.clone(), row);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::error::ErrorKind;
    use crate::memory::Store;
    use crate::memory::log::{Append, Write};
    use crate::sqlite::NewMessage;

    fn said(text: &str) -> NewMessage {
        NewMessage {
            raw: text.to_owned(),
            role: "user".to_owned(),
            dialect: "any".to_owned(),
            provenance: "original".to_owned(),
            tokens: 1,
            created_at: 1,
        }
    }

    fn append(
        store: &Store,
        session: &str,
        expected: SessionVersion,
    ) -> Result<SessionVersion, ErrorKind> {
        let append = Append {
            messages: &[said("a")],
            clock: "{}",
            ..Append::default()
        };
        let write = Write { expected, id: 7 };
        let done = store.append(&id(session), write, append);
        done.map(Option::unwrap).map_err(|error| error.kind())
    }

    fn id(name: &str) -> SessionId {
        SessionId::new(name).unwrap()
    }

    fn open(file: &Path) -> Store {
        Store::open(file, false, None, None).unwrap()
    }

    /// Whether the version of the session is known without a read of the database.
    fn is_known(store: &Store, session: &str) -> bool {
        let mark = store.database.mark().unwrap();
        mark.is_some_and(|mark| store.rows.version(mark, &id(session)).is_some())
    }

    fn row(session: &str) -> SessionRow {
        SessionRow {
            name: session.to_owned(),
            ..SessionRow::default()
        }
    }

    #[test]
    fn a_commit_of_somebody_else_makes_every_row_unknown() {
        let [first, second, third] = [1, 2, 3].map(CommitMark::numbered);
        let known = KnownRows::default();
        let is_known = |mark, name| known.version(mark, &id(name)).is_some();
        known.read(first, row("s"));
        known.written(first, second, row("t"));
        assert!(is_known(second, "s") && is_known(second, "t"));
        assert!(!is_known(first, "s") && known.take(first, &id("s")).is_none());
        // Between `second` and the next write of this store lies a commit that may have changed both.
        known.written(third, CommitMark::numbered(4), row("t"));
        assert!(is_known(CommitMark::numbered(4), "t") && !is_known(CommitMark::numbered(4), "s"));
        known.read(CommitMark::numbered(5), row("s"));
        assert!(is_known(CommitMark::numbered(5), "s") && !is_known(CommitMark::numbered(5), "t"));
    }

    #[test]
    fn a_store_of_very_many_sessions_keeps_few_rows() {
        let (known, mark) = (KnownRows::default(), CommitMark::numbered(1));
        for number in 0..=2 * MOST {
            let name = format!("s{number}");
            known.read(mark, row(&name));
            assert!(known.version(mark, &id(&name)).is_some());
            assert!(known.0.lock().rows.len() <= MOST);
        }
    }

    #[test]
    fn what_a_store_wrote_itself_is_known_until_somebody_else_commits() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.sqlite3");
        let (own, other) = (open(&file), open(&file));
        let first = append(&own, "s", SessionVersion::default()).unwrap();
        let second = append(&own, "t", SessionVersion::default()).unwrap();
        assert!(is_known(&own, "s") && is_known(&own, "t") && !is_known(&other, "s"));
        assert_eq!(other.version(&id("s")).unwrap(), Some(first));
        assert!(is_known(&other, "s"));
        let third = append(&other, "s", first).unwrap();
        assert!(!is_known(&own, "s") && !is_known(&own, "t"));
        assert_eq!(append(&own, "s", first), Err(ErrorKind::StoreConflict));
        assert_eq!(own.version(&id("s")).unwrap(), Some(third));
        assert_eq!(append(&own, "t", second).unwrap().next_seq, 2);
        assert_eq!(append(&own, "s", third).unwrap().next_seq, 3);
        assert_eq!(own.messages(&id("s"), 0, 9).unwrap().len(), 3);
    }

    #[test]
    fn a_write_that_was_refused_leaves_nothing_that_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory.path().join("a.sqlite3"));
        let first = append(&store, "s", SessionVersion::default()).unwrap();
        let stale = append(&store, "s", SessionVersion::default());
        assert_eq!(stale, Err(ErrorKind::StoreConflict));
        assert_eq!(store.version(&id("s")).unwrap(), Some(first));
        assert_eq!(append(&store, "s", first).unwrap().next_seq, 2);
    }

    #[test]
    fn a_deleted_session_is_not_known() {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory.path().join("a.sqlite3"));
        append(&store, "s", SessionVersion::default()).unwrap();
        store.delete_session(&id("s")).unwrap();
        assert_eq!(store.version(&id("s")).unwrap(), None);
        assert!(!is_known(&store, "s"));
    }
}
