//! Writes values as JSON: the size of the text, the text itself, and a digest of it. Reads plain messages.

mod float;
mod said;
mod string;
mod walk;

pub use float::write_float;
pub use said::{Said, said};
pub use string::{string_size, write_string};
pub use walk::{Node, Tree, digest_of, size_of, write};
