//! A value of a message, whoever keeps it, and the names of the fields that mean something.

use crate::json::Tree;

/// How deep a value may be nested for this reader; deeper ones are rare.
pub(super) const MAX_DEPTH: usize = 48;

/// The value is not for this reader: the slow one, in Python, knows what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread;

/// A message, or a value in one, of the types that JSON has. Whatever else there is answers `None`.
pub trait Value: Tree<Error = Unread> {
    /// A text of valid Unicode.
    fn text(&self) -> Option<&str>;

    /// The items of an array.
    fn items(&self) -> Option<Self::Items>;

    /// The keys and values of an object.
    fn fields(&self) -> Option<Self::Fields>;

    /// The value of an object's field; `None` where the object has none of that name, too.
    fn field(&self, field: Field) -> Option<Self>;

    /// The role and the content of an object that has two texts of these names and nothing else.
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
        /// A field that means something in some dialect.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Field {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl Field {
            /// All of them, each at the place of its number.
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
    Text "text",
    Thinking "thinking",
    ToolCallId "tool_call_id",
    ToolCalls "tool_calls",
    ToolName "tool_name",
    ToolUseId "tool_use_id",
    Type "type",
}

/// A value that is there and not `null`.
pub(super) fn present<V: Value>(value: Option<&V>) -> Option<&V> {
    value.filter(|value| !value.is_null())
}
