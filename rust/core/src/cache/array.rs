//! Numbers that lie in memory of their own, or in a mapped file.

use std::fmt::{self, Debug};
use std::ops::{Deref, Range};
use std::sync::Arc;

use memmap2::Mmap;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Numbers that any bits are a value of.
pub trait Number: Copy + Debug + FromBytes + IntoBytes + Immutable {}

impl Number for u8 {}
impl Number for u16 {}
impl Number for u32 {}
impl Number for u64 {}
impl Number for i64 {}
impl Number for f32 {}
#[cfg(test)]
impl Number for [u8; 7] {}

/// Numbers that do not change. To clone those of a file costs nothing.
#[derive(Clone)]
pub struct Array<T>(Place<T>);

#[derive(Clone)]
enum Place<T> {
    Own(Vec<T>),
    /// Bytes of a file that are a whole number of `T`, at a place where one may stand.
    Mapped(Arc<Mmap>, Range<usize>),
}

impl<T: Number> Array<T> {
    /// Those bytes of a file; None where they are no numbers of this size, or not at a place for them.
    pub(super) fn mapped(map: &Arc<Mmap>, range: Range<usize>) -> Option<Self> {
        <[T]>::ref_from_bytes(map.get(range.clone())?).ok()?;
        Some(Self(Place::Mapped(Arc::clone(map), range)))
    }
}

/// Whether numbers say where each of some runs of `len` things begins, and where the last ends.
///
/// All of them are looked at, without a branch, since nearly always it is so.
#[must_use]
pub fn are_bounds(starts: &[u32], len: usize) -> bool {
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
            // It was looked at when it was made.
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
