//! The embeddings of many texts, one after another, with each number as its native-endian bytes.

use super::hash::HashRule;
use super::hashed_tf::{DIMENSION, embed};

const F32: usize = size_of::<f32>();

/// Sparse rows. Row `i` is `starts[i]..starts[i + 1]` of the other two arrays.
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
        let (mut starts, mut buckets, mut values) = (vec![[0; 8]], Vec::new(), Vec::new());
        for text in texts {
            for (bucket, value) in embed(text.as_ref(), rule) {
                buckets.push(i32::from(bucket).to_ne_bytes());
                values.push(value.to_ne_bytes());
            }
            // A `Vec` is no longer than `isize::MAX`, so nothing is lost.
            let end = i64::try_from(buckets.len()).unwrap_or(i64::MAX);
            starts.push(end.to_ne_bytes());
        }
        Self {
            starts,
            buckets,
            values,
        }
    }
}

/// Writes the embeddings of `texts` into `rows`, `DIMENSION` f32 each. `rows` are zeros before.
pub fn write_dense<T: AsRef<str>>(rows: &mut [u8], texts: &[T], rule: HashRule) {
    for (row, text) in rows.chunks_exact_mut(DIMENSION * F32).zip(texts) {
        let (values, _) = row.as_chunks_mut::<F32>();
        for (bucket, value) in embed(text.as_ref(), rule) {
            values[usize::from(bucket)] = value.to_ne_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_many_texts_are_those_of_each() {
        let texts = ["one fish, two fish", "", "red fish"];
        let mut dense = vec![0; texts.len() * DIMENSION * F32];
        write_dense(&mut dense, &texts, HashRule::Xxh3);
        let sparse = SparseRows::of(&texts, HashRule::Xxh3);
        let starts: Vec<_> = sparse
            .starts
            .iter()
            .map(|start| i64::from_ne_bytes(*start))
            .collect();
        assert_eq!(starts, [0, 3, 3, 5]);
        for (text, dense) in texts.iter().zip(dense.chunks(DIMENSION * F32)) {
            let hit = dense
                .chunks(F32)
                .filter(|value| **value != [0; F32])
                .count();
            assert_eq!(hit, embed(text, HashRule::Xxh3).len());
        }
    }
}
