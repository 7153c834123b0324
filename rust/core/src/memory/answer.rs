//! The answer of the tool `memory_search`: the best entries of a session as JSON, in one step with all that a session
//! compares before it gives the answer to a model.

use std::fmt::Write as _;

use crate::analyse::Asked;
use crate::error::Result;
use crate::id::SessionId;
use crate::json::{write_float, write_string};
use crate::memory::options::SearchOptions;
use crate::memory::search::{Found, Hit};
use crate::memory::store::Store;
use crate::sqlite::{fact, quarantine};

/// What a search found, and the state of the store at that moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The hits.
    pub found: Found,
    /// The number of entries with wrong checksums, which are not found: those that this search met, and those that a
    /// repair set aside before.
    pub damaged: usize,
    /// The revision of the store's facts; see [`Store::facts_revision`].
    pub facts: Option<String>,
}

impl Store {
    /// As [`find`](Self::find), with the state of the store that the hits are of.
    ///
    /// # Errors
    ///
    /// The errors of [`find`](Self::find).
    pub fn answer(
        &self,
        session: &SessionId,
        query: &str,
        options: &SearchOptions,
    ) -> Result<Answer> {
        let found = self.look(session, query, None, options, |looked| {
            let aside = quarantine::count(looked.transaction, looked.session)?;
            Ok(Answer {
                damaged: looked.damaged + aside,
                facts: fact::seen_revision(looked.transaction)?,
                found: looked.found,
            })
        })?;
        match found {
            Some(found) => Ok(found),
            None => Ok(Answer {
                found: Found {
                    hits: Vec::new(),
                    ranker: options.ranker,
                    lacking: 0,
                    asked: Asked::of(query),
                },
                damaged: 0,
                facts: self.facts_revision()?,
            }),
        }
    }
}

/// The hits as a JSON array in one line, as `siltstone.tools.memory` writes them.
#[must_use]
pub fn as_json(hits: &[Hit]) -> String {
    const AROUND: usize = 120; // bytes beside the text, about
    let room = hits.iter().map(|hit| hit.stored.entry.text.len() + AROUND);
    let mut text = String::with_capacity(room.sum::<usize>() + 2);
    text.push('[');
    for hit in hits {
        if text.len() > 1 {
            text.push_str(", ");
        }
        let entry = &hit.stored.entry;
        text.push_str("{\"content\": ");
        write_string(&entry.text, &mut text);
        text.push_str(", \"score\": ");
        write_float(hit.score, &mut text);
        let (start, end) = (entry.start, entry.end);
        // Writing into a string does not fail.
        let _ = write!(
            text,
            ", \"source_range\": {{\"start\": {start}, \"end\": {end}}}}}"
        );
    }
    text.push(']');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::handle::Handle;
    use crate::sqlite::{NewEntry, NewFact};

    fn entry(number: i64) -> NewEntry {
        NewEntry::said(number, format!("silt \"{number}\"\n"))
    }

    #[test]
    fn an_answer_is_a_search_with_the_facts_of_its_state() {
        let directory = tempfile::tempdir().unwrap();
        let handle = Handle::open(directory.path(), false, None, None).unwrap();
        let store = handle.store().unwrap();
        let [one, other] = ["one", "other"].map(|name| SessionId::new(name).unwrap());
        let options = SearchOptions::default();
        let answer = |id: &SessionId| store.answer(id, "silt", &options).unwrap();
        assert_eq!(as_json(&answer(&one).found.hits), "[]");
        store.insert(&one, &[entry(7), entry(8)]).unwrap();
        let before = answer(&one);
        let hits = store.find(&one, "silt", None, &options).unwrap().hits;
        assert_eq!(before.found.hits, hits);
        assert_eq!((before.damaged, before.facts.as_deref()), (0, Some("")));
        let fact = NewFact {
            id: None,
            key: "key".to_owned(),
            state: "active".to_owned(),
            body: "{}".to_owned(),
            was: None,
        };
        store.put_facts(&other, &[fact], 0).unwrap();
        let after = answer(&one);
        assert_eq!(after.facts, store.facts_revision().unwrap());
        assert_ne!(after.facts, before.facts);
        assert_eq!(answer(&SessionId::new("none").unwrap()).facts, after.facts);
    }

    #[test]
    fn entries_that_are_damaged_are_counted_before_a_repair_and_after_it() {
        let directory = tempfile::tempdir().unwrap();
        let id = SessionId::new("one").unwrap();
        let count = |edit: bool| {
            let handle = Handle::open(directory.path(), false, None, None).unwrap();
            let store = handle.store().unwrap();
            if edit {
                store.insert(&id, &[entry(7), entry(8)]).unwrap();
                let text = "UPDATE entry SET text = 'silt' WHERE id = (SELECT MAX(id) FROM entry)";
                let edited = store
                    .database
                    .writer()
                    .unwrap()
                    .transaction(|transaction| Ok(transaction.execute(text, [])?));
                assert_eq!(edited.unwrap(), 1);
            } else {
                store.repair(0).unwrap();
            }
            let found = store
                .answer(&id, "silt", &SearchOptions::default())
                .unwrap();
            assert_eq!(found.found.hits.len(), 1);
            found.damaged
        };
        assert_eq!((count(true), count(false)), (1, 1));
    }

    #[test]
    fn hits_are_written_as_python_writes_them() {
        let handle = Handle::open_memory(None).unwrap();
        let store = handle.store().unwrap();
        let id = SessionId::new("one").unwrap();
        store.insert(&id, &[entry(7), entry(8)]).unwrap();
        let found = store.answer(&id, "silt", &SearchOptions::default());
        let mut hits = found.unwrap().found.hits;
        for (hit, score) in hits.iter_mut().zip([0.25, 1e-5]) {
            hit.score = score;
        }
        hits.sort_by_key(|hit| hit.stored.entry.start);
        let scores: Vec<&str> = hits
            .iter()
            .map(|hit| if hit.score > 0.1 { "0.25" } else { "1e-05" })
            .collect();
        let one = |number: i64, score: &str| {
            let end = number + 1;
            format!(
                "{{\"content\": \"silt \\\"{number}\\\"\\n\", \"score\": {score}, \
                 \"source_range\": {{\"start\": {number}, \"end\": {end}}}}}"
            )
        };
        let expected = format!("[{}, {}]", one(7, scores[0]), one(8, scores[1]));
        assert_eq!(as_json(&hits), expected);
    }
}
