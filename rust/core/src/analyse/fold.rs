//! Folding: removes accents, and gives characters that look alike one form.
//!
//! `й` is kept, since it is a letter of its own and not an accented `и`: endings of Russian words are recognized by
//! it.

use unicode_normalization::UnicodeNormalization;

/// Fills `folded` with `text` in compatible composition (NFKC), without combining diacritical marks (U+0300 to
/// U+036F).
///
/// So `café` becomes `cafe`, a full-width `Ａ` becomes `A`, and `ﬁ` becomes `fi`. Marks of other blocks stay: the
/// vowels of Indic scripts and the voicing of kana are not accents.
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

/// The folded form of a code point that does not depend on its neighbours of these kinds: ASCII, its full-width
/// forms, Han, kana, Hangul, and the quotation marks, dashes and stops of prose. None for all others.
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
