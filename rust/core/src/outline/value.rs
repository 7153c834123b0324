//! A value of a message, independent of how it is stored, and the names of the known fields.

use crate::json::Tree;

/// The deepest nesting of a value that this reader reads; deeper values are rare.
pub(super) const MAX_DEPTH: usize = 48;

/// This reader cannot read the value; the slow reader in Python does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread;

/// A message, or a value in it, of the types of JSON. Methods answer `None` for a value of another type.
pub trait Value: Tree<Error = Unread> {
    /// A text of valid Unicode.
    fn text(&self) -> Option<&str>;

    /// The items of an array.
    fn items(&self) -> Option<Self::Items>;

    /// The keys and values of an object.
    fn fields(&self) -> Option<Self::Fields>;

    /// The value of an object's field; `None` for a missing field too.
    fn field(&self, field: Field) -> Option<Self>;

    /// The role and the content of an object that has exactly these two fields, both texts.
    fn role_and_text(&self) -> Option<(Self, Self)>;

    /// Whether it is an object.
    fn is_object(&self) -> bool;

    /// Whether it is `null`.
    fn is_null(&self) -> bool;

    /// Whether it is `true`.
    fn is_true(&self) -> bool;
}

macro_rules! fields {
    ($($variant:ident $name:literal,)*) => {
        /// A field that some dialect uses.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Field {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl Field {
            /// All fields, each at the place of its number.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The field of that name.
            #[must_use]
            #[inline]
            pub fn of(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

fields! {
    Arguments "arguments",
    Audio "audio",
    CallId "call_id",
    Caller "caller",
    Content "content",
    Custom "custom",
    Function "function",
    FunctionCall "function_call",
    Id "id",
    Input "input",
    IsError "is_error",
    Name "name",
    Output "output",
    Reasoning "reasoning",
    ReasoningContent "reasoning_content",
    Refusal "refusal",
    Role "role",
    Summary "summary",
    Text "text",
    Thinking "thinking",
    ToolCallId "tool_call_id",
    ToolCalls "tool_calls",
    ToolName "tool_name",
    ToolUseId "tool_use_id",
    Type "type",
}

/// The value, unless it is absent or `null`.
pub(super) fn present<V: Value>(value: Option<&V>) -> Option<&V> {
    value.filter(|value| !value.is_null())
}
