//! The outline of a history, which a policy reads before any message: speakers, groups and turns.
//!
//! An [`Outline`] has a [`Line`] for each message, and knows nothing of texts. Its rules are those of
//! `siltstone.messages.groups` and `siltstone.messages.turns`, which are its slow twins.
//! [`measured`] makes the line of a message, and a [`Rendering`] has what a summariser reads of one: both
//! read any [`Value`], whoever keeps it.

mod dialects;
mod fields;
mod groups;
mod history;
mod keys;
mod lines;
mod loose;
mod measure;
mod read;
mod render;
mod turns;
mod value;

pub use history::{Other, Outline, Sketch};
pub use keys::{Key, Keys};
pub use lines::{Line, Lines, Provenance, Role, Tie};
pub use loose::{Leaving, Loose};
pub use measure::{Measure, Measured, Units, measured};
pub use render::Rendering;
pub use turns::Turn;
pub use value::{Field, Unread, Value};
