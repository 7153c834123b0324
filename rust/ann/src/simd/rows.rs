//! Rows of numbers that kernels read while others are appended: aligned memory that only grows.
//!
//! One writer appends; any number of readers read the published rows, without a lock and without waiting. A row
//! never moves, and never changes once it is published, so a reader's slice is valid as long as the rows live.
//! Segments double in size: nothing is copied when the memory grows.

#![allow(
    unsafe_code,
    reason = "readers look at rows while the writer fills the next"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use siltstone_core::simd::prefetch::prefetch;

use crate::growth::{FIRST, SEGMENTS, place};

/// Alignment in bytes: a cache line, and the widest register.
const ALIGNMENT: usize = 64;
/// The first number that is not a row: ids stay below it.
pub const MAX_ROWS: u32 = (1 << 31) - 1;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u16 {}
    impl Sealed for u32 {}
    impl Sealed for f32 {}
}

/// A type of numbers in rows: all bits zero must be 0.
pub trait Number: sealed::Sealed + Copy + Send + Sync + 'static {}

impl Number for u16 {}
impl Number for u32 {}
impl Number for f32 {}

/// The readers' side. Clones share the same rows.
pub struct Rows<T: Number>(Arc<Shared<T>>);

impl<T: Number> Clone for Rows<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The writer's side, of which there is only one.
///
/// ```
/// use siltstone_ann::simd::rows::RowsWriter;
///
/// let mut writer = RowsWriter::new(4);
/// let reader = writer.reader();
/// assert_eq!(writer.push(&[1.0, 2.0, 3.0]), Some(0)); // filled up with zeros
/// assert_eq!(reader.get(0), [1.0, 2.0, 3.0, 0.0]);
/// assert_eq!(reader.len(), 1);
/// ```
pub struct RowsWriter<T: Number>(Rows<T>);

struct Shared<T> {
    stride: usize,
    published: AtomicU32,
    segments: [AtomicPtr<T>; SEGMENTS],
    /// For each segment, the address `FIRST << number` rows before it: a row is as many rows behind it as its
    /// number plus `FIRST`.
    origins: [AtomicPtr<T>; SEGMENTS],
    /// Rows are owned: they are freed with this.
    owned: PhantomData<T>,
}

impl<T: Number> RowsWriter<T> {
    /// No rows yet; each will have `stride` numbers, at least one.
    #[must_use]
    pub fn new(stride: usize) -> Self {
        Self(Rows(Arc::new(Shared {
            stride: stride.max(1),
            published: AtomicU32::new(0),
            segments: [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS],
            origins: [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS],
            owned: PhantomData,
        })))
    }

    /// A reader of these rows.
    #[must_use]
    pub fn reader(&self) -> Rows<T> {
        self.0.clone()
    }

    /// Appends `values`, padded with zeros, and returns the number of the first row they take; None if there is no
    /// room.
    ///
    /// Values that are longer than a row take as many rows as they need, side by side in memory. Rows that are
    /// skipped for that are zeros.
    pub fn push(&mut self, values: &[T]) -> Option<u32> {
        let count = values.len().div_ceil(self.stride()).max(1);
        let (first, segment, offset) = self.room(count)?;
        let base = self.segment(segment);
        let shared = &*self.0.0;
        // SAFETY: `room` checked that `offset + count` rows fit into the segment, which is of that many
        // rows of `stride` numbers, so the target is inside it. Rows from `first` on are not published:
        // no reader has a slice of them, and `&mut self` says that nobody else writes.
        unsafe {
            ptr::copy_nonoverlapping(
                values.as_ptr(),
                base.add(offset * shared.stride),
                values.len(),
            );
        }
        let published = u32::try_from(first + count).ok()?;
        shared.published.store(published, Ordering::Release);
        u32::try_from(first).ok()
    }

    /// The first unpublished row from which `count` rows lie side by side: its number, its segment, and its offset
    /// in the segment.
    fn room(&self, count: usize) -> Option<(usize, usize, usize)> {
        let mut first = self.0.len() as usize;
        loop {
            let (segment, offset) = place(first);
            if first + count > MAX_ROWS as usize || segment >= SEGMENTS {
                return None;
            }
            if offset + count <= FIRST << segment {
                return Some((first, segment, offset));
            }
            first += (FIRST << segment) - offset;
        }
    }

    /// The memory of a segment. It and all segments before it are allocated if they are not yet.
    fn segment(&mut self, wanted: usize) -> *mut T {
        let shared = &*self.0.0;
        for (number, segment) in shared.segments.iter().enumerate().take(wanted + 1) {
            if segment.load(Ordering::Relaxed).is_null() {
                let layout = shared.layout(number);
                // SAFETY: the size is not zero: at least 64 rows of at least one number.
                let memory = unsafe { alloc_zeroed(layout) };
                if memory.is_null() {
                    handle_alloc_error(layout);
                }
                // Readers see both through `published`, which is stored later and releases.
                segment.store(memory.cast(), Ordering::Relaxed);
                let before = (FIRST << number) * shared.stride;
                let origin = memory.cast::<T>().wrapping_sub(before);
                shared.origins[number].store(origin, Ordering::Relaxed);
            }
        }
        shared.segments[wanted].load(Ordering::Relaxed)
    }
}

