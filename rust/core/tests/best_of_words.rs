//! The search that leaves out passages that cannot be among the best, against all sums: the same passages and bits.
//!
//! Several blocks of passages, of few words often and many words seldom, so that some terms are essential
//! and others are not; equal passages, long ones and large counts among them; removed in between. The last
//! block grows, and behind the passages from a file the newest ones are in no list.

use std::fs;

use proptest::prelude::*;
use siltstone_core::bm25::{Bm25Index, Bm25Params, Document, LexicalIndex, Query};
use siltstone_core::cache::{Reader, Writer};
use siltstone_core::simd::Level;

/// A small generator of numbers: a multiplication, and the high bits of its result.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// A word of a number below 400: the smaller the number, the more often.
    fn word(&mut self) -> String {
        let (one, other, third) = (self.below(400), self.below(400), self.below(400));
        format!("w{}", one.min(other).min(third))
    }

    fn text(&mut self) -> String {
        let words = match self.below(100) {
            0 => 300 + self.below(100), // longer than lengths are looked up for
            1 => return format!("{} ", self.word()).repeat(10 + self.below_usize(20)),
            2..6 => return "w0 w1 w7".to_owned(), // equal to others
            6 => 0,
            _ => 5 + self.below(60),
        };
        let words: Vec<String> = (0..words).map(|_| self.word()).collect();
        words.join(" ")
    }

    fn below_usize(&mut self, bound: u64) -> usize {
        usize::try_from(self.below(bound)).unwrap()
    }
}

/// The hits by all sums, with the number and the bits of the score.
fn by_all_sums(index: &Bm25Index, query: &Query, limit: usize) -> Vec<(u32, u64)> {
    let scorer = index.scorer(query);
    let ceiling = scorer.ceiling();
    let sums = (0..).zip(scorer.sums());
    let mut found: Vec<(u32, f64)> = sums
        .filter(|&(_, sum)| sum > 0.0)
        .map(|(id, sum)| (id, (sum / ceiling).min(1.0)))
        .collect();
    found.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    found.truncate(limit);
    found
        .into_iter()
        .map(|(id, score)| (id, score.to_bits()))
        .collect()
}

fn check(index: &Bm25Index, numbers: &mut Numbers) -> Result<(), TestCaseError> {
    for words in [1, 2, 3, 6, 12, 40] {
        let words: Vec<String> = (0..words).map(|_| numbers.word()).collect();
        let query = Query::of(&words.join(" "));
        let scorer = index.scorer(&query);
        for (id, sum) in (0..)
            .zip(scorer.sums())
            .skip(numbers.below_usize(29))
            .step_by(29)
        {
            prop_assert_eq!(
                scorer.sum(id).to_bits(),
                sum.to_bits(),
                "{} of {:?}",
                id,
                words
            );
        }
        for limit in [1, 2, 10, 100, 2 * index.len() + 1] {
            let expected = by_all_sums(index, &query, limit);
            for level in Level::all() {
                let found = level.run(|| index.search(&query, limit));
                let found: Vec<_> = found
                    .iter()
                    .map(|hit| (hit.id, hit.score.to_bits()))
                    .collect();
                prop_assert!(found == expected, "{} {:?} {}", level, words, limit);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(16), ..ProptestConfig::default() })]

    #[test]
    fn the_best_of_several_blocks_are_those_of_all_sums(
        seed in any::<u64>(),
        passages in prop_oneof![1_usize..200, 500_usize..4_096, 4_000_usize..14_000],
        removed in 0_u64..40,
        saved in prop::option::of(0_usize..14_000), // and loaded, before that passage
        settle in any::<bool>(),
        (k1, b) in prop_oneof![Just((1.2, 0.75)), (0.0..3.0, 0.0..=1.0), Just((1e9, 0.5)), Just((0.0, 1.0))],
    ) {
        let mut numbers = Numbers(seed);
        let mut index = Bm25Index::new(Bm25Params::new(k1, b).unwrap());
        let pool: Vec<Document> = (0..2_000).map(|_| Document::of(&numbers.text())).collect();
        for number in 0..passages {
            if saved == Some(number) {
                let file = index.to_bytes("words").unwrap();
                index = Bm25Index::from_bytes(&file, "words").unwrap();
            }
            index.add(&pool[number % pool.len()]);
        }
        check(&index, &mut numbers)?;
        for id in 0..u32::try_from(passages).unwrap() {
            if numbers.below(100) < removed {
                index.remove(id);
            }
        }
        if settle {
            index.settle();
        }
        check(&index, &mut numbers)?;
    }
}

#[test]
fn an_index_from_a_cache_finds_the_same_and_goes_on() {
    let mut numbers = Numbers(7);
    let mut added = LexicalIndex::new(Bm25Params::default());
    let add = |index: &mut LexicalIndex, text: &str| {
        let place = i64::try_from(index.len()).unwrap();
        index.add([Document::of(text)], (place, place + 1), 0);
    };
    let texts: Vec<String> = (0..5_000).map(|_| numbers.text()).collect();
    for text in &texts {
        add(&mut added, text);
    }
    let (bytes, checksum) = {
        let mut writer = Writer::new(Vec::new()).unwrap();
        added.write(&mut writer).unwrap();
        writer.finish().unwrap()
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    fs::write(&path, bytes).unwrap();
    let mut reader = Reader::open(&path, checksum).unwrap();
    let mut read = LexicalIndex::read(&mut reader, Bm25Params::default()).unwrap();
    assert!(reader.is_done());

    let query = Query::of("w0 w1 w2 w3 w30 w300");
    for more in [0, 1, 20, 100] {
        // A few behind the passages from the file lie as they came, and more of them in lists.
        for _ in 0..more {
            let text = numbers.text();
            add(&mut added, &text);
            add(&mut read, &text);
        }
        for limit in [1, 10, 200] {
            let expected = by_all_sums(added.passages(), &query, limit);
            assert_eq!(by_all_sums(read.passages(), &query, limit), expected);
            for index in [&added, &read] {
                let found = index.passages().search(&query, limit);
                let found: Vec<_> = found
                    .iter()
                    .map(|hit| (hit.id, hit.score.to_bits()))
                    .collect();
                assert_eq!(found, expected, "{more} {limit}");
            }
        }
    }
}
