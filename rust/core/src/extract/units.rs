//! The material in pieces that can be selected: lines, sentences of long lines, stretches of long sentences. Each has
//! its speaker.

use std::borrow::Cow;
use std::ops::Range;

use hashbrown::HashSet;
use xxhash_rust::xxh3::xxh3_128;

use super::salience::Words;
use crate::tokenize::lower;

/// Code points: longer lines are cut between words, so that a choice stays fine-grained.
const LONGEST_UNIT: usize = 300;
/// Code points: up to here a line is one unit, longer ones are parted into sentences.
const LONGEST_LINE: usize = 120;

/// A part of a message, with its speaker.
#[derive(Clone, Debug)]
pub enum Item<'a> {
    /// What somebody says.
    Said {
        /// Who says it.
        speaker: Speaker,
        /// What is said; of a call the name with its arguments.
        text: Cow<'a, str>,
        /// It is the rest of an item whose beginning is elsewhere.
        continues: bool,
    },
    /// A summary of earlier messages. Its lines may begin with the names of speakers.
    Summary(&'a str),
}

/// A line or a sentence of the material.
#[derive(Debug)]
pub(super) struct Unit {
    /// The number of its item; items are numbered in order.
    pub(super) item: u32,
    /// The speaker.
    pub(super) speaker: Speaker,
    /// The item begins with it.
    pub(super) is_first: bool,
    /// The item ends with it.
    pub(super) is_last: bool,
    /// It comes from an earlier summary.
    pub(super) is_earlier: bool,
    text: Range<usize>,
    words: Range<usize>,
}

/// The units of a material in order, each text once. A text without a word is no unit.
#[derive(Debug, Default)]
pub(super) struct Units {
    texts: String,
    all: Vec<Unit>,
    words: Words,
    seen: HashSet<u128>,
    items: u32,
    line: String,
    key: String,
}

impl Units {
    /// The units of `items`; the line `leave_out` is no material.
    pub(super) fn of<'a>(items: impl IntoIterator<Item = Item<'a>>, leave_out: &str) -> Self {
        let mut units = Self::default();
        units.is_new(leave_out);
        for item in items {
            match item {
                Item::Said {
                    speaker,
                    text,
                    continues,
                } => units.said(speaker, &text, continues, false),
                Item::Summary(text) => units.summary(text),
            }
        }
        units
    }

    pub(super) fn all(&self) -> &[Unit] {
        &self.all
    }

    pub(super) fn text(&self, unit: &Unit) -> &str {
        &self.texts[unit.text.clone()]
    }

    /// The distinct words of a unit.
    pub(super) fn words(&self, unit: &Unit) -> &[u32] {
        self.words.of(&unit.words)
    }

    /// The number of units that have each word.
    pub(super) fn frequencies(&self) -> impl Iterator<Item = u32> {
        self.words.frequencies()
    }

    /// Reads a summary: with its speakers where the lines name them.
    fn summary(&mut self, text: &str) {
        let (mut speaker, mut start, mut at) = (Speaker::Earlier, 0, 0);
        for line in text.split('\n') {
            if let Some((named, rest)) = Speaker::named(line) {
                self.said(speaker, &text[start..at], false, true);
                (speaker, start) = (named, at + line.len() - rest.len());
            }
            at += line.len() + 1;
        }
        self.said(speaker, &text[start..], false, true);
    }

    fn said(&mut self, speaker: Speaker, text: &str, continues: bool, is_earlier: bool) {
        let before = self.all.len();
        let mut line = std::mem::take(&mut self.line);
        let mut read = |text: &str| {
            collapse(text, &mut line);
            each_piece(&line, &mut |piece| self.push(piece, speaker, is_earlier));
        };
        if speaker == Speaker::ToolCall {
            text.split('\n')
                .flat_map(|part| part.split("\\n"))
                .for_each(&mut read);
        } else {
            text.split('\n').for_each(&mut read);
        }
        self.line = line;
        if let [first, ..] = &mut self.all[before..] {
            first.is_first = !continues;
        }
        if let [.., last] = &mut self.all[before..] {
            last.is_last = true;
        }
        self.items += 1;
    }

    fn push(&mut self, piece: &str, speaker: Speaker, is_earlier: bool) {
        if piece.is_empty() || !self.is_new(piece) {
            return;
        }
        let number = u32::try_from(self.all.len()).expect("fewer units than bytes of memory");
        let words = self.words.read(piece, number);
        if words.is_empty() {
            return;
        }
        let start = self.texts.len();
        self.texts.push_str(piece);
        self.all.push(Unit {
            item: self.items,
            speaker,
            is_first: false,
            is_last: false,
            is_earlier,
            text: start..self.texts.len(),
            words,
        });
    }

    /// Whether `text` was not read before, in upper or lower case.
    fn is_new(&mut self, text: &str) -> bool {
        self.key.clear();
        if text.is_ascii() {
            self.key.push_str(text);
            self.key.make_ascii_lowercase();
        } else {
            self.key.extend(text.chars().map(lower));
        }
        self.seen.insert(xxh3_128(self.key.as_bytes()))
    }
}

