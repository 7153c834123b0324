//! Tells from the look of a value whether it is random or was written by a person.

/// Accepts every match, for rules whose format is distinctive.
pub(super) fn any(_: &str) -> bool {
    true
}

/// Accepts the value of a labelled secret: not a name, an expression or a placeholder such as `<your key>`.
pub(super) fn value(text: &str) -> bool {
    !is_place_to_fill_in(text) && !is_words(text)
}

/// Accepts a value without quotes, which in prose may be a word: letters, with a digit or a sign among them, or of both
/// cases without words.
pub(super) fn bare_value(text: &str) -> bool {
    value(text) && is_drawn(text) && !text.contains(['(', ')', '[', ']', '{', '}', '<', '>'])
}

/// Accepts a value in quotes: a phrase too, but not a sentence, and not a name of where the value is. A short one must
/// have a digit or a sign.
pub(super) fn quoted_value(text: &str) -> bool {
    const SENTENCE: &[&str] = &[
        "a", "and", "are", "at", "be", "can", "do", "does", "enter", "for", "has", "if", "in",
        "invalid", "is", "it", "must", "no", "not", "of", "on", "only", "or", "please", "required",
        "the", "this", "to", "too", "was", "with", "your",
    ];
    let lower = text.to_ascii_lowercase();
    let names = ["passw", "passphrase", "secret", "token", "pwd"];
    let is_name = is_words(text) || text.bytes().all(|byte| byte.is_ascii_alphabetic());
    if is_place_to_fill_in(text) || (is_name && names.iter().any(|name| lower.contains(name))) {
        return false;
    }
    if text.contains(' ') {
        let words: Vec<&str> = lower.split(' ').collect();
        return words.len() > 2
            && !words
                .iter()
                .any(|word| SENTENCE.contains(word) || word.ends_with([':', '.', ',']))
            && text.starts_with(|first: char| first.is_ascii_alphanumeric());
    }
    if is_words(text) {
        let pieces = text.split(['-', '_']).filter(|piece| !piece.is_empty());
        return pieces.count() > 2 && !text.contains(['.', '/', ':', '(']);
    }
    text.len() >= 8 || is_drawn(text)
}

/// Whether it has letters, with a digit or a sign among them, or letters of both cases that form no words.
fn is_drawn(text: &str) -> bool {
    let bytes = text.as_bytes();
    let sign = |byte: &u8| byte.is_ascii_digit() || b"!@#$%^&*?+=~".contains(byte);
    bytes.iter().any(u8::is_ascii_alphabetic) && (bytes.iter().any(sign) || !is_joined(text))
}

/// Whether letters are words joined by capitals, such as `userPassword` or `getURL`. Anything else but letters of both
/// cases counts as such.
fn is_joined(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_mixed =
        bytes.iter().any(u8::is_ascii_uppercase) && bytes.iter().any(u8::is_ascii_lowercase);
    if !is_mixed || !bytes.iter().all(u8::is_ascii_alphabetic) {
        return true;
    }
    let mut starts = vec![0];
    for at in 1..bytes.len() {
        let is_upper = bytes[at].is_ascii_uppercase();
        let ends_run = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        if is_upper && (bytes[at - 1].is_ascii_lowercase() || ends_run) {
            starts.push(at);
        }
    }
    let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
    let mut words = starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| &bytes[start..end]);
    bytes.len() >= 3 * starts.len() && words.all(is_word)
}

/// Whether letters may be a word: some are vowels, and not many consonants stand together. Few letters may be anything.
fn is_word(letters: &[u8]) -> bool {
    let is_vowel = |byte: &u8| b"aeiouy".contains(&byte.to_ascii_lowercase());
    let mut consonants = letters.split(is_vowel);
    letters.len() < 4
        || letters.iter().any(is_vowel) && consonants.all(|run| run.len() < 4)
        || letters.iter().all(u8::is_ascii_uppercase)
}

/// Accepts a value that looks random: letters with digits among them, or letters of both cases that do not form
/// words.
pub(super) fn random(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has = |test: fn(&u8) -> bool| bytes.iter().any(test);
    let mixed =
        has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && wordiness(bytes) < 0.5;
    value(text)
        && has(u8::is_ascii_alphabetic)
        && (has(u8::is_ascii_digit) || mixed)
        && entropy(bytes) >= 3.0
}

