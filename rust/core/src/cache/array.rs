//! Arrays of numbers, in memory of their own or in a mapped file.

use std::fmt::{self, Debug};
use std::ops::{Deref, Range};
use std::sync::Arc;

use memmap2::Mmap;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A type of number for which any bits are a valid value.
pub trait Number: Copy + Debug + FromBytes + IntoBytes + Immutable {}

impl Number for u8 {}
impl Number for u16 {}
impl Number for u32 {}
impl Number for u64 {}
impl Number for i64 {}
impl Number for f32 {}
#[cfg(test)]
impl Number for [u8; 7] {}

/// Numbers that do not change. A clone of an array in a file costs nothing.
#[derive(Clone)]
pub struct Array<T>(Place<T>);

#[derive(Clone)]
enum Place<T> {
    Own(Vec<T>),
    /// A range of bytes in a file: a whole number of `T`, aligned for `T`.
    Mapped(Arc<Mmap>, Range<usize>),
}

impl<T: Number> Array<T> {
    /// An array of those bytes of a file. None where their number or their alignment does not fit.
    pub(super) fn mapped(map: &Arc<Mmap>, range: Range<usize>) -> Option<Self> {
        <[T]>::ref_from_bytes(map.get(range.clone())?).ok()?;
        Some(Self(Place::Mapped(Arc::clone(map), range)))
    }
}

/// Whether `starts` are valid bounds of runs in an array of `len` items: the start of each run, and the end of the
/// last.
///
/// All numbers are read without a branch, because they are nearly always valid.
#[must_use]
pub(crate) fn are_bounds(starts: &[u32], len: usize) -> bool {
    let pairs = starts.iter().zip(starts.iter().skip(1));
    let falls = pairs.filter(|(one, next)| one > next).count();
    falls == 0 && starts.first() == Some(&0) && starts.last().map(|&end| end as usize) == Some(len)
}

impl<T> Default for Array<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(numbers: Vec<T>) -> Self {
        Self(Place::Own(numbers))
    }
}

impl<T: Number> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Place::Own(numbers) => numbers,
            // The range was checked when the array was made.
            Place::Mapped(map, range) => {
                <[T]>::ref_from_bytes(&map[range.clone()]).unwrap_or_default()
            }
        }
    }
}

impl<T: Number> Debug for Array<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}
