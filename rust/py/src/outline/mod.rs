//! Reads Python messages: their outline, and their text for a summariser.

mod history;
mod render;
mod trim;
mod value;

pub(crate) use self::history::Outline;
pub(crate) use self::render::{message_items, message_tokens, render_messages, rendered_tokens};
pub(crate) use self::trim::{Loose, parted};
