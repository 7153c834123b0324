//! Growing arrays in segments: no item moves when another one is added.

/// Items in the first segment; each further segment has twice as many.
pub(crate) const FIRST: usize = 64;
/// Segments for more items than an id can name.
pub(crate) const SEGMENTS: usize = 26;

/// The segment of an item, and its place in the segment.
#[inline]
pub(crate) fn place(item: usize) -> (usize, usize) {
    let shifted = item + FIRST;
    let segment = (shifted.ilog2() - FIRST.ilog2()) as usize;
    (segment, shifted - (FIRST << segment))
}
