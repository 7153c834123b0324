//! Values made of the exact types that JSON has: how large they are, and as JSON text.
//!
//! Everything here answers `None` for whatever else there is: the slow reader, in Python, knows what to do.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use siltstone_core::json::{string_size, write_string};
use siltstone_core::tokens::TextSize;

/// How deep a value may be nested; deeper ones are rare, and this reader recurses.
pub(super) const MAX_DEPTH: usize = 48;

/// The text of an exact str without lone surrogates.
pub(super) fn text<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a str> {
    value.cast_exact::<PyString>().ok()?.to_str().ok()
}

/// Adds the size of `value` as compact JSON.
pub(super) fn measure(value: &Bound<'_, PyAny>, depth: usize, size: &mut TextSize) -> Option<()> {
    if let Ok(text) = value.cast_exact::<PyString>() {
        *size = size.plus(string_size(text.to_str().ok()?.as_bytes()));
        return Some(());
    }
    if let Ok(list) = value.cast_exact::<PyList>() {
        ascii(size, 2 + list.len().saturating_sub(1));
        let depth = depth.checked_sub(1)?;
        return list.iter().try_for_each(|item| measure(&item, depth, size));
    }
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        let depth = depth.checked_sub(1)?;
        object(size, dict.len());
        return dict.iter().try_for_each(|(key, item)| {
            *size = size.plus(string_size(text(&key)?.as_bytes()));
            measure(&item, depth, size)
        });
    }
    ascii(size, literal(value)?.len());
    Some(())
}

/// Adds the braces, colons and commas of an object of `count` fields.
pub(super) fn object(size: &mut TextSize, count: usize) {
    ascii(size, 2 + (2 * count).saturating_sub(1));
}

fn ascii(size: &mut TextSize, length: usize) {
    size.bytes += length;
    size.code_points += length;
}

/// Appends `value` as compact JSON.
pub(super) fn write(value: &Bound<'_, PyAny>, depth: usize, json: &mut String) -> Option<()> {
    if let Some(text) = text(value) {
        write_string(text, json);
    } else if let Ok(list) = value.cast_exact::<PyList>() {
        let depth = depth.checked_sub(1)?;
        json.push('[');
        for (place, item) in list.iter().enumerate() {
            if place > 0 {
                json.push(',');
            }
            write(&item, depth, json)?;
        }
        json.push(']');
    } else if let Ok(dict) = value.cast_exact::<PyDict>() {
        let depth = depth.checked_sub(1)?;
        json.push('{');
        for (place, (key, item)) in dict.iter().enumerate() {
            if place > 0 {
                json.push(',');
            }
            write_string(text(&key)?, json);
            json.push(':');
            write(&item, depth, json)?;
        }
        json.push('}');
    } else {
        json.push_str(&literal(value)?);
    }
    Some(())
}

/// `null`, `true`, `false`, a finite float or an int of 64 bits, as JSON.
fn literal(value: &Bound<'_, PyAny>) -> Option<String> {
    if value.is_none() {
        Some("null".to_owned())
    } else if let Ok(truth) = value.cast_exact::<PyBool>() {
        Some(truth.is_true().to_string())
    } else if value.cast_exact::<PyInt>().is_ok() {
        Some(value.extract::<i64>().ok()?.to_string())
    } else if let Ok(number) = value.cast_exact::<PyFloat>() {
        if !number.value().is_finite() {
            return None;
        }
        Some(number.repr().ok()?.to_str().ok()?.to_owned())
    } else {
        None
    }
}
