//! Values that look random but are not secrets: hashes, commit ids, inline media.

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
    let from = super::overlap::floor(text, start.saturating_sub(NEAR));
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
