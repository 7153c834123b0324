//! Texts from Python: any str, including one that is not valid UTF-8.

use std::borrow::Cow;
use std::char::{REPLACEMENT_CHARACTER, decode_utf16};
use std::ops::Deref;

use pyo3::PyTypeInfo;
use pyo3::exceptions::{PyTypeError, PyUnicodeEncodeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyList, PyString};
use siltstone_core::id::SessionId;
use siltstone_core::{Error, ErrorKind, Result as CoreResult};

use crate::error::to_exception;
use crate::record::In;

/// A text that can be read without the interpreter.
///
/// Lone surrogates raise no error. A high surrogate before a low one becomes the code point of the
/// pair; any other becomes U+FFFD.
pub(crate) enum Text {
    /// The UTF-8 of the str itself.
    Borrowed(PyBackedStr),
    /// A copy of a text whose surrogates were paired or replaced, or a text that was made here.
    Repaired(String),
}

impl Text {
    /// The text of a Python str.
    pub(crate) fn from_py(text: &Bound<'_, PyString>) -> PyResult<Self> {
        match PyBackedStr::try_from(text.clone()) {
            Ok(text) => Ok(Self::Borrowed(text)),
            Err(error) if error.is_instance_of::<PyUnicodeEncodeError>(text.py()) => {
                repair(text).map(Self::Repaired)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether surrogates were paired or replaced.
    pub(crate) fn is_repaired(&self) -> bool {
        matches!(self, Self::Repaired(_))
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Repaired(text) => text,
        }
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        match text {
            Text::Borrowed(text) => text.to_owned(),
            Text::Repaired(text) => text,
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Self::from_py(&*object.cast::<PyString>()?)
    }
}

/// `value` as an object of exactly that type; None for another type. Unlike a cast, it makes no error object.
#[inline]
pub(crate) fn exactly<'a, 'py, T: PyTypeInfo>(
    value: &'a Bound<'py, PyAny>,
) -> Option<&'a Bound<'py, T>> {
    if value.is_exact_instance_of::<T>() {
        value.cast_exact().ok()
    } else {
        None
    }
}

/// The texts in a list of str. The `TypeError` for another value names its position.
pub(crate) fn borrow_all(texts: &Bound<'_, PyList>) -> PyResult<Vec<Text>> {
    let mut converted = Vec::with_capacity(texts.len());
    for (place, item) in texts.iter().enumerate() {
        let Ok(text) = item.cast::<PyString>() else {
            let kind = item.get_type().qualname()?;
            return Err(PyTypeError::new_err(format!(
                "texts[{place}] must be a str, got {kind}"
            )));
        };
        converted.push(Text::from_py(text)?);
    }
    Ok(converted)
}

/// The UTF-8 of a str, with lone surrogates in their three-byte form. Sizes of texts are measured on it.
#[inline]
pub(crate) fn utf8<'a>(text: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(utf8) = text.to_str() {
        return Ok(Cow::Borrowed(utf8.as_bytes()));
    }
    Ok(Cow::Owned(encode(text, "utf-8")?.as_bytes().to_vec()))
}

/// Calls `read` with the UTF-8 of a str.
pub(crate) fn with_bytes<T>(
    text: &Bound<'_, PyString>,
    read: impl FnOnce(&[u8]) -> T,
) -> PyResult<T> {
    Ok(read(&utf8(text)?))
}

fn repair(text: &Bound<'_, PyString>) -> PyResult<String> {
    let bytes = encode(text, "utf-16-le")?;
    let (pairs, _) = bytes.as_bytes().as_chunks::<2>();
    let units = pairs.iter().map(|pair| u16::from_le_bytes(*pair));
    Ok(decode_utf16(units)
        .map(|unit| unit.unwrap_or(REPLACEMENT_CHARACTER))
        .collect())
}

fn encode<'py>(text: &Bound<'py, PyString>, encoding: &str) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = PyString::type_object(text.py())
        .call_method1("encode", (text, encoding, "surrogatepass"))?;
    Ok(bytes.cast_into::<PyBytes>()?)
}

impl<'py> FromPyObject<'_, 'py> for In<SessionId> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let id = session_id(&object.extract()?);
        id.map(Self)
            .map_err(|error| to_exception(object.py(), &error))
    }
}

/// A session id from Python. A text with lone surrogates is refused, because two different ones could become the same
/// key.
fn session_id(text: &Text) -> CoreResult<SessionId> {
    if text.is_repaired() {
        let message = "a session id must not hold lone surrogates";
        return Err(Error::new(ErrorKind::InvalidEntry, message));
    }
    SessionId::new(text)
}

/// A namespace from Python, with the bounds of a session id. It may be empty.
pub(crate) struct Namespace(Text);

impl<'py> FromPyObject<'_, 'py> for Namespace {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let text: Text = object.extract()?;
        if !text.is_empty() {
            object.extract::<In<SessionId>>()?;
        }
        Ok(Self(text))
    }
}

impl Deref for Namespace {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}
