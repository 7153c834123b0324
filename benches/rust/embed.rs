//! What does an embedding cost? Words, hashes and counts of texts of 600 bytes.

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use siltstone_benches::texts;
use siltstone_core::embed::hash::HashRule;
use siltstone_core::embed::hashed_tf::HashedTf;
use siltstone_core::tokenize::words;

const TEXTS: usize = 1_000;
const BYTES: usize = 600;

fn embed(criterion: &mut Criterion) {
    let texts = texts(TEXTS, BYTES, 600);
    for rule in [HashRule::Xxh3, HashRule::Poly31] {
        check(&texts, rule);
    }
    let bytes = texts.iter().map(|text| text.len() as u64).sum();
    let mut group = criterion.benchmark_group("embed");
    group.throughput(Throughput::Bytes(bytes));
    group.bench_function("words/600-bytes", |bencher| {
        bencher.iter(|| {
            let mut found = 0;
            for text in &texts {
                words::for_each_word(text, |word| found += word.len());
            }
            black_box(found)
        });
    });
    for rule in [HashRule::Xxh3, HashRule::Poly31] {
        group.bench_with_input(
            BenchmarkId::new("hashed-tf/600-bytes", rule),
            &rule,
            |bencher, &rule| {
                let mut embedder = HashedTf::new(rule);
                bencher.iter(|| {
                    for text in &texts {
                        for value in embedder.embed(text) {
                            black_box(value);
                        }
                    }
                });
            },
        );
    }
    group.finish();
}

/// The rows are what counting each word's bucket by hand gives.
fn check(texts: &[String], rule: HashRule) {
    let mut embedder = HashedTf::new(rule);
    for text in texts {
        let mut counts = BTreeMap::<u16, u32>::new();
        let mut count = |word: &str| *counts.entry(rule.bucket(word)).or_default() += 1;
        match rule {
            HashRule::Xxh3 => words::for_each_word(text, count),
            HashRule::Poly31 => text.split_whitespace().for_each(&mut count),
        }
        let length = counts
            .values()
            .map(|&n| f64::from(n).powi(2))
            .sum::<f64>()
            .sqrt();
        let expected = counts
            .iter()
            .map(|(&bucket, &n)| (bucket, f64::from(n) / length));
        let found: Vec<(u16, f32)> = embedder.embed(text).collect();
        assert!(
            found.len() == expected.len(),
            "{rule}: another number of buckets"
        );
        for ((bucket, value), (other, exact)) in found.into_iter().zip(expected) {
            assert!(
                bucket == other && (f64::from(value) - exact).abs() < 1e-6,
                "{rule}: another row"
            );
        }
    }
}

criterion_group!(benches, embed);
criterion_main!(benches);
