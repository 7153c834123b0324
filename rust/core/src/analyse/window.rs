//! Finds the stretch of a text that best matches a query, for callers that cannot show all of the text.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::graphemes::{ceil, floor};

/// The longest piece without white space that is read as one, in bytes; longer ones (Chinese, base64) are cut.
const LONGEST_PIECE: usize = 48;

/// The best stretch of a text that is longer than `size` bytes. `terms_in` returns the terms of a piece that are
/// looked for; [`Asked::best_part`](super::Asked::best_part) says which stretch is best.
pub(super) fn best_stretch(
    text: &str,
    size: usize,
    terms_in: impl FnMut(&str) -> Vec<u64>,
) -> Range<usize> {
    let pieces = pieces(text);
    let found = matches(text, &pieces, terms_in);
    let best = densest(&pieces, &found, size).unwrap_or(0..0);
    let best = widened(text, &pieces, best, size);
    // A combining accent may stand on white space that is left out.
    let start = ceil(text, best.start);
    start..floor(text, best.end).max(start)
}

/// The pieces of `text`: its stretches without white space. Long ones are cut, with one shared grapheme.
fn pieces(text: &str) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    for piece in text.split_whitespace() {
        let mut start = piece.as_ptr().addr() - text.as_ptr().addr();
        let end = start + piece.len();
        while end - start > LONGEST_PIECE {
            let mut stop = floor(text, start + LONGEST_PIECE);
            if stop <= start {
                stop = ceil(text, start + 1).min(end); // a single grapheme with many combining marks
            }
            pieces.push(start..stop);
            let common = floor(text, stop - 1); // shared, so that no pair of Han characters is lost
            start = if common > start { common } else { stop };
        }
        pieces.push(start..end);
    }
    pieces
}

/// The pieces that have terms of the query, each with these terms.
fn matches(
    text: &str,
    pieces: &[Range<usize>],
    mut terms_in: impl FnMut(&str) -> Vec<u64>,
) -> Vec<(usize, Vec<u64>)> {
    let of = |(at, piece): (usize, &Range<usize>)| {
        let common = terms_in(&text[piece.clone()]);
        (!common.is_empty()).then_some((at, common))
    };
    pieces.iter().enumerate().filter_map(of).collect()
}

/// The run of pieces within `size` bytes whose terms have the highest weight.
fn densest(
    pieces: &[Range<usize>],
    found: &[(usize, Vec<u64>)],
    size: usize,
) -> Option<Range<usize>> {
    let mut counts = FxHashMap::<u64, usize>::default();
    for term in found.iter().flat_map(|(_, common)| common) {
        *counts.entry(*term).or_default() += 1;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of words in one text")]
    let weight = |term: &u64| 1.0 + (pieces.len() as f64 / counts[term] as f64).ln();
    let mut inside = FxHashMap::<u64, usize>::default();
    let (mut first, mut sum, mut best) = (0, 0.0, None);
    for (last, (at, common)) in found.iter().enumerate() {
        for term in common {
            let count = inside.entry(*term).or_default();
            if *count == 0 {
                sum += weight(term);
            }
            *count += 1;
        }
        while first < last && pieces[*at].end - pieces[found[first].0].start > size {
            for term in &found[first].1 {
                if let Some(count) = inside.get_mut(term) {
                    *count -= 1;
                    if *count == 0 {
                        sum -= weight(term);
                    }
                }
            }
            first += 1;
        }
        if best
            .as_ref()
            .is_none_or(|(most, _)| sum > *most + f64::EPSILON * 64.0)
        {
            best = Some((sum, found[first].0..*at + 1));
        }
    }
    best.map(|(_, run)| run)
}

/// The bytes of the pieces of `run`, extended by pieces on both sides as far as `size` allows.
fn widened(text: &str, pieces: &[Range<usize>], run: Range<usize>, size: usize) -> Range<usize> {
    let Range { mut start, mut end } = run;
    let Some(first) = pieces.get(start) else {
        return 0..floor(text, size); // only white space
    };
    if start == end {
        end += 1;
    }
    if pieces[end - 1].end - first.start > size {
        return first.start..floor(text, first.start + size).max(first.start);
    }
    loop {
        let (from, to) = (pieces[start].start, pieces[end - 1].end);
        let after = pieces.get(end).filter(|piece| piece.end - from <= size);
        let before = start
            .checked_sub(1)
            .filter(|&at| to - pieces[at].start <= size);
        // The side with less context is extended first.
        let (left, right) = (run.start - start, end - run.end.min(end));
        match (before, after) {
            (Some(at), Some(_)) if left <= right => start = at,
            (Some(at), None) => start = at,
            (_, Some(_)) => end += 1,
            (None, None) => return from..to,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::analyse::best_window;

    #[test]
    fn a_text_that_fits_is_all_of_it() {
        assert_eq!(best_window("one two", "two", 7), 0..7);
        assert_eq!(best_window("", "two", 0), 0..0);
    }

    #[test]
    fn without_a_match_it_is_the_beginning() {
        assert_eq!(best_window("one two three four", "zebra", 8), 0..7);
    }

    #[test]
    fn the_rarer_term_of_a_text_decides() {
        let text = "pump one. pump two. pump three. pump four. the needle is here. pump five.";
        let window = best_window(text, "pump needle", 24);
        assert!(text[window].contains("needle"));
    }

    #[test]
    fn a_text_without_white_space_is_cut_between_code_points() {
        let text = format!("{}关键的密码是七{}", "山".repeat(200), "水".repeat(200));
        let window = best_window(&text, "密码", 60);
        assert!(window.len() <= 60);
        assert!(text[window].contains("密码"));
    }

    proptest! {
        #[test]
        fn a_window_holds_its_size_and_lies_between_code_points(
            text in "\\PC{0,200}", query in "\\PC{0,20}", size in 0_usize..300,
        ) {
            let window = best_window(&text, &query, size);
            prop_assert!(window.len() <= size);
            prop_assert!(text.get(window).is_some());
        }

        #[test]
        fn a_word_of_the_query_is_in_the_window_wherever_it_stands(
            before in 0_usize..60, after in 0_usize..60,
        ) {
            let text = format!("{}needle{}", "hay ".repeat(before), " hay".repeat(after));
            let window = best_window(&text, "the needles", 20);
            prop_assert!(text[window].contains("needle"));
        }
    }
}
