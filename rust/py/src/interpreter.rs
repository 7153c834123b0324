//! Refuses a second interpreter in the process: the module keeps objects of the interpreter that loaded it first.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The `sys` module of the first interpreter that loaded this module. It is kept alive, so no other `sys` can get its
/// address.
static FIRST: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// Refuses a second interpreter.
///
/// The classes of exceptions, for example, are looked up once and kept. They belong to the first interpreter, and
/// another one must not use them. `PyO3` checks this only for modules with single-phase initialisation.
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
