//! Dense rows without a graph: a query scans every row, and the answer is exact.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::frame;
use crate::scan::scan;
use crate::segments::Marks;
use crate::space::base::{Space, corrupt, unknown};
use crate::space::int8::Int8;
use crate::space::scale::check_dimension;
use siltstone_core::Result;
use siltstone_core::index::Neighbor;

const NAME: [u8; 8] = *b"SILTFLAT";

/// Rows of floats, with bytes for the quick distances. Ids are serial numbers from 0, and are never reused.
///
/// A search scans the bytes, and computes the exact distance of every row that could be among the nearest, so its
/// answer is the same as with exact distances to all rows. It does not wait for writers.
///
/// ```
/// use siltstone_ann::FlatRows;
///
/// let index = FlatRows::new(2)?;
/// index.add([&[1.0, 0.0][..], &[0.0, 1.0]])?;
/// let found = index.search(&[0.0, 3.0], 1);
/// assert!(found[0].id == 1 && found[0].distance == 0.0);
/// # Ok::<(), siltstone_core::Error>(())
/// ```
pub struct FlatRows {
    dimension: usize,
    space: Int8,
    writer: Mutex<<Int8 as Space>::Writer>,
    /// Rows that are never found: removed rows, and rows of zeros.
    hidden: Marks,
    removed: Marks,
    published: AtomicU32,
    remaining: AtomicU32,
}

impl FlatRows {
    /// An empty index of rows of `dimension` numbers.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a dimension out of 1 to 65,536.
    pub fn new(dimension: usize) -> Result<Self> {
        check_dimension(dimension)?;
        let (space, writer) = Int8::new(dimension);
        Ok(Self {
            dimension,
            space,
            writer: Mutex::new(writer),
            hidden: Marks::new(),
            removed: Marks::new(),
            published: AtomicU32::new(0),
            remaining: AtomicU32::new(0),
        })
    }

    /// The length of a row, in numbers.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Adds rows and returns their ids.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there is no room for more rows; the rows before the failing one are added.
    pub fn add<'a>(&self, items: impl IntoIterator<Item = &'a [f32]>) -> Result<Range<u32>> {
        let mut writer = self.writer.lock();
        let first = self.rows();
        for item in items {
            self.push(&mut writer, item)?;
        }
        Ok(first..self.rows())
    }

    fn push(&self, writer: &mut <Int8 as Space>::Writer, item: &[f32]) -> Result<u32> {
        let (id, has_direction) = self.space.push(writer, item)?;
        self.hidden.grow(id + 1);
        self.removed.grow(id + 1);
        if !has_direction {
            self.hidden.insert(id);
        }
        self.remaining.fetch_add(1, Ordering::Relaxed);
        self.published.store(id + 1, Ordering::Release);
        Ok(id)
    }

    /// Removes all of the rows, or none if there is an error.
    ///
    /// # Errors
    ///
    /// `EntryNotFound` for an id that was never returned, or was removed before.
    pub fn remove(&self, ids: &[u32]) -> Result<()> {
        let _writer = self.writer.lock();
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let count = self.rows();
        if let Some(&id) = ids
            .iter()
            .find(|&&id| id >= count || self.removed.contains(id))
        {
            return Err(unknown(id));
        }
        for &id in &ids {
            self.hidden.insert(id);
            self.removed.insert(id);
            self.remaining.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// How many rows were added, removed ones included.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.published.load(Ordering::Acquire)
    }

    /// How many rows were added and not removed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.remaining.load(Ordering::Relaxed) as usize
    }

    /// Whether there are no such rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `k` rows nearest to `item`, the nearest first, ties by id. Rows of zeros are never found.
    #[must_use]
    pub fn search(&self, item: &[f32], k: usize) -> Vec<Neighbor> {
        let mut query = self.space.blank();
        if k == 0 || !self.space.ask(item, &mut query) {
            return Vec::new();
        }
        scan(&self.space, &self.hidden, self.rows(), &mut query, k)
    }

    /// The index as a file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let _writer = self.writer.lock();
        let mut file = frame::begin(NAME);
        let dimension = u32::try_from(self.dimension).unwrap_or(u32::MAX);
        file.extend(dimension.to_le_bytes());
        file.extend(self.rows().to_le_bytes());
        for id in 0..self.rows() {
            let removed = self.removed.contains(id);
            file.push(u8::from(removed));
            if !removed {
                self.space.encode(id, &mut file);
            }
        }
        frame::end(file)
    }

    /// Reads an index that [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    ///
    /// `StoreOpen` for another kind of file, `StoreVersion` for another version, `StoreCorrupt` for a damaged file.
    pub fn from_bytes(file: &[u8]) -> Result<Self> {
        let mut file = frame::open(NAME, file)?;
        let (dimension, rows) = (file.u32()? as usize, file.u32()?);
        let index = Self::new(dimension).map_err(|error| corrupt(&error.to_string()))?;
        let mut writer = index.writer.lock();
        for _ in 0..rows {
            let removed = file.array()? == [1];
            let item = if removed {
                Int8::zeros(dimension)
            } else {
                Int8::decode(dimension, &mut file)?
            };
            let id = index.push(&mut writer, &item)?;
            if removed {
                index.removed.insert(id);
                index.remaining.fetch_sub(1, Ordering::Relaxed);
            }
        }
        if !file.0.is_empty() {
            return Err(corrupt("something stands behind its rows"));
        }
        drop(writer);
        Ok(index)
    }
}
