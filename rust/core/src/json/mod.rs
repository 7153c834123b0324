//! Writes values as JSON: the size of the text, the text itself, and a digest of it.

mod string;
mod walk;

pub use string::{string_size, write_string};
pub use walk::{Node, Tree, digest_of, size_of, write};
