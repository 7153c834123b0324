//! A value of a Python class that many threads read, and one writes.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use siltstone_core::Result;

/// A value behind a lock. A call that panicked leaves the value readable: an index is whole after each of its steps.
pub(crate) struct Locked<T>(RwLock<T>);

impl<T> Locked<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(RwLock::new(value))
    }

    pub(crate) fn read<R>(&self, work: impl FnOnce(&T) -> Result<R>) -> Result<R> {
        work(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn write<R>(&self, work: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        work(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// The value, if nobody writes it now.
    pub(crate) fn at_once(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.0.try_read().ok()
    }
}
