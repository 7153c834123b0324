//! The outline of a history: its roles, groups and turns, which a policy reads before any message.
//!
//! An [`Outline`] has a [`Line`] for each message, and no texts. Its rules are those of `siltstone.messages.groups`
//! and `siltstone.messages.groups`, the slow counterparts in Python. [`measured`] makes the line of a message, and a
//! [`Rendering`] has the text of messages for a summariser: both read any [`Value`], independent of how it is
//! stored.

mod dialects;
mod groups;
mod history;
mod lines;
mod loose;
mod measure;
mod read;
mod render;
mod value;

pub use groups::{Key, Keys};
pub use history::{Other, Outline, Turn};
pub use lines::{Line, Lines, Provenance, Role, Tie};
pub use loose::Loose;
pub use measure::{Measure, Measured, Units, measured, weighed};
pub use render::{Item, ItemKind, Rendering, each_item};
pub use value::{Field, Unread, Value};
