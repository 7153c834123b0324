//! The functions `json_size`, `json_digests` and `begins_alike`, which treat Python values as JSON without writing it.

use std::borrow::Cow;
use std::iter::Zip;

use pyo3::PyTypeInfo;
use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::list::BoundListIterator;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use siltstone_core::json::{Node, Tree, digest_of, size_of, weigh};
use siltstone_core::tokens::TOKEN;

use crate::error::run_attached;
use crate::interpreter;
use crate::text::{exactly, utf8};
use crate::tokenize::family_of;

/// The deepest nesting of a value. A value that contains itself exceeds it.
const MAX_DEPTH: usize = 1000;

/// The bytes and code points of `json.dumps(value, ensure_ascii=False, separators=(",", ":"))`.
#[pyfunction]
pub(crate) fn json_size(value: &Bound<'_, PyAny>) -> PyResult<(usize, usize)> {
    run_attached(value.py(), || {
        let size = size_of(&Dumped(value.clone()), MAX_DEPTH)?;
        Ok((size.bytes, size.code_points))
    })
}

/// The tokens of `value` as JSON: its texts by their characters.
#[pyfunction]
#[pyo3(signature = (value, rule = "weights"))]
pub(crate) fn json_tokens(value: &Bound<'_, PyAny>, rule: &str) -> PyResult<usize> {
    run_attached(value.py(), || {
        let (_, weight) = weigh(&Dumped(value.clone()), MAX_DEPTH, family_of(rule)?)?;
        Ok(weight.div_ceil(TOKEN))
    })
}

/// Bytes of one digest.
const DIGEST: usize = 16;

/// The digests of `values`, one after another. Each is the digest of the JSON text that `json_size` measures.
#[pyfunction]
pub(crate) fn json_digests<'py>(values: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyBytes>> {
    run_attached(values.py(), || {
        let mut digests = Vec::with_capacity(values.len() * DIGEST);
        for (at, value) in values.iter().enumerate() {
            interpreter::at_step(values.py(), at)?;
            digests.extend(digest_of(&Dumped(value), MAX_DEPTH)?.to_le_bytes());
        }
        Ok(PyBytes::new(values.py(), &digests))
    })
}

/// Whether `values` begins with `objects`: with the same objects, or with values of the same digests.
///
/// A value that is no JSON equals no other.
#[pyfunction]
#[pyo3(signature = (values, objects, digests=None))]
pub(crate) fn begins_alike(
    values: &Bound<'_, PyList>,
    objects: &Bound<'_, PyList>,
    digests: Option<&[u8]>,
) -> PyResult<bool> {
    run_attached(values.py(), || {
        let mut digests = digests.map(|all| all.chunks_exact(DIGEST));
        let mut rest = values.iter();
        for (at, object) in objects.iter().enumerate() {
            interpreter::at_step(values.py(), at)?;
            let Some(value) = rest.next() else {
                return Ok(false);
            };
            let known = digests.as_mut().and_then(Iterator::next);
            if value.is(&object) {
                continue;
            }
            let alike = match digest_of(&Dumped(value), MAX_DEPTH) {
                Ok(digest) => known.is_some_and(|known| known == digest.to_le_bytes()),
                Err(error) if error.is_instance_of::<PyException>(values.py()) => false,
                Err(error) => return Err(error),
            };
            if !alike {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

/// A value as `json.dumps` sees it: subclasses are read through their own methods.
///
/// A container may change while such a method runs. So iterators run over lists that nobody else has, or check the
/// length at each step.
struct Dumped<'py>(Bound<'py, PyAny>);

/// The items of a list.
struct Items<'py>(BoundListIterator<'py>);

impl<'py> Iterator for Items<'py> {
    type Item = Dumped<'py>;

    #[inline]
    fn next(&mut self) -> Option<Dumped<'py>> {
        self.0.next().map(Dumped)
    }
}

impl<'py> Tree for Dumped<'py> {
    type Error = PyErr;
    type Items = Items<'py>;
    type Fields = Zip<Items<'py>, Items<'py>>;

    /// Exact types come first, because nearly all values have them.
    #[inline]
    fn node(&self) -> PyResult<Node<'_, Self>> {
        let value = &self.0;
        if let Some(text) = exactly::<PyString>(value) {
            Ok(Node::Text(utf8(text)?))
        } else if let Some(dict) = exactly::<PyDict>(value) {
            Ok(Node::Object(items(&dict.keys()).zip(items(&dict.values()))))
        } else if let Some(list) = exactly::<PyList>(value) {
            Ok(Node::Array(items(list)))
        } else if let Some(literal) = literal(value)? {
            Ok(Node::Literal(literal))
        } else {
            self.other()
        }
    }

    #[inline]
    fn key(&self) -> PyResult<Node<'_, Self>> {
        if let Ok(text) = self.0.cast::<PyString>() {
            Ok(Node::Text(utf8(text)?))
        } else if let Some(literal) = literal(&self.0)? {
            Ok(Node::Literal(literal))
        } else {
            let kind = self.0.get_type().qualname()?;
            let message = format!("keys must be str, int, float, bool or None, got {kind}");
            Err(PyTypeError::new_err(message))
        }
    }

    fn too_deep(&self, limit: usize) -> PyErr {
        PyValueError::new_err(format!(
            "a value must be nested at most {limit} deep and must not contain itself"
        ))
    }
}

impl<'py> Dumped<'py> {
    /// Reads tuples and subclasses.
    fn other(&self) -> PyResult<Node<'_, Self>> {
        let value = &self.0;
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Node::Text(utf8(text)?));
        }
        let list_type = PyList::type_object(value.py());
        if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            let list = list_type.call1((value,))?;
            return Ok(Node::Array(items(list.cast::<PyList>()?)));
        }
        if value.is_instance_of::<PyDict>() {
            let pairs = list_type.call1((value.call_method0("items")?,))?;
            let pairs: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)> = pairs.extract()?;
            let (keys, values): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let keys = PyList::new(value.py(), keys)?;
            let values = PyList::new(value.py(), values)?;
            return Ok(Node::Object(items(&keys).zip(items(&values))));
        }
        let message = format!("{} is not JSON serializable", value.get_type().qualname()?);
        Err(PyTypeError::new_err(message))
    }
}

fn items<'py>(list: &Bound<'py, PyList>) -> Items<'py> {
    Items(list.iter())
}

/// The JSON of None, a bool, a float or an int; None for any other value.
fn literal<'a>(value: &'a Bound<'_, PyAny>) -> PyResult<Option<Cow<'a, str>>> {
    let py = value.py();
    let written = if value.is_none() {
        Cow::Borrowed("null")
    } else if let Ok(truth) = value.cast::<PyBool>() {
        Cow::Borrowed(if truth.is_true() { "true" } else { "false" })
    } else if let Ok(number) = value.cast::<PyInt>() {
        if let Ok(small) = number.extract::<i64>() {
            Cow::Owned(small.to_string())
        } else {
            let text = PyInt::type_object(py).call_method1("__repr__", (number,))?;
            Cow::Owned(text.extract()?)
        }
    } else if let Ok(number) = value.cast::<PyFloat>() {
        let value = number.value();
        if value.is_nan() {
            Cow::Borrowed("NaN")
        } else if value.is_infinite() {
            Cow::Borrowed(if value > 0.0 { "Infinity" } else { "-Infinity" })
        } else {
            let text = PyFloat::type_object(py).call_method1("__repr__", (number,))?;
            Cow::Owned(text.extract()?)
        }
    } else {
        return Ok(None);
    };
    Ok(Some(written))
}
