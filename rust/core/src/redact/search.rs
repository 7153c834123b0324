//! The search for secrets in one text.

use regex::Captures;

use crate::redact::rules::{Action, Reach, Rules, pattern};
use crate::redact::table::TABLE;

/// The search for secrets in one text.
pub(super) struct Search<'a> {
    pub(super) rules: &'a Rules,
    pub(super) text: &'a str,
    /// For each rule, the end of the text that it has searched.
    pub(super) read: Vec<usize>,
    pub(super) found: Vec<Span>,
    /// The matches of rules with the action `allow`.
    pub(super) allowed: Vec<Span>,
}

impl Search<'_> {
    /// Searches with `rule` around its keyword at `at`.
    pub(super) fn near(&mut self, rule: usize, keyword: &str, at: usize) {
        if at < self.read[rule] {
            return;
        }
        let reach = TABLE.get(rule).map_or(Reach::Line, |rule| rule.reach);
        let bytes = self.text.as_bytes();
        match reach {
            Reach::Begins => {
                let joined = at > 0 && bytes[at - 1].is_ascii_alphanumeric();
                if joined || !bytes[at..].starts_with(keyword.as_bytes()) {
                    return;
                }
                let Some(pattern) = pattern(rule) else { return };
                if let Some(found) = pattern.find(&self.text[at..]) {
                    let end = at + found.end();
                    self.read[rule] = end;
                    self.judge(rule, at, end);
                }
            }
            Reach::Line => {
                let floor = self.read[rule];
                let line = |&&byte: &&u8| byte != b'\n';
                let start = at - bytes[floor..at].iter().rev().take_while(line).count();
                let end = at + bytes[at..].iter().take_while(line).count();
                self.within(rule, start, end);
            }
            Reach::Text => self.within(
                rule,
                at.saturating_sub(64).max(self.read[rule]),
                self.text.len(),
            ),
        }
    }

    /// Searches with `rule` in `start..end`.
    pub(super) fn within(&mut self, rule: usize, start: usize, end: usize) {
        self.read[rule] = end.max(start + 1);
        let start = floor(self.text, start);
        let Some(pattern) = (match rule.checked_sub(TABLE.len() + 2) {
            Some(custom) => self.rules.custom.get(custom),
            None => pattern(rule),
        }) else {
            return;
        };
        let text = &self.text[..end];
        let mut at = start;
        while let Some(found) = pattern.captures_at(text, at) {
            let (from, to) = secret(&found);
            self.judge(rule, from, to);
            at = found.get_match().end().max(at + 1);
            if at >= text.len() {
                break;
            }
            while !text.is_char_boundary(at) {
                at += 1;
            }
        }
    }

    /// Adds a match, if it looks like a secret of its rule.
    fn judge(&mut self, rule: usize, start: usize, end: usize) {
        let looks = TABLE
            .get(rule)
            .is_none_or(|rule| (rule.check)(&self.text[start..end]));
        if looks {
            self.add(rule, start, end);
        }
    }

    /// Adds a match of `rule`, unless it is empty or redacted already.
    pub(super) fn add(&mut self, rule: usize, start: usize, end: usize) {
        if start == end || self.rules.is_redacted(&self.text[start..end]) {
            return;
        }
        let action = self.rules.actions[rule];
        let span = Span {
            start,
            end,
            rule,
            blocks: action == Action::Block,
        };
        if action == Action::Allow {
            self.allowed.push(span);
        } else {
            self.found.push(span);
        }
    }
}

/// The span of the secret in a match: the group `s`, `t` or `u`, or all of it.
fn secret(found: &Captures<'_>) -> (usize, usize) {
    let mut groups = ["s", "t", "u"].into_iter();
    let group = groups
        .find_map(|name| found.name(name))
        .unwrap_or_else(|| found.get_match());
    (group.start(), group.end())
}

// Merges spans that overlap.

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
