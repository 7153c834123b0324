//! JSON without a parser: how large a value is when it is written, and the text of it.

mod string;
mod walk;

pub use string::{string_size, write_string};
pub use walk::{Node, Tree, size_of, write};
