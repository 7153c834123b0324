//! Shortens lines: repeated ones, unchanged ones of a diff, and lines with a common beginning.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::seen::Found;

const FEWEST: usize = 4; // lines of a run
const FEWEST_SHARING: usize = 3; // lines that begin alike
const SHORTEST_PREFIX: usize = 8;
const SHORTEST_DATA: usize = 256; // characters of base64
const LONGEST_RULE: usize = 8; // of one sign
const KEPT_RULE: usize = 4;
const MOST_BLANK: usize = 2; // lines in a row
const RULES: &str = "-=*_#~";

/// Writes lines, and shortens those that repeat.
pub(super) struct Writer {
    text: String,
    written: usize, // lines
    is_diff: bool,
    has_colours: bool,
    has_rules: bool,
    blank: usize,
}

impl Writer {
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: String::with_capacity(text.len()),
            written: 0,
            is_diff: false,
            has_colours: text.as_bytes().contains(&0x1b),
            has_rules: has_rule(text),
            blank: 0,
        }
    }

    /// The finished text.
    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Writes a reference for the lines from `at` on, which an earlier result has too.
    pub(super) fn refer(&mut self, at: usize, found: &Found<'_>) {
        let (first, from) = (at + 1, found.line + 1);
        let (last, to) = (at + found.length, found.line + found.length);
        let handle = found.handle;
        self.line(&format!(
            "[lines {first}-{last} as in {handle}, lines {from}-{to}]"
        ));
    }

    /// Writes `lines`.
    pub(super) fn write(&mut self, lines: &[&str]) {
        let mut at = 0;
        while let Some(line) = lines.get(at) {
            let rest = &lines[at..];
            if line.starts_with("@@ ") {
                self.is_diff = true;
            } else if self.is_diff && !is_of_diff(line) {
                self.is_diff = false;
            }
            at += if self.is_diff {
                self.unchanged(rest)
            } else {
                self.run(rest)
            };
        }
    }

    /// Writes a line of a diff, or an unchanged stretch; returns the number of lines.
    fn unchanged(&mut self, rest: &[&str]) -> usize {
        let count = rest.iter().take_while(|line| line.starts_with(' ')).count();
        if count < FEWEST {
            self.shorter(rest[0]);
            return 1;
        }
        self.shorter(rest[0]);
        self.line(&format!("[… {} unchanged lines …]", count - 2));
        self.shorter(rest[count - 1]);
        count
    }

    /// Writes a run of similar lines, lines with a common beginning, or one line; returns the number of lines.
    fn run(&mut self, rest: &[&str]) -> usize {
        let alike = alike(rest);
        if alike >= FEWEST {
            let last = rest[alike - 1];
            self.shorter(rest[0]);
            if rest[..alike].iter().all(|line| *line == rest[0]) {
                self.line(&format!("[× {alike}]"));
            } else {
                self.line(&format!("[… {} lines like it …]", alike - 2));
                self.shorter(last);
            }
            return alike;
        }
        if let Some((prefix, count)) = sharing(rest) {
            self.line(&format!("[{count} lines after \"{prefix}\"]"));
            for line in &rest[..count] {
                self.shorter(line.get(prefix.len()..).unwrap_or(line));
            }
            return count;
        }
        self.shorter(rest[0]);
        1
    }

    fn shorter(&mut self, line: &str) {
        if line.bytes().all(|byte| byte.is_ascii_whitespace()) {
            self.blank += 1;
            if self.blank <= MOST_BLANK {
                self.line_as_it_is(line);
            }
            return;
        }
        let line = unnumbered(line);
        if self.has_colours {
            let line = without_colours(line);
            self.line(&self.without_padding(&without_data(&line)));
        } else if line.len() < SHORTEST_DATA {
            self.line(&self.without_padding(line));
        } else {
            self.line(&self.without_padding(&without_data(line)));
        }
    }

    /// `line` with at most two spaces between its columns, and with shorter rules (lines of one repeated sign).
    ///
    /// The indent of a line stays, and so does the indent behind a line number or a path.
    fn without_padding<'a>(&self, line: &'a str) -> Cow<'a, str> {
        let line = line.trim_end();
        if !(is_table_row(line) || (self.has_rules && has_rule(line))) {
            return Cow::Borrowed(line);
        }
        let indent = line.len() - line.trim_start_matches(' ').len();
        let mut text = String::with_capacity(line.len());
        text.push_str(&line[..indent]);
        let mut rest = &line[indent..];
        while let Some(sign) = rest.chars().next() {
            let run = rest.len() - rest.trim_start_matches(sign).len();
            let count = run / sign.len_utf8();
            let kept = if sign == ' ' {
                count.min(2)
            } else if count >= LONGEST_RULE && RULES.contains(sign) {
                KEPT_RULE
            } else {
                count
            };
            text.extend(std::iter::repeat_n(sign, kept));
            rest = &rest[run..];
        }
        Cow::Owned(text)
    }

    fn line(&mut self, line: &str) {
        self.blank = 0;
        self.line_as_it_is(line);
    }

    fn line_as_it_is(&mut self, line: &str) {
        if self.written > 0 {
            self.text.push('\n');
        }
        self.written += 1;
        self.text.push_str(line);
    }
}

