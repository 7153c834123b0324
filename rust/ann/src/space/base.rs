//! The contract of rows: quick distances for the way through an index, and exact ones for its answers.

use siltstone_core::{Error, ErrorKind, Result};

/// Rows of one kind, numbered from 0 in the order they were added.
///
/// Readers share a space and need no lock; what adds rows holds its one [`Writer`](Self::Writer).
/// Distances are cosine distances: 0 for the same direction, 1 for nothing in common, 2 for opposite ones.
pub trait Space: Send + Sync + Sized + 'static {
    /// A row as it comes in, and a query.
    type Item: ?Sized + ToOwned<Owned = Self::Owned>;
    /// A row as a file gives it.
    type Owned: std::borrow::Borrow<Self::Item>;
    /// A query made ready, with room to work in.
    type Query: Send;
    /// The right to add rows.
    type Writer: Send;

    /// The name of the storage, as a file and a user spell it.
    const NAME: &'static str;

    /// No rows yet, of `dimension` numbers each.
    fn new(dimension: usize) -> (Self, Self::Writer);

    /// A row of zeros.
    fn zeros(dimension: usize) -> Self::Owned;

    /// Adds a row; gives its number and whether it has a direction. Zeros have none: they have a number,
    /// and are never found.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] where there is no room for more rows.
    fn push(&self, writer: &mut Self::Writer, item: &Self::Item) -> Result<(u32, bool)>;

    /// A query that is still to be set.
    fn blank(&self) -> Self::Query;

    /// Sets `query` to `item`; says whether it has a direction.
    fn ask(&self, item: &Self::Item, query: &mut Self::Query) -> bool;

    /// Sets `query` to a row, for quick distances alone.
    fn load(&self, id: u32, query: &mut Self::Query);

    /// Quick distances of `query` to the rows `ids`, in their order, 0 to 2, in place of what `distances` has.
    fn distances(&self, query: &mut Self::Query, ids: &[u32], distances: &mut Vec<f32>);

    /// The distance of `query`, which [`ask`](Self::ask) set, to a row: that of the numbers as they are
    /// stored.
    fn exact(&self, query: &Self::Query, id: u32) -> f64;

    /// Asks for what [`exact`](Self::exact) will read of a row, where that is far away.
    fn fetch(&self, _id: u32) {}

    /// By how much, as an angle in radians, a quick distance may differ from the exact one.
    fn slack(&self, query: &Self::Query) -> f64;

    /// Appends a row as a file keeps it.
    fn encode(&self, id: u32, file: &mut Vec<u8>);

    /// Reads a row that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreCorrupt`] where it is cut short, or no such row.
    fn decode(dimension: usize, file: &mut Bytes<'_>) -> Result<Self::Owned>;
}

/// What is still to be read of a file.
#[derive(Clone, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next `count` bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreCorrupt`] where there are fewer.
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

/// Refuses an id that was not given, or was removed before.
pub(crate) fn unknown(id: u32) -> Error {
    Error::new(
        ErrorKind::EntryNotFound,
        format!("the index has no row {id}, or it was removed"),
    )
    .with("entry_id", i64::from(id))
}

/// A file of an index that is not what was written.
pub(crate) fn corrupt(reason: &str) -> Error {
    Error::new(
        ErrorKind::StoreCorrupt,
        format!("the file of the index is damaged: {reason}"),
    )
}

/// No room for another row.
pub(crate) fn full() -> Error {
    let message = "an index holds at most 2147483647 rows, and it has them";
    Error::new(ErrorKind::InvalidArgument, message)
}

/// `1 - dot / sqrt(|a|^2 * |b|^2)` of floats, 0 to 2, rounded to float32: what an index of dense rows gives.
///
/// Rows of the same numbers are at 0: the root of a square is the number.
#[expect(
    clippy::cast_possible_truncation,
    reason = "what is given is a float32, and ties are ties of it"
)]
#[must_use]
pub fn cosine_distance(dot: f64, squared_norm: f64, other_squared_norm: f64) -> f64 {
    let distance = 1.0 - dot / (squared_norm * other_squared_norm).sqrt();
    f64::from(distance.clamp(0.0, 2.0) as f32)
}
