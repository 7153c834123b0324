//! The rules by which a store reads texts. They are chosen when the store is made, or later.

use crate::analyse::LanguageChoice;
use crate::embed::hash::HashRule;

/// The rules by which texts become rows of the indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// The rule of the hashed embedding.
    pub(super) hash_rule: HashRule,
    /// The languages in which terms are read.
    pub(super) languages: LanguageChoice,
}
