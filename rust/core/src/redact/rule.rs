//! The parts of a rule.

use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// The action on a match of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It stays, even if other rules match it.
    Allow,
    /// It is replaced by a placeholder.
    Redact,
    /// The whole text may not be written.
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

/// Where a rule looks for its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The secret begins with the keyword (case-sensitive), and no ASCII letter or digit stands before it.
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
    /// The group `s` (or else `t`) is the secret; without these groups the whole match is the secret.
    pub(super) pattern: &'static str,
    /// Whether a match looks like a secret of this rule.
    pub(super) check: fn(&str) -> bool,
}

/// A custom rule.
#[derive(Clone, Debug)]
pub struct CustomRule {
    /// Its name in findings.
    pub id: String,
    /// A regular expression without look-around and back references. The group `s` (or else `t`) is the secret;
    /// without these groups the whole match is the secret.
    pub pattern: String,
    /// Each line with such a secret has at least one of these keywords, in upper or lower case. If there are none,
    /// every line is searched.
    pub keywords: Vec<String>,
    /// The text that replaces the secret.
    pub placeholder: String,
    /// The action on a match.
    pub action: Action,
}
