//! The wording of a question: whether the question is about its asker, and which of its words only say that
//! something is asked.
//!
//! Both rules apply to English only: they were measured in no other language. Whether a message only asks is told in
//! any language by its question marks.

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

/// Words that a question without a question mark begins with, and those that follow the words of the first kind.
const ASKS: [&str; 9] = [
    "how", "what", "when", "where", "which", "who", "whom", "whose", "why",
];
const THEN: &str = "am are can could did do does had has have is long many might much of often old should was were \
                    will would";
const OPENS: &str = "am are can could did do does is was were will would";
const AFTER: &str =
    "a an any anybody anyone he i it my our she that the there they this we you your";

/// Words of a greeting. Frozen: part of the ranking.
const GREETING: &str = "afternoon again day dear evening everybody everyone good greetings hello help hey hi hope howdy \
                        kindly morning ok okay please quick quickly sorry team thank thanks there welcome well";

/// Whether a text only asks: it has a question, and each other sentence is a greeting, or has two words at most. Calls
/// `visit` with each question.
pub(super) fn only_asks(text: &str, mut visit: impl FnMut(&str)) -> bool {
    let (mut is_asked, mut rest) = (false, text.trim());
    while !rest.is_empty() {
        let is_end = |&(at, c): &(usize, char)| {
            let is_last = || !rest[at + 1..].starts_with(|c: char| !c.is_whitespace());
            matches!(c, '\n' | '。' | '？' | '！' | '؟')
                || matches!(c, '.' | '?' | '!') && is_last()
        };
        let end = rest.char_indices().find(is_end);
        let (sentence, mark) = end.map_or((rest, '\n'), |(at, c)| (&rest[..at], c));
        rest = end.map_or("", |(at, c)| rest[at + c.len_utf8()..].trim_start());
        if matches!(mark, '?' | '？' | '؟') || (mark == '\n' && opens_question(sentence)) {
            is_asked = true;
            visit(sentence);
        } else if (sentence.split_whitespace().nth(2).is_some() || sentence.len() > 40)
            && !greets(sentence)
        {
            return false;
        }
    }
    is_asked
}

/// Whether all words of a sentence are of a greeting. Its first words nearly always tell that they are not.
fn greets(sentence: &str) -> bool {
    let mut spaces = sentence.match_indices(char::is_whitespace);
    let first = spaces.nth(5).map_or(sentence, |(at, _)| &sentence[..at]);
    let are = |text: &str| terms(text).into_iter().all(is_greeting);
    // Behind a word of a greeting, function words alone are no terms: they are none of the whole sentence either.
    are(&format!("hello {first}")) && are(sentence)
}

/// Whether a sentence without a mark begins as a question or a request for an answer does.
fn opens_question(sentence: &str) -> bool {
    let is_of = |words: &str, word: &str| {
        let mut words = words.split_ascii_whitespace();
        words.any(|each| each.eq_ignore_ascii_case(word))
    };
    let mut words = sentence
        .split_whitespace()
        .skip_while(|word| word.eq_ignore_ascii_case("please"));
    let (Some(first), Some(second)) = (words.next(), words.next()) else {
        return false;
    };
    ASKS.iter().any(|each| each.eq_ignore_ascii_case(first)) && is_of(THEN, second)
        || is_of(OPENS, first) && is_of(AFTER, second)
        || GIVES.iter().any(|each| each.eq_ignore_ascii_case(first)) && is_of("me us", second)
}

/// Whether a query wants what was asked, and not an answer.
#[must_use]
pub(crate) fn is_about_asking(text: &str) -> bool {
    const WORDS: [&str; 7] = [
        "ask",
        "asked",
        "asking",
        "asks",
        "question",
        "questions",
        "wondered",
    ];
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    words.any(|word| WORDS.iter().any(|each| each.eq_ignore_ascii_case(word)))
}

/// Whether a term greets, and says nothing of what is asked.
pub(super) fn is_greeting(term: u64) -> bool {
    static KNOWN: LazyLock<FxHashSet<u64>> =
        LazyLock::new(|| terms(GREETING).into_iter().collect());
    KNOWN.contains(&term)
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
    fn a_text_only_asks_if_nothing_is_stated_beside_the_question() {
        for text in [
            "Where does the silt settle?",
            "Hi there! Which delta is it? And why?",
            "Good morning to you, and thanks for the help! Which delta is it?",
            "what is the pressure of the lock gate",
            "please tell me the height of the weir",
            "can you list the sluices",
            "how many barges passed",
            "闸门的压力是多少？",
            "¿Dónde está el dique?",
        ] {
            assert!(only_asks(text, |_| ()), "{text}");
        }
        for text in [
            "",
            "The silt settles in the delta.",
            "Where does it settle? The silt settles in the delta.",
            "When I was at the weir it rained.",
            "Will said that the sluice is shut",
            "How are you? I moved to the delta last week.",
            "See https://kiln.example/docs?id=42 for the height",
        ] {
            assert!(!only_asks(text, |_| ()), "{text}");
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
