//! Views and ranges as a compaction keeps them. `[[0, 3], 17, [5, 9]]` means: messages 0 to 2, derived text 17,
//! messages 5 to 8.

use std::fmt::Write as _;

/// A half-open range of sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub start: i64,
    pub end: i64,
}

impl Range {
    /// Whether one of `seqs`, which ascend, is in the range.
    pub(crate) fn holds_one(self, seqs: &[i64]) -> bool {
        let first = seqs.partition_point(|&seq| seq < self.start);
        seqs.get(first).is_some_and(|&seq| seq < self.end)
    }
}

/// A piece of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Messages as they were appended.
    Messages(Range),
    /// The derived text of that id.
    Text(i64),
}

/// The pieces of the list in `text`, or None if it is anything else.
pub(crate) fn parse(text: &str) -> Option<Vec<Piece>> {
    let mut rest = text.trim().strip_prefix('[')?.strip_suffix(']')?.trim();
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, after) = piece(rest)?;
        pieces.push(piece);
        rest = after.trim_start();
        if let Some(next) = rest.strip_prefix(',') {
            rest = next.trim_start();
            if rest.is_empty() {
                return None;
            }
        } else if !rest.is_empty() {
            return None;
        }
    }
    Some(pieces)
}

/// Whether `text` is a list of ascending, non-empty ranges within `0..end`. Ids of texts are allowed with `with_texts`.
pub(crate) fn is_within(text: &str, end: i64, with_texts: bool) -> bool {
    let Some(pieces) = parse(text) else {
        return false;
    };
    let mut last = 0;
    for piece in pieces {
        match piece {
            Piece::Text(_) if with_texts => {}
            Piece::Text(_) => return false,
            Piece::Messages(Range { start, end: stop }) => {
                if start < last || stop <= start || stop > end {
                    return false;
                }
                last = stop;
            }
        }
    }
    true
}

/// The list of `pieces` as text.
pub(crate) fn write(pieces: &[Piece]) -> String {
    let mut text = String::from("[");
    for (place, piece) in pieces.iter().enumerate() {
        let comma = if place == 0 { "" } else { ", " };
        let written = match piece {
            Piece::Messages(Range { start, end }) => write!(text, "{comma}[{start}, {end}]"),
            Piece::Text(id) => write!(text, "{comma}{id}"),
        };
        debug_assert!(written.is_ok(), "a text takes whatever is written to it");
    }
    text.push(']');
    text
}

/// A list of ids as text.
pub(crate) fn ids(ids: &[i64]) -> String {
    let pieces: Vec<Piece> = ids.iter().map(|&id| Piece::Text(id)).collect();
    write(&pieces)
}

/// The ids of the list in `text`, or None if it is anything else.
pub(crate) fn parse_ids(text: &str) -> Option<Vec<i64>> {
    let ids = parse(text)?.into_iter().map(|piece| match piece {
        Piece::Text(id) => Some(id),
        Piece::Messages(_) => None,
    });
    ids.collect()
}

/// The ranges of the list in `text`, or None if it is anything else.
pub(crate) fn parse_ranges(text: &str) -> Option<Vec<Range>> {
    let ranges = parse(text)?.into_iter().map(|piece| match piece {
        Piece::Messages(range) => Some(range),
        Piece::Text(_) => None,
    });
    ranges.collect()
}

fn piece(text: &str) -> Option<(Piece, &str)> {
    let Some(inside) = text.strip_prefix('[') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        let (id, rest) = text.split_at(end);
        return Some((Piece::Text(id.parse().ok()?), rest));
    };
    let (inside, rest) = inside.split_once(']')?;
    let (start, end) = inside.split_once(',')?;
    let start = start.trim().parse().ok()?;
    let end = end.trim().parse().ok()?;
    Some((Piece::Messages(Range { start, end }), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let range = |start, end| Piece::Messages(Range { start, end });
        assert_eq!(parse("[]"), Some(vec![]));
        let pieces = vec![range(0, 3), Piece::Text(17), range(5, 9), Piece::Text(-1)];
        assert_eq!(parse("[[0, 3], 17,[5,9] , -1]"), Some(pieces.clone()));
        assert_eq!(parse(&write(&pieces)), Some(pieces));
        assert_eq!(parse_ids(&ids(&[3, 5])), Some(vec![3, 5]));
        assert_eq!(parse_ids("[[3, 5]]"), None);
        for wrong in [
            "",
            "[",
            "[[0]]",
            "[[0, 1],]",
            "[[0, 1] [2, 3]]",
            "[[0, x]]",
            "{}",
            "[null]",
            "[1 2]",
            "[1,]",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_range_is_half_open() {
        let range = Range { start: 2, end: 4 };
        assert!(range.holds_one(&[0, 3]));
        assert!(!range.holds_one(&[0, 1, 4]));
        assert!(!range.holds_one(&[]));
        assert!(!Range { start: 2, end: 2 }.holds_one(&[2]));
    }
}
