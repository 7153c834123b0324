//! Checks rows of floats, and scales them by a power of two, which changes no cosine.

use std::borrow::Cow;

use siltstone_core::{Error, ErrorKind, Result};

/// The longest row, in numbers: sums of products of so many bytes fit in 32 bits.
pub const MAX_DIMENSION: usize = 65_536;

/// Refuses a dimension out of 1 to [`MAX_DIMENSION`].
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`], with the bounds and the value.
pub fn check_dimension(dimension: usize) -> Result<()> {
    if (1..=MAX_DIMENSION).contains(&dimension) {
        return Ok(());
    }
    let message = format!("dim must be 1 to {MAX_DIMENSION}, got {dimension}");
    let value = i64::try_from(dimension).unwrap_or(i64::MAX);
    Err(Error::refused("dim", value, message))
}

/// Refuses numbers that are not finite. `row` and `field` are the names of the row and the matrix in the message.
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`], with the place and the value.
pub fn check_row(values: &[f32], row: usize, field: &str) -> Result<()> {
    // Without an early exit, so that the compiler can vectorize.
    let finite = values
        .iter()
        .fold(true, |all, value| all & value.is_finite());
    if finite {
        return Ok(());
    }
    let place = values.iter().position(|value| !value.is_finite());
    let (column, value) = place.map_or((0, f32::NAN), |place| (place, values[place]));
    let message = format!("{field} must be finite, got {value} in row {row}, column {column}");
    Err(Error::new(ErrorKind::InvalidArgument, message).with("field", field))
}

/// The same direction, scaled so that the largest number is 1/4 to 1 in size: then squares do not overflow. A row in this range stays as it is. None for a row of zeros.
pub(super) fn scaled(values: &[f32]) -> Option<Cow<'_, [f32]>> {
    let greatest = values
        .iter()
        .fold(0.0_f32, |most, value| most.max(value.abs()));
    if greatest <= 0.0 {
        return None;
    }
    if (0.25..=1.0).contains(&greatest) {
        return Some(Cow::Borrowed(values));
    }
    // Exact in float64, whose exponents have a larger range than those of float32.
    let factor = 2.0_f64.powi(-exponent(greatest));
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most 1 in size; numbers below float32 count for nothing beside the greatest"
    )]
    let scaled = values
        .iter()
        .map(|&value| (f64::from(value) * factor) as f32);
    Some(Cow::Owned(scaled.collect()))
}

/// The number `e` with `2^(e - 1) <= value < 2^e`.
fn exponent(value: f32) -> i32 {
    let bits = (f64::from(value).to_bits() >> 52) & 0x7FF; // every float32 is a normal float64
    i32::try_from(bits).map_or(0, |biased| biased - 1022)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_direction_stays_and_the_size_goes() {
        assert_eq!(scaled(&[0.0, -0.0]), None);
        assert_eq!(scaled(&[]), None);
        assert_eq!(scaled(&[0.25, 1.0]).as_deref(), Some(&[0.25, 1.0][..]));
        assert_eq!(scaled(&[3.0, -6.0]).as_deref(), Some(&[0.375, -0.75][..]));
        assert_eq!(
            scaled(&[f32::MAX, 0.0]).unwrap()[0].to_bits(),
            0.999_999_94_f32.to_bits()
        );
        assert_eq!(scaled(&[f32::from_bits(1)]).as_deref(), Some(&[0.5][..]));
        for value in [1e-30_f32, 7.0, 1e30] {
            let once = scaled(&[value]).unwrap().into_owned();
            assert_eq!(scaled(&once).as_deref(), Some(&once[..]));
        }
    }
}
