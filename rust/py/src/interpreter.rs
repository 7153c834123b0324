//! The interpreter: a second one in the process is refused, a fork waits for the core, and other threads get their turn.
//!
//! The module keeps objects of the interpreter that loaded it first.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use siltstone_core::memory;

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

// Hooks that `os.register_at_fork` calls when the process forks.

/// Makes a fork wait until no thread works in the core. On a system without forks, this does nothing.
pub(crate) fn register_hooks(py: Python<'_>) -> PyResult<()> {
    let os = py.import("os")?;
    if !os.hasattr("register_at_fork")? {
        return Ok(());
    }
    let hook = |work: fn()| {
        PyCFunction::new_closure(
            py,
            None,
            None,
            move |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
                // Other threads need the interpreter to finish their work.
                arguments.py().detach(work);
            },
        )
    };
    let hooks = PyDict::new(py);
    hooks.set_item("before", hook(memory::before_fork)?)?;
    hooks.set_item("after_in_parent", hook(memory::after_fork_in_parent)?)?;
    hooks.set_item("after_in_child", hook(memory::after_fork_in_child)?)?;
    os.call_method("register_at_fork", (), Some(&hooks))?;
    Ok(())
}

// Lets other threads take the interpreter during a call that holds it for long.

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
