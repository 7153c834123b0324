//! The wording of a question: whether the question is about its asker, and which of its words only say that
//! something is asked.
//!
//! Both rules apply to English only: they were measured in no other language.

use std::sync::LazyLock;

use rustc_hash::FxHashSet;

use super::language_choice::{Language, language_of};
use super::terms::terms;

/// The pronouns of the asker, and of the person who is asked. The part of a word after an apostrophe does not count.
const ASKER: [&str; 7] = ["i", "im", "ive", "me", "mine", "my", "myself"];
const ASKED: [&str; 7] = ["you", "your", "youre", "yours", "yourself", "youve", "youd"];

/// Words before a polite `you` (`can you`), and words before the `me` of a request (`tell me`): these pronouns do not
/// count.
const POLITE: [&str; 6] = ["can", "could", "do", "please", "will", "would"];
const GIVES: [&str; 6] = ["give", "help", "let", "remind", "show", "tell"];

/// Words that only tell the task, such as a summary, and nothing about the texts to find. Frozen: part of the
/// ranking.
const ASKING: &str =
    "ask conversation discuss mention overview say speak summarise summarize summary talk tell";

/// Whether a question is about its asker: the first pronoun decides.
///
/// `What did I tell you?` is, `What did you tell me?` is not; `Can you` and `Tell me` are only polite.
#[must_use]
pub(crate) fn is_about_asker(text: &str) -> bool {
    let mut before = "";
    for piece in text.split_whitespace() {
        let is_edge = |c: char| c.is_ascii_punctuation() || "“”‘’".contains(c);
        let word = piece.trim_matches(is_edge);
        let word = word.split(['\'', '’']).next().unwrap_or(word);
        let is_of = |words: &[&str], word: &str| words.iter().any(|w| w.eq_ignore_ascii_case(word));
        if is_of(&ASKER, word) && !(word.eq_ignore_ascii_case("me") && is_of(&GIVES, before)) {
            return language_of(text) == Language::English;
        }
        if is_of(&ASKED, word) && !(word.eq_ignore_ascii_case("you") && is_of(&POLITE, before)) {
            return false;
        }
        before = word;
    }
    false
}

/// Whether a term of an English question only says that something is asked.
pub(crate) fn is_asking(term: u64) -> bool {
    static KNOWN: LazyLock<FxHashSet<u64>> = LazyLock::new(|| terms(ASKING).into_iter().collect());
    KNOWN.contains(&term)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pronoun_decides_whom_a_question_is_about() {
        for text in [
            "What did I tell you about the delta?",
            "Which of my sensors drifts?",
            "Where was it that I'm wrong?",
            "Can you list the order in which I brought them up?",
            "Could you please remind me when my sprint ends?",
            "MY KETTLE",
        ] {
            assert!(is_about_asker(text), "{text}");
        }
        for text in [
            "",
            "What did you tell me about the delta?",
            "Tell me about the delta.",
            "Can you show me the delta?",
            "Your answer on what I asked",
            "the I/O error of the iPhone",
            "Where does the silt settle?",
            "Dove sono i libri che ho comprato, e dove sono le penne della scuola?",
        ] {
            assert!(!is_about_asker(text), "{text}");
        }
    }

    #[test]
    fn words_of_asking_are_known_in_all_their_forms() {
        for word in [
            "said",
            "told",
            "mentioned",
            "discussions",
            "asking",
            "summaries",
            "spoke",
        ] {
            assert!(terms(word).into_iter().all(is_asking), "{word}");
        }
        assert!(!terms("silt order list question").into_iter().any(is_asking));
    }
}
