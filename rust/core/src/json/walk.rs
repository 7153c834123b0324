//! Walks over a value that can be written as JSON, independent of how the value is stored.

use std::borrow::Cow;

use xxhash_rust::xxh3::Xxh3;

use super::scalars::{string_size, write_string};
use crate::tokens::{Family, MARK, TextSize};

/// A value that can be written as JSON, in any representation.
pub trait Tree: Sized {
    /// Why a value cannot be written.
    type Error;
    /// The items of an array.
    type Items: Iterator<Item = Self>;
    /// The keys and values of an object.
    type Fields: Iterator<Item = (Self, Self)>;

    /// The kind and contents of the value.
    ///
    /// # Errors
    ///
    /// If the value cannot be written.
    fn node(&self) -> Result<Node<'_, Self>, Self::Error>;

    /// The value as the key of an object: a text, or a literal, which is written in quotes.
    ///
    /// # Errors
    ///
    /// If the value cannot be a key.
    fn key(&self) -> Result<Node<'_, Self>, Self::Error>;

    /// The error for a container that is nested deeper than `limit`.
    fn too_deep(&self, limit: usize) -> Self::Error;
}

/// The kind and contents of a value.
#[derive(Debug)]
pub enum Node<'a, T: Tree> {
    /// A text: UTF-8, or UTF-8 with lone surrogates in their three-byte form.
    Text(Cow<'a, [u8]>),
    /// `null`, `true`, `false` or a number, as it is written.
    Literal(Cow<'a, str>),
    /// An array.
    Array(T::Items),
    /// An object.
    Object(T::Fields),
}

/// The size of `value` as compact JSON, in which containers are nested at most `depth` deep.
///
/// # Errors
///
/// The errors of the values, and [`Tree::too_deep`] for a value that is nested deeper.
pub fn size_of<T: Tree>(value: &T, depth: usize) -> Result<TextSize, T::Error> {
    let mut size = TextSize::default();
    walk(value, depth, &mut size)?;
    Ok(size)
}

/// The size of [`size_of`], and the weight of the value for a family of tokenizers: of its texts and literals, and of
/// the marks and quotes between them.
///
/// # Errors
///
/// The errors of [`size_of`].
pub fn weigh<T: Tree>(
    value: &T,
    depth: usize,
    family: Family,
) -> Result<(TextSize, usize), T::Error> {
    let mut out = Weighed(TextSize::default(), 0, family);
    walk(value, depth, &mut out)?;
    Ok((out.0, out.1))
}

/// Appends the text that [`size_of`] measures. A lone surrogate is written as U+FFFD.
///
/// # Errors
///
/// The errors of [`size_of`]; `json` then has an incomplete value at its end.
pub fn write<T: Tree>(value: &T, depth: usize, json: &mut String) -> Result<(), T::Error> {
    walk(value, depth, json)
}

/// A digest of the text that [`write()`] would write: equal for values with the same text, except that lone
/// surrogates differ.
///
/// The digest is XXH3 with 128 bits, for comparisons within one process. Each string is preceded by its length, so
/// two different values do not have the same input.
///
/// # Errors
///
/// The errors of [`size_of`].
pub fn digest_of<T: Tree>(value: &T, depth: usize) -> Result<u128, T::Error> {
    let mut digest = Digest(Xxh3::new());
    walk(value, depth, &mut digest)?;
    Ok(digest.0.digest128())
}

/// The hash that a walk updates.
struct Digest(Xxh3);

/// The receiver of a walk.
trait Out {
    fn text(&mut self, utf8: &[u8]);
    fn ascii(&mut self, written: &str);
}

impl Out for TextSize {
    #[inline]
    fn text(&mut self, utf8: &[u8]) {
        *self = self.plus(string_size(utf8));
    }

    #[inline]
    fn ascii(&mut self, written: &str) {
        self.bytes += written.len();
        self.code_points += written.len();
    }
}

struct Weighed(TextSize, usize, Family);

impl Out for Weighed {
    #[inline]
    fn text(&mut self, utf8: &[u8]) {
        self.0.text(utf8);
        self.1 += self.2.weight(utf8) + 2 * MARK;
    }

    #[inline]
    fn ascii(&mut self, written: &str) {
        self.0.ascii(written);
        self.1 += match written.len() {
            0 => 0,
            1 if !written.as_bytes()[0].is_ascii_digit() => MARK,
            _ => self.2.weight(written.as_bytes()),
        };
    }
}

impl Out for Digest {
    #[inline]
    fn text(&mut self, utf8: &[u8]) {
        self.0.update(b"\"");
        self.0.update(&utf8.len().to_le_bytes());
        self.0.update(utf8);
    }

    #[inline]
    fn ascii(&mut self, written: &str) {
        self.0.update(written.as_bytes());
    }
}

impl Out for String {
    #[inline]
    fn text(&mut self, utf8: &[u8]) {
        match str::from_utf8(utf8) {
            Ok(text) => write_string(text, self),
            Err(_) => write_string(&String::from_utf8_lossy(utf8), self),
        }
    }

    #[inline]
    fn ascii(&mut self, written: &str) {
        self.push_str(written);
    }
}

/// The rest of an open container.
enum Rest<T: Tree> {
    Array(T::Items),
    Object(T::Fields),
}

/// Open containers are kept on the heap, so no value can overflow the stack of the thread.
fn walk<T: Tree>(value: &T, depth: usize, out: &mut impl Out) -> Result<(), T::Error> {
    let mut open: Vec<(Rest<T>, bool)> = Vec::new(); // and whether an item was written
    visit(value, depth, &mut open, out)?;
    while let Some((rest, met)) = open.last_mut() {
        let separator = if *met { "," } else { "" };
        *met = true;
        match rest {
            Rest::Array(items) => match items.next() {
                Some(item) => {
                    out.ascii(separator);
                    visit(&item, depth, &mut open, out)?;
                }
                None => close("]", &mut open, out),
            },
            Rest::Object(fields) => match fields.next() {
                Some((key, value)) => {
                    out.ascii(separator);
                    match key.key()? {
                        Node::Literal(literal) => out.text(literal.as_bytes()),
                        Node::Text(text) => out.text(&text),
                        Node::Array(_) | Node::Object(_) => return Err(key.too_deep(depth)),
                    }
                    out.ascii(":");
                    visit(&value, depth, &mut open, out)?;
                }
                None => close("}", &mut open, out),
            },
        }
    }
    Ok(())
}

/// Writes a scalar, or opens a container.
#[inline]
fn visit<T: Tree>(
    value: &T,
    depth: usize,
    open: &mut Vec<(Rest<T>, bool)>,
    out: &mut impl Out,
) -> Result<(), T::Error> {
    let (rest, bracket) = match value.node()? {
        Node::Text(text) => {
            out.text(&text);
            return Ok(());
        }
        Node::Literal(literal) => {
            out.ascii(&literal);
            return Ok(());
        }
        Node::Array(items) => (Rest::Array(items), "["),
        Node::Object(fields) => (Rest::Object(fields), "{"),
    };
    if open.len() == depth {
        return Err(value.too_deep(depth));
    }
    out.ascii(bracket);
    open.push((rest, false));
    Ok(())
}

#[inline]
fn close<T: Tree>(bracket: &str, open: &mut Vec<(Rest<T>, bool)>, out: &mut impl Out) {
    out.ascii(bracket);
    open.pop();
}
