//! The errors of the core: one opaque [`Error`] with a public [`ErrorKind`].

use std::error::Error as StdError;

#[cfg(unix)]
use rustix::process::{Resource, getrlimit};

/// The result of a call of the core.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an error. Code that translates kinds must match each of them, without a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A setting is out of its bounds, or unknown.
    InvalidArgument,
    /// An entry, a session id or a query is out of its bounds.
    InvalidEntry,
    /// The store cannot be opened.
    StoreOpen,
    /// Another version wrote the store.
    StoreVersion,
    /// A read or a write failed, or the disk is full.
    StoreIo,
    /// Another process held the write lock for too long.
    StoreBusy,
    /// The store was used after it was closed.
    StoreClosed,
    /// The store was opened before a fork and is used in the child, or it cannot be opened in this child.
    StoreForked,
    /// The file at the store's path is no longer the file that was opened.
    StoreReplaced,
    /// A stored row does not match its checksum or its schema.
    StoreCorrupt,
    /// Another writer changed the session in the meantime.
    StoreConflict,
    /// A write to a store that is open for reading only.
    ReadOnlyStore,
    /// There is no entry of that id.
    EntryNotFound,
    /// The keeper of a mirror's rows refused a write. The keeper knows the reason.
    NotKept,
    /// The process may not have the memory that the call needs.
    OutOfMemory,
    /// A defect of this library.
    Internal,
}

/// A value in an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// A name, a path, a choice.
    Text(String),
    /// A size, a count, an id.
    Integer(i64),
    /// Several integers, None for an absent one.
    Integers(Vec<Option<i64>>),
}

impl From<&str> for Field {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Field {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<i64> for Field {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

/// An error: one sentence, the values that it mentions, and its cause.
///
/// ```
/// use siltstone_core::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::InvalidArgument, "limit must be positive, got -1")
///     .with("field", "limit")
///     .with("value", -1_i64);
/// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
/// assert_eq!(error.to_string(), "limit must be positive, got -1");
/// assert_eq!(error.fields().len(), 2);
/// ```
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Inner>);

/// Boxed, so that a `Result` stays as small as its value.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Inner {
    kind: ErrorKind,
    message: String,
    fields: Vec<(&'static str, Field)>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind`. `message` should name the thing, the bound and the value.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            fields: Vec::new(),
            source: None,
        }))
    }

    /// The error for an argument with a value that it may not have.
    pub fn refused(
        field: &'static str,
        value: impl Into<Field>,
        message: impl Into<String>,
    ) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
            .with("field", field)
            .with("value", value)
    }

    /// Adds `value` under `name`.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Field>) -> Self {
        self.0.fields.push((name, value.into()));
        self
    }

    /// Adds its cause `source`.
    #[must_use]
    pub(crate) fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same error once more, for another caller whom it concerns. Of its cause the sentence is left.
    pub(crate) fn again(&self) -> Self {
        let Inner {
            kind,
            message,
            fields,
            source,
        } = &*self.0;
        Self(Box::new(Inner {
            kind: *kind,
            message: message.clone(),
            fields: fields.clone(),
            source: source.as_ref().map(|source| source.to_string().into()),
        }))
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The values in the message, by name.
    #[must_use]
    pub fn fields(&self) -> &[(&'static str, Field)] {
        &self.0.fields
    }
}

/// Gives the values of a type the names by which a caller chooses one as the argument `field`.
macro_rules! named {
    ($type:ident, $field:literal: $($value:ident = $name:literal),+ $(,)?) => {
        impl $type {
            /// Its name, as callers spell it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::error::Error;

            fn from_str(name: &str) -> $crate::error::Result<Self> {
                match name {
                    $($name => Ok(Self::$value),)+
                    _ => Err($crate::error::unnamed($field, &[$($name),+], name)),
                }
            }
        }
    };
}
pub(crate) use named;

/// The error for a name that is none of `names`.
pub(crate) fn unnamed(field: &'static str, names: &[&str], name: &str) -> Error {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    let (last, others) = quoted.split_last().expect("a type has values");
    let message = format!(
        "{field} must be {} or {last}, got {name:?}",
        others.join(", ")
    );
    Error::refused(field, name, message)
}

/// Bytes that must be free before a call of a store begins. A small allocation that fails ends the process, so none may
/// fail. It is more than 32 MiB, from where on an allocator asks the system for each block and gives it back at once.
const SPARE: usize = 33 << 20;

/// Refuses a call that needs about `bytes` bytes if the process may not have them, and some to spare.
///
/// # Errors
///
/// [`ErrorKind::OutOfMemory`].
pub fn check_memory(bytes: usize) -> Result<()> {
    #[cfg(unix)] // the system tells in less than a microsecond, and the probe takes ten
    if getrlimit(Resource::As).current.is_none() {
        return Ok(());
    }
    let needed = bytes.saturating_add(SPARE);
    let mut probe = Vec::<u8>::new();
    let outcome = probe.try_reserve_exact(needed);
    std::hint::black_box(&mut probe); // an allocation that nobody uses may be left out
    outcome.map_err(|_| {
        let message = format!(
            "the process may not have {} MB of memory more, which this call may need: raise its memory limit, or ask for \
             less at once",
            needed >> 20
        );
        Error::new(ErrorKind::OutOfMemory, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_what_was_given_and_nothing_between() {
        let cause = std::io::Error::other("the disk is full");
        let error = Error::new(ErrorKind::StoreIo, "could not write 'a.sqlite3'").caused_by(cause);
        assert_eq!(error.to_string(), "could not write 'a.sqlite3'");
        assert_eq!(error.source().unwrap().to_string(), "the disk is full");
        assert!(Error::new(ErrorKind::Internal, "alone").source().is_none());
    }

    #[test]
    fn whoever_else_it_concerns_is_told_the_same() {
        let error = Error::new(ErrorKind::StoreIo, "could not write 'a.sqlite3'")
            .with("path", "a.sqlite3")
            .caused_by(std::io::Error::other("the disk is full"));
        let again = error.again();
        assert_eq!(again.kind(), error.kind());
        assert_eq!(again.to_string(), error.to_string());
        assert_eq!(again.fields(), error.fields());
        assert_eq!(again.source().unwrap().to_string(), "the disk is full");
    }
}
