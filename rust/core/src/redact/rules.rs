//! The rules of one redactor, built-in and custom: their names, actions and placeholders.

use std::sync::Arc;

use regex::Regex;

use crate::error::Result;
use crate::redact::compiled::{Prefilter, compile, refused};
use crate::redact::rule::{Action, CustomRule};
use crate::redact::table;

/// The beginning of every built-in placeholder.
const MARK: &str = "[REDACTED";
const PLACEHOLDER: &str = "[REDACTED]";
const PLACEHOLDER_HEX: &str = "[REDACTED_HEX]";
const PLACEHOLDER_BASE64: &str = "[REDACTED_B64]";

/// The settings of a redactor.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Every run of hex or base64 is redacted, even if it does not look random.
    pub strict: bool,
    /// A run of 40 hex digits stays: it is most often the id of a commit.
    pub keep_commit_ids: bool,
    /// The action of each built-in rule; `Redact` for rules that are not named.
    pub actions: Vec<(String, Action)>,
    /// Custom rules.
    pub custom: Vec<CustomRule>,
}

/// The rules, each known by its place: the built-in ones first.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) options: Options,
    pub(super) named: Vec<Rule>,
    pub(super) actions: Vec<Action>,
    /// The patterns of the custom rules.
    pub(super) custom: Vec<Regex>,
    pub(super) prefilter: Option<Prefilter>,
}

/// The name of a rule, and its placeholder.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) id: Arc<str>,
    pub(super) placeholder: Arc<str>,
}

impl Rules {
    /// The built-in rules and those of `options`.
    pub(super) fn new(options: Options) -> Result<Self> {
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
            named: rules,
            actions,
            custom,
            prefilter: (!prefilter.rules.is_empty()).then_some(prefilter),
        })
    }

    /// Whether `secret` contains a placeholder, so that it was redacted before.
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
