//! Lets other threads take the interpreter during a call that holds it for long.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Steps of a loop between two moments in which other threads may take the interpreter.
const STEPS: usize = 64;

/// Lets a thread that waits for the interpreter take it, at each 64th step of a loop. `step` is the number of the step.
///
/// The call of a Python function gives the interpreter to a thread that has waited for the whole switch interval.
/// Detaching for a moment does not: the thread wakes too late, and its interval begins anew. So frequent detaching keeps
/// others waiting to the end of the loop.
///
/// Signals are handled too, so a handler may raise here.
#[inline]
pub(crate) fn at_step(py: Python<'_>, step: usize) -> PyResult<()> {
    if step % STEPS == STEPS - 1 {
        let_others_in(py)
    } else {
        Ok(())
    }
}

#[cold]
fn let_others_in(py: Python<'_>) -> PyResult<()> {
    static NOTHING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let nothing = NOTHING.get_or_try_init(py, || {
        py.eval(c"lambda: None", None, None).map(Bound::unbind)
    })?;
    nothing.call0(py)?;
    Ok(())
}