/// Writes `text` to `line` with one space for each stretch of white space, and none at the ends.
fn collapse(text: &str, line: &mut String) {
    line.clear();
    if is_plain(text) {
        line.push_str(text);
        return;
    }
    for word in text.split(is_space).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
}

/// Whether `text` is surely free of white space but for single spaces inside it.
fn is_plain(text: &str) -> bool {
    let printable = text
        .bytes()
        .fold(true, |all, byte| all & (b' '..=b'~').contains(&byte));
    printable && !text.starts_with(' ') && !text.ends_with(' ') && !text.contains("  ")
}

/// White space as `str.split` of Python has it.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Calls `each` with a short line, or with the stretches of the sentences of a long one.
fn each_piece(line: &str, each: &mut impl FnMut(&str)) {
    if !is_longer(line, LONGEST_LINE) {
        return each(line);
    }
    let mut start = 0;
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        match c {
            '.' | '!' | '?' if chars.next_if(|&(_, next)| next == ' ').is_some() => {
                each_stretch(&line[start..end], each);
                start = end + 1;
            }
            '。' | '！' | '？' | '；' => {
                each_stretch(&line[start..end], each);
                start = end;
            }
            _ => {}
        }
    }
    each_stretch(&line[start..], each);
}

/// Calls `each` with stretches of at most [`LONGEST_UNIT`] code points, cut after a space or a comma where there is
/// one in the second half.
fn each_stretch(text: &str, each: &mut impl FnMut(&str)) {
    let mut rest = text;
    while is_longer(rest, LONGEST_UNIT) {
        let middle = offset(rest, LONGEST_UNIT / 2);
        let end = offset(rest, LONGEST_UNIT);
        let cut = rest[middle..end]
            .rfind([' ', ','])
            .map(|at| middle + at + 1);
        let (stretch, after) = rest.split_at(cut.unwrap_or(end));
        each(stretch.trim_matches(' '));
        rest = after;
    }
    each(rest.trim_matches(' '));
}

fn is_longer(text: &str, most: usize) -> bool {
    text.len() > most && text.chars().nth(most).is_some()
}

/// The offset of the code point with the number `count`.
fn offset(text: &str, count: usize) -> usize {
    text.char_indices()
        .nth(count)
        .map_or(text.len(), |(at, _)| at)
}

// Who says a line of the material.

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

    fn read(items: Vec<Item<'_>>) -> Vec<(&'static str, String)> {
        let units = Units::of(items, "A header:");
        units
            .all()
            .iter()
            .map(|unit| (unit.speaker.name(), units.text(unit).to_owned()))
            .collect()
    }

    fn said(speaker: Speaker, text: &str) -> Item<'_> {
        let text = Cow::Borrowed(text);
        Item::Said {
            speaker,
            text,
            continues: false,
        }
    }

    #[test]
    fn a_summary_has_its_speakers() {
        let text = "A header:\nUser: Fix it.\n  In src/a.py.\nTool error: No\u{3000} such file.";
        let expected = [
            ("User", "Fix it."),
            ("User", "In src/a.py."),
            ("Tool error", "No such file."),
        ];
        let found = read(vec![Item::Summary(text)]);
        assert!(
            found
                .iter()
                .map(|(name, text)| (*name, text.as_str()))
                .eq(expected)
        );
        assert_eq!(read(vec![Item::Summary("- all done")])[0].0, "Earlier");
    }

    #[test]
    fn a_text_is_read_once_and_the_ends_of_an_item_are_known() {
        let texts = "One.\n---\ntwo\nONE.\nthree\n\n";
        let units = Units::of([said(Speaker::User, texts)], "");
        let ends: Vec<_> = units
            .all()
            .iter()
            .map(|unit| (unit.is_first, unit.is_last))
            .collect();
        assert_eq!(ends, [(true, false), (false, false), (false, true)]);
    }

    #[test]
    fn a_long_line_is_cut_into_sentences_and_stretches() {
        let line = format!("Is it? {} 好。{}", "word, ".repeat(60), "字".repeat(700));
        let found = read(vec![said(Speaker::Assistant, &line)]);
        let lengths: Vec<_> = found.iter().map(|(_, text)| text.chars().count()).collect();
        assert_eq!(lengths, [6, 299, 62, 300, 100]); // the second stretch of 300 is not new
    }

    #[test]
    fn the_lines_of_a_written_file_are_units() {
        let call = "write({\"text\": \"import os\\nimport sys\\n\"})";
        assert_eq!(read(vec![said(Speaker::ToolCall, call)])[1].1, "import sys");
        assert_eq!(read(vec![said(Speaker::User, call)]).len(), 1);
    }

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
