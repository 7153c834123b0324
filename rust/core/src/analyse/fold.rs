//! Letters without their accents, and one form for what looks alike.
//!
//! `й` is a letter of its own, and no `и` with an accent: endings of Russian words are known by it.

use unicode_normalization::UnicodeNormalization;

/// Fills `folded` with `text` in compatible composition (NFKC), without combining diacritical marks (U+0300 to
/// U+036F).
///
/// So `café` is `cafe`, a full-width `Ａ` is `A` and `ﬁ` is `fi`. Marks of other blocks stay: vowels of
/// Indic scripts, and the voicing of kana, are no accents.
pub(super) fn fold_into(folded: &mut Vec<char>, text: &str) {
    folded.clear();
    for c in text.chars() {
        match quickly(c) {
            Some(c) => folded.push(c),
            None => return by_the_rule(folded, text),
        }
    }
}

const BREVE: char = '\u{306}';

fn by_the_rule(folded: &mut Vec<char>, text: &str) {
    let mut before = ' ';
    let bare = text.nfkd().filter(|&c| {
        let is_of_letter = c == BREVE && matches!(before, 'и' | 'И');
        before = c;
        is_of_letter || !('\u{300}'..='\u{36F}').contains(&c)
    });
    folded.clear();
    folded.extend(bare.nfc());
}

/// A code point that folds by itself, beside any other of its kind, to what is given: ASCII, its full-width
/// forms, Han, kana, Hangul, and the quotation marks, dashes and stops of prose.
fn quickly(c: char) -> Option<char> {
    match c {
        '\0'..='\x7F'
        | '一'..='\u{9FFF}'
        | 'ぁ'..='ゖ'
        | 'ァ'..='ヺ'
        | '가'..='힣'
        | '‒'..='―'
        | '‘'..='‟'
        | '、'
        | '。' => Some(c),
        '！'..='～' => char::from_u32(u32::from(c) - u32::from('！') + u32::from('!')),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fold(text: &str) -> String {
        let mut folded = vec!['x'];
        fold_into(&mut folded, text);
        folded.into_iter().collect()
    }

    fn slowly(text: &str) -> String {
        let mut folded = Vec::new();
        by_the_rule(&mut folded, text);
        folded.into_iter().collect()
    }

    #[test]
    fn what_folds_quickly_folds_by_the_rule() {
        let quick = |c: &char| quickly(*c).is_some();
        for c in ('\0'..=char::MAX).filter(quick) {
            let text = c.to_string();
            assert_eq!(fold(&text), slowly(&text), "{c:?}");
        }
    }

    proptest! {
        #[test]
        fn what_folds_quickly_does_so_beside_others(
            text in "[aé\u{300}'一-\u{9FFF}ぁ-ゖァ-ヺ가-힣‒-―‘-‟、。！-～\u{3099}\u{11A8}]{0,12}",
        ) {
            prop_assert_eq!(fold(&text), slowly(&text));
        }
    }

    #[test]
    fn accents_go_and_voicing_stays() {
        assert_eq!(fold("Café naïve Ａﬁ² ёй"), "Cafe naive Afi2 ей");
        assert_eq!(fold("か\u{3099} ｶﾞ 각 हिन्दी"), "が ガ 각 हिन्दी");
    }
}
