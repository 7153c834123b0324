//! Applies the rules to texts.

use std::sync::Arc;

use crate::error::Result;
use crate::redact::rules::{Options, PREFILTER, Rules};
use crate::redact::runs::{self, Run};
use crate::redact::search::{self, Search, Span};
use crate::redact::table::TABLE;

/// The most passes over a text. Another pass is needed since a placeholder may create a word boundary, and so a new
/// match.
const ROUNDS: usize = 8;

/// Where a secret stood, without the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule that found it.
    pub rule: Arc<str>,
    /// Its first byte in the text.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
    /// The text that replaces it.
    pub placeholder: Arc<str>,
    /// Whether its rule forbids writing the text at all.
    pub blocks: bool,
}

/// `findings` of `text`, in order, with their places in code points instead of bytes.
#[must_use]
pub fn by_code_points(text: &str, mut findings: Vec<Finding>) -> Vec<Finding> {
    let (mut bytes, mut points) = (0, 0);
    let mut count = |to: usize| {
        points += text[bytes..to].chars().count();
        bytes = to;
        points
    };
    for found in &mut findings {
        found.start = count(found.start);
        found.end = count(found.end);
    }
    findings
}

/// A set of rules, ready to read texts. Any number of threads may use it at once.
#[derive(Debug)]
pub struct Redactor {
    rules: Rules,
}

impl Redactor {
    /// A redactor with the built-in rules and those of `options`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`: a pattern is invalid, too large, or matches the empty text; an action names an unknown
    /// rule; two rules have the same name.
    pub fn new(options: Options) -> Result<Self> {
        Ok(Self {
            rules: Rules::new(options)?,
        })
    }

    /// The secrets in `text`, in order and without overlap.
    #[must_use]
    pub fn scan(&self, text: &str) -> Vec<Finding> {
        self.redact(text).1
    }

    /// `text` with a placeholder for each secret, or `None` if it has no secret; and the findings.
    ///
    /// The result is scanned again until nothing is found (at most 8 passes), so redacting it again changes
    /// nothing.
    #[must_use]
    pub fn redact(&self, text: &str) -> (Option<String>, Vec<Finding>) {
        let mut spans = self.spans(text);
        if spans.is_empty() {
            return (None, Vec::new());
        }
        let mut redacted = self.written(text, &spans);
        for _ in 1..ROUNDS {
            let more = self.spans(&redacted);
            if more.is_empty() {
                break;
            }
            spans.extend(self.in_original(&spans, &more));
            spans = search::merge(spans);
            redacted = self.written(text, &spans);
        }
        let findings = spans.iter().map(|span| self.finding(span)).collect();
        (Some(redacted), findings)
    }

    fn finding(&self, span: &Span) -> Finding {
        let rule = &self.rules.named[span.rule];
        Finding {
            rule: Arc::clone(&rule.id),
            start: span.start,
            end: span.end,
            placeholder: Arc::clone(&rule.placeholder),
            blocks: span.blocks,
        }
    }

    fn written(&self, text: &str, spans: &[Span]) -> String {
        let mut written = String::with_capacity(text.len());
        let mut from = 0;
        for span in spans {
            written.push_str(&text[from..span.start]);
            written.push_str(&self.rules.named[span.rule].placeholder);
            from = span.end;
        }
        written.push_str(&text[from..]);
        written
    }

    /// Maps the spans `more`, found in the text with placeholders for `spans`, back to the original text.
    fn in_original(&self, spans: &[Span], more: &[Span]) -> Vec<Span> {
        let mut from = 0; // in the redacted text
        let mut shifts = Vec::with_capacity(spans.len());
        let mut behind = 0; // in the original text
        for span in spans {
            let start = from + (span.start - behind);
            let end = start + self.rules.named[span.rule].placeholder.len();
            shifts.push((start, end, span));
            (from, behind) = (end, span.end);
        }
        let place = |at: usize, ends: bool| {
            let before =
                shifts.partition_point(|&(start, ..)| start < at || (!ends && start == at));
            match before.checked_sub(1).map(|last| shifts[last]) {
                None => at,
                Some((_, end, span)) if at >= end => span.end + (at - end),
                Some((_, _, span)) if ends => span.end,
                Some((_, _, span)) => span.start,
            }
        };
        more.iter()
            .map(|span| Span {
                start: place(span.start, false),
                end: place(span.end, true),
                ..*span
            })
            .collect()
    }

    /// The matches of the rules in `text`, in order and without overlap, except those inside placeholders.
    fn spans(&self, text: &str) -> Vec<Span> {
        let mut search = Search {
            rules: &self.rules,
            text,
            read: vec![0; self.rules.named.len()],
            found: Vec::new(),
            allowed: Vec::new(),
        };
        for prefilter in PREFILTER.iter().chain(&self.rules.prefilter) {
            for hit in prefilter.automaton.find_overlapping_iter(text) {
                for (rule, keyword) in &prefilter.rules[hit.pattern().as_usize()] {
                    search.near(*rule, keyword, hit.start());
                }
            }
        }
        let first = self.rules.named.len() - self.rules.custom.len();
        for (place, rule) in self.rules.options.custom.iter().enumerate() {
            if rule.keywords.is_empty() {
                search.within(first + place, 0, text.len());
            }
        }
        let [hex, base64] = [TABLE.len(), TABLE.len() + 1];
        let Options {
            strict,
            keep_commit_ids,
            ..
        } = self.rules.options;
        runs::each(text, strict, keep_commit_ids, |start, end, run| {
            let rule = if run == Run::Hex { hex } else { base64 };
            search.add(rule, start, end);
        });
        let Search { found, allowed, .. } = search;
        search::merge(search::without(found, allowed))
    }
}
