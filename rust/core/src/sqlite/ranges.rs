//! Ranges of sequence numbers as a compaction keeps them: `[[0, 3], null, [5, 9]]`.

/// A half-open range of sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub start: i64,
    pub end: i64,
}

impl Range {
    /// Whether one of `seqs`, which ascend, is in it.
    pub(crate) fn holds_one(self, seqs: &[i64]) -> bool {
        let first = seqs.partition_point(|&seq| seq < self.start);
        seqs.get(first).is_some_and(|&seq| seq < self.end)
    }
}

/// The pieces of the list in `text`, None for `null`; or None, if it is anything else.
pub(crate) fn parse(text: &str) -> Option<Vec<Option<Range>>> {
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

fn piece(text: &str) -> Option<(Option<Range>, &str)> {
    if let Some(rest) = text.strip_prefix("null") {
        return Some((None, rest));
    }
    let (inside, rest) = text.strip_prefix('[')?.split_once(']')?;
    let (start, end) = inside.split_once(',')?;
    let start = start.trim().parse().ok()?;
    let end = end.trim().parse().ok()?;
    Some((Some(Range { start, end }), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let range = |start, end| Some(Range { start, end });
        assert_eq!(parse("[]"), Some(vec![]));
        assert_eq!(
            parse("[[0, 3], null, [5,9]]"),
            Some(vec![range(0, 3), None, range(5, 9)])
        );
        for wrong in [
            "",
            "[",
            "[[0]]",
            "[[0, 1],]",
            "[[0, 1] [2, 3]]",
            "[[0, x]]",
            "{}",
            "[1]",
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
