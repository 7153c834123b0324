//! The parts of a message as a summariser gets them: the speaker, the text, the called tool, its result.

use super::fields::{Arguments, Fields, Sink};
use super::read::read;
use super::value::{Field, Value};

/// The kind of a part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// A text.
    Text,
    /// A call of a tool.
    Call,
    /// A result of a tool.
    Result {
        /// The call failed.
        failed: bool,
    },
}

/// A part of a message. Reasoning and empty texts are no items.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Its kind.
    pub kind: ItemKind,
    /// The role of its message, as the message has it.
    pub role: Option<&'a str>,
    /// The id of the call, also in its result.
    pub call_id: Option<&'a str>,
    /// The name of the tool, where the part has it.
    pub name: Option<&'a str>,
    /// The text; of a call its arguments.
    pub text: &'a str,
}

/// Calls `each` with the items of a message in order. `None` if this reader cannot read the message; `each` may
/// have been called for some of its items then.
pub fn each_item<V: Value>(raw: &V, each: &mut dyn FnMut(Item<'_>)) -> Option<()> {
    let fields = Fields::of(raw)?;
    let role = fields.get(Field::Role).and_then(Value::text);
    read(&fields, &mut Items { role, each }).map(|_| ())
}

/// Makes an item of each part.
struct Items<'a> {
    role: Option<&'a str>,
    each: &'a mut dyn FnMut(Item<'_>),
}

impl<V: Value> Sink<V> for Items<'_> {
    fn said(&mut self, text: &str) -> Option<()> {
        if !text.is_empty() {
            (self.each)(Item {
                kind: ItemKind::Text,
                role: self.role,
                call_id: None,
                name: None,
                text,
            });
        }
        Some(())
    }

    fn reasoned(&mut self, _: &str) -> Option<()> {
        Some(())
    }

    fn called(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        arguments: Arguments<'_, V>,
    ) -> Option<()> {
        let mut written = String::new();
        arguments.write(&mut written)?;
        (self.each)(Item {
            kind: ItemKind::Call,
            role: self.role,
            call_id: id,
            name,
            text: &written,
        });
        Some(())
    }

    fn answered(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        text: &str,
        failed: bool,
    ) -> Option<()> {
        (self.each)(Item {
            kind: ItemKind::Result { failed },
            role: self.role,
            call_id: id,
            name,
            text,
        });
        Some(())
    }
}
