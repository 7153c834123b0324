//! `json_size`: how large a value is as JSON, without writing it.

use std::iter::Zip;

use pyo3::PyTypeInfo;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::list::BoundListIterator;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use siltstone_core::json::string_size;
use siltstone_core::tokens::TextSize;

use crate::error::guard_attached;
use crate::text::with_bytes;

/// How deep a value may be nested; one that contains itself is deeper.
const MAX_DEPTH: usize = 1000;

/// Bytes and code points of `json.dumps(value, ensure_ascii=False, separators=(",", ":"))`.
#[pyfunction]
pub(crate) fn json_size(value: &Bound<'_, PyAny>) -> PyResult<(usize, usize)> {
    guard_attached(value.py(), || {
        let mut walk = Walk::default();
        walk.run(value)?;
        Ok((walk.size.bytes, walk.size.code_points))
    })
}

/// A walk over a value: what was measured so far, and the containers that are open.
///
/// They lie on the heap, so no value can overflow the stack of the thread, however small it is.
#[derive(Default)]
struct Walk<'py> {
    size: TextSize,
    open: Vec<Container<'py>>,
}

/// What is left of a container.
///
/// Iterators run over lists that nobody else holds, or look at the length again with each step: a
/// container may change while a method of the caller's runs.
enum Container<'py> {
    Array(BoundListIterator<'py>),
    Object(Zip<BoundListIterator<'py>, BoundListIterator<'py>>),
}

impl<'py> Walk<'py> {
    fn run(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        self.visit(value)?;
        while let Some(container) = self.open.last_mut() {
            match container {
                Container::Array(items) => match items.next() {
                    Some(item) => {
                        self.ascii(1); // the comma after it
                        self.visit(&item)?;
                    }
                    None => self.close(),
                },
                Container::Object(items) => match items.next() {
                    Some((key, value)) => {
                        self.ascii(2); // colon and comma
                        self.key(&key)?;
                        self.visit(&value)?;
                    }
                    None => self.close(),
                },
            }
        }
        Ok(())
    }

    /// Measures a scalar, or opens a container. Exact types first: they are nearly all there is.
    fn visit(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        if let Ok(text) = value.cast_exact::<PyString>() {
            self.string(text)
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.object(dict)
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.array(list)
        } else if let Some(literal) = literal_size(value)? {
            self.ascii(literal);
            Ok(())
        } else {
            self.visit_other(value)
        }
    }

    /// Tuples and subclasses, which are read as `json.dumps` reads them: by their own methods.
    fn visit_other(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        if let Ok(text) = value.cast::<PyString>() {
            return self.string(text);
        }
        let list_type = PyList::type_object(value.py());
        if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            return self.array(list_type.call1((value,))?.cast::<PyList>()?);
        }
        if value.is_instance_of::<PyDict>() {
            let items = list_type.call1((value.call_method0("items")?,))?;
            let pairs: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)> = items.extract()?;
            let (keys, values): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let (keys, values) = (
                PyList::new(value.py(), keys)?,
                PyList::new(value.py(), values)?,
            );
            return self.enter(
                !keys.is_empty(),
                Container::Object(keys.into_iter().zip(values)),
            );
        }
        let message = format!("{} is not JSON serializable", value.get_type().qualname()?);
        Err(PyTypeError::new_err(message))
    }

    fn array(&mut self, list: &Bound<'py, PyList>) -> PyResult<()> {
        self.enter(!list.is_empty(), Container::Array(list.iter()))
    }

    fn object(&mut self, dict: &Bound<'py, PyDict>) -> PyResult<()> {
        let items = dict.keys().into_iter().zip(dict.values());
        self.enter(!dict.is_empty(), Container::Object(items))
    }

    /// Counts the brackets, less the comma that the last item does not have.
    fn enter(&mut self, has_items: bool, container: Container<'py>) -> PyResult<()> {
        if !has_items {
            self.ascii(2);
            return Ok(());
        }
        if self.open.len() == MAX_DEPTH {
            let message = format!(
                "a value must be nested at most {MAX_DEPTH} deep and must not contain itself"
            );
            return Err(PyValueError::new_err(message));
        }
        self.ascii(1);
        self.open.push(container);
        Ok(())
    }

    fn close(&mut self) {
        self.open.pop();
    }

    fn key(&mut self, key: &Bound<'py, PyAny>) -> PyResult<()> {
        if let Ok(text) = key.cast::<PyString>() {
            self.string(text)
        } else if let Some(literal) = literal_size(key)? {
            self.ascii(2 + literal);
            Ok(())
        } else {
            let kind = key.get_type().qualname()?;
            let message = format!("keys must be str, int, float, bool or None, got {kind}");
            Err(PyTypeError::new_err(message))
        }
    }

    fn string(&mut self, text: &Bound<'py, PyString>) -> PyResult<()> {
        self.size = self.size.plus(with_bytes(text, string_size)?);
        Ok(())
    }

    /// Adds characters that take one byte each.
    fn ascii(&mut self, length: usize) {
        self.size.bytes += length;
        self.size.code_points += length;
    }
}

/// The length of `null`, `true`, `false`, a float or an int, and None for anything else.
fn literal_size(value: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let size = if value.is_none() {
        "null".len()
    } else if let Ok(truth) = value.cast::<PyBool>() {
        if truth.is_true() {
            "true".len()
        } else {
            "false".len()
        }
    } else if let Ok(number) = value.cast::<PyInt>() {
        int_size(number)?
    } else if let Ok(number) = value.cast::<PyFloat>() {
        float_size(number)?
    } else {
        return Ok(None);
    };
    Ok(Some(size))
}

fn int_size(number: &Bound<'_, PyInt>) -> PyResult<usize> {
    if let Ok(small) = number.extract::<i64>() {
        let digits = small
            .unsigned_abs()
            .checked_ilog10()
            .map_or(1, |power| power as usize + 1);
        return Ok(digits + usize::from(small < 0));
    }
    let text = PyInt::type_object(number.py()).call_method1("__repr__", (number,))?;
    text.len()
}

/// As `float.__repr__` writes it; `NaN`, `Infinity` and `-Infinity` as `json.dumps` does.
fn float_size(number: &Bound<'_, PyFloat>) -> PyResult<usize> {
    let value = number.value();
    if value.is_nan() {
        return Ok("NaN".len());
    }
    if value.is_infinite() {
        return Ok("Infinity".len() + usize::from(value < 0.0));
    }
    let text = PyFloat::type_object(number.py()).call_method1("__repr__", (number,))?;
    text.len()
}
