//! `lexical-4`: from a text, and what is known of who said it and when, to the terms that BM25 counts.
//!
//! A text becomes words (`words`); words that say nothing are left out (`stop`); each that is left
//! becomes its normal form (`normal`), and the 64-bit hash of that is the term. Entries and queries go
//! the same way. Nothing of it is stored but its name: a store that was written under another one is
//! analysed anew when it is read.

mod analyser;
mod asked;
mod choice;
mod date;
mod detect;
mod ends;
pub mod fields;
mod fold;
mod function_words;
mod graphemes;
mod irregular;
mod key;
mod language;
mod memo;
mod near;
mod normal;
mod order;
mod passages;
mod reader;
mod sieve;
mod stop;
mod terms;
mod window;
mod wording;
mod words;

pub use asked::{Asked, best_window};
pub use choice::LanguageChoice;
pub use detect::{language_in, language_of};
pub use fields::{Fields, Speaker, for_each_passage};
pub use language::{LANGUAGES, Language, Languages};
pub use near::{Edits, for_each_correctable};
pub use normal::{Normalizer, hash};
pub use sieve::sift;
pub use terms::{
    Alternatives, alternatives, for_each_term, for_each_term_in, terms, terms_into,
    with_sorted_terms,
};
pub use wording::is_about_asker;
pub(crate) use wording::is_asking;

/// The name of these rules, which stores keep. Any change that moves a term is a new one.
pub const ID: &str = "lexical-4";