/// Whether a person wrote the value: words or names with separators, such as `my_settings.api_key_2`.
fn is_words(text: &str) -> bool {
    const LONGEST: usize = 16;
    const DIGITS: usize = 3;
    if text.bytes().filter(u8::is_ascii_digit).count() > DIGITS {
        return false;
    }
    let mut pieces = 0;
    for piece in text.split(|c: char| !c.is_alphanumeric()) {
        if piece.is_empty() {
            continue;
        }
        pieces += 1;
        let letters = piece.trim_end_matches(|c: char| c.is_ascii_digit());
        let cased = letters
            .bytes()
            .skip(1)
            .all(|byte| byte.is_ascii_lowercase())
            || letters.bytes().all(|byte| byte.is_ascii_uppercase())
            || is_camel(letters);
        if letters.len() > LONGEST || !cased {
            return false;
        }
    }
    pieces > 1
}

/// Whether these are words joined by capitals: each word but the first begins with a capital, with at least two
/// more letters before the next.
fn is_camel(letters: &str) -> bool {
    let mut run = 2;
    for (place, byte) in letters.bytes().enumerate() {
        match byte {
            b'A'..=b'Z' if place == 0 || run >= 2 => run = 0,
            b'a'..=b'z' => run += 1,
            _ => return false,
        }
    }
    run >= 1
}

/// Whether the value is a placeholder for a secret: `<your key>`, `${KEY}`, `xxxxxxxx`, `********`.
fn is_place_to_fill_in(text: &str) -> bool {
    let bytes = text.as_bytes();
    let first = bytes.first().copied().unwrap_or(b'<');
    if b"<${%".contains(&first) || text.contains("${") || text.contains("{{") {
        return true;
    }
    bytes.iter().all(|&byte| byte == first)
        || bytes
            .windows(5)
            .any(|five| b"xX*.#".contains(&five[0]) && five.iter().all(|&byte| byte == five[0]))
}

/// The Shannon entropy of `bytes`, in bits a byte.
pub(super) fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for &byte in bytes {
        counts[usize::from(byte)] += 1;
    }
    #[expect(clippy::cast_precision_loss, reason = "lengths of values")]
    let total = bytes.len() as f64;
    counts
        .iter()
        .filter(|&&count| count > 0)
        .map(|&count| f64::from(count) / total)
        .map(|share| -share * share.log2())
        .sum()
}

/// The share of `bytes` in runs of three or more lower case letters, as in words.
pub(super) fn wordiness(bytes: &[u8]) -> f64 {
    let runs = bytes.chunk_by(|a, b| a.is_ascii_lowercase() && b.is_ascii_lowercase());
    let in_words: usize = runs.map(<[u8]>::len).filter(|&length| length >= 3).sum();
    #[expect(clippy::cast_precision_loss, reason = "lengths of values")]
    let share = in_words as f64 / bytes.len().max(1) as f64;
    share
}

/// The share of adjacent bytes that are of different kinds: upper case, lower case, digits, signs.
pub(super) fn changes(bytes: &[u8]) -> f64 {
    let kind = |byte: &u8| match byte {
        b'a'..=b'z' => 0_u8,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    };
    let changed = bytes
        .windows(2)
        .filter(|pair| kind(&pair[0]) != kind(&pair[1]))
        .count();
    #[expect(clippy::cast_precision_loss, reason = "lengths of values")]
    let share = changed as f64 / bytes.len().saturating_sub(1).max(1) as f64;
    share
}

// Values that look random but are not secrets: hashes, commit ids, inline media.

/// Words before a value that mark it as a hash.
const LABELS: &[&str] = &[
    "sha1",
    "sha-1",
    "sha224",
    "sha256",
    "sha-256",
    "sha384",
    "sha-384",
    "sha512",
    "sha-512",
    "md5",
    "xxh3",
    "blake2b",
    "blake3",
    "crc32",
    "checksum",
    "digest",
    "integrity",
    "etag",
    "commit",
    "revision",
    "fingerprint",
    "hash",
    "tree",
    "parent",
    "index",
];

/// The largest distance between a label and its value, in bytes.
const NEAR: usize = 24;

