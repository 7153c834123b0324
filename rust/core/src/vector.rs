//! A bag of hashed words as exact integers: the buckets, and the number of hits of each.

use std::iter::Peekable;

use crate::error::{Error, ErrorKind, Result};

/// The number of buckets, which is the dimension of the embedding.
pub const BUCKETS: usize = 4096;

const BUCKET_BITS: u32 = 12;
const BUCKET_MASK: u16 = (1 << BUCKET_BITS) - 1;
/// The largest count that one code holds.
const MAX_CODE_COUNT: u32 = (1 << (u16::BITS - BUCKET_BITS)) - 1;

/// The counts of one text's buckets, in ascending order of bucket.
///
/// A code has a bucket in its low 12 bits and a count of 1 to 15 above them. A larger count takes
/// several codes of the same bucket, and all but the last of them are full. So a row is exact, and a text of
/// 600 bytes takes about 80 bytes.
///
/// ```
/// use siltstone_core::SparseRow;
///
/// let row: SparseRow = [(7, 2), (4095, 40)].into_iter().collect();
/// assert_eq!(row.iter().collect::<Vec<_>>(), [(7, 2), (4095, 40)]);
/// assert_eq!(row.codes().len(), 4); // 40 = 15 + 15 + 10
/// assert_eq!(row.dot(&row), row.squared_norm());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SparseRow {
    codes: Vec<u16>,
}

impl SparseRow {
    /// The row of these [`codes`](Self::codes).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] where the codes are invalid: a count of 0, buckets out of
    /// order, or a large count that is split in another way.
    pub fn from_codes(codes: Vec<u16>) -> Result<Self> {
        let canonical = codes.iter().all(|&code| split(code).1 > 0)
            && codes.windows(2).all(|pair| {
                let ((before, count), (after, _)) = (split(pair[0]), split(pair[1]));
                before < after || (before == after && count == MAX_CODE_COUNT)
            });
        if canonical {
            return Ok(Self { codes });
        }
        Err(Error::new(
            ErrorKind::InvalidArgument,
            "codes must ascend by bucket, with counts of 1 to 15, full ones first",
        ))
    }

    /// The smallest row of counts that is proportional to `weights`, which are counts, or counts divided by their norm.
    ///
    /// Proportional rows have the same direction, so cosines do not depend on the choice. Weights of 0 are left out.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] where buckets do not ascend from 0 to 4,095, a weight is negative, or
    /// the weights are not proportional to counts of which the least is at most 64.
    pub fn of_weights(buckets: &[i32], weights: &[f32]) -> Result<Self> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidArgument, message));
        let mut pairs = Vec::with_capacity(buckets.len());
        let mut next = 0;
        for (&bucket, &weight) in buckets.iter().zip(weights) {
            let Some(place) = u16::try_from(bucket)
                .ok()
                .filter(|&place| place >= next && usize::from(place) < BUCKETS)
            else {
                return refuse(format!("buckets must ascend from 0 to 4095, got {bucket}"));
            };
            if !(weight >= 0.0 && weight.is_finite()) {
                return refuse(format!("a count must not be negative, got {weight}"));
            }
            next = place + 1;
            if weight > 0.0 {
                pairs.push((place, f64::from(weight)));
            }
        }
        let least = pairs
            .iter()
            .map(|&(_, weight)| weight)
            .fold(f64::INFINITY, f64::min);
        let counts = |unit: f64| {
            let whole = pairs.iter().map(|&(bucket, weight)| {
                let count = weight / unit;
                let near = (count - count.round()).abs() <= 1e-3 + 1e-6 * count;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "counts, checked"
                )]
                let count = (near && count < 1e9).then(|| count.round() as u32);
                count.map(|count| (bucket, count))
            });
            whole.collect::<Option<Vec<_>>>()
        };
        match (1..=64_u32).find_map(|count| counts(least / f64::from(count))) {
            Some(counts) => Ok(counts.into_iter().collect()),
            None => refuse(
                "the values of a sparse row must be counts, or counts divided by their norm"
                    .to_owned(),
            ),
        }
    }

    /// The codes of the row.
    #[must_use]
    pub fn codes(&self) -> &[u16] {
        &self.codes
    }

    /// Whether the text had no words. Such a row is similar to no row, not even to itself.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.codes.is_empty()
    }

    /// The buckets and their counts, in ascending order of bucket.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u32)> {
        Merged {
            codes: self.codes.iter().copied().map(split).peekable(),
        }
    }

    /// The sum of the squared counts, which is the squared norm of the vector.
    ///
    /// It cannot overflow for a text of fewer than 2^32 words.
    #[must_use]
    pub fn squared_norm(&self) -> u64 {
        self.iter()
            .map(|(_, count)| u64::from(count) * u64::from(count))
            .sum()
    }

    /// The sum of the products of counts of common buckets. It is exact, so it is the same on every machine.
    #[must_use]
    pub fn dot(&self, other: &Self) -> u64 {
        let mut theirs = other.iter().peekable();
        self.iter()
            .map(|(bucket, count)| {
                while theirs.next_if(|&(their, _)| their < bucket).is_some() {}
                theirs
                    .next_if(|&(their, _)| their == bucket)
                    .map_or(0, |(_, their_count)| {
                        u64::from(count) * u64::from(their_count)
                    })
            })
            .sum()
    }
}

impl FromIterator<(u16, u32)> for SparseRow {
    /// The row of these counts. Buckets must be below 4,096 and ascend; a count of 0 is left out.
    ///
    /// # Panics
    ///
    /// Where buckets do not ascend or are too large, which is a defect of the caller.
    fn from_iter<I: IntoIterator<Item = (u16, u32)>>(counts: I) -> Self {
        let mut codes = Vec::new();
        let mut next = 0;
        for (bucket, mut count) in counts {
            assert!(
                bucket >= next && usize::from(bucket) < BUCKETS,
                "buckets must ascend from 0 to 4095"
            );
            next = bucket + 1;
            while count > 0 {
                let part = count.min(MAX_CODE_COUNT);
                codes.push(join(bucket, part));
                count -= part;
            }
        }
        Self { codes }
    }
}

/// Merges neighbouring codes of one bucket into one count.
struct Merged<I: Iterator<Item = (u16, u32)>> {
    codes: Peekable<I>,
}

impl<I: Iterator<Item = (u16, u32)>> Iterator for Merged<I> {
    type Item = (u16, u32);

    fn next(&mut self) -> Option<Self::Item> {
        let (bucket, mut count) = self.codes.next()?;
        while let Some((_, more)) = self.codes.next_if(|&(next, _)| next == bucket) {
            count += more;
        }
        Some((bucket, count))
    }
}

fn join(bucket: u16, count: u32) -> u16 {
    let count = u16::try_from(count).expect("a code's count is at most 15");
    count << BUCKET_BITS | bucket
}

/// The bucket and the count of a code.
#[inline]
#[must_use]
pub fn split(code: u16) -> (u16, u32) {
    (code & BUCKET_MASK, u32::from(code >> BUCKET_BITS))
}
