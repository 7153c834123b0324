//! What a rule is.

use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// What becomes of what a rule finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It stays, whatever other rules say of it.
    Allow,
    /// A placeholder stands in its place.
    Redact,
    /// Nothing of the text may be written.
    Block,
}

impl FromStr for Action {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "allow" => Ok(Self::Allow),
            "redact" => Ok(Self::Redact),
            "block" => Ok(Self::Block),
            _ => {
                let message = format!(
                    "the action of a rule must be 'allow', 'redact' or 'block', got {name:?}"
                );
                Err(Error::new(ErrorKind::InvalidArgument, message)
                    .with("field", "action")
                    .with("value", name))
            }
        }
    }
}

/// How a rule is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The secret begins with the keyword, case and all, and no letter or digit stands before it.
    Begins,
    /// The secret is on a line that has the keyword.
    Line,
    /// The secret begins on a line that has the keyword, and may go on to the end of the text.
    Text,
}

/// A rule of the built-in table.
#[derive(Debug)]
pub(super) struct BuiltIn {
    pub(super) id: &'static str,
    pub(super) keywords: &'static [&'static str],
    pub(super) reach: Reach,
    /// The group `s` is the secret; without one the whole match is.
    pub(super) pattern: &'static str,
    /// Whether what the pattern found looks like a secret of this rule.
    pub(super) check: fn(&str) -> bool,
}

/// A rule of the caller's own.
#[derive(Clone, Debug)]
pub struct CustomRule {
    /// Its name in findings.
    pub id: String,
    /// A regular expression without look-around and back references. The group `s` is the secret; without
    /// one the whole match is.
    pub pattern: String,
    /// One of these stands on each line that has such a secret, in any case; none: every line is read.
    pub keywords: Vec<String>,
    /// What stands in the secret's place.
    pub placeholder: String,
    /// What becomes of what it finds.
    pub action: Action,
}
