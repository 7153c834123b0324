//! Hooks that `os.register_at_fork` calls when the process forks.

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use siltstone_core::memory;

/// Makes a fork wait until no thread works in the core. On a system without forks, this does nothing.
pub(crate) fn register(py: Python<'_>) -> PyResult<()> {
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
