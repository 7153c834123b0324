//! Writes values as JSON: the size of the text, the text itself, and a digest of it. Reads plain messages.

mod said;
mod scalars;
mod walk;

pub(crate) use said::first_string;
pub use said::{Said, said};
pub(crate) use scalars::write_float;
pub use scalars::{string_size, write_string};
pub use walk::{Node, Tree, digest_of, size_of, weigh, write};
