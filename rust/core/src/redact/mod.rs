//! Finds secrets in a text, with one rule for each format, in time linear in the text.
//!
//! A keyword prefilter selects the rules that may match, so a text without keywords is read only once. A finding is
//! a span and the name of the rule, never the secret itself.

mod redactor;
mod rules;
mod runs;
mod search;
mod shape;
mod table;

pub use redactor::{Finding, Redactor, by_code_points};
pub use rules::{Action, CustomRule, Options};
pub use table::names;
