//! The search for secrets in one text.

use regex::Captures;

use crate::redact::compiled::pattern;
use crate::redact::overlap::{Span, floor};
use crate::redact::rule::{Action, Reach};
use crate::redact::rules::Rules;
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

/// The span of the secret in a match: the group `s`, the group `t`, or all of it.
fn secret(found: &Captures<'_>) -> (usize, usize) {
    let group = found
        .name("s")
        .or_else(|| found.name("t"))
        .unwrap_or_else(|| found.get_match());
    (group.start(), group.end())
}