fn is_of_diff(line: &str) -> bool {
    line.starts_with([' ', '+', '-', '\\', '@'])
        || line.starts_with("diff ")
        || line.starts_with("index ")
}

/// How many lines, from the first on, differ only in numbers. Lines that are mostly figures do not count.
fn alike(rest: &[&str]) -> usize {
    let Some((first, others)) = rest.split_first() else {
        return 0;
    };
    let Some(second) = others.first() else {
        return 1;
    };
    let ends = |line: &str| {
        line.bytes()
            .next_back()
            .map(|byte| if byte.is_ascii_digit() { b'0' } else { byte })
    };
    if first.len().abs_diff(second.len()) > 12
        || first.as_bytes().first() != second.as_bytes().first()
        || ends(first) != ends(second)
    {
        return 1; // most lines end here
    }
    if !differ_in_numbers(first, second) || !is_worded(first) {
        return 1;
    }
    let is_alike = |line: &&&str| differ_in_numbers(first, line) && is_worded(line);
    1 + others.iter().take_while(is_alike).count()
}

/// Whether two lines are equal if every number counts as the same.
fn differ_in_numbers(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.as_bytes(), other.as_bytes());
    loop {
        match (one, other) {
            ([], []) => return true,
            ([first, ..], [second, ..]) if first.is_ascii_digit() && second.is_ascii_digit() => {
                (one, other) = (behind_number(one), behind_number(other));
            }
            ([first, rest @ ..], [second, others @ ..]) if first == second => {
                (one, other) = (rest, others);
            }
            _ => return false, // most lines end here
        }
    }
}

fn behind_number(bytes: &[u8]) -> &[u8] {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit());
    &bytes[digits.count()..]
}

/// Whether a line has words: it is not short, and not mostly figures.
fn is_worded(line: &str) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte >= 0x80;
    let letters = line.bytes().filter(is_letter).count();
    let signs = line.bytes().filter(|byte| *byte != b' ').count();
    letters >= 3 && letters * 2 >= signs
}

/// The common beginning of several lines, up to a slash or a colon, and the number of these lines; `None` if it
/// would not save enough.
fn sharing<'a>(rest: &[&'a str]) -> Option<(&'a str, usize)> {
    let (first, second) = (rest.first()?, rest.get(1)?);
    let same = first
        .bytes()
        .zip(second.bytes())
        .take_while(|(one, other)| one == other)
        .count();
    if same < SHORTEST_PREFIX {
        return None;
    }
    let end = first.as_bytes()[..same]
        .iter()
        .rposition(|byte| matches!(byte, b'/' | b':'))?
        + 1;
    let prefix = first.get(..end)?;
    if end < SHORTEST_PREFIX || prefix.contains([' ', '"']) {
        return None;
    }
    let count = rest
        .iter()
        .take_while(|line| line.starts_with(prefix))
        .count();
    (count >= FEWEST_SHARING && (count - 1) * end > 24).then_some((prefix, count))
}

/// `line` without the padding before a line number that a tool has added.
fn unnumbered(line: &str) -> &str {
    let rest = line.trim_start_matches(' ');
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    if after.len() < rest.len() && after.starts_with('→') {
        rest
    } else {
        line
    }
}

fn without_colours(line: &str) -> Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return Cow::Borrowed(line);
    }
    let mut text = String::with_capacity(line.len());
    let mut pieces = line.split("\u{1b}[");
    text.push_str(pieces.next().unwrap_or(""));
    for piece in pieces {
        let codes = piece
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || *byte == b';')
            .count();
        if let Some(b'm' | b'K' | b'G' | b'A') = piece.as_bytes().get(codes) {
            text.push_str(piece.get(codes + 1..).unwrap_or(""));
        } else {
            text.push_str("\u{1b}[");
            text.push_str(piece);
        }
    }
    Cow::Owned(text)
}

