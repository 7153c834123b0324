//! Stop words, and grammatical characters of Chinese: they say nothing about the subject of a text.
//!
//! Question words are stop words, since an answer does not contain them. `may` is not a stop word: it is a month.
//! Apostrophes were dropped before, so `dont` stands for `don't`.

use std::sync::LazyLock;

use rustc_hash::FxHashSet;

/// The English stop words, in ascending order. Frozen: part of the definition of `lexical-4`.
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

/// The stop words of Russian, Greek, Arabic and Hindi, which are recognized by their scripts; in folded form.
/// Frozen, too.
#[rustfmt::skip]
const OF_OTHER_SCRIPTS: [&str; 454] = [
    "α", "ακομα", "αλλα", "αν", "αντι", "απο", "αυτα", "αυτεσ", "αυτη", "αυτο", "αυτοι", "αυτοσ",
    "αυτουσ", "αυτων", "για", "δε", "δεν", "εαν", "εγω", "ειμαι", "ειναι", "εκει", "εμεισ", "εν",
    "ενα", "ενασ", "ενω", "εσεισ", "εσυ", "εχει", "εχεισ", "εχουν", "εχω", "η", "ηταν", "θα",
    "ισωσ", "και", "κατα", "κι", "μασ", "με", "μεσα", "μετα", "μη", "μην", "μια", "μου", "να", "ο",
    "οι", "ομωσ", "οποια", "οποιο", "οποιοσ", "οπου", "οπωσ", "οσο", "οταν", "οτι", "παρα", "ποια",
    "ποιεσ", "ποιο", "ποιοι", "ποιον", "ποιοσ", "ποιουσ", "ποσα", "ποσεσ", "ποση", "ποσο", "ποσοι",
    "ποσουσ", "ποτε", "που", "προσ", "πωσ", "σασ", "σε", "στα", "στη", "στην", "στισ", "στο",
    "στον", "στουσ", "στων", "συ", "τα", "τη", "την", "τησ", "τι", "τισ", "το", "τον", "του",
    "τουσ", "των", "ωσ", "а", "без", "бы", "был", "была", "были", "было", "быть", "в", "вам", "вас",
    "весь", "во", "вот", "все", "всего", "всех", "вы", "где", "да", "даже", "для", "до", "его",
    "ее", "если", "есть", "еще", "же", "за", "зачем", "здесь", "и", "из", "или", "им", "их", "к",
    "как", "какая", "какие", "какого", "какой", "каком", "какую", "ко", "когда", "кого", "кому",
    "которая", "которого", "которое", "которой", "которые", "который", "которых", "кто", "куда",
    "ли", "мне", "может", "можно", "мой", "моя", "мы", "на", "над", "надо", "нам", "нас", "наш",
    "не", "него", "нее", "ней", "нет", "ни", "них", "но", "о", "об", "обо", "он", "она", "они",
    "оно", "от", "откуда", "очень", "по", "под", "почему", "при", "про", "с", "сам", "свой", "себя",
    "сколько", "со", "так", "также", "такой", "там", "те", "тебе", "тебя", "тем", "то", "тогда",
    "того", "тоже", "той", "только", "том", "тот", "ту", "ты", "у", "уже", "чего", "чей", "чем",
    "через", "что", "чтобы", "чье", "эта", "эти", "этих", "это", "этого", "этой", "этом", "этот",
    "эту", "я", "أن", "أنا", "أنت", "أنه", "أو", "أي", "أية", "أين", "إذا", "إلا", "إلى", "إن",
    "إنه", "التي", "الذي", "الذين", "اللذان", "ب", "بعد", "بل", "بها", "بهذا", "بين", "تلك", "تم",
    "ثم", "حتى", "حيث", "خلال", "ذلك", "سوف", "على", "عليه", "عليها", "عن", "عند", "عندما", "غير",
    "ف", "في", "فيه", "فيها", "قبل", "قد", "كان", "كانت", "كانوا", "كل", "كم", "كما", "كيف", "ل",
    "لا", "لدى", "لقد", "لكن", "لم", "لماذا", "لن", "له", "لها", "لهذا", "ليس", "ما", "ماذا", "متى",
    "مع", "من", "منذ", "منه", "منها", "هذا", "هذه", "هل", "هم", "هنا", "هناك", "هو", "هي", "و",
    "وقد", "وكان", "ولا", "ولم", "وما", "ومن", "وهو", "وهي", "يا", "يتم", "अन्य", "अपना", "अपनी",
    "अपने", "अब", "आदि", "आप", "इन", "इस", "इसका", "इसकी", "इसके", "इसमें", "इसे", "उन", "उनका",
    "उनकी", "उनके", "उन्हें", "उन्होंने", "उस", "उसका", "उसकी", "उसके", "उसने", "उसे", "एक", "एवं",
    "और", "कई", "कब", "कर", "करता", "करते", "करना", "करने", "कहा", "कहाँ", "कहां", "का", "कि",
    "किए", "कितना", "कितनी", "कितने", "किन", "किया", "किस", "किसका", "किसकी", "किसके", "किसने",
    "किसी", "किसे", "की", "कुछ", "के", "कैसे", "को", "कोई", "कौन", "क्या", "क्यों", "क्योंकि", "गई",
    "गए", "गया", "जब", "जा", "जाता", "जाती", "जाते", "जो", "तक", "तथा", "तब", "तुम", "तो", "था",
    "थी", "थीं", "थे", "दिया", "द्वारा", "न", "नहीं", "ने", "पर", "भी", "मुझे", "में", "मैं",
    "मैंने", "यदि", "यह", "यहां", "या", "ये", "रहा", "रही", "रहे", "लिए", "लेकिन", "वह", "वहां",
    "वाला", "वाली", "वाले", "वे", "सकता", "सकते", "साथ", "से", "हम", "ही", "हुआ", "हुई", "हुए",
    "हूं", "है", "हैं", "हो", "होता", "होती", "होते", "होने",
];

