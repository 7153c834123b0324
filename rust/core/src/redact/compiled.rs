//! The compiled rules: their patterns, and the keywords that tell which patterns to run.

use std::result;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError};
use regex::{Regex, RegexBuilder};
use rustc_hash::FxHashMap;

use crate::error::{Error, ErrorKind, Result};
use crate::redact::rule::{BuiltIn, CustomRule, Reach};
use crate::redact::table::TABLE;

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
pub(super) fn compile(rule: &CustomRule) -> Result<Regex> {
    let pattern = RegexBuilder::new(&rule.pattern)
        .size_limit(PATTERN_LIMIT)
        .build()
        .map_err(|error| {
            let message = format!("the pattern of rule {:?} cannot be used: {error}", rule.id);
            refused("rules", &rule.id, message)
        })?;
    if pattern.is_match("") {
        let message = format!("the pattern of rule {:?} matches the empty text", rule.id);
        return Err(refused("rules", &rule.id, message));
    }
    Ok(pattern)
}

/// The error for a rule that cannot be used.
pub(super) fn refused(field: &'static str, value: &str, message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
        .with("field", field)
        .with("value", value)
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
