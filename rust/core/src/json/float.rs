//! A number as JSON text.

use std::fmt::Write as _;

/// Appends `number` as Python's `json.dumps` writes it: the fewest digits that give the same number, with an exponent
/// below 0.0001 and from 1e16 on. `number` is finite.
pub fn write_float(number: f64, text: &mut String) {
    let size = number.abs();
    // Writing into a string does not fail.
    if size == 0.0 || (1e-4..1e16).contains(&size) {
        let _ = write!(text, "{number:?}");
        return;
    }
    let start = text.len();
    let _ = write!(text, "{number:e}");
    // Python writes the sign of the exponent, and at least two digits of it.
    if let Some(at) = text[start..].find('e').map(|at| start + at + 1) {
        let exponent = text.split_off(at);
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent.as_str()),
        };
        let _ = write!(text, "{sign}{digits:0>2}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_python_writes_them() {
        for (number, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (0.300_000_000_000_000_04, "0.30000000000000004"),
            (0.0001, "0.0001"),
            (0.000_123_45, "0.00012345"),
            (0.000_099, "9.9e-05"),
            (1e-5, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (5e-324, "5e-324"),
            (-1.5e-300, "-1.5e-300"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            let mut text = String::from("[");
            write_float(number, &mut text);
            assert_eq!(text, format!("[{expected}"));
        }
    }
}
