//! What is read of messages in Python: their outline, and the text that a summariser reads.

mod history;
mod render;
mod trim;
mod value;

pub(crate) use self::history::Outline;
pub(crate) use self::render::{render_messages, rendered_tokens};
pub(crate) use self::trim::{KnownTexts, Leaving, Loose, parted};
