//! Ids of things in a store. Each kind has its own type, so a session cannot be mistaken for an entry.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// Bytes of the longest session id.
const MAX_SESSION_ID_BYTES: usize = 1024;

/// The name of a session: 1 to 1,024 bytes of UTF-8, chosen by the caller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Box<str>);

impl SessionId {
    /// The id of that name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidEntry`] for an empty name, and for one of more than 1,024 bytes.
    pub fn new(name: &str) -> Result<Self> {
        if name.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidEntry,
                "a session id must not be empty, got ''",
            ));
        }
        if name.len() > MAX_SESSION_ID_BYTES {
            let message = format!(
                "a session id must be at most {MAX_SESSION_ID_BYTES} bytes, got {} bytes",
                name.len()
            );
            return Err(Error::new(ErrorKind::InvalidEntry, message));
        }
        Ok(Self(name.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The id of an entry. The store's allocator gives ids in rising order, and never reuses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub i64);

impl fmt::Display for EntryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_has_1_to_1024_bytes() {
        assert_eq!(SessionId::new("s").unwrap().as_str(), "s");
        assert!(SessionId::new(&"é".repeat(512)).is_ok());
        for name in [String::new(), "é".repeat(513)] {
            let error = SessionId::new(&name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidEntry, "{error}");
        }
    }
}
