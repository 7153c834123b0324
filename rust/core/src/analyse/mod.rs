//! The analysis `lexical-6`: it turns a text, with its speaker and date, into the terms that BM25 counts.
//!
//! A text is cut into words (`words`); words without content are left out (`stop_words`); every other word is brought to
//! its normal form (`normal`), and the 64-bit hash of that is the term. Entries and queries are analysed in the
//! same way. A store keeps only the name of the analysis: a store that was written under another name is analysed
//! again when it is read.

mod analyser;
mod clusters;
mod corrections;
mod english;
pub mod fields;
mod highlight;
mod language_choice;
mod memo;
mod normal;
mod question_words;
mod stop_words;
mod terms;
mod words;

pub(crate) use corrections::corrections;
pub(crate) use corrections::{for_each_correctable, for_each_grouped};
pub(crate) use fields::for_each_passage;
pub use fields::{Fields, Speaker};
pub(crate) use fields::{Gist, civil, day, word_bits};
pub use highlight::{Asked, best_window};
pub(crate) use language_choice::LANGUAGES;
pub(crate) use language_choice::language_of;
pub use language_choice::{Language, LanguageChoice, Languages, language_in};
pub use normal::{Normalizer, hash};
pub(crate) use question_words::is_asking;
pub(crate) use question_words::{is_about_asker, is_about_asking};
pub(crate) use terms::alternatives;
pub(crate) use terms::with_sorted_terms;
pub use terms::{Alternatives, for_each_term_in, terms};

/// The name of these rules, which stores keep. Every change of the rules that changes a term needs a new name.
pub const ID: &str = "lexical-6";
