//! How the texts of a store are read: what was settled when it was made, or since.

use crate::analyse::LanguageChoice;
use crate::embed::hash::HashRule;

/// The rules by which texts become rows of the indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Of the cosine embedding.
    pub(super) hash_rule: HashRule,
    /// Of the terms of entries.
    pub(super) languages: LanguageChoice,
}
