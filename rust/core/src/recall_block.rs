//! Writes the recalled block: lines of facts and details between tags, within a budget of tokens.
//!
//! The caller makes texts harmless, writes the sentence before the block, cuts large texts and counts tokens: see
//! [`Hand`].

use crate::analyse::civil;
use crate::id::EntryId;
use crate::tokens::{Family, TextSize};

/// The first line of every block.
const OPEN: &str = "<recalled-context source=\"memory-context\">";
const CLOSE: &str = "</recalled-context>";
/// The mark at the end of a detail that was cut.
const CUT: &str = " [… cut]";
/// Tokens of the time and the role before the text of a detail, about.
const HEADER: i64 = 12;
/// Tokens that a detail may always take, if there is room for them.
const SHORTEST: i64 = 240;
/// The least tokens of an excerpt.
const EXCERPT: i64 = 40;
/// Of two details with nearly equal scores the shorter one comes first: a score is divided by the detail's tokens, at
/// most so many, and this number more.
const LONG: i64 = 160;
const WEIGHTLESS: i64 = 200;

/// A stored text that may be recalled.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    /// Its id in the store; 0 for none.
    pub id: EntryId,
    /// The text.
    pub text: String,
    /// The role of the speaker.
    pub role: String,
    /// The time: milliseconds since 1970, UTC.
    pub created_at: i64,
    /// The score, 0 to 1.
    pub score: f64,
    /// The query that found it, by its place among those that were searched for together.
    pub asked: usize,
}

/// The size of a block, and how details are cut.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The highest number of tokens of the block.
    pub cap: i64,
    /// The part of `cap` for facts. The rest is for details; with `fit` they have what facts leave as well.
    pub known: i64,
    /// Whether the best detail is cut, with a mark, if it alone exceeds the budget of details. Otherwise it stays
    /// whole, and is dropped if the block exceeds `cap`.
    pub cut: bool,
    /// Whether a detail is cut to an excerpt, if it takes more than half of the room that better details have left. A
    /// detail may take 240 tokens in any case.
    pub fit: bool,
}

/// A written block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// The block with the sentence before it; empty for none.
    pub text: String,
    /// The tokens of the text.
    pub tokens: i64,
    /// The number of facts in it.
    pub known: usize,
    /// The number of details in it.
    pub said: usize,
    /// The outcome of every detail, best first.
    pub considered: Vec<Considered>,
}

/// The outcome of a detail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Considered {
    /// The detail's id.
    pub id: EntryId,
    /// Its score.
    pub score: f64,
    /// The tokens of its line; None where it was left out before its line was written.
    pub tokens: Option<i64>,
    /// Whether it is in the block.
    pub fate: Fate,
}

/// Whether a detail is in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is in the block as a whole.
    Placed,
    /// A part of it is in the block.
    Cut,
    /// It is not in the block, because there was no room.
    LeftOut,
}

impl Fate {
    /// The number under which it is stored.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Placed => 0,
            Self::Cut => 1,
            Self::LeftOut => 2,
        }
    }
}

/// The functions of the caller that write a block.
pub trait Hand {
    /// The error of these functions.
    type Error;

    /// The tokens of a text.
    ///
    /// # Errors
    ///
    /// The caller's own.
    fn count(&mut self, text: &str) -> Result<i64, Self::Error>;

    /// A text in which nothing looks like a part of the block; None where the text is harmless as it is.
    ///
    /// # Errors
    ///
    /// The caller's own.
    fn safe(&mut self, text: &str) -> Result<Option<String>, Self::Error>;

    /// A role as a single word.
    ///
    /// # Errors
    ///
    /// The caller's own.
    fn word(&mut self, name: &str) -> Result<String, Self::Error>;

    /// The part of a detail's text that fits its query best, of at most `tokens` tokens.
    ///
    /// # Errors
    ///
    /// The caller's own.
    fn excerpt(&mut self, detail: &Detail, tokens: i64) -> Result<String, Self::Error>;

    /// The block with the sentence before it.
    ///
    /// # Errors
    ///
    /// The caller's own.
    fn framed(&mut self, block: String) -> Result<String, Self::Error>;
}

/// A rule that estimates the tokens of a text from its size.
#[derive(Clone, Copy, Debug)]
pub struct SizeRule {
    /// The unit that is counted.
    pub unit: Unit,
    /// The number of units in a token; below 1 it counts as 1.
    pub divisor: i64,
    /// Whether a part of a token counts as a whole one. Otherwise it counts as none.
    pub rounds_up: bool,
    /// The least number of tokens of a text that is not empty.
    pub least: i64,
}

/// The unit that a rule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of UTF-8.
    Bytes,
    /// Code points.
    CodePoints,
    /// Units of UTF-16.
    Utf16,
    /// Tokens by the weights of characters.
    Tokens(Family),
}

