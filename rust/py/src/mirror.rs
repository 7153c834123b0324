//! Mirrors: stores in memory whose rows Python keeps elsewhere.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyString, PyTuple};
use siltstone_core::embed::hash::HashRule;
use siltstone_core::memory::{
    Changed, Changes, Column, Handle, Keeper, Value, mirrored_tables, schema_version,
};
use siltstone_core::{Error, ErrorKind, Result as CoreResult};

use crate::error::{refuse, run_detached};
use crate::record::Named;
use crate::store::Store;

/// A Python function that keeps the changes of a mirror. It refuses them by an exception.
struct PythonKeeper(Py<PyAny>);

impl Keeper for PythonKeeper {
    fn keep(&self, changes: &Changes) -> CoreResult<()> {
        Python::attach(|py| {
            let kept = changes_out(py, changes).and_then(|changes| self.0.call1(py, changes));
            kept.map(drop).map_err(|error| {
                refuse(error);
                Error::new(ErrorKind::NotKept, "the write was not kept")
            })
        })
    }
}

type ChangesOut<'py> = (Bound<'py, PyList>, i64, Vec<(String, i64)>, String);

fn changes_out<'py>(py: Python<'py>, changes: &Changes) -> PyResult<ChangesOut<'py>> {
    let tables = PyList::empty(py);
    for Changed { table, rows, gone } in &changes.tables {
        let out = PyList::empty(py);
        for row in rows {
            let values: PyResult<Vec<_>> = row.iter().map(|value| value_out(py, value)).collect();
            out.append(PyTuple::new(py, values?)?)?;
        }
        tables.append((table, out, gone.clone()))?;
    }
    Ok((
        tables,
        changes.high_water,
        changes.sequences.clone(),
        changes.salt.clone(),
    ))
}

fn value_out<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Integer(number) => number.into_pyobject(py)?.into_any(),
        Value::Text(bytes) => match str::from_utf8(bytes) {
            Ok(text) => PyString::new(py, text).into_any(),
            Err(_) => PyBytes::new(py, bytes).into_any(), // in a damaged row
        },
        Value::Blob(bytes) => PyBytes::new(py, bytes).into_any(),
    })
}

/// A value of a row from Python.
pub(crate) struct ValueIn(Value);

impl<'py> FromPyObject<'_, 'py> for ValueIn {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Self(Value::Null));
        }
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return Ok(Self(Value::Blob(bytes.as_bytes().to_vec())));
        }
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Self(Value::Text(text.to_str()?.as_bytes().to_vec())));
        }
        if value.is_instance_of::<PyInt>() {
            return Ok(Self(Value::Integer(value.extract()?)));
        }
        Err(PyTypeError::new_err("a value is None, int, str or bytes"))
    }
}

/// A table, its rows, and the keys of deleted rows.
type ChangedIn = (String, Vec<Vec<ValueIn>>, Vec<i64>);

/// A store in memory that mirrors rows. The function `keep` keeps the rows themselves.
#[pyfunction]
pub(crate) fn open_mirror(
    py: Python<'_>,
    hash_rule: Named<HashRule>,
    keep: Py<PyAny>,
) -> PyResult<Store> {
    let keeper = Box::new(PythonKeeper(keep));
    run_detached(py, || Handle::open_mirror(hash_rule.0, keeper)).map(Store::of)
}

/// Writes rows of others into a mirror.
#[pyfunction]
pub(crate) fn mirror_take(
    py: Python<'_>,
    store: PyRef<'_, Store>,
    tables: Vec<ChangedIn>,
    sequences: Vec<(String, i64)>,
    salt: String,
) -> PyResult<()> {
    let tables = tables.into_iter().map(|(table, rows, gone)| Changed {
        table,
        rows: rows
            .into_iter()
            .map(|row| row.into_iter().map(|value| value.0).collect())
            .collect(),
        gone,
    });
    let changes = Changes {
        tables: tables.collect(),
        high_water: 0,
        sequences,
        salt,
    };
    store.run(py, |store| store.take(&changes))
}

/// Makes new entries of a mirror get ids above `high_water`.
#[pyfunction]
pub(crate) fn mirror_ids_above(
    py: Python<'_>,
    store: PyRef<'_, Store>,
    high_water: i64,
) -> PyResult<()> {
    store.run(py, |store| store.give_ids_above(high_water))
}

/// A table with its columns: the name, the type, whether it may be NULL, and whether it is a part of the key.
type TableOut = (&'static str, Vec<(String, String, bool, bool)>);

/// The version of the schema, and the mirrored tables with their columns.
#[pyfunction]
pub(crate) fn mirror_schema(py: Python<'_>) -> PyResult<(String, Vec<TableOut>)> {
    let tables = run_detached(py, mirrored_tables)?
        .into_iter()
        .map(|(table, columns)| {
            let column = |each: Column| (each.name, each.kind, each.is_optional, each.is_key);
            (table, columns.into_iter().map(column).collect())
        });
    Ok((schema_version(), tables.collect()))
}
