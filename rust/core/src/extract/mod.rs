//! A summary without a language model: the most telling lines of the material, word for word, in order.
//!
//! The material is cut into units: lines, sentences of long lines, and stretches of long sentences. Each has a
//! salience, from the weights of its words, its cues, its [`Speaker`] and its place. A [`Selection`] takes the best of
//! them within a room. `tests/reference/selection.py` has the same rules, written to be read.

mod salience;
mod selection;
mod units;

pub use selection::Selection;
pub use units::{Item, Speaker};
