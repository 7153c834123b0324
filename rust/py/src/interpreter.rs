//! Only one interpreter of a process can load the module: the module keeps objects of that interpreter.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The `sys` of the interpreter that loaded the module first. It is held, so no other can come to lie in
/// its place.
static FIRST: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// Refuses to be loaded by a second interpreter.
///
/// The classes of exceptions, for one, are looked up once and kept: objects of the first interpreter, which
/// another must not touch. `PyO3` refuses a module that is made at once, and not one that is made in phases.
pub(crate) fn refuse_a_second(py: Python<'_>) -> PyResult<()> {
    let own = py.import("sys")?;
    let first = FIRST.get_or_init(py, || own.clone().unbind());
    if first.bind(py).is(&own) {
        return Ok(());
    }
    let message = "siltstone works in one interpreter of a process, and another has loaded it already: \
                   use threads, or a process of its own";
    Err(PyImportError::new_err(message))
}
