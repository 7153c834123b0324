//! The rules at work.

use std::sync::Arc;

use regex::Regex;

use crate::error::Result;
use crate::redact::compiled::{PREFILTER, Prefilter, compile, refused};
use crate::redact::overlap::{self, Span};
use crate::redact::rule::{Action, CustomRule};
use crate::redact::runs::{self, Run};
use crate::redact::search::Search;
use crate::redact::table::{self, TABLE};

/// What every placeholder of ours begins with.
const MARK: &str = "[REDACTED";
const PLACEHOLDER: &str = "[REDACTED]";
const PLACEHOLDER_HEX: &str = "[REDACTED_HEX]";
const PLACEHOLDER_BASE64: &str = "[REDACTED_B64]";

/// How often a text is read anew, since a placeholder may have made a border that was none.
const ROUNDS: usize = 8;

/// What a redactor is told.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Every run of hex or base64 goes, also one that was not drawn at random.
    pub strict: bool,
    /// Hex of 40 digits stays: it is most often the id of a commit.
    pub keep_commit_ids: bool,
    /// What becomes of what a built-in rule finds; `Redact` where it is not named.
    pub actions: Vec<(String, Action)>,
    /// Rules of the caller's own.
    pub custom: Vec<CustomRule>,
}

/// Where a secret stood, without the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule that found it.
    pub rule: Arc<str>,
    /// Its first byte in the text.
    pub start: usize,
    /// One past its last.
    pub end: usize,
    /// What stands in its place.
    pub placeholder: Arc<str>,
    /// Whether its rule says that nothing of the text may be written.
    pub blocks: bool,
}

/// A set of rules, ready to read texts. Any number of threads may use it at once.
#[derive(Debug)]
pub struct Redactor {
    options: Options,
    rules: Vec<Rule>,
    pub(super) actions: Vec<Action>,
    pub(super) custom: Vec<Regex>,
    prefilter: Option<Prefilter>,
}

#[derive(Debug)]
struct Rule {
    id: Arc<str>,
    placeholder: Arc<str>,
}

impl Redactor {
    /// A redactor of the built-in rules and those of `options`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`: a pattern that is none, that is too large or that matches the empty text; an
    /// action for a rule that there is not; two rules of one name.
    pub fn new(options: Options) -> Result<Self> {
        let mut rules: Vec<Rule> = table::names()
            .map(|id| Rule {
                id: id.into(),
                placeholder: built_in_placeholder(id).into(),
            })
            .collect();
        let mut actions = vec![Action::Redact; rules.len()];
        for (id, action) in &options.actions {
            let mut known = false;
            for (place, rule) in rules.iter().enumerate() {
                if *rule.id == **id {
                    actions[place] = *action;
                    known = true;
                }
            }
            if !known {
                return Err(refused("actions", id, format!("no rule is named {id:?}")));
            }
        }
        let built_in = rules.len();
        let mut custom = Vec::with_capacity(options.custom.len());
        for rule in &options.custom {
            if rules.iter().any(|known| *known.id == *rule.id) {
                let message = format!("two rules are named {:?}", rule.id);
                return Err(refused("rules", &rule.id, message));
            }
            custom.push(compile(rule)?);
            actions.push(rule.action);
            rules.push(Rule {
                id: rule.id.as_str().into(),
                placeholder: rule.placeholder.as_str().into(),
            });
        }
        let keywords = options.custom.iter().enumerate();
        let prefilter = Prefilter::new(keywords.flat_map(|(place, rule)| {
            let words = rule.keywords.iter();
            words.map(move |word| (built_in + place, word.as_str()))
        }))
        .map_err(|error| refused("rules", "keywords", error.to_string()))?;
        Ok(Self {
            options,
            rules,
            actions,
            custom,
            prefilter: (!prefilter.rules.is_empty()).then_some(prefilter),
        })
    }

    /// Where secrets stand in `text`, in order and apart from one another.
    #[must_use]
    pub fn scan(&self, text: &str) -> Vec<Finding> {
        self.redact(text).1
    }

    /// `text` with a placeholder for each secret, or `None` where there is none; and where they stood.
    ///
    /// What comes back has no secret: redacting it again changes nothing.
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
            spans = overlap::merge(spans);
            redacted = self.written(text, &spans);
        }
        let findings = spans.iter().map(|span| self.finding(span)).collect();
        (Some(redacted), findings)
    }

    fn finding(&self, span: &Span) -> Finding {
        let rule = &self.rules[span.rule];
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
            written.push_str(&self.rules[span.rule].placeholder);
            from = span.end;
        }
        written.push_str(&text[from..]);
        written
    }

    /// The places in the text that `more` stand for, found where `spans` are placeholders already.
    fn in_original(&self, spans: &[Span], more: &[Span]) -> Vec<Span> {
        let mut from = 0; // in what is written
        let mut shifts = Vec::with_capacity(spans.len());
        let mut behind = 0; // in the text
        for span in spans {
            let start = from + (span.start - behind);
            let end = start + self.rules[span.rule].placeholder.len();
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

    /// What the rules find in `text`, in order and apart, without what stands in a placeholder.
    fn spans(&self, text: &str) -> Vec<Span> {
        let mut search = Search {
            redactor: self,
            text,
            read: vec![0; self.rules.len()],
            found: Vec::new(),
            allowed: Vec::new(),
        };
        for prefilter in PREFILTER.iter().chain(&self.prefilter) {
            for hit in prefilter.automaton.find_overlapping_iter(text) {
                for (rule, keyword) in &prefilter.rules[hit.pattern().as_usize()] {
                    search.near(*rule, keyword, hit.start());
                }
            }
        }
        let first = self.rules.len() - self.custom.len();
        for (place, rule) in self.options.custom.iter().enumerate() {
            if rule.keywords.is_empty() {
                search.within(first + place, 0, text.len());
            }
        }
        let [hex, base64] = [TABLE.len(), TABLE.len() + 1];
        let Options {
            strict,
            keep_commit_ids,
            ..
        } = self.options;
        runs::each(text, strict, keep_commit_ids, |start, end, run| {
            let rule = if run == Run::Hex { hex } else { base64 };
            search.add(rule, start, end);
        });
        let Search { found, allowed, .. } = search;
        overlap::merge(overlap::without(found, allowed))
    }

    /// Whether a placeholder stands in `secret`, which has been redacted then.
    pub(super) fn is_redacted(&self, secret: &str) -> bool {
        secret.contains(MARK)
            || self
                .options
                .custom
                .iter()
                .any(|rule| !rule.placeholder.is_empty() && secret.contains(&rule.placeholder))
    }
}

fn built_in_placeholder(id: &str) -> &'static str {
    match id {
        table::HEX => PLACEHOLDER_HEX,
        table::BASE64 => PLACEHOLDER_BASE64,
        _ => PLACEHOLDER,
    }
}
