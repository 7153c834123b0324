//! JSON without a parser: how large a value is when it is written, the text of it, and a digest of that.

mod string;
mod walk;

pub use string::{string_size, write_string};
pub use walk::{Node, Tree, digest_of, size_of, write};