impl Unit {
    /// The unit of that name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "bytes" => Some(Self::Bytes),
            "code_points" => Some(Self::CodePoints),
            "utf16" => Some(Self::Utf16),
            _ => Family::of(name).map(Self::Tokens),
        }
    }
}

impl SizeRule {
    /// The tokens of a text.
    #[must_use]
    pub fn count(self, text: &str) -> i64 {
        let units = match self.unit {
            Unit::Bytes => text.len(),
            Unit::CodePoints => TextSize::of(text.as_bytes()).code_points,
            Unit::Utf16 => text.encode_utf16().count(),
            Unit::Tokens(family) => family.tokens(text.as_bytes()),
        };
        let (units, divisor) = (
            i64::try_from(units).unwrap_or(i64::MAX / 2),
            self.divisor.max(1),
        );
        let tokens = (units + if self.rounds_up { divisor - 1 } else { 0 }) / divisor;
        if text.is_empty() {
            tokens
        } else {
            tokens.max(self.least)
        }
    }
}

/// A set of characters that texts are searched for.
#[derive(Clone, Debug)]
pub struct Characters {
    ascii: u128,       // a bit for each
    others: Vec<char>, // ascending
}

impl Characters {
    /// The characters of `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let ascii = text.bytes().filter(u8::is_ascii);
        let mut others: Vec<char> = text.chars().filter(|char| !char.is_ascii()).collect();
        others.sort_unstable();
        Self {
            ascii: ascii.fold(0, |bits, byte| bits | 1 << byte),
            others,
        }
    }

    /// Whether `text` contains one of them at a place where it could do harm.
    #[must_use]
    pub fn are_in(&self, text: &str) -> bool {
        text.char_indices().any(|(at, char)| {
            let is_one = match u8::try_from(char) {
                Ok(byte) if byte.is_ascii() => self.ascii >> byte & 1 == 1,
                _ => self.others.binary_search(&char).is_ok(),
            };
            is_one && may_begin(char, &text.as_bytes()[at + char.len_utf8()..])
        })
    }
}

/// Whether a bracket before `behind` may begin a tag of the block, the header of a detail or a control token of a chat
/// template; true for any other character. In doubt true: the caller looks closer.
fn may_begin(bracket: char, behind: &[u8]) -> bool {
    let first = |skipped: fn(u8) -> bool| behind.iter().copied().find(|&byte| !skipped(byte));
    let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_:./-".contains(&byte);
    let name = behind.iter().take_while(|&&byte| is_in_name(byte)).count();
    let next = behind.get(name).copied().unwrap_or(b' ');
    match bracket {
        '<' => {
            let seen = first(|byte| byte <= b' ' || b"\x7F/\\".contains(&byte)).unwrap_or(b' ');
            b"rRkKdD<|".contains(&seen)
                || !seen.is_ascii()
                || name > 0 && (b">|".contains(&next) || !next.is_ascii())
        }
        '[' => {
            let year = name >= 5 && behind[0].is_ascii_digit() && behind[4] == b'-';
            year || next == b'~' || !next.is_ascii() || name > 2 && next == b']'
        }
        ']' => next == b'~',
        _ => true,
    }
}

/// Writes the block of `facts`, which are lines, best first, and of `details`.
///
/// Each part is filled by score up to the first item that does not fit, but has at least one; with `fit`, details by
/// score and length, and one that does not fit is left out. If the whole block exceeds the cap, the last details are
/// dropped, then all facts. In the block, details are ordered by time, oldest first.
///
/// # Errors
///
/// The errors of `hand`.
pub fn write<H: Hand>(
    facts: &[String],
    mut details: Vec<Detail>,
    budget: Budget,
    hand: &mut H,
) -> Result<Block, H::Error> {
    details.sort_by(|one, other| other.score.total_cmp(&one.score));
    let mut considered: Vec<Considered> = details.iter().map(Considered::left_out).collect();
    let mut details: Vec<Ranked> = (0..)
        .zip(details)
        .map(|(place, detail)| (place, Fate::Placed, detail))
        .collect();
    let mut known = 0;
    let mut used = 0;
    for line in facts {
        used += hand.count(line)?;
        if known > 0 && used > budget.known {
            break;
        }
        known += 1;
    }
    let mut room = budget.cap - budget.known;
    if budget.fit {
        let without = hand.framed(written(&facts[..known], &[]))?;
        room = budget.cap - hand.count(&without)?;
        fitted(&mut details, room, hand)?;
    }
    let mut said: Vec<Line> = Vec::new();
    used = 0;
    for (place, mut fate, detail) in details {
        let mut line = line_of(&detail, hand)?;
        let mut tokens = hand.count(&line)?;
        considered[place].tokens = Some(tokens);
        if said.is_empty() && budget.cut && tokens > room {
            line = shortened(&line, room, hand)?;
            if line.is_empty() {
                continue;
            }
            tokens = hand.count(&line)?;
            fate = Fate::Cut;
        }
        if !said.is_empty() && used + tokens > room {
            if budget.fit {
                continue;
            }
            break;
        }
        used += tokens;
        considered[place].tokens = Some(tokens);
        considered[place].fate = fate;
        said.push(Line {
            text: line,
            created_at: detail.created_at,
            id: detail.id,
            place,
        });
    }
    while known > 0 || !said.is_empty() {
        let text = hand.framed(written(&facts[..known], &said))?;
        let tokens = hand.count(&text)?;
        if tokens <= budget.cap {
            return Ok(Block {
                text,
                tokens,
                known,
                said: said.len(),
                considered,
            });
        }
        match said.pop() {
            Some(line) => considered[line.place].leave(),
            None => known = 0,
        }
    }
    Ok(Block {
        considered,
        ..Block::default()
    })
}

