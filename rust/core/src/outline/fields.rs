//! Collects the fields of a message in one walk, and defines the receiver of its parts.

use std::array;

use super::value::{Field, MAX_DEPTH, Value};
use crate::json::{size_of, string_size, write};
use crate::tokens::TextSize;

/// The most bytes of JSON that one message may have, as in `siltstone.messages.json_text`.
pub(super) const MAX_MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// The receiver of the parts of a message. Every call is one part.
pub(super) trait Sink<V: Value> {
    /// A text.
    fn said(&mut self, text: &str) -> Option<()>;
    /// Reasoning, with as much of its text as counts.
    fn reasoned(&mut self, text: &str) -> Option<()>;
    /// A call of a tool.
    fn called(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        arguments: Arguments<'_, V>,
    ) -> Option<()>;
    /// A result of a tool.
    fn answered(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        text: &str,
        failed: bool,
    ) -> Option<()>;
}

/// The arguments of a call: a text, or a value that is written as JSON; absent ones are `{}`.
pub(super) struct Arguments<'a, V>(pub(super) Option<&'a V>);

impl<V: Value> Arguments<'_, V> {
    /// How many bytes they have as text.
    pub(super) fn len(&self) -> Option<usize> {
        Some(match self.0 {
            Some(value) if !value.is_null() => match value.text() {
                Some(text) => text.len(),
                None => size_of(value, MAX_DEPTH).ok()?.bytes,
            },
            _ => "{}".len(),
        })
    }

    /// Appends them as text.
    pub(super) fn write(&self, out: &mut String) -> Option<()> {
        match self.0 {
            Some(value) if !value.is_null() => match value.text() {
                Some(text) => out.push_str(text),
                None => write(value, MAX_DEPTH, out).ok()?,
            },
            _ => out.push_str("{}"),
        }
        Some(())
    }
}

/// The fields of a message that some dialect uses.
pub(super) struct Fields<V> {
    values: [Option<V>; Field::ALL.len()],
}

impl<V: Value> Fields<V> {
    /// The fields of `raw`.
    pub(super) fn of(raw: &V) -> Option<Self> {
        let mut fields = Self::empty();
        for (key, value) in raw.fields()? {
            fields.take(key.text()?, value);
        }
        Some(fields)
    }

    /// The fields and the size of `raw` as JSON; `None` if it is too large.
    pub(super) fn measured(raw: &V) -> Option<(Self, TextSize)> {
        let (mut fields, mut size, mut count) = (Self::empty(), TextSize::default(), 0_usize);
        for (key, value) in raw.fields()? {
            let key = key.text()?;
            size = size.plus(string_size(key.as_bytes()));
            size = size.plus(size_of(&value, MAX_DEPTH).ok()?);
            fields.take(key, value);
            count += 1;
        }
        let marks = 2 + (2 * count).saturating_sub(1); // braces, colons, commas
        let size = size.plus(TextSize {
            bytes: marks,
            code_points: marks,
        });
        (size.bytes <= MAX_MESSAGE_BYTES).then_some((fields, size))
    }

    /// The value of a field.
    pub(super) fn get(&self, field: Field) -> Option<&V> {
        self.values[field as usize].as_ref()
    }

    #[inline]
    fn empty() -> Self {
        Self {
            values: array::from_fn(|_| None),
        }
    }

    #[inline]
    fn take(&mut self, key: &str, value: V) {
        if let Some(field) = Field::of(key) {
            self.values[field as usize] = Some(value);
        }
    }
}
