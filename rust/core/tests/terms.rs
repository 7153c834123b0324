//! BM25 over blocked postings, and its smoothing, against the formulas written out over plain lists.
//!
//! To the last bit, whatever is added, removed and merged between.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use siltstone_core::analyse::{Speaker, terms};
use siltstone_core::bm25::{Bm25Index, Bm25Params, Document, LexicalIndex, Match, Query};

const WORDS: [&str; 9] = [
    "silt", "river", "delta", "slow", "mud", "sand", "lake", "sea", "漢字",
];

fn text() -> impl Strategy<Value = String> {
    let count = prop_oneof![60 => 1_usize..4, 4 => 14_usize..40, 1 => 200_usize..400];
    btree_map(prop::sample::select(&WORDS), count, 0..5).prop_map(|counts| {
        let repeated = counts
            .into_iter()
            .map(|(word, count)| format!("{word} ").repeat(count));
        repeated.collect()
    })
}

/// Each term, and how often it occurs.
type Bag = BTreeMap<u64, u32>;

fn bag(text: &str) -> Bag {
    let mut bag = Bag::new();
    for term in terms(text) {
        *bag.entry(term).or_default() += 1;
    }
    bag
}

fn length(bag: &Bag) -> f64 {
    f64::from(bag.values().sum::<u32>())
}

fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}

/// The sum of each text, and the ceiling, by the book; a text that was removed has none.
fn by_the_book(query: &str, texts: &[Option<&Bag>], params: Bm25Params) -> (Vec<f64>, f64) {
    let live: Vec<&Bag> = texts.iter().copied().flatten().collect();
    let documents = float(live.len());
    let average = live.iter().map(|bag| length(bag)).sum::<f64>() / documents;
    let (k1, b) = (params.k1(), params.b());
    let (mut sums, mut weights) = (vec![0.0; texts.len()], 0.0);
    for (term, count) in bag(query) {
        let having = live.iter().filter(|bag| bag.contains_key(&term));
        let df = float(having.count());
        let weight = f64::from(count) * (1.0 + (documents - df + 0.5) / (df + 0.5)).ln();
        weights += weight;
        for (sum, bag) in sums.iter_mut().zip(texts) {
            let Some((bag, &tf)) = bag.and_then(|bag| Some((bag, bag.get(&term)?))) else {
                continue;
            };
            let tf = f64::from(tf);
            *sum += weight * tf * (k1 + 1.0) / (tf + k1 * (1.0 - b + b * length(bag) / average));
        }
    }
    (sums, 0.75 * (k1 + 1.0) * weights)
}

fn bits(sums: &[f64]) -> Vec<u64> {
    sums.iter().map(|sum| sum.to_bits()).collect()
}

/// The changes of an index, in order: texts of the pool are added in turn, or some are removed.
#[derive(Clone, Debug)]
enum Step {
    Add(usize, usize),
    Remove(usize, usize, usize),
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    let from = || any::<usize>();
    prop_oneof![
        4 => (1_usize..100, from()).prop_map(|(count, from)| Step::Add(count, from)),
        1 => (1_000_usize..5_000, from()).prop_map(|(count, from)| Step::Add(count, from)),
        2 => (from(), 1_usize..40, 1_usize..50).prop_map(|(at, count, by)| Step::Remove(at, count, by)),
        1 => (from(), 1_000_usize..3_000, 1_usize..3).prop_map(|(at, count, by)| Step::Remove(at, count, by)),
        1 => Just(Step::Settle),
    ]
}

