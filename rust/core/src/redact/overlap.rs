//! Merges spans that overlap.

/// A stretch of the text that a rule has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The place of the rule in the table. The lowest of several names the merged span.
    pub(super) rule: usize,
    pub(super) blocks: bool,
}

/// The union of `spans`, in order; overlapping spans are merged.
pub(super) fn merge(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|span| (span.start, span.end, span.rule));
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start < last.end => {
                last.end = last.end.max(span.end);
                last.rule = last.rule.min(span.rule);
                last.blocks |= span.blocks;
            }
            _ => merged.push(span),
        }
    }
    merged
}

/// `spans` without those that lie within one of `allowed`.
pub(super) fn without(spans: Vec<Span>, allowed: Vec<Span>) -> Vec<Span> {
    if allowed.is_empty() {
        return spans;
    }
    let allowed = merge(allowed);
    spans
        .into_iter()
        .filter(|span| {
            let after = allowed.partition_point(|kept| kept.start <= span.start);
            after == 0 || allowed[after - 1].end < span.end
        })
        .collect()
}

/// The last boundary of a character of `text` up to `at`.
pub(super) fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: usize, end: usize, rule: usize) -> Span {
        Span {
            start,
            end,
            rule,
            blocks: false,
        }
    }

    #[test]
    fn spans_that_overlap_are_one_under_the_earlier_rule() {
        let spans = vec![span(5, 9, 2), span(0, 6, 7), span(9, 10, 1)];
        assert_eq!(merge(spans), [span(0, 9, 2), span(9, 10, 1)]);
    }

    #[test]
    fn an_allowed_place_shields_what_lies_within_it() {
        let spans = vec![span(2, 4, 0), span(3, 9, 0)];
        assert_eq!(without(spans, vec![span(2, 6, 1)]), [span(3, 9, 0)]);
    }
}
