//! The embeddings of many texts, one after another.

use std::iter;

use super::hash::HashRule;
use super::hashed_tf::{DIMENSION, with_embedder};
use crate::simd::prefetch::prefetch;

const F32: usize = size_of::<f32>();

/// Sparse rows, with each number as its native-endian bytes. Row `i` is `starts[i]..starts[i + 1]` of the other two
/// arrays.
#[derive(Clone, Debug)]
pub struct SparseRows {
    /// Where each row begins, and where the last one ends: i64.
    pub starts: Vec<[u8; size_of::<i64>()]>,
    /// Buckets, ascending in a row: i32.
    pub buckets: Vec<[u8; size_of::<i32>()]>,
    /// Their values: f32.
    pub values: Vec<[u8; F32]>,
}

impl SparseRows {
    /// The embeddings of `texts`.
    #[must_use]
    pub fn of<T: AsRef<str>>(texts: &[T], rule: HashRule) -> Self {
        let likely = likely_buckets(texts);
        let mut rows = Self {
            starts: Vec::with_capacity(texts.len() + 1),
            buckets: Vec::with_capacity(likely),
            values: Vec::with_capacity(likely),
        };
        rows.end_row();
        with_embedder(rule, |embedder| {
            for (text, next) in with_next(texts) {
                prefetch(next.as_bytes());
                let row = embedder.embed(text);
                let buckets = row.clone().map(|(bucket, _)| i32::from(bucket));
                let values = row.map(|(_, value)| value);
                rows.buckets.extend(buckets.map(i32::to_ne_bytes));
                rows.values.extend(values.map(f32::to_ne_bytes));
                rows.end_row();
            }
        });
        rows
    }

    fn end_row(&mut self) {
        // A `Vec` is no longer than `isize::MAX`, so nothing is lost.
        let end = i64::try_from(self.buckets.len()).unwrap_or(i64::MAX);
        self.starts.push(end.to_ne_bytes());
    }
}

/// Writes the embeddings of `texts` into `rows`, `DIMENSION` f32 each, native-endian. `rows` are zeros before.
pub fn write_dense<T: AsRef<str>>(rows: &mut [u8], texts: &[T], rule: HashRule) {
    with_embedder(rule, |embedder| {
        for (row, text) in rows.chunks_exact_mut(DIMENSION * F32).zip(texts) {
            let (values, _) = row.as_chunks_mut::<F32>();
            for (bucket, value) in embedder.embed(text.as_ref()) {
                values[usize::from(bucket)] = value.to_ne_bytes();
            }
        }
    });
}

/// The counts of many texts.
#[derive(Clone, Debug)]
pub struct CountRows {
    counts: Vec<(u16, u32)>,
    /// Where the counts of each text end.
    ends: Vec<usize>,
}

impl CountRows {
    /// The counts of `texts`.
    #[must_use]
    pub fn of<T: AsRef<str>>(texts: &[T], rule: HashRule) -> Self {
        let mut rows = Self {
            counts: Vec::with_capacity(likely_buckets(texts)),
            ends: Vec::with_capacity(texts.len()),
        };
        with_embedder(rule, |embedder| {
            for (text, next) in with_next(texts) {
                prefetch(next.as_bytes());
                rows.counts.extend_from_slice(embedder.pairs(text));
                rows.ends.push(rows.counts.len());
            }
        });
        rows
    }

    /// The counts of each text, in no order: a bucket, and how often it was hit.
    pub fn iter(&self) -> impl Iterator<Item = &[(u16, u32)]> {
        let starts = iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.counts[start..end])
    }
}

/// An estimate of how many buckets `texts` hit in all, to allocate memory once. It may be too small.
fn likely_buckets<T: AsRef<str>>(texts: &[T]) -> usize {
    const BYTES: usize = 11;
    let bytes: usize = texts.iter().map(|text| text.as_ref().len()).sum();
    bytes / BYTES + texts.len()
}

/// Each text with the one after it, which can be prefetched; the last one with an empty text.
fn with_next<T: AsRef<str>>(texts: &[T]) -> impl Iterator<Item = (&str, &str)> {
    let next = texts.iter().skip(1).map(AsRef::as_ref);
    let texts = texts.iter().map(AsRef::as_ref);
    texts.zip(next.chain(iter::once("")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::hashed_tf::counts;

    #[test]
    fn rows_of_many_texts_are_those_of_each() {
        let texts = ["one fish, two fish", "", "red fish"];
        let rows = CountRows::of(&texts, HashRule::Xxh3);
        let mut dense = vec![0; texts.len() * DIMENSION * F32];
        write_dense(&mut dense, &texts, HashRule::Xxh3);
        let sparse = SparseRows::of(&texts, HashRule::Xxh3);
        let starts: Vec<_> = sparse
            .starts
            .iter()
            .map(|start| i64::from_ne_bytes(*start))
            .collect();
        assert_eq!(starts, [0, 3, 3, 5]);
        for ((text, row), dense) in texts
            .iter()
            .zip(rows.iter())
            .zip(dense.chunks(DIMENSION * F32))
        {
            assert_eq!(
                row.iter().copied().collect::<crate::SparseRow>(),
                counts(text, HashRule::Xxh3)
            );
            let hit = dense
                .chunks(F32)
                .filter(|value| **value != [0; F32])
                .count();
            assert_eq!(hit, row.len());
        }
    }
}
