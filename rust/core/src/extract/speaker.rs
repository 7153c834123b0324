//! Who says a line of the material.

/// The speaker of an item of the material.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// A person who asks.
    User,
    /// The model.
    Assistant,
    /// Rules.
    System,
    /// A text of a message with the role of a tool.
    Tool,
    /// A call of a tool.
    ToolCall,
    /// A result of a tool.
    ToolResult,
    /// A result of a call that failed.
    ToolError,
    /// A text that siltstone has added.
    Context,
    /// A summary of earlier messages that names no speakers.
    Earlier,
}

impl Speaker {
    const ALL: [Self; 9] = [
        Self::User,
        Self::Assistant,
        Self::System,
        Self::Tool,
        Self::ToolCall,
        Self::ToolResult,
        Self::ToolError,
        Self::Context,
        Self::Earlier,
    ];

    /// The speaker of the texts of a message with that role; of an unknown role it is the user.
    #[must_use]
    pub fn of_role(role: &str) -> Self {
        match role {
            "system" | "developer" => Self::System,
            "assistant" => Self::Assistant,
            "tool" => Self::Tool,
            _ => Self::User,
        }
    }

    /// The name that a line of a summary begins with.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Assistant => "Assistant",
            Self::System => "System",
            Self::Tool => "Tool",
            Self::ToolCall => "Tool call",
            Self::ToolResult => "Tool result",
            Self::ToolError => "Tool error",
            Self::Context => "Context",
            Self::Earlier => "Earlier",
        }
    }

    /// The speaker that a line of an earlier summary names, and the rest of the line.
    pub(super) fn named(line: &str) -> Option<(Self, &str)> {
        let (name, rest) = line.split_once(": ")?;
        let speaker = Self::ALL.into_iter().find(|each| each.name() == name)?;
        Some((speaker, rest))
    }

    /// The factor of its lines in their salience.
    pub(super) fn factor(self) -> f64 {
        match self {
            Self::User => 1.6,
            Self::Assistant | Self::Earlier => 1.25,
            Self::ToolError => 1.2,
            Self::ToolCall | Self::ToolResult => 0.7,
            Self::System | Self::Tool | Self::Context => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_speaker_that_wrote_it() {
        for speaker in Speaker::ALL {
            let line = format!("{}: a: b", speaker.name());
            assert_eq!(Speaker::named(&line), Some((speaker, "a: b")));
        }
        for line in ["User:", "user: a", "  User: a", "A User: a", ""] {
            assert_eq!(Speaker::named(line), None, "{line:?}");
        }
    }
}
