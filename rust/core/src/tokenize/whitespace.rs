//! `whitespace`: the stretches between white space, with ASCII letters in lower case.

/// The words of `text`: it is split on code points with the property `White_Space`.
///
/// ```
/// use siltstone_core::tokenize::whitespace;
///
/// let words: Vec<_> = whitespace::words("Hello,\u{3000}CAFÉ world!").collect();
/// assert_eq!(words, ["hello,", "cafÉ", "world!"]);
/// ```
pub fn words(text: &str) -> impl Iterator<Item = String> {
    text.split_whitespace().map(str::to_ascii_lowercase)
}