/// Whether the text before the run marks it as a hash, or as the data of inline media.
pub(super) fn is_named(text: &str, start: usize) -> bool {
    if text[..start].ends_with(";base64,") {
        return true;
    }
    let from = super::search::floor(text, start.saturating_sub(NEAR));
    let before = text[from..start].to_ascii_lowercase();
    let line = before.rsplit('\n').next().unwrap_or_default();
    let label = line
        .trim_end_matches([
            ' ', '\t', ':', '=', '"', '\'', '-', '(', '`', '@', '/', '\\',
        ])
        .trim_end_matches("is")
        .trim_end();
    label != line
        && LABELS.iter().any(|known| {
            label
                .strip_suffix(known)
                .is_some_and(|rest| !rest.ends_with(|c: char| c.is_ascii_alphanumeric()))
        })
}

/// Whether a hex run may be the id of a git commit.
pub(super) fn is_commit(run: &str) -> bool {
    run.len() == 40
}

/// Whether a run is a path: it has slashes, and its pieces are words.
pub(super) fn is_path(run: &str) -> bool {
    run.contains('/') && super::shape::is_words(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_expressions_are_words_and_drawn_values_are_none() {
        for words in [
            "settings.api_key_value",
            "os.environ.token",
            "GITHUB_TOKEN_FOR_TESTS",
            "getAccessToken.fromStore",
            "my-long-project-name-2",
        ] {
            assert!(is_words(words), "{words}");
        }
        for drawn in [
            "abcdefghijklmnopqrstuvwxyz",
            "abcdefghij1234567890",
            "tZ9_xQ2-kLm8vB4nR7",
            "hunter2hunter2",
            "abcdefghij_1234-5.678",
        ] {
            assert!(!is_words(drawn), "{drawn}");
        }
    }

    #[test]
    fn letters_of_both_cases_are_drawn_unless_they_are_words() {
        for drawn in [
            "aKxTbQpw",
            "XGuTcooHofQepNh",
            "hunter2hunter",
            "Summer2026!",
        ] {
            assert!(bare_value(drawn), "{drawn}");
        }
        for written in [
            "userPassword",
            "getURL",
            "HTTPServer",
            "required",
            "PASSWORD",
            "fn(a1)",
        ] {
            assert!(!bare_value(written), "{written}");
        }
    }

    #[test]
    fn a_phrase_in_quotes_is_a_password_and_a_sentence_or_a_name_is_none() {
        for secret in [
            "correct horse battery staple",
            "correct-horse-battery",
            "hunter2",
            "iloveyou",
        ] {
            assert!(quoted_value(secret), "{secret}");
        }
        for other in [
            "must be at least 8 characters",
            "settings.auth.primary",
            "admin",
            "dev_password",
            "required field",
        ] {
            assert!(!quoted_value(other), "{other}");
        }
    }

    #[test]
    fn what_was_drawn_has_digits_or_is_no_words() {
        for drawn in ["tkaCTTjQPshjTPpbvNeNJDKwYYOUUZzD", "abcdefghij12345678"] {
            assert!(random(drawn), "{drawn}");
        }
        for written in [
            "someVariableNameOfMine",
            "abcdefghijklmnop",
            "1234567890123456",
        ] {
            assert!(!random(written), "{written}");
        }
    }

    #[test]
    fn entropy_is_that_of_the_formula() {
        assert!((entropy(b"aabb") - 1.0).abs() < 1e-12);
        assert!((entropy(b"abcd") - 2.0).abs() < 1e-12);
        assert!(entropy(b"aaaa").abs() < 1e-12);
    }

    #[test]
    fn a_place_to_fill_in_is_no_secret() {
        for place in [
            "<your-api-key-here>",
            "${API_KEY_OF_SERVICE}",
            "xxxxxxxxxxxxxxxxxxxx",
            "%TOKEN%",
        ] {
            assert!(!value(place), "{place}");
        }
    }

    #[test]
    fn a_hash_is_known_by_the_word_before_it() {
        for text in [
            "sha256:",
            "sha256: ",
            "\"integrity\": \"sha512-",
            "MD5 = ",
            "commit ",
            "the digest is ",
        ] {
            assert!(is_named(text, text.len()), "{text:?}");
        }
        for text in ["key: ", "", "secret=", "rehash", "rehash ", "sha256\n"] {
            assert!(!is_named(text, text.len()), "{text:?}");
        }
    }

    #[test]
    fn inline_media_is_no_secret() {
        let text = "data:image/png;base64,";
        assert!(is_named(text, text.len()));
    }
}
