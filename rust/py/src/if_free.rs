//! Runs a step under a lock of Python, if nobody holds the lock.

use pyo3::prelude::*;

/// Calls `step` while it holds `lock`, and gives its result. None at once where another thread holds the lock.
///
/// It is here because an interrupt can come between two calls of Python: one right after the lock was taken would leave
/// it held.
#[pyfunction]
pub(crate) fn run_if_free(
    lock: &Bound<'_, PyAny>,
    step: &Bound<'_, PyAny>,
) -> PyResult<Option<Py<PyAny>>> {
    if !lock.call_method1("acquire", (false,))?.is_truthy()? {
        return Ok(None);
    }
    let done = step.call0();
    lock.call_method0("release")?;
    done.map(|value| Some(value.unbind()))
}
