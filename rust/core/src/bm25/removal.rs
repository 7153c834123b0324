//! Removes entries from an index, as if they had never been added.
//!
//! An index over entries stores neighbours and sums of days, and nothing of a removed entry may stay in them. So
//! the index is built again from the passages in its posting lists; the texts are not needed.

use crate::bm25::index::Bm25Index;
use crate::bm25::lexical::LexicalIndex;
use crate::bm25::terms::Document;
use crate::postings::{BLOCK, Rows};

/// The passages of an index, in ascending order of number.
struct Passages<'a> {
    index: &'a Bm25Index,
    /// The block whose postings were last turned into rows.
    block: Option<(usize, Rows<u64>)>,
}

impl Passages<'_> {
    fn get(&mut self, id: u32) -> Document {
        let (number, place) = (id as usize / BLOCK, id as usize % BLOCK);
        let rows = || (number, self.index.postings.rows(number));
        let known = self.block.take().filter(|(block, _)| *block == number);
        let (_, rows) = self.block.insert(known.unwrap_or_else(rows));
        Document {
            terms: rows.row(place).to_vec(),
            length: self.index.lengths[id as usize].into(),
            ..Document::default()
        }
    }
}

impl LexicalIndex {
    /// A new index of only some of the entries, as if the others had never been added. `left` has their numbers,
    /// ascending, and the moments that they were added with. The entries get new numbers.
    #[must_use]
    pub fn only(&self, left: impl IntoIterator<Item = (u32, i64)>) -> Self {
        let mut index = Self::new(self.passages.params());
        let mut passages = Passages {
            index: &self.passages,
            block: None,
        };
        for (id, created_at) in left {
            let language = self.languages.get(id);
            let documents = self.range(id).map(|passage| Document {
                language,
                ..passages.get(passage)
            });
            let speaker = self.speakers.get(id);
            index.add_said(
                documents,
                self.chain.range(id),
                created_at,
                speaker.as_ref(),
            );
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analyse::Speaker;
    use crate::bm25::{Bm25Params, Query};
    use crate::cache::Writer;

    type Entry = (Vec<Document>, (i64, i64), i64, Option<Speaker>);

    fn index(entries: impl Iterator<Item = Entry>) -> LexicalIndex {
        let mut index = LexicalIndex::new(Bm25Params::default());
        for (passages, range, at, speaker) in entries {
            index.add_said(passages, range, at, speaker.as_ref());
        }
        index
    }

    /// The whole contents of an index, as written to its cache.
    fn bytes(index: &LexicalIndex) -> Vec<u8> {
        let mut to = Writer::new(Vec::new()).unwrap();
        index.write(&mut to).unwrap();
        to.finish().unwrap().0
    }

    fn scores(index: &LexicalIndex) -> Vec<(u32, u64)> {
        let mut found = Vec::new();
        for named in ["", "Ann", "Bash"] {
            let query = Query::of(&format!(
                "a river of silt, stones, sand and kettles {named}"
            ));
            index.for_each_match(&query, |hit| found.push((hit.id, hit.score.to_bits())));
        }
        found
    }

    /// Entries of few words, some of several passages or none, some often said; runs of them are alike.
    fn entries() -> impl Strategy<Value = Vec<(Entry, bool)>> {
        const WORDS: [&str; 6] = ["silt", "river", "delta", "kettle", "stone", "sand"];
        let words = proptest::collection::vec((0..WORDS.len(), 1_usize..20), 0..4);
        let passage = words.prop_map(|words| {
            let said = words
                .into_iter()
                .map(|(word, often)| format!("{} ", WORDS[word]).repeat(often));
            Document::of(&said.collect::<String>())
        });
        let passages = proptest::collection::vec(passage, 0..3);
        let run = (
            passages,
            0_i64..300,
            0_i64..3,
            0_i64..5,
            any::<bool>(),
            1_usize..12,
            0_usize..4,
        );
        proptest::collection::vec(run, 1..30).prop_map(|runs| {
            let mut entries = Vec::new();
            for (passages, start, len, day, stays, often, who) in runs {
                let (role, name) = [
                    ("user", None),
                    ("user", Some("Ann Lee")),
                    ("user", Some("Bash")),
                    ("tool", Some("Bash")),
                ][who];
                let speaker = Speaker::of(role, name, "message");
                for number in (0..).take(often) {
                    let range = (start + number * len, start + (number + 1) * len);
                    let at = day * 86_400_000 + number;
                    // All entries of some runs stay, and every third of the others.
                    let entry = (passages.clone(), range, at, speaker.clone());
                    entries.push((entry, stays || number % 3 == 0));
                }
            }
            entries
        })
    }

    proptest! {
        #[test]
        fn what_is_left_is_an_index_that_never_had_the_others(
            entries in entries(),
            more in entries(),
        ) {
            let whole = index(entries.iter().map(|(entry, _)| entry.clone()));
            let numbered = (0..).zip(&entries).filter(|(_, (_, stays))| *stays);
            let left = numbered.map(|(id, ((_, _, at, _), _))| (id, *at));
            let mut left = whole.only(left);
            let stays = entries.iter().filter(|(_, stays)| *stays);
            let mut fresh = index(stays.map(|(entry, _)| entry.clone()));
            for ((passages, range, at, speaker), _) in more {
                left.add_said(passages.clone(), range, at, speaker.as_ref());
                fresh.add_said(passages, range, at, speaker.as_ref());
            }
            prop_assert_eq!(scores(&left), scores(&fresh));
            prop_assert_eq!(left.passages().words(), fresh.passages().words());
            prop_assert_eq!(bytes(&left), bytes(&fresh));
        }
    }

    #[test]
    fn what_is_left_of_several_blocks_is_an_index_that_never_had_the_others() {
        const WORDS: [&str; 4] = ["silt", "river", "delta", "kettle"];
        let entry = |number: i64| {
            let word = |place: i64| WORDS[usize::try_from((number + place) % 4).unwrap()];
            let text = format!("{} {} stone {}", word(number / 7), word(0), number % 50);
            let at = number / 300 * 86_400_000;
            let speaker = Speaker::of("user", Some(word(1)), "message");
            (vec![Document::of(&text)], (number, number + 1), at, speaker)
        };
        let whole = index((0..9_000).map(entry));
        // Few entries of the first block stay, none of some hundred, and most of the rest.
        let stays = |number: &i64| match number {
            0..4_000 => number % 9 == 0,
            4_000..4_700 => false,
            _ => number % 5 > 0,
        };
        let numbers = (0..9_000).filter(stays);
        let left =
            whole.only(numbers.map(|number| (u32::try_from(number).unwrap(), entry(number).2)));
        let fresh = index((0..9_000).filter(stays).map(entry));
        assert_eq!(scores(&left), scores(&fresh));
        assert!(bytes(&left) == bytes(&fresh));
    }
}