/// `line` with a short note in place of long stretches of base64.
fn without_data(line: &str) -> Cow<'_, str> {
    if line.len() < SHORTEST_DATA {
        return Cow::Borrowed(line);
    }
    let mut text = String::new();
    let (mut written, mut start) = (0, None);
    for (at, byte) in line.bytes().chain(std::iter::once(b' ')).enumerate() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_') {
            start.get_or_insert(at);
        } else if let Some(from) = start.take()
            && at - from >= SHORTEST_DATA
        {
            text.push_str(&line[written..from]);
            let _ = write!(text, "[{} characters of base64]", at - from);
            written = at;
        }
    }
    if written == 0 {
        return Cow::Borrowed(line);
    }
    text.push_str(line.get(written..).unwrap_or(""));
    Cow::Owned(text)
}

/// Whether `line` has two gaps of three spaces or more, none of them an indent.
fn is_table_row(line: &str) -> bool {
    if !may_have_gap(behind_indent(line).as_bytes()) {
        return false; // most lines end here
    }
    let (mut gaps, mut spaces, mut before) = (0, 0, b'\n');
    for &byte in line.as_bytes() {
        if byte == b' ' {
            spaces += 1;
            continue;
        }
        let is_indent = matches!(before, b'\n' | b'\t' | b':' | b'-' | b'+') || before >= 0x80;
        if spaces >= 3 && !is_indent {
            gaps += 1;
        }
        (spaces, before) = (0, byte);
    }
    gaps >= 2
}

/// A line without its indent, the line number that a tool has added, and the indent after that.
fn behind_indent(line: &str) -> &str {
    let rest = line.trim_start_matches(' ');
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let behind = after.strip_prefix(['→', '\t', ':', '-', '+']);
    behind.map_or(rest, |behind| behind.trim_start_matches(' '))
}

/// Whether `text` may contain a rule: one sign repeated often enough.
fn has_rule(text: &str) -> bool {
    let (chunks, _) = text.as_bytes().as_chunks::<{ LONGEST_RULE / 2 }>();
    chunks.iter().any(|chunk| {
        let word = u32::from_ne_bytes(*chunk);
        word == word.rotate_left(8) && matches!(chunk[0], b'-' | b'=' | b'*' | b'_' | b'#' | b'~')
    })
}

// Scans the bytes of a text, eight at a time. For most lines the answer is no.

const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
const EIGHT: usize = size_of::<u64>();

/// The lines of `text`, as `split('\n')` gives them.
pub(super) fn lines(text: &str) -> Vec<&str> {
    let (mut found, mut start) = (Vec::with_capacity(text.len() / 32 + 1), 0);
    for (number, word) in eights(text.as_bytes()).enumerate() {
        let mut ends = equal(word, b'\n');
        while ends != 0 {
            let end = number * EIGHT + ends.trailing_zeros() as usize / 8;
            found.push(&text[start..end]);
            start = end + 1;
            ends &= ends - 1;
        }
    }
    found.push(&text[start..]);
    found
}

/// Whether two adjacent spaces lie in one 8-byte word. Wherever three adjacent spaces are, two of them lie in one
/// word.
fn may_have_gap(text: &[u8]) -> bool {
    eights(text).any(|word| {
        let spaces = equal(word, b' ');
        spaces & spaces >> 8 != 0
    })
}

/// The text in words of eight bytes, the last one padded with zeros.
fn eights(text: &[u8]) -> impl Iterator<Item = u64> {
    let (words, rest) = text.as_chunks::<EIGHT>();
    let mut last = [0; EIGHT];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().copied().chain([last]).map(u64::from_le_bytes)
}

/// The highest bit of each byte of `word` that equals `byte`.
fn equal(word: u64, byte: u8) -> u64 {
    let differs = word ^ u64::from_ne_bytes([byte; EIGHT]);
    !((differs & LOW).wrapping_add(LOW) | differs | LOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_are_those_of_split(text in "[a\n\u{8a}é ]{0,40}") {
            prop_assert_eq!(lines(&text), text.split('\n').collect::<Vec<_>>());
        }

        #[test]
        fn three_spaces_are_never_missed_and_one_is_no_gap(text in "[a ]{0,40}") {
            let has_gap = may_have_gap(text.as_bytes());
            prop_assert!(has_gap || !text.contains("   "));
            prop_assert!(!has_gap || text.contains("  "));
        }
    }
}
