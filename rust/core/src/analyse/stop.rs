//! Stop words of English, and characters of Chinese grammar: they tell nothing about the subject of a text.
//!
//! Question words are among them: what asks is not what answers. `may` is not: it is a month.
//! Apostrophes were dropped before, so `dont` stands for `don't`.

use std::sync::LazyLock;

use rustc_hash::FxHashSet;

/// In ascending order. Frozen: part of the definition of `lexical-2`.
#[rustfmt::skip]
const STOP_WORDS: [&str; 189] = [
    "a", "about", "above", "after", "again", "against", "all", "also", "although", "am", "an",
    "and", "any", "are", "arent", "as", "at", "be", "because", "been", "before", "being",
    "below", "between", "both", "but", "by", "can", "cannot", "cant", "could", "couldnt", "d",
    "did", "didnt", "do", "does", "doesnt", "doing", "dont", "down", "during", "each", "few",
    "for", "from", "further", "had", "hadnt", "happen", "happened", "happens", "has", "hasnt",
    "have", "havent", "having", "he", "her", "here", "heres", "hers", "herself", "hes", "him",
    "himself", "his", "how", "i", "if", "im", "in", "into", "is", "isnt", "it", "itd", "its",
    "itself", "ive", "just", "lets", "ll", "m", "many", "me", "might", "mightnt", "more",
    "most", "much", "must", "mustnt", "my", "myself", "no", "nor", "not", "now", "of", "off",
    "on", "once", "only", "or", "other", "our", "ours", "ourselves", "out", "over", "own",
    "re", "s", "same", "shall", "shant", "she", "shes", "should", "shouldnt", "since", "so",
    "some", "such", "t", "than", "that", "thats", "the", "their", "theirs", "them",
    "themselves", "then", "there", "theres", "these", "they", "theyd", "theyll", "theyre",
    "theyve", "this", "those", "through", "to", "too", "under", "until", "up", "upon", "us",
    "ve", "very", "was", "wasnt", "we", "were", "werent", "weve", "what", "whats", "when",
    "where", "wheres", "which", "while", "who", "whom", "whos", "whose", "why", "will", "with",
    "within", "without", "wont", "would", "wouldnt", "you", "youd", "youll", "your", "youre",
    "yours", "yourself", "yourselves", "youve",
];

/// Pronouns, particles and measure words of Chinese, in both scripts. In ascending order. Frozen, too.
///
/// Only what is hardly ever part of a noun: `在`, `有` or `地` would be grammar as well.
#[rustfmt::skip]
const FUNCTION_CHARACTERS: [char; 26] = [
    '个', '么', '了', '他', '们', '你', '個', '們', '吗', '吧', '呀', '呢', '哦',
    '啊', '嗎', '嗯', '她', '它', '很', '我', '是', '的', '这', '這', '那', '麼',
];

/// Bytes of the longest of them.
const LONGEST: usize = 10;

/// Whether a word in lower case is one of them.
pub(super) fn is_stop_word(word: &str) -> bool {
    static KNOWN: LazyLock<FxHashSet<&str>> = LazyLock::new(|| STOP_WORDS.into_iter().collect());
    word.len() <= LONGEST && KNOWN.contains(word)
}

/// Whether a character carries grammar, and no meaning of its own.
pub(super) fn is_function_character(c: char) -> bool {
    FUNCTION_CHARACTERS.binary_search(&c).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_in_order() {
        assert!(STOP_WORDS.is_sorted_by(|one, next| one < next));
        assert!(FUNCTION_CHARACTERS.is_sorted_by(|one, next| one < next));
        assert_eq!(STOP_WORDS.map(str::len).into_iter().max(), Some(LONGEST));
        assert!(STOP_WORDS.into_iter().all(is_stop_word));
        assert!(is_stop_word("when") && !is_stop_word("may"));
        assert!(is_function_character('的') && !is_function_character('地'));
    }
}