/// A detail in a block.
struct Line {
    text: String,
    created_at: i64,
    id: EntryId,
    /// Its position among the details, best first.
    place: usize,
}

impl Considered {
    fn left_out(detail: &Detail) -> Self {
        Self {
            id: detail.id,
            score: detail.score,
            tokens: None,
            fate: Fate::LeftOut,
        }
    }

    fn leave(&mut self) {
        self.fate = Fate::LeftOut;
    }
}

/// The place of a detail by score, its fate if its line fits, and the detail.
type Ranked = (usize, Fate, Detail);

/// Fits the details into the room, by score and length. None takes more than half of the room that is left, or
/// [`SHORTEST`] tokens if that is more; larger texts are cut to an excerpt.
fn fitted<H: Hand>(details: &mut Vec<Ranked>, room: i64, hand: &mut H) -> Result<(), H::Error> {
    let mut sized = Vec::with_capacity(details.len());
    for ranked in details.drain(..) {
        sized.push((hand.count(&ranked.2.text)? + HEADER, ranked));
    }
    #[expect(clippy::cast_precision_loss, reason = "a few hundred tokens")]
    let gain =
        |(size, ranked): &(i64, Ranked)| ranked.2.score / (*size.min(&LONG) + WEIGHTLESS) as f64;
    sized.sort_by(|one, other| gain(other).total_cmp(&gain(one)));
    let mut left = room;
    for (size, (place, mut fate, mut detail)) in sized {
        let share = (left / 2).max(left.min(SHORTEST));
        if size > share {
            if share < HEADER + EXCERPT {
                continue;
            }
            detail.text = hand.excerpt(&detail, share - HEADER)?;
            fate = Fate::Cut;
        }
        details.push((place, fate, detail));
        left -= size.min(share);
    }
    Ok(())
}

fn line_of<H: Hand>(detail: &Detail, hand: &mut H) -> Result<String, H::Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let role = &detail.role;
    let is_word = !role.is_empty() && role.bytes().all(is_plain);
    let word = if is_word {
        None
    } else {
        Some(hand.word(role)?)
    };
    let safe = hand.safe(&detail.text)?;
    let text = safe.as_deref().unwrap_or(&detail.text);
    let (when, word) = (minute(detail.created_at), word.as_deref().unwrap_or(role));
    Ok(format!("[{when} {word}] {text}"))
}

