//! The rules of one redactor, built-in and custom: their names, actions, placeholders and patterns.

use std::result;
use std::sync::{Arc, LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError};
use regex::{Regex, RegexBuilder};
use rustc_hash::FxHashMap;

use crate::error::{Error, Result, named};
use crate::redact::table::{self, TABLE};

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
                return Err(Error::refused(
                    "actions",
                    id.as_str(),
                    format!("no rule is named {id:?}"),
                ));
            }
        }
        let built_in = rules.len();
        let mut custom = Vec::with_capacity(options.custom.len());
        for rule in &options.custom {
            if rules.iter().any(|known| *known.id == *rule.id) {
                let message = format!("two rules are named {:?}", rule.id);
                return Err(Error::refused("rules", rule.id.as_str(), message));
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
        .map_err(|error| Error::refused("rules", "keywords", error.to_string()))?;
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

// The parts of a rule.

/// The action on a match of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It stays, even if other rules match it.
    Allow,
    /// It is replaced by a placeholder.
    Redact,
    /// The whole text may not be written.
    Block,
}

named!(Action, "action": Allow = "allow", Redact = "redact", Block = "block");

/// Where a rule looks for its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The secret begins with the keyword (case-sensitive), and no ASCII letter or digit stands before it.
    Begins,
    /// The secret is on a line that has the keyword.
    Line,
    /// The secret begins on a line that has the keyword, and may go on to the end of the text.
    Text,
}

/// A rule of the built-in table.
#[derive(Debug)]
pub(super) struct BuiltIn {
    pub(super) id: &'static str,
    pub(super) keywords: &'static [&'static str],
    pub(super) reach: Reach,
    /// The group `s` (or else `t`) is the secret; without these groups the whole match is the secret.
    pub(super) pattern: &'static str,
    /// Whether a match looks like a secret of this rule.
    pub(super) check: fn(&str) -> bool,
}

/// A custom rule.
#[derive(Clone, Debug)]
pub struct CustomRule {
    /// Its name in findings.
    pub id: String,
    /// A regular expression without look-around and back references. The group `s` (or else `t`) is the secret;
    /// without these groups the whole match is the secret.
    pub pattern: String,
    /// Each line with such a secret has at least one of these keywords, in upper or lower case. If there are none,
    /// every line is searched.
    pub keywords: Vec<String>,
    /// The text that replaces the secret.
    pub placeholder: String,
    /// The action on a match.
    pub action: Action,
}

// The compiled rules: their patterns, and the keywords that tell which patterns to run.

/// The largest size of a compiled pattern, in bytes.
const PATTERN_LIMIT: usize = 4 << 20;
/// Finds the keywords of all rules in one pass.
#[derive(Debug)]
pub(super) struct Prefilter {
    pub(super) automaton: AhoCorasick,
    /// For each keyword (in lower case), its rules, and the keyword as the rule spells it.
    pub(super) rules: Vec<Vec<(usize, Box<str>)>>,
}

/// The compiled patterns of the table; each is compiled when it is first needed.
static PATTERNS: [OnceLock<Option<Regex>>; TABLE.len()] = [const { OnceLock::new() }; TABLE.len()];
/// The keywords of the table.
pub(super) static PREFILTER: LazyLock<Option<Prefilter>> = LazyLock::new(|| {
    let keywords = TABLE.iter().enumerate();
    Prefilter::new(
        keywords.flat_map(|(place, rule)| rule.keywords.iter().map(move |&word| (place, word))),
    )
    .ok()
});

impl Prefilter {
    /// The keywords of rules, each with the place of its rule.
    pub(super) fn new<'a>(
        keywords: impl Iterator<Item = (usize, &'a str)>,
    ) -> result::Result<Self, BuildError> {
        let mut places: FxHashMap<String, usize> = FxHashMap::default();
        let mut words: Vec<String> = Vec::new();
        let mut rules: Vec<Vec<(usize, Box<str>)>> = Vec::new();
        for (rule, keyword) in keywords {
            let folded = keyword.to_ascii_lowercase();
            let place = *places.entry(folded.clone()).or_insert_with(|| {
                words.push(folded);
                rules.push(Vec::new());
                rules.len() - 1
            });
            rules[place].push((rule, keyword.into()));
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(&words)?;
        Ok(Self { automaton, rules })
    }
}

/// The compiled pattern of the built-in rule at `place`. A test checks that every pattern compiles.
pub(super) fn pattern(place: usize) -> Option<&'static Regex> {
    let rule: &BuiltIn = TABLE.get(place)?;
    PATTERNS[place]
        .get_or_init(|| {
            let anchored = rule.reach == Reach::Begins;
            let pattern = if anchored {
                format!(r"\A(?:{})", rule.pattern)
            } else {
                rule.pattern.to_owned()
            };
            RegexBuilder::new(&pattern)
                .size_limit(PATTERN_LIMIT)
                .build()
                .ok()
        })
        .as_ref()
}

/// The compiled pattern of a custom rule.
fn compile(rule: &CustomRule) -> Result<Regex> {
    let pattern = RegexBuilder::new(&rule.pattern)
        .size_limit(PATTERN_LIMIT)
        .build()
        .map_err(|error| {
            let message = format!("the pattern of rule {:?} cannot be used: {error}", rule.id);
            Error::refused("rules", rule.id.as_str(), message)
        })?;
    if pattern.is_match("") {
        let message = format!("the pattern of rule {:?} matches the empty text", rule.id);
        return Err(Error::refused("rules", rule.id.as_str(), message));
    }
    Ok(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_of_the_table_compiles() {
        for (place, rule) in TABLE.iter().enumerate() {
            assert!(pattern(place).is_some(), "{}", rule.id);
            assert!(!rule.keywords.is_empty(), "{}", rule.id);
        }
        assert!(PREFILTER.is_some());
    }

    #[test]
    fn a_rule_that_begins_with_its_keyword_says_so_in_its_pattern() {
        for (place, rule) in TABLE.iter().enumerate() {
            if rule.reach == Reach::Begins {
                let pattern = pattern(place).unwrap();
                assert!(pattern.as_str().starts_with(r"\A"), "{}", rule.id);
            }
        }
    }
}
