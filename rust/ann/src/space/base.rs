//! The contract of rows: quick distances for the search of an index, and exact ones for its answers.

use siltstone_core::{Error, ErrorKind, Result};

/// Rows of one kind, numbered from 0 in the order they were added.
///
/// Readers share a space without a lock; the owner of the single [`Writer`](Self::Writer) adds rows. Distances are
/// cosine distances: 0 for the same direction, 1 for nothing in common, 2 for opposite directions.
pub trait Space: Send + Sync + Sized + 'static {
    /// A row as it is added, and a query.
    type Item: ?Sized + ToOwned<Owned = Self::Owned>;
    /// A row as it is read from a file.
    type Owned: std::borrow::Borrow<Self::Item>;
    /// A prepared query, with its buffers.
    type Query: Send;
    /// The right to add rows.
    type Writer: Send;

    /// The name of the storage, as files and users spell it.
    const NAME: &'static str;

    /// An empty space for rows of `dimension` numbers.
    fn new(dimension: usize) -> (Self, Self::Writer);

    /// A row of zeros.
    fn zeros(dimension: usize) -> Self::Owned;

    /// Adds a row; returns its number, and whether it has a direction. A row of zeros has none: it has a number,
    /// and is never found.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] if there is no room for more rows.
    fn push(&self, writer: &mut Self::Writer, item: &Self::Item) -> Result<(u32, bool)>;

    /// An empty query.
    fn blank(&self) -> Self::Query;

    /// Sets `query` to `item`; returns whether it has a direction.
    fn ask(&self, item: &Self::Item, query: &mut Self::Query) -> bool;

    /// Sets `query` to a row, for quick distances only.
    fn load(&self, id: u32, query: &mut Self::Query);

    /// Replaces `distances` by the quick distances of `query` to the rows `ids`, in their order, 0 to 2.
    fn distances(&self, query: &mut Self::Query, ids: &[u32], distances: &mut Vec<f32>);

    /// The exact distance of `query`, which [`ask`](Self::ask) has set, to a row, from the numbers as they are
    /// stored.
    fn exact(&self, query: &Self::Query, id: u32) -> f64;

    /// Prefetches the memory that [`exact`](Self::exact) will read of a row, if it lies elsewhere.
    fn fetch(&self, _id: u32) {}

    /// The largest difference between a quick distance and the exact one, as an angle in radians.
    fn slack(&self, query: &Self::Query) -> f64;

    /// Appends a row in the form of a file.
    fn encode(&self, id: u32, file: &mut Vec<u8>);

    /// Reads a row that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreCorrupt`] if it is cut short or invalid.
    fn decode(dimension: usize, file: &mut Bytes<'_>) -> Result<Self::Owned>;
}

/// The part of a file that is still to be read.
#[derive(Clone, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next `count` bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreCorrupt`] if there are fewer.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| {
            corrupt(&format!(
                "cut short: {count} more bytes were expected, there are {}",
                self.0.len()
            ))
        })?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next bytes as an array.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// The next four bytes, the least significant first.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes, the least significant first.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// The error for an id that was never returned, or was removed before.
pub(crate) fn unknown(id: u32) -> Error {
    Error::new(
        ErrorKind::EntryNotFound,
        format!("the index has no row {id}, or it was removed"),
    )
    .with("entry_id", i64::from(id))
}

/// The error for a damaged file.
pub(crate) fn corrupt(reason: &str) -> Error {
    Error::new(
        ErrorKind::StoreCorrupt,
        format!("the file of the index is damaged: {reason}"),
    )
}

/// The error for a full index.
pub(crate) fn full() -> Error {
    let message = "an index holds at most 2147483647 rows, and it has them";
    Error::new(ErrorKind::InvalidArgument, message)
}

/// `1 - dot / sqrt(|a|^2 * |b|^2)` of floats, 0 to 2, rounded to float32: the distance that an index of dense rows
/// returns.
///
/// Rows of the same numbers have the distance 0, since the root of a square is exact.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the given number is a float32, and ties are ties of float32"
)]
#[must_use]
pub fn cosine_distance(dot: f64, squared_norm: f64, other_squared_norm: f64) -> f64 {
    let distance = 1.0 - dot / (squared_norm * other_squared_norm).sqrt();
    f64::from(distance.clamp(0.0, 2.0) as f32)
}