/// The longest beginning of a line that fits, with a mark; empty where no part of the text fits.
fn shortened<H: Hand>(line: &str, room: i64, hand: &mut H) -> Result<String, H::Error> {
    let mut ends: Vec<usize> = line.char_indices().map(|(place, _)| place).collect();
    ends.push(line.len());
    let (mut low, mut high) = (0, ends.len() - 1);
    while low < high {
        let middle = (low + high).div_ceil(2);
        let part = format!("{}{CUT}", &line[..ends[middle]]);
        if hand.count(&part)? <= room {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    let header = line.find("] ").map_or(0, |place| place + 2);
    Ok(if ends[low] > header {
        format!("{}{CUT}", &line[..ends[low]])
    } else {
        String::new()
    })
}

fn written(facts: &[String], said: &[Line]) -> String {
    let mut oldest: Vec<&Line> = said.iter().collect();
    oldest.sort_by_key(|line| (line.created_at, line.id));
    let mut text = String::from(OPEN);
    text.push_str("\n\n");
    if !facts.is_empty() {
        text.push_str("<knowledge>\n");
        text.push_str(&facts.join("\n"));
        text.push_str("\n</knowledge>\n\n");
    }
    if !oldest.is_empty() {
        text.push_str("<detail>\n");
        for (place, line) in oldest.iter().enumerate() {
            if place > 0 {
                text.push_str("\n\n");
            }
            text.push_str(&line.text);
        }
        text.push_str("\n</detail>\n\n");
    }
    text.push_str(CLOSE);
    text
}

/// The time as `YYYY-MM-DD HH:MM` in UTC.
fn minute(milliseconds: i64) -> String {
    const MINUTE: i64 = 60_000;
    let (year, month, day) = civil(milliseconds);
    let minute = milliseconds.div_euclid(MINUTE).rem_euclid(24 * 60);
    format!(
        "{year:04}-{:02}-{day:02} {:02}:{:02}",
        month + 1,
        minute / 60,
        minute % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    struct Plain;

    impl Hand for Plain {
        type Error = Infallible;

        fn count(&mut self, text: &str) -> Result<i64, Infallible> {
            Ok(i64::try_from(text.len() / 4).unwrap())
        }

        fn safe(&mut self, _: &str) -> Result<Option<String>, Infallible> {
            Ok(None)
        }

        fn word(&mut self, _: &str) -> Result<String, Infallible> {
            Ok("unknown".to_owned())
        }

        fn excerpt(&mut self, detail: &Detail, tokens: i64) -> Result<String, Infallible> {
            Ok(detail
                .text
                .chars()
                .take(usize::try_from(tokens * 4).unwrap())
                .collect())
        }

        fn framed(&mut self, block: String) -> Result<String, Infallible> {
            Ok(block)
        }
    }

    #[test]
    fn times_are_minutes_of_utc() {
        let minutes = [
            (0, "1970-01-01 00:00"),
            (1_770_733_860_000, "2026-02-10 14:31"),
            (951_782_399_999, "2000-02-28 23:59"),
            (951_782_400_000, "2000-02-29 00:00"),
            (951_868_800_000, "2000-03-01 00:00"),
            (-1, "1969-12-31 23:59"),
            (-62_135_596_800_000, "0001-01-01 00:00"),
            (253_402_300_799_999, "9999-12-31 23:59"),
        ];
        for (moment, expected) in minutes {
            assert_eq!(minute(moment), expected);
        }
    }

    #[test]
    fn a_block_keeps_within_its_cap_and_stands_oldest_first() {
        let detail = |id: i64, text: &str, score: f64, created_at: i64| Detail {
            id: EntryId(id),
            text: text.to_owned(),
            role: "user".to_owned(),
            created_at,
            score,
            asked: 0,
        };
        let details = vec![
            detail(1, "later", 0.9, 60_000),
            detail(2, "earlier", 0.3, 0),
        ];
        let budget = Budget {
            cap: 100,
            known: 30,
            cut: false,
            fit: false,
        };
        let facts = ["- [config] port 3000".to_owned()];
        let Ok(block) = write(&facts, details.clone(), budget, &mut Plain);
        assert_eq!(
            block.text,
            "<recalled-context source=\"memory-context\">\n\n<knowledge>\n- [config] port 3000\n</knowledge>\n\n\
             <detail>\n[1970-01-01 00:00 user] earlier\n\n[1970-01-01 00:01 user] later\n</detail>\n\n\
             </recalled-context>"
        );
        for cap in 0..block.tokens {
            let budget = Budget {
                cap,
                known: cap * 30 / 100,
                ..budget
            };
            let Ok(smaller) = write(&facts, details.clone(), budget, &mut Plain);
            assert!(smaller.tokens <= cap);
            assert!(smaller.said < 2 || smaller.known == 0 || smaller.text.is_empty());
        }
    }

    #[test]
    fn a_rule_rounds_as_it_says_and_a_text_counts_at_least_so_much() {
        let rule = |unit, rounds_up, least| SizeRule {
            unit,
            divisor: 3,
            rounds_up,
            least,
        };
        assert_eq!(rule(Unit::Bytes, false, 0).count("a\u{e4}bc"), 1);
        assert_eq!(rule(Unit::Bytes, true, 0).count("a\u{e4}bc"), 2);
        assert_eq!(rule(Unit::CodePoints, true, 0).count("a\u{1f600}bc"), 2);
        assert_eq!(rule(Unit::Utf16, false, 0).count("\u{1f600}\u{1f600}"), 1);
        assert_eq!(rule(Unit::Bytes, false, 1).count("a"), 1);
        assert_eq!(rule(Unit::Bytes, false, 1).count(""), 0);
    }

    #[test]
    fn characters_of_every_range_are_found() {
        let special = Characters::of("<\u{7f}\u{2028}\u{1f600}");
        for text in "a< Detail>, <|end|>, <eos>, \u{7f}, b\u{2028}c, \u{1f600}".split(", ") {
            assert!(special.are_in(text), "{text:?}");
        }
        for text in ", a>=, a < b, <p class, \u{2029}, \u{1f601}\u{80}".split(", ") {
            assert!(!special.are_in(text), "{text:?}");
        }
    }
}
