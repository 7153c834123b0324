//! Macros that pass values of the core to and from Python, field by field. Each field is named once.

use pyo3::types::PyAnyMethods;
use pyo3::{Borrowed, FromPyObject, PyAny, PyErr, PyResult};
use siltstone_core::check_memory;

use crate::error::to_exception;
use crate::interpreter;

/// A value of the core that is read from the attributes of a Python object.
pub(crate) struct In<T>(pub(crate) T);

/// Values after which the memory that a process may have is measured again.
const MEASURED: usize = 64;

/// Values of the core that are read from any iterable, as it makes them.
///
/// So the objects of thousands of values live one at a time, and are no work for the collector of garbage.
pub(crate) struct Many<T>(pub(crate) Vec<T>);

impl<'py, T> FromPyObject<'_, 'py> for Many<T>
where
    In<T>: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let mut found = Vec::new();
        for value in object.try_iter()? {
            if found.len() % MEASURED == 0 {
                check_memory(0).map_err(|error| to_exception(object.py(), &error))?;
            }
            found.push(value?.extract::<In<T>>()?.0);
            interpreter::at_step(object.py(), found.len())?; // a native iterator would hold the interpreter to its end
        }
        Ok(Self(found))
    }
}

/// Reads a type of the core from a Python object: each field from the attribute of its name, as the given type.
macro_rules! reads {
    ($inner:ident { $($field:ident: $read:ty,)+ }) => {
        impl<'py> pyo3::FromPyObject<'_, 'py> for $crate::record::In<$inner> {
            type Error = pyo3::PyErr;

            fn extract(object: pyo3::Borrowed<'_, 'py, pyo3::PyAny>) -> pyo3::PyResult<Self> {
                let py = object.py();
                Ok(Self($inner {
                    $($field: object.getattr(pyo3::intern!(py, stringify!($field)))?.extract::<$read>()?.into(),)+
                }))
            }
        }
    };
}

/// Defines a frozen Python class with plain fields, each computed from a value of the core.
macro_rules! class {
    ($(#[$about:meta])* $name:ident($value:ident: $inner:ty) { $($field:ident: $type:ty = $made:expr,)+ }) => {
        $(#[$about])*
        #[allow(clippy::struct_field_names, reason = "they are the names that Python knows")]
        #[pyo3::pyclass(frozen, get_all, module = "siltstone._native")]
        pub(crate) struct $name {
            $($field: $type,)+
        }

        impl From<$inner> for $name {
            fn from($value: $inner) -> Self {
                Self { $($field: $made,)+ }
            }
        }
    };
}