proptest! {
    #[test]
    fn bm25_equals_the_book_after_any_steps(
        pool in vec(text(), 1..10),
        steps in vec(step(), 1..6),
        query in text(),
        limit in 0_usize..60,
        (k1, b) in (0.0..3.0, 0.0..=1.0),
    ) {
        let params = Bm25Params::new(k1, b).unwrap();
        let mut index = Bm25Index::new(params);
        let documents: Vec<Document> = pool.iter().map(|text| Document::of(text)).collect();
        let bags: Vec<Bag> = pool.iter().map(|text| bag(text)).collect();
        let mut plain: Vec<Option<&Bag>> = Vec::new();
        for step in steps {
            match step {
                Step::Add(count, from) => {
                    for number in 0..count {
                        let which = from.wrapping_add(number) % pool.len();
                        prop_assert_eq!(index.add(&documents[which]) as usize, plain.len());
                        plain.push(Some(&bags[which]));
                    }
                }
                Step::Remove(at, count, by) => {
                    let first = at % (plain.len() + 1);
                    for place in (first..plain.len()).step_by(by).take(count) {
                        let id = u32::try_from(place).unwrap();
                        prop_assert_eq!(index.remove(id), plain[place].take().is_some());
                    }
                }
                Step::Settle => index.settle(),
            }
            let parsed = Query::of(&query);
            let (expected, ceiling) = by_the_book(&query, &plain, params);
            let scorer = index.scorer(&parsed);
            prop_assert_eq!(bits(&scorer.sums()), bits(&expected));
            if !plain.is_empty() {
                prop_assert_eq!(scorer.ceiling().to_bits(), ceiling.to_bits());
            }
            for (id, sum) in (0..).zip(&expected).step_by(97) {
                prop_assert_eq!(scorer.sum(id).to_bits(), sum.to_bits());
            }
            let mut best: Vec<(u32, f64)> = (0..).zip(expected).filter(|&(_, sum)| sum > 0.0).collect();
            for (_, sum) in &mut best {
                *sum = (*sum / ceiling).min(1.0);
            }
            best.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
            best.truncate(limit);
            let found: Vec<_> = index.search(&parsed, limit).iter().map(|hit| (hit.id, hit.score)).collect();
            prop_assert_eq!(found, best);
        }
        let loaded = Bm25Index::from_bytes(&index.to_bytes("terms").unwrap(), "terms").unwrap();
        let query = Query::of(&query);
        prop_assert_eq!(bits(&loaded.sums(&query)), bits(&index.sums(&query)));
        prop_assert_eq!(loaded.words(), index.words());
        prop_assert_eq!(loaded.params(), params);
    }

    #[test]
    fn a_search_leaves_out_none_of_the_best(
        pool in vec(text(), 1..10),
        stretches in vec((any::<usize>(), 1_usize..300, -300_i64..300, 0_i64..2), 1..8),
        query in text(),
        named in prop_oneof![Just(""), Just("Ann"), Just("Bob"), Just("Ann and Bob")],
        limit in 1_usize..8,
    ) {
        let (mut index, mut facts) = (LexicalIndex::new(Bm25Params::default()), LexicalIndex::new(Bm25Params::default()));
        let documents: Vec<[Document; 2]> = pool.iter().map(|text| [Document::of(text), Document::of("sea")]).collect();
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        for (from, count, gap, length) in stretches {
            let first = ranges.last().map_or(0, |range| range.1) + gap;
            for (start, number) in (first..).zip(0..count) {
                let which = from.wrapping_add(number);
                let passages = [1, 1, 1, 2, 0][which % 5];
                ranges.push((start, start + length));
                let passages = &documents[which % pool.len()][..passages];
                let (range, at) = ((start, start + length), start % 3 * 86_400_000);
                let speaker = Speaker::of("user", [None, Some("Ann Lee"), Some("Bob")][which % 3], "message");
                index.add_said(passages.iter().cloned(), range, at, speaker.as_ref());
                facts.add(passages.iter().cloned(), (0, 0), 0);
            }
        }
        let query = Query::of(&format!("{query} {named}"));
        let mut alone = vec![0.0; ranges.len()];
        facts.for_each_match(&query, |found| alone[found.id as usize] = found.score);
        let mut all = Vec::new();
        index.for_each_match(&query, |found| all.push(found));
        prop_assert!(all.is_sorted_by_key(|found| found.id));
        for found in all.iter().step_by(17) {
            // The sum of an entry, of those that stand beside it and of its day, as `why` has them.
            let why = index.why(&query, found.id);
            let beside: f64 = why.neighbors.iter().map(|neighbor| neighbor.score).sum();
            prop_assert!((found.score - (why.own + beside + why.day).min(1.0)).abs() < 1e-12);
            for neighbor in &why.neighbors {
                let shares = [0.41, 0.4, 0.3, 0.2];
                let share = shares[usize::try_from(neighbor.place.abs() - 1).unwrap()];
                let most = why.speaker * share * alone[neighbor.id as usize];
                prop_assert!(neighbor.score > 0.0 && neighbor.score <= most + 1e-12);
            }
        }
        let order = |one: &Match, other: &Match| other.score.total_cmp(&one.score).then(one.id.cmp(&other.id));
        all.sort_by(order);
        let mut best: Vec<Match> = Vec::new();
        index.for_each_best(&query, |_| true, |found| {
            best.push(found);
            best.sort_by(order);
            best.get(limit - 1).map_or(0.0, |last| last.score)
        });
        // All that score as much as the last of the best are there.
        let last = all.get(limit - 1).map_or(0.0, |last| last.score);
        all.retain(|found| found.score >= last);
        best.retain(|found| found.score >= last);
        prop_assert_eq!(best, all);
    }
}
