//! Secrets in a text: where they stand, by one rule a format, in time linear in the text.
//!
//! A keyword prefilter says which rules may have anything to find; text without a keyword is read once.
//! What is found is a span and the rule's name, never the secret.

mod allow;
mod compiled;
mod overlap;
mod redactor;
mod rule;
mod rules;
mod runs;
mod search;
mod shape;
mod table;

pub use redactor::{Finding, Redactor, by_code_points};
pub use rule::{Action, CustomRule};
pub use rules::Options;
pub use table::names;
