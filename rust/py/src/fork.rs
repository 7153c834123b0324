//! What is done when the process forks: `os.register_at_fork` calls it.

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use siltstone_core::memory;

/// Sees to it that no fork finds a thread at work in the core. Where the system cannot fork there is nothing to do.
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
                // Others need the interpreter to get done with what they are at.
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
