//! The cost of adding an entry and of a search, by cosine and by words.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use siltstone_benches::texts;
use siltstone_core::SparseRow;
use siltstone_core::bm25::{Bm25Index, Bm25Params, Document, Query};
use siltstone_core::embed::hash::HashRule;
use siltstone_core::embed::hashed_tf::counts;
use siltstone_core::index::{HashedTfIndex, Neighbor, distance};

const K: usize = 10;
const QUERIES: usize = 50;

fn bench(criterion: &mut Criterion) {
    let queries: Vec<String> = texts(11, QUERIES, 60);
    let rows: Vec<SparseRow> = queries
        .iter()
        .map(|query| counts(query, HashRule::Xxh3))
        .collect();
    let terms: Vec<Query> = queries.iter().map(|query| Query::of(query)).collect();
    for entries in [1_000, 10_000] {
        let texts = texts(7, entries, 600);
        let added: Vec<SparseRow> = texts
            .iter()
            .map(|text| counts(text, HashRule::Xxh3))
            .collect();
        let documents: Vec<Document> = texts.iter().map(|text| Document::of(text)).collect();
        let (exact, bm25) = (exact(&added), bm25(&documents));
        check(&exact, &added, &rows);
        check_words(&bm25, &terms);

        let mut group = criterion.benchmark_group(format!("{entries}-entries"));
        group.bench_function(format!("exact/search/{QUERIES}-queries"), |bencher| {
            bencher.iter(|| -> usize {
                rows.iter()
                    .map(|row| exact.search(black_box(row), K).len())
                    .sum()
            });
        });
        group.bench_function(format!("bm25/search/{QUERIES}-queries"), |bencher| {
            bencher.iter(|| -> usize {
                terms
                    .iter()
                    .map(|query| bm25.search(black_box(query), K).len())
                    .sum()
            });
        });
        group.bench_function("exact/add-all", |bencher| {
            bencher.iter_batched(|| (), |()| self::exact(&added), BatchSize::LargeInput);
        });
        group.bench_function("bm25/add-all", |bencher| {
            bencher.iter_batched(|| (), |()| self::bm25(&documents), BatchSize::LargeInput);
        });
        group.finish();
    }
}

fn exact(rows: &[SparseRow]) -> HashedTfIndex {
    let mut index = HashedTfIndex::default();
    for row in rows {
        index.add(row);
    }
    index
}

fn bm25(documents: &[Document]) -> Bm25Index {
    let mut index = Bm25Index::new(Bm25Params::default());
    for document in documents {
        index.add(document);
    }
    index
}

/// Panics unless a search finds what brute force finds.
fn check(exact: &HashedTfIndex, added: &[SparseRow], rows: &[SparseRow]) {
    for row in rows {
        let mut expected = Vec::new();
        for (id, other) in (0..).zip(added).filter(|(_, other)| row.dot(other) > 0) {
            let distance = distance(row.dot(other), row.squared_norm(), other.squared_norm());
            expected.push(Neighbor { id, distance });
        }
        expected.sort_by(|one, other| other.cmp(one));
        expected.truncate(K);
        assert_eq!(exact.search(row, K), expected);
    }
}

/// Panics unless a search finds what all sums say.
fn check_words(bm25: &Bm25Index, queries: &[Query]) {
    for query in queries {
        let scorer = bm25.scorer(query);
        let score = |sum: f64| (sum / scorer.ceiling()).min(1.0);
        let mut expected: Vec<(u32, f64)> =
            (0..).zip(scorer.sums().into_iter().map(score)).collect();
        expected.retain(|&(_, score)| score > 0.0);
        expected.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        expected.truncate(K);
        let found = bm25.search(query, K);
        let found: Vec<(u32, f64)> = found.iter().map(|hit| (hit.id, hit.score)).collect();
        assert_eq!(found, expected);
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
