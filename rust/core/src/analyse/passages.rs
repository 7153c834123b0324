//! Cuts a long text into overlapping passages, so that one good paragraph is not diluted by the rest.

use std::ops::Range;

/// The length of a passage, in terms.
const SIZE: usize = 160;

/// The overlap of two consecutive passages, in terms.
const OVERLAP: usize = 40;

/// The passages of a text of that many terms: at least one, and the last ends with the text.
pub(super) fn passages(terms: usize) -> impl Iterator<Item = Range<usize>> {
    let count = terms.saturating_sub(SIZE).div_ceil(SIZE - OVERLAP) + 1;
    (0..count).map(move |number| {
        let start = number * (SIZE - OVERLAP);
        start..terms.min(start + SIZE)
    })
}

/// Whether a passage has a character with `before` of the text's `terms` terms before it. The last passage also has
/// the characters behind all terms.
pub(super) fn has_character(passage: &Range<usize>, before: usize, terms: usize) -> bool {
    passage.contains(&before.min(terms.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_overlap_and_cover_the_text() {
        let of = |terms| -> Vec<(usize, usize)> {
            passages(terms).map(|each| (each.start, each.end)).collect()
        };
        assert_eq!(of(0), [(0, 0)]);
        assert_eq!(of(160), [(0, 160)]);
        assert_eq!(of(161), [(0, 160), (120, 161)]);
        assert_eq!(of(280), [(0, 160), (120, 280)]);
        assert_eq!(of(281), [(0, 160), (120, 280), (240, 281)]);
    }
}