impl<T: Number> Deref for RowsWriter<T> {
    type Target = Rows<T>;

    fn deref(&self) -> &Rows<T> {
        &self.0
    }
}

impl<T: Number> Rows<T> {
    /// How many rows were published.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.published.load(Ordering::Acquire)
    }

    /// Whether no row was published.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of a row, in numbers.
    #[inline]
    #[must_use]
    pub fn stride(&self) -> usize {
        self.0.stride
    }

    /// A row.
    ///
    /// # Panics
    ///
    /// If it was not published.
    #[inline]
    #[must_use]
    pub fn get(&self, row: u32) -> &[T] {
        self.run(row, 1)
    }

    /// `count` rows that were appended together, from the first on.
    ///
    /// # Panics
    ///
    /// If they were not published, or do not lie side by side.
    #[inline]
    #[must_use]
    pub fn run(&self, first: u32, count: u32) -> &[T] {
        let (first, count) = (first as usize, count as usize);
        let shifted = first + FIRST;
        let segment = (shifted.ilog2() - FIRST.ilog2()) as usize;
        // The next segment begins where `shifted` is twice that of the segment's first row.
        assert!(
            first + count <= self.len() as usize && shifted + count <= FIRST << (segment + 1),
            "rows {first}..+{count} are not there"
        );
        let (shared, stride) = (&*self.0, self.0.stride);
        let origin = shared.origins[segment].load(Ordering::Relaxed);
        // SAFETY: the rows are published, so the load of `published`, which acquires, came after the
        // segment was allocated and the rows written; they lie inside the segment by the second
        // condition, `shifted` rows after its origin, are initialised (zeros at least), and are never written
        // again. The memory is freed with `Shared`, which `self` keeps for as long as the slice lives.
        unsafe { std::slice::from_raw_parts(origin.wrapping_add(shifted * stride), count * stride) }
    }

    /// Prefetches a row. A row that is not published is ignored.
    #[inline]
    pub fn prefetch(&self, row: u32) {
        if row < self.len() {
            prefetch(self.get(row));
        }
    }
}

impl<T> Shared<T> {
    fn layout(&self, segment: usize) -> Layout {
        let bytes = (FIRST << segment)
            .checked_mul(self.stride)
            .and_then(|numbers| numbers.checked_mul(size_of::<T>()))
            .expect("a segment is smaller than the address space");
        Layout::from_size_align(bytes, ALIGNMENT)
            .expect("a segment is smaller than the address space")
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        for number in 0..SEGMENTS {
            let memory = *self.segments[number].get_mut();
            if !memory.is_null() {
                // SAFETY: it was allocated with this layout, and `&mut self` says that no reader is left.
                unsafe { dealloc(memory.cast(), self.layout(number)) };
            }
        }
    }
}

// SAFETY: the memory belongs to `Shared`; numbers may go to and be read from any thread. Published rows
// are never written again, and only the one writer touches the others.
unsafe impl<T: Number> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Number> Sync for Shared<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_where_it_was_put_and_stays_there() {
        let mut writer = RowsWriter::<f32>::new(3);
        let reader = writer.reader();
        let first = {
            assert_eq!(writer.push(&[0.5]), Some(0));
            reader.get(0).as_ptr()
        };
        for row in 1..5_000_u16 {
            assert_eq!(writer.push(&[f32::from(row); 3]), Some(u32::from(row)));
        }
        assert_eq!(reader.get(0).as_ptr(), first);
        assert_eq!(reader.get(0), [0.5, 0.0, 0.0]);
        for row in 1..5_000_u16 {
            assert_eq!(reader.get(u32::from(row)), [f32::from(row); 3]);
        }
        assert_eq!(reader.len(), 5_000);
        let rows = std::panic::catch_unwind(|| reader.get(5_000).len());
        assert!(rows.is_err());
    }

    #[test]
    fn rows_that_are_appended_together_lie_side_by_side() {
        let mut writer = RowsWriter::<u16>::new(4);
        let mut put = Vec::new();
        for length in [1_u16, 9, 0, 250, 3, 1_000, 64, 5] {
            let values: Vec<u16> = (0..length).collect();
            let first = writer.push(&values).unwrap();
            put.push((first, values));
        }
        for (first, values) in put {
            let count = u32::try_from(values.len().div_ceil(4).max(1)).unwrap();
            let run = writer.run(first, count);
            assert_eq!(&run[..values.len()], values);
            assert!(run[values.len()..].iter().all(|&value| value == 0));
            assert_eq!(
                first.checked_add(count).map(|end| end <= writer.len()),
                Some(true)
            );
        }
    }

    #[test]
    fn readers_see_whole_rows_while_the_writer_appends() {
        let mut writer = RowsWriter::<f32>::new(16);
        let reader = writer.reader();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let reader = reader.clone();
                scope.spawn(move || {
                    while reader.len() < 20_000 {
                        if let Some(last) = reader.len().checked_sub(1) {
                            let row = reader.get(last);
                            assert!(row.iter().all(|&value| value.to_bits() == row[0].to_bits()));
                        }
                    }
                });
            }
            for row in 0..20_000_u16 {
                writer.push(&[f32::from(row); 16]);
            }
        });
    }
}
