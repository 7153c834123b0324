//! Finds runs of hex and base64 that no keyword announces.

use super::shape;

/// The shortest run that is judged, in bytes.
pub(super) const SHORTEST: usize = 32;

/// The kind of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    Hex,
    Base64,
}

/// Calls `found` with every run that may be a secret: its span and its kind, in order.
pub(super) fn each(
    text: &str,
    strict: bool,
    keep_commit_ids: bool,
    mut found: impl FnMut(usize, usize, Run),
) {
    let bytes = text.as_bytes();
    let mut floor = 0; // every run still to be found begins here or later
    while let Some(&probe) = bytes.get(floor + SHORTEST - 1) {
        let middle = floor + SHORTEST - 1;
        if !is_base64(probe) {
            floor = middle + 1; // a run of this length from `floor` on would have to contain `middle`
            continue;
        }
        let before = bytes[floor..middle].iter().rev();
        let start = middle - before.take_while(|&&byte| is_base64(byte)).count();
        let after = bytes[middle..].iter();
        let end = middle + after.take_while(|&&byte| is_base64(byte)).count();
        if end - start >= SHORTEST
            && let Some((from, to, run)) = judge(text, start, end, strict, keep_commit_ids)
        {
            found(from, to, run);
        }
        floor = end;
    }
}

/// Whether the run `start..end` is a secret; if so, its span (with the padding of base64) and its kind.
fn judge(
    text: &str,
    start: usize,
    end: usize,
    strict: bool,
    keep_commit_ids: bool,
) -> Option<(usize, usize, Run)> {
    let run = &text[start..end];
    if run.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let kept = keep_commit_ids && shape::is_commit(run);
        let flat = shape::entropy(run.as_bytes()) < 2.0;
        let named = shape::is_named(text, start);
        return (strict && !kept || !(kept || flat || named)).then_some((start, end, Run::Hex));
    }
    let padding = text[end..]
        .bytes()
        .take(2)
        .take_while(|&byte| byte == b'=')
        .count();
    let drawn = is_mixed(run)
        && shape::entropy(run.as_bytes()) >= 4.0
        && shape::changes(run.as_bytes()) >= 0.3
        && shape::wordiness(run.as_bytes()) < 0.5
        && !shape::is_path(run)
        && !shape::is_named(text, start);
    (strict || drawn).then_some((start, end + padding, Run::Base64))
}

/// Whether a run has upper case letters, lower case letters and digits.
fn is_mixed(run: &str) -> bool {
    run.bytes().any(|byte| byte.is_ascii_uppercase())
        && run.bytes().any(|byte| byte.is_ascii_lowercase())
        && run.bytes().any(|byte| byte.is_ascii_digit())
}

fn is_base64(byte: u8) -> bool {
    const TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            #[expect(clippy::cast_possible_truncation, reason = "below 256")]
            let letter = byte as u8;
            table[byte] = letter.is_ascii_alphanumeric() || letter == b'+' || letter == b'/';
            byte += 1;
        }
        table
    };
    TABLE[usize::from(byte)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, strict: bool) -> Vec<(usize, usize, Run)> {
        let mut found = Vec::new();
        each(text, strict, true, |start, end, run| {
            found.push((start, end, run));
        });
        found
    }

    #[test]
    fn hex_of_32_goes_and_of_31_stays() {
        let hex = "d41d8cd98f00b204e9800998ecf8427e";
        assert_eq!(found(hex, false), [(0, 32, Run::Hex)]);
        assert_eq!(found(&hex[1..], false), []);
        assert_eq!(found(&format!("md5: {hex}"), false), []);
        assert_eq!(found(&format!("md5: {hex}"), true), [(5, 37, Run::Hex)]);
    }

    #[test]
    fn base64_needs_to_be_drawn_unless_all_runs_go() {
        let drawn = "dGhpcyBpcyBhIHNlY3JldCBrZXkgdGhhdCBpcyBsb25n==";
        assert_eq!(found(drawn, false), [(0, drawn.len(), Run::Base64)]);
        for kept in [
            "src/components/UserProfile2/IndexPage/main",
            "theQuickBrownFoxJumpsOverTheLazyDog2Times",
            "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB",
        ] {
            assert_eq!(found(kept, false), [], "{kept}");
            assert_eq!(found(kept, true), [(0, kept.len(), Run::Base64)], "{kept}");
        }
    }
}
