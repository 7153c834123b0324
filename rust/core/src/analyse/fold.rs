//! Letters without their accents, and one form for what looks alike.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

/// `text` in compatible composition (NFKC), without combining diacritical marks (U+0300 to U+036F).
///
/// So `café` is `cafe`, a full-width `Ａ` is `A` and `ﬁ` is `fi`. Marks of other blocks stay: vowels of
/// Indic scripts, and the voicing of kana, are no accents.
pub(super) fn fold(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let bare = text.nfkd().filter(|c| !('\u{300}'..='\u{36F}').contains(c));
    Cow::Owned(bare.nfc().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accents_go_and_voicing_stays() {
        assert_eq!(fold("Café naïve Ａﬁ² ёй"), "Cafe naive Afi2 еи");
        assert_eq!(fold("か\u{3099} ｶﾞ 각 हिन्दी"), "が ガ 각 हिन्दी");
        assert!(matches!(fold("plain"), Cow::Borrowed("plain")));
    }
}
