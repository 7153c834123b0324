//! The boundaries of graphemes, the characters that people see.

use unicode_segmentation::GraphemeCursor;

/// Whether `at`, a place between two code points, is a boundary of graphemes.
pub(super) fn is_boundary(text: &str, at: usize) -> bool {
    let found = GraphemeCursor::new(at, text.len(), true).is_boundary(text, 0);
    found.unwrap_or(true) // the cursor has the whole text, so it cannot ask for more
}

/// The last boundary of graphemes up to `at`.
pub(super) fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    if is_boundary(text, at) {
        return at;
    }
    let found = GraphemeCursor::new(at, text.len(), true).prev_boundary(text, 0);
    found.ok().flatten().unwrap_or(0)
}

/// The first boundary of graphemes from `at` on.
pub(super) fn ceil(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    if is_boundary(text, at) {
        return at;
    }
    let found = GraphemeCursor::new(at, text.len(), true).next_boundary(text, 0);
    found.ok().flatten().unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_places_on_both_sides_halve_no_grapheme() {
        for whole in [
            "e\u{301}\u{302}",
            "🇩🇪",
            "👩‍👩‍👧",
            "👍🏽",
            "각",
            "\u{1100}\u{1161}\u{11A8}",
            "\r\n",
        ] {
            let text = format!("a{whole}b");
            for at in 0..=text.len() {
                let inside = at > 1 && at < 1 + whole.len();
                assert_eq!(
                    floor(&text, at),
                    if inside { 1 } else { at },
                    "{whole:?} {at}"
                );
                let end = 1 + whole.len();
                assert_eq!(
                    ceil(&text, at),
                    if inside { end } else { at },
                    "{whole:?} {at}"
                );
            }
            assert_eq!(floor(&text, usize::MAX), text.len());
        }
    }
}
