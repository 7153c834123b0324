//! How values of the core cross to Python and back. Each field is named once.

use std::ops::Deref;
use std::str::FromStr;

use pyo3::types::PyAnyMethods;
use pyo3::{Borrowed, FromPyObject, PyAny, PyErr, PyResult};
use siltstone_core::id::EntryId;
use siltstone_core::{Error, check_memory};

use crate::error::to_exception;
use crate::interpreter;
use crate::text::Text;

/// A value that crosses the wall as a `T`: itself, or each value in it.
pub(crate) trait Cross<T> {
    fn cross(self) -> T;
}

macro_rules! crosses_as_it_is {
    ($($type:ty)+) => {
        $(impl Cross<$type> for $type {
            fn cross(self) -> $type {
                self
            }
        })+
    };
}

crosses_as_it_is! { () bool f64 i64 u8 usize String &'static str }

impl Cross<String> for Text {
    fn cross(self) -> String {
        self.into()
    }
}

impl Cross<i64> for EntryId {
    fn cross(self) -> i64 {
        self.0
    }
}

impl<T: Cross<U>, U> Cross<Option<U>> for Option<T> {
    fn cross(self) -> Option<U> {
        self.map(T::cross)
    }
}

impl<T: Cross<U>, U> Cross<Vec<U>> for Vec<T> {
    fn cross(self) -> Vec<U> {
        self.into_iter().map(T::cross).collect()
    }
}

impl<A: Cross<C>, B: Cross<D>, C, D> Cross<(C, D)> for (A, B) {
    fn cross(self) -> (C, D) {
        (self.0.cross(), self.1.cross())
    }
}

impl<A: Cross<D>, B: Cross<E>, C: Cross<F>, D, E, F> Cross<(D, E, F)> for (A, B, C) {
    fn cross(self) -> (D, E, F) {
        (self.0.cross(), self.1.cross(), self.2.cross())
    }
}

/// A value of the core that is read from a Python object.
pub(crate) struct In<T>(pub(crate) T);

impl<T> Deref for In<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Cross<T> for In<T> {
    fn cross(self) -> T {
        self.0
    }
}

/// A value of the core that is read from its name.
pub(crate) struct Named<T>(pub(crate) T);

impl<'py, T: FromStr<Err = Error>> FromPyObject<'_, 'py> for Named<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let parsed = object.extract::<Text>()?.parse();
        parsed
            .map(Self)
            .map_err(|error| to_exception(object.py(), &error))
    }
}

impl<T> Cross<T> for Named<T> {
    fn cross(self) -> T {
        self.0
    }
}

/// Values after which the memory that a process may have is measured again.
const MEASURED: usize = 64;

/// Values of the core that are read from any iterable, as it makes them.
///
/// So the objects of thousands of values live one at a time, and are no work for the collector of garbage.
pub(crate) struct Many<T>(pub(crate) Vec<T>);

impl<T> Deref for Many<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> Cross<Vec<T>> for Many<T> {
    fn cross(self) -> Vec<T> {
        self.0
    }
}

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

/// Reads a type of the core from the attributes of a Python object: each field from its name, as the given type.
macro_rules! reads {
    ($inner:ident { $($field:ident: $read:ty,)+ }) => {
        impl<'py> pyo3::FromPyObject<'_, 'py> for $crate::record::In<$inner> {
            type Error = pyo3::PyErr;

            fn extract(object: pyo3::Borrowed<'_, 'py, pyo3::PyAny>) -> pyo3::PyResult<Self> {
                let py = object.py();
                Ok(Self($inner {
                    $($field: object.getattr(pyo3::intern!(py, stringify!($field)))?.extract::<$read>()?.cross(),)+
                }))
            }
        }
    };
}

/// Reads a type of the core from a Python tuple: each field from its place, as the given type.
macro_rules! reads_tuple {
    ($inner:ident { $($field:ident: $read:ty,)+ }) => {
        impl<'py> pyo3::FromPyObject<'_, 'py> for $crate::record::In<$inner> {
            type Error = pyo3::PyErr;

            fn extract(object: pyo3::Borrowed<'_, 'py, pyo3::PyAny>) -> pyo3::PyResult<Self> {
                let ($($field,)+): ($($read,)+) = object.extract()?;
                Ok(Self($inner { $($field: $field.cross(),)+ }))
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

        impl $crate::record::Cross<$name> for $inner {
            fn cross(self) -> $name {
                let $value = self;
                $name { $($field: $made.cross(),)+ }
            }
        }
    };
}
