//! Python values of exactly the types that JSON has, for the core's reader.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::dict::BoundDictIterator;
use pyo3::types::list::BoundListIterator;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use siltstone_core::json::{Node, Tree};
use siltstone_core::outline::{Field, Unread, Value};

use crate::text::exactly;

/// A Python value. Subclasses, texts with lone surrogates and values of other types are not read.
pub(super) struct Plain<'py>(pub(super) Bound<'py, PyAny>);

/// The items of a list.
pub(super) struct Items<'py>(BoundListIterator<'py>);

impl<'py> Iterator for Items<'py> {
    type Item = Plain<'py>;

    #[inline]
    fn next(&mut self) -> Option<Plain<'py>> {
        self.0.next().map(Plain)
    }
}

/// The keys and values of a dict.
pub(super) struct Fields<'py>(BoundDictIterator<'py>);

impl<'py> Iterator for Fields<'py> {
    type Item = (Plain<'py>, Plain<'py>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.0.next()?;
        Some((Plain(key), Plain(value)))
    }
}

impl<'py> Tree for Plain<'py> {
    type Error = Unread;
    type Items = Items<'py>;
    type Fields = Fields<'py>;

    #[inline]
    fn node(&self) -> Result<Node<'_, Self>, Unread> {
        if let Some(text) = self.text() {
            Ok(Node::Text(Cow::Borrowed(text.as_bytes())))
        } else if let Some(items) = self.items() {
            Ok(Node::Array(items))
        } else if let Some(fields) = self.fields() {
            Ok(Node::Object(fields))
        } else {
            literal(&self.0).map(Node::Literal).ok_or(Unread)
        }
    }

    #[inline]
    fn key(&self) -> Result<Node<'_, Self>, Unread> {
        let text = self.text().ok_or(Unread)?;
        Ok(Node::Text(Cow::Borrowed(text.as_bytes())))
    }

    fn too_deep(&self, _: usize) -> Unread {
        Unread
    }
}

impl Value for Plain<'_> {
    #[inline]
    fn text(&self) -> Option<&str> {
        exactly::<PyString>(&self.0)?.to_str().ok()
    }

    #[inline]
    fn items(&self) -> Option<Self::Items> {
        let list = exactly::<PyList>(&self.0)?;
        Some(Items(list.iter()))
    }

    #[inline]
    fn fields(&self) -> Option<Self::Fields> {
        let dict = exactly::<PyDict>(&self.0)?;
        Some(Fields(dict.iter()))
    }

    #[inline]
    fn field(&self, field: Field) -> Option<Self> {
        let dict = exactly::<PyDict>(&self.0)?;
        dict.get_item(name(self.0.py(), field)).ok()?.map(Self)
    }

    #[inline]
    fn role_and_text(&self) -> Option<(Self, Self)> {
        let (role, text) = role_and_text(&self.0)?;
        Some((Self(role.into_any()), Self(text.into_any())))
    }

    #[inline]
    fn is_object(&self) -> bool {
        self.0.is_exact_instance_of::<PyDict>()
    }

    #[inline]
    fn is_null(&self) -> bool {
        self.0.is_none()
    }

    #[inline]
    fn is_true(&self) -> bool {
        exactly::<PyBool>(&self.0).is_some_and(PyBoolMethods::is_true)
    }
}

/// The name of a field as a str, which is made once.
pub(super) fn name(py: Python<'_>, field: Field) -> &Bound<'_, PyString> {
    static NAMES: PyOnceLock<Vec<Py<PyString>>> = PyOnceLock::new();
    let names = NAMES.get_or_init(py, || {
        let names = Field::ALL.iter();
        names
            .map(|field| PyString::intern(py, field.name()).unbind())
            .collect()
    });
    names[field as usize].bind(py)
}

/// Whether Python's `str.isspace` accepts the character.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1C}'..='\u{1F}')
}

/// The JSON of None, a bool, a finite float or an int of 64 bits.
fn literal(value: &Bound<'_, PyAny>) -> Option<Cow<'static, str>> {
    if value.is_none() {
        Some(Cow::Borrowed("null"))
    } else if let Some(truth) = exactly::<PyBool>(value) {
        Some(Cow::Borrowed(if truth.is_true() {
            "true"
        } else {
            "false"
        }))
    } else if value.is_exact_instance_of::<PyInt>() {
        Some(Cow::Owned(value.extract::<i64>().ok()?.to_string()))
    } else if let Some(number) = exactly::<PyFloat>(value) {
        if !number.value().is_finite() {
            return None;
        }
        Some(Cow::Owned(number.repr().ok()?.to_str().ok()?.to_owned()))
    } else {
        None
    }
}

/// The role and the content of a message that has exactly these two fields, both texts.
pub(super) fn role_and_text<'py>(
    raw: &Bound<'py, PyAny>,
) -> Option<(Bound<'py, PyString>, Bound<'py, PyString>)> {
    let dict = exactly::<PyDict>(raw).filter(|dict| dict.len() == 2)?;
    let text = |field| {
        let value = dict.get_item(name(raw.py(), field)).ok()??;
        value.cast_into_exact().ok()
    };
    let content = text(Field::Content)?; // of the two the one that is often something else
    Some((text(Field::Role)?, content))
}
