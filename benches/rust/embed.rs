//! The cost of words, embeddings and sizes, a text of about 600 bytes at a time.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use siltstone_benches::{texts, texts_with_a_dash};
use siltstone_core::embed::hash::HashRule;
use siltstone_core::embed::hashed_tf::{counts, embed};
use siltstone_core::json::string_size;
use siltstone_core::tokenize::words::for_each_word;

const COUNT: usize = 1_000;
const BYTES: usize = 600;

fn bench(criterion: &mut Criterion) {
    let kinds = [
        ("ascii", texts(7, COUNT, BYTES)),
        ("dash", texts_with_a_dash(7, COUNT, BYTES)),
    ];
    for (kind, texts) in &kinds {
        check(texts);
        let mut group = criterion.benchmark_group(format!("{kind}/{COUNT}-texts"));
        let bytes: usize = texts.iter().map(String::len).sum();
        group.throughput(Throughput::Bytes(bytes as u64));

        group.bench_function("words", |bencher| {
            bencher.iter(|| {
                let mut letters = 0;
                for text in texts {
                    for_each_word(black_box(text), |word| letters += word.len());
                }
                letters
            });
        });
        for rule in HashRule::ALL {
            group.bench_function(format!("embed/{rule}"), |bencher| {
                bencher.iter(|| {
                    let mut sum = 0.0;
                    for text in texts {
                        let row = embed(black_box(text), rule);
                        sum += row.map(|(_, value)| value).sum::<f32>();
                    }
                    sum
                });
            });
        }
        group.bench_function("json-size", |bencher| {
            bencher.iter(|| {
                texts
                    .iter()
                    .map(|text| string_size(black_box(text).as_bytes()).bytes)
                    .sum::<usize>()
            });
        });
        group.finish();
    }
}

/// Panics unless the counts are those that a plain loop over plain words finds.
fn check(texts: &[String]) {
    for text in texts {
        let mut expected = std::collections::BTreeMap::new();
        for word in text
            .to_lowercase()
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
        {
            *expected.entry(HashRule::Xxh3.bucket(word)).or_insert(0) += 1;
        }
        let row = counts(text, HashRule::Xxh3);
        assert!(row.iter().eq(expected), "the counts of {text:?}");
        assert_eq!(row.iter().count(), embed(text, HashRule::Xxh3).len());
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
