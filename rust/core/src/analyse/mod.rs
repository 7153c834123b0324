//! The analysis `lexical-4`: it turns a text, with its speaker and date, into the terms that BM25 counts.
//!
//! A text is cut into words (`words`); words without content are left out (`stop`); every other word is brought to
//! its normal form (`normal`), and the 64-bit hash of that is the term. Entries and queries are analysed in the
//! same way. A store keeps only the name of the analysis: a store that was written under another name is analysed
//! again when it is read.

mod analyser;
mod asked;
mod choice;
mod corrections;
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
mod normal;
mod passages;
mod reader;
mod stop;
mod terms;
mod window;
mod wording;
mod words;

pub use asked::{Asked, best_window};
pub use choice::LanguageChoice;
pub use corrections::{corrections, for_each_correctable};
pub(crate) use date::day;
pub use detect::{language_in, language_of};
pub use fields::{Fields, Speaker, for_each_passage};
pub use language::{LANGUAGES, Language, Languages};
pub use normal::{Normalizer, hash};
pub use terms::{Alternatives, alternatives, for_each_term_in, terms, with_sorted_terms};
pub use wording::is_about_asker;
pub(crate) use wording::is_asking;

/// The name of these rules, which stores keep. Every change of the rules that changes a term needs a new name.
pub const ID: &str = "lexical-4";