/// Pronouns, particles and measure words of Chinese, in both scripts. In ascending order. Frozen, too.
///
/// Only characters that are hardly ever part of a noun. Others, such as `在`, `有` or `地`, are grammatical too, but
/// are often part of nouns.
#[rustfmt::skip]
const FUNCTION_CHARACTERS: [char; 26] = [
    '个', '么', '了', '他', '们', '你', '個', '們', '吗', '吧', '呀', '呢', '哦',
    '啊', '嗎', '嗯', '她', '它', '很', '我', '是', '的', '这', '這', '那', '麼',
];

/// The lengths of the longest words, in bytes.
const LONGEST: usize = 10;
const LONGEST_OF_OTHERS: usize = 24;

/// Whether a word in lower case is a stop word of English, or of the language of its script.
pub(super) fn is_stop_word(word: &str) -> bool {
    is_english_stop_word(word) || is_stop_word_of_script(word)
}

/// Whether a word in lower case is an English stop word.
pub(super) fn is_english_stop_word(word: &str) -> bool {
    static KNOWN: LazyLock<FxHashSet<&str>> = LazyLock::new(|| STOP_WORDS.into_iter().collect());
    word.len() <= LONGEST && KNOWN.contains(word)
}

/// Whether a word in lower case is a stop word of the language of its script.
pub(super) fn is_stop_word_of_script(word: &str) -> bool {
    static OTHERS: LazyLock<FxHashSet<&str>> =
        LazyLock::new(|| OF_OTHER_SCRIPTS.into_iter().collect());
    let is_ascii = word.as_bytes().first().is_none_or(u8::is_ascii);
    !is_ascii && word.len() <= LONGEST_OF_OTHERS && OTHERS.contains(word)
}

/// Whether a character is purely grammatical.
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
        assert!(OF_OTHER_SCRIPTS.is_sorted_by(|one, next| one < next));
        let longest = OF_OTHER_SCRIPTS.map(str::len).into_iter().max();
        assert_eq!(longest, Some(LONGEST_OF_OTHERS));
        assert!(OF_OTHER_SCRIPTS.into_iter().all(is_stop_word));
        assert!(STOP_WORDS.into_iter().all(is_stop_word));
        assert!(is_stop_word("when") && !is_stop_word("may"));
        assert!(is_function_character('的') && !is_function_character('地'));
    }
}
