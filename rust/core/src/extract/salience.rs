//! How much a piece of text would be missed: rare and central words, cues, who said it, and where.
//!
//! `salience = (sum of the weights of its words) / sqrt(words + DAMPING) * cues * speaker * place`
//!
//! with `weight(w) = ln((1 + N) / df(w))² * ln(1 + df(w))` over the N units: a word in all of them says nothing, a word
//! in one is rare but ties to nothing, a word in several is what the material is about. A weight is a whole number of
//! 2⁻²⁰, so that a sum is the same in every order.

use super::cues;
use super::units::{Unit, Units};

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
    let cues = f64::from(100 + cues::hundredths(units.text(unit))) / 100.0;
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
