//! Turns errors and panics of the core into classes of `siltstone.errors`. No other file does this.

use std::any::Any;
use std::cell::RefCell;
use std::error::Error as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use siltstone_core::fork;
use siltstone_core::simd::level;
use siltstone_core::{Error, ErrorKind, Field, Result as CoreResult};

thread_local! {
    /// The exception with which a keeper in Python refused the write of this thread. It is kept until the call of
    /// that write ends.
    static REFUSAL: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Stores the exception with which a write of this thread is refused. The call that began the write raises it.
pub(crate) fn refuse(error: PyErr) {
    REFUSAL.set(Some(error));
}

/// Runs `work` without the interpreter, and turns its errors and panics into exceptions.
pub(crate) fn run_detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> CoreResult<T> + Send,
) -> PyResult<T> {
    level::check().map_err(|refused| to_exception(py, &wrong_level(refused)))?;
    // Values of a call that panicked are not used again. Shared values have locks of their own.
    let outcome = py.detach(|| {
        let _permit = fork::enter(); // only for the work itself, because taking the interpreter back may take long
        catch_unwind(AssertUnwindSafe(work))
    });
    match outcome {
        Ok(Ok(value)) => Ok(value),
        // The keeper in Python has raised the exception itself.
        Ok(Err(error)) if error.kind() == ErrorKind::NotKept => {
            Err(REFUSAL.take().unwrap_or_else(|| to_exception(py, &error)))
        }
        Ok(Err(error)) => Err(to_exception(py, &error)),
        Err(panic) => Err(panic_to_exception(py, &*panic)),
    }
}

/// Runs `work` with the interpreter held, and turns its errors and panics into exceptions. `work` must end within a few
/// microseconds, because other threads of Python wait for it.
pub(crate) fn run_briefly<T>(py: Python<'_>, work: impl FnOnce() -> CoreResult<T>) -> PyResult<T> {
    level::check().map_err(|refused| to_exception(py, &wrong_level(refused)))?;
    run_attached(py, || work().map_err(|error| to_exception(py, &error)))
}

/// Runs `work` with the interpreter held, because it is short or uses Python objects. Turns a panic into an exception.
pub(crate) fn run_attached<T>(py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(panic_to_exception(py, &*panic)))
}

/// The Python exception for `error`, with its class, message, fields and cause.
pub(crate) fn to_exception(py: Python<'_>, error: &Error) -> PyErr {
    if error.kind() == ErrorKind::OutOfMemory {
        return PyMemoryError::new_err(error.to_string());
    }
    let exception = build(
        py,
        class_name(error.kind()),
        &error.to_string(),
        error.fields(),
    );
    if let Some(cause) = error.source() {
        exception.set_cause(py, Some(PyRuntimeError::new_err(cause.to_string())));
    }
    exception
}

/// The error of a kernel level that this processor lacks. Every call that computes raises it.
fn wrong_level(refused: &level::Unsupported) -> Error {
    Error::refused(level::VARIABLE, refused.value(), refused.to_string())
}

/// The class of a kind of error. A new kind without a class does not compile.
fn class_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidArgument => "ConfigError",
        ErrorKind::InvalidEntry => "InvalidEntryError",
        ErrorKind::StoreOpen => "StoreOpenError",
        ErrorKind::StoreVersion => "StoreVersionError",
        ErrorKind::StoreIo => "StoreIoError",
        ErrorKind::StoreBusy => "StoreBusyError",
        ErrorKind::StoreClosed => "StoreClosedError",
        ErrorKind::StoreForked => "StoreForkedError",
        ErrorKind::StoreReplaced => "StoreReplacedError",
        ErrorKind::StoreCorrupt => "StoreCorruptError",
        ErrorKind::StoreConflict => "StoreConflictError",
        ErrorKind::ReadOnlyStore => "ReadOnlyStoreError",
        ErrorKind::EntryNotFound => "EntryNotFoundError",
        ErrorKind::OutOfMemory | ErrorKind::NotKept | ErrorKind::Internal => "InternalError",
    }
}

fn panic_to_exception(py: Python<'_>, panic: &(dyn Any + Send)) -> PyErr {
    let reason = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let message =
        format!("the core panicked: {reason}; this is a defect of siltstone, please report it");
    build(py, "InternalError", &message, &[])
}

/// The exception `siltstone.errors.<name>(message, **fields)`, or the exception that prevented it.
fn build(py: Python<'_>, name: &str, message: &str, fields: &[(&'static str, Field)]) -> PyErr {
    let built = || -> PyResult<PyErr> {
        let class = errors(py)?.getattr(name)?.cast_into::<PyType>()?;
        let keywords = PyDict::new(py);
        for (name, value) in fields {
            match value {
                Field::Text(text) => keywords.set_item(name, text)?,
                Field::Integer(number) => keywords.set_item(name, number)?,
                Field::Integers(numbers) => keywords.set_item(name, PyTuple::new(py, numbers)?)?,
            }
        }
        Ok(PyErr::from_value(class.call((message,), Some(&keywords))?))
    };
    built().unwrap_or_else(|error| error)
}

/// The module `siltstone.errors`, imported once.
fn errors(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || {
        PyModule::import(py, "siltstone.errors").map(Bound::unbind)
    })?;
    Ok(module.bind(py).clone())
}

/// Panics, so that a test can check the exception for a panic of the core.
#[pyfunction]
#[pyo3(name = "_panic")]
pub(crate) fn panic_on_purpose(py: Python<'_>, message: &str, detached: bool) -> PyResult<()> {
    if detached {
        run_detached(py, || panic!("{message}"))
    } else {
        run_attached(py, || panic!("{message}"))
    }
}
