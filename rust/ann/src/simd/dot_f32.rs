//! Dot products of rows of float32, in 32 lanes that are added up in one order.
//!
//! Products of float32 are exact in float64, in which they are summed. Lane `i` takes the numbers `i`, `i + 32` and so
//! on, and the lanes are halved: 32 to 16 to 8 to 4 to 2 to 1. So a sum is the same to the last bit on every processor.

/// Rows are padded with zeros to a multiple of so many numbers.
pub const LANES: usize = 32;

/// The dot product of `query` and `row`, and that of `row` with itself, summed in float64.
///
/// The sums are accurate to 15 digits, and rows with the same numbers give the same bits.
///
/// # Panics
///
/// If the lengths differ, or are not a multiple of [`LANES`].
#[must_use]
pub fn dot_exact(query: &[f32], row: &[f32]) -> (f64, f64) {
    assert!(
        query.len() == row.len() && query.len().is_multiple_of(LANES),
        "rows must be of one length, a multiple of {LANES}"
    );
    let (mut dots, mut norms) = ([0_f64; LANES], [0_f64; LANES]);
    for (query, row) in query.chunks_exact(LANES).zip(row.chunks_exact(LANES)) {
        for lane in 0..LANES {
            let (query, row) = (f64::from(query[lane]), f64::from(row[lane]));
            dots[lane] += query * row;
            norms[lane] += row * row;
        }
    }
    for half in [16, 8, 4, 2, 1] {
        for lane in 0..half {
            dots[lane] += dots[lane + half];
            norms[lane] += norms[lane + half];
        }
    }
    (dots[0], norms[0])
}
