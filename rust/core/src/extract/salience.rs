//! How much a piece of text would be missed: rare and central words, cues, who said it, and where.
//!
//! `salience = (sum of the weights of its words) / sqrt(words + DAMPING) * cues * speaker * place`
//!
//! with `weight(w) = ln((1 + N) / df(w))² * ln(1 + df(w))` over the N units: a word in all of them says nothing, a word
//! in one is rare but ties to nothing, a word in several is what the material is about. A weight is a whole number of
//! 2⁻²⁰, so that a sum is the same in every order.

use std::hash::BuildHasherDefault;
use std::ops::Range;
use std::sync::LazyLock;

use hashbrown::HashMap;
use regex::bytes::{RegexSet, RegexSetBuilder};
use rustc_hash::FxHasher;
use xxhash_rust::xxh3::xxh3_64;

use super::units::{Unit, Units};
use crate::tokenize::words::for_each_word;

/// Words: keeps lines of one and two words from winning by their shortness.
const DAMPING: f64 = 2.0;
/// By how much the newest unit outweighs the oldest, all else equal.
const RECENCY: f64 = 0.3;
/// Of a weight of 1.
const SCALE: f64 = 1_048_576.0;

/// The weight of each word.
pub(super) fn weights(units: &Units) -> Vec<u64> {
    let total = units.all().len();
    let mut by_frequency = vec![None; total + 1];
    let of = |frequency| {
        let frequency = f64::from(frequency);
        let rarity = ((1.0 + as_float(total)) / frequency).ln();
        scaled(rarity * rarity * (1.0 + frequency).ln())
    };
    units
        .frequencies()
        .map(|frequency| *by_frequency[frequency as usize].get_or_insert_with(|| of(frequency)))
        .collect()
}

/// The weight of all words of `unit` together.
pub(super) fn weight(units: &Units, unit: &Unit, weights: &[u64]) -> u64 {
    let words = units.words(unit).iter();
    words.map(|&word| weights[word as usize]).sum()
}

/// The salience of the unit at `at`, whose words have that `weight`.
pub(super) fn salience(units: &Units, at: usize, weight: u64) -> f64 {
    let unit = &units.all()[at];
    let base = as_float(weight) / (as_float(units.words(unit).len()) + DAMPING).sqrt();
    let end = match unit {
        Unit { is_first: true, .. } => 1.2,
        Unit { is_last: true, .. } => 1.1,
        _ => 1.0,
    };
    let place = end * (1.0 + RECENCY * as_float(at) / as_float(units.all().len()));
    let cues = f64::from(100 + hundredths(units.text(unit))) / 100.0;
    base * cues * unit.speaker.factor() * place
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts and sums of weights are far below 2^53"
)]
fn as_float(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a weight is positive and below 2^40"
)]
fn scaled(weight: f64) -> u64 {
    (weight * SCALE) as u64
}

// Kinds of lines that tend to be needed again, and what each adds to the salience of a line.

const FAILURES: &str = r"(?i:\b(?:error|exception|traceback|fail(?:s|ed|ure|ing)?|panic|refused|denied|timed? ?out|bug)\b)";
const DECISIONS: &str = r"(?i:\b(?:decid\w+|decision|chose|agreed|must|never|always|prefer\w*|instead|because|important|remember|require[sd]?|fixed|root cause|turns? out|deadline)\b)";
const OPEN_TASKS: &str = r"(?i:\b(?:to-?do|fixme|next steps?|remaining|still (?:has|have|need)|left to do|open question)\b)|- \[ \]";
const IN_CJK: &str = "错误|失败|决定|必须|不要|记住|下一步|待办|重要|因为|エラー|失敗|決定|必要|重要|次に|오류|실패|결정|중요";
const PATHS: &str = r"https?://|(?:^|[^\w/])[\w.~-]*/[\w.~-]|\b\w+\.(?:py|rs|ts|js|go|c|h|java|rb|exs?|md|toml|json|ya?ml|sql|sh)\b";
const DIGITS: &str = r"(?u:\d)";
const IDENTIFIERS: &str = r"\w_\w|\b[a-z]+[A-Z]|\b[A-Z][a-z]+[A-Z]|\w\(\)|\b[A-Z]{2,}[-_]?[0-9]";

/// The cues, each with its weight in hundredths. Letters of a word are those of ASCII, since the words of the patterns
/// are: so an English word next to a Chinese one is found.
const CUES: [(u32, &str); 7] = [
    (25, FAILURES),
    (25, DECISIONS),
    (25, OPEN_TASKS),
    (25, IN_CJK),
    (20, PATHS),
    (15, DIGITS),
    (15, IDENTIFIERS),
];

static PATTERNS: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSetBuilder::new(CUES.map(|(_, pattern)| pattern))
        .unicode(false)
        .build()
        .expect("the patterns are valid")
});

/// The weight of all cues of `line` together, in hundredths.
fn hundredths(line: &str) -> u32 {
    let found = PATTERNS.matches(line.as_bytes());
    found.iter().map(|each| CUES[each].0).sum()
}

// The words of units, each word once for a unit, and how many units have it.

/// Words as numbers in the order of their first unit.
#[derive(Debug, Default)]
pub(super) struct Words {
    numbers: HashMap<u64, u32, BuildHasherDefault<FxHasher>>,
    /// Of each word: the number of units that have it, and the last of them.
    units: Vec<(u32, u32)>,
    bags: Vec<u32>,
}

impl Words {
    /// Reads the text of the unit with the number `unit`, which is larger than that of all before. The range of its
    /// distinct words is empty, if it has none.
    pub(super) fn read(&mut self, text: &str, unit: u32) -> Range<usize> {
        let Self {
            numbers,
            units,
            bags,
        } = self;
        let start = bags.len();
        for_each_word(text, |word| {
            let next = u32::try_from(units.len()).expect("fewer words than bytes of memory");
            let number = *numbers.entry(xxh3_64(word.as_bytes())).or_insert(next);
            if number == next {
                units.push((0, u32::MAX));
            }
            let (count, last) = &mut units[number as usize];
            if *last != unit {
                (*count, *last) = (*count + 1, unit);
                bags.push(number);
            }
        });
        start..bags.len()
    }

    /// The numbers of the words of a unit.
    pub(super) fn of(&self, unit: &Range<usize>) -> &[u32] {
        &self.bags[unit.clone()]
    }

    /// The number of units that have each word.
    pub(super) fn frequencies(&self) -> impl Iterator<Item = u32> {
        self.units.iter().map(|&(count, _)| count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_cue_counts_once() {
        for (line, expected) in [
            ("nothing of note here", 0),
            ("It failed, then it failed again: timed out", 25),
            ("debug, failsafe", 0),
            ("We decided that, because it Must", 25),
            ("- [ ] call Ann", 25),
            ("next steps: TODO", 25),
            ("我们决定了", 25),
            ("次にError", 50),
            ("see src/main.rs", 20),
            ("a // b and/", 0),
            ("既/x", 20),
            ("in 3 days", 15),
            ("٣", 15),
            ("snake_case and camelCase", 15),
            ("Error 5 in /a_b: we decided, TODO 决定", 150),
        ] {
            assert_eq!(hundredths(line), expected, "{line}");
        }
    }
}
