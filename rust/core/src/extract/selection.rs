//! Choosing lines within a room: the best first, none that says again what was chosen, all in order.

use std::collections::BTreeMap;

use super::salience::{salience, weight, weights};
use super::units::{Item, Unit, Units};
use crate::tokens::TextSize;

/// The first line of a summary that is a selection.
const HEADER: &str = "Lines selected from those messages, oldest first:";
const NOTHING_SAID: &str = "The messages held no text.";
const ELLIPSIS: &str = "…";
/// Before a further line of an item.
const INDENT: &str = "  ";

/// Of the room, at most a third goes to the user's requests as such.
const REQUEST_SHARE: i64 = 3;
/// Hundredths of the room that an earlier summary may take before new lines are chosen. It stands for everything that
/// was ever discarded, and is handed on many times. More than that would leave new lines too little.
const EARLIER_SHARE: i64 = 85;
/// Tenths of the weight of a line that words which are not chosen yet must have.
const LEAST_NOVELTY: u64 = 4;
/// A request in a short form below this size says nothing.
const SHORTEST: i64 = 40;

/// The lines of a material, from which summaries of any size are selected.
#[derive(Debug)]
pub struct Selection {
    units: Units,
    code_points: bool,
    /// The weight of each word.
    weights: Vec<u64>,
    lines: Vec<Line>,
    /// The numbers of the lines, the best first.
    best: Vec<usize>,
}

/// A unit as a line of a summary.
#[derive(Debug)]
struct Line {
    /// The weight of its words.
    weight: u64,
    /// Its size with the name of its speaker and a line break. A line that goes on is without a name and smaller.
    size: i64,
}

impl Selection {
    /// Reads `items`. Sizes are in code points or else in bytes.
    pub fn of<'a>(items: impl IntoIterator<Item = Item<'a>>, code_points: bool) -> Self {
        let units = Units::of(items, HEADER);
        let weights = weights(&units);
        let lines: Vec<Line> = units
            .all()
            .iter()
            .map(|unit| Line {
                weight: weight(&units, unit, &weights),
                size: size(units.text(unit), code_points) + named(unit),
            })
            .collect();
        let saliences: Vec<f64> = lines
            .iter()
            .enumerate()
            .map(|(at, line)| salience(&units, at, line.weight))
            .collect();
        let mut best: Vec<usize> = (0..lines.len()).collect();
        best.sort_by(|&one, &other| saliences[other].total_cmp(&saliences[one])); // stable: of equal ones the first
        Self {
            units,
            code_points,
            weights,
            lines,
            best,
        }
    }

    /// The size of all lines of earlier summaries.
    #[must_use]
    pub fn earlier_size(&self) -> i64 {
        let units = self.units.all().iter().zip(&self.lines);
        units
            .filter(|(unit, _)| unit.is_earlier)
            .map(|(_, line)| line.size)
            .sum()
    }

    /// A summary of at most `room` in size. It is empty only where there is no room for a character.
    #[must_use]
    pub fn within(&self, room: i64) -> String {
        let mut picks = Picks::new(self, room - self.size(HEADER) - 1);
        picks.take_short(room.div_euclid(REQUEST_SHARE));
        let is_earlier = |&at: &usize| self.units.all()[at].is_earlier;
        let (earlier, new): (Vec<usize>, Vec<usize>) =
            self.best.iter().partition(|at| is_earlier(at));
        picks.take(&earlier, (room * EARLIER_SHARE).div_euclid(100));
        picks.take(&new, i64::MAX);
        picks.take(&earlier, i64::MAX);
        if let Some(text) = picks.text() {
            return text;
        }
        match self.best.first() {
            Some(&at) => {
                let unit = &self.units.all()[at];
                let line = format!("{}: {}", unit.speaker.name(), self.units.text(unit));
                self.short(&line, room)
            }
            None => self.short(NOTHING_SAID, room),
        }
    }

    fn size(&self, text: &str) -> i64 {
        size(text, self.code_points)
    }

    /// `text`, or its beginning and an ellipsis, at most `room` in size. A word is cut only in need.
    fn short(&self, text: &str, room: i64) -> String {
        if self.size(text) <= room {
            return text.to_owned();
        }
        let room = room - self.size(ELLIPSIS);
        let mut used = 0;
        let starts: Vec<usize> = text // of the code points that fit, and of the first that does not
            .char_indices()
            .take_while(|&(_, c)| {
                let fits = used <= room;
                used += if self.code_points {
                    1
                } else {
                    as_size(c.len_utf8())
                };
                fits
            })
            .map(|(at, _)| at)
            .collect();
        let Some(count) = starts.len().checked_sub(1).filter(|&count| count > 0) else {
            return String::new();
        };
        let (from, end) = (starts[count * 2 / 3], starts[count]);
        let space = text[from..end].rfind(' ').map(|at| from + at);
        let cut = space.filter(|&at| at > 0).unwrap_or(end);
        format!("{}{ELLIPSIS}", text[..cut].trim_end_matches(' '))
    }
}

/// Lines that were chosen, and the room they take with the names of their speakers.
struct Picks<'a> {
    of: &'a Selection,
    room: i64,
    used: i64,
    chosen: BTreeMap<usize, (i64, Option<String>)>,
    /// Of each word, whether a chosen line has it.
    said: Vec<bool>,
}

impl<'a> Picks<'a> {
    fn new(of: &'a Selection, room: i64) -> Self {
        Self {
            of,
            room,
            used: 0,
            chosen: BTreeMap::new(),
            said: vec![false; of.weights.len()],
        }
    }

    /// Chooses of `candidates`, best first, what is new and fits the room, while no more than `end` is used. A line
    /// that was chosen in short form is given whole where that fits.
    fn take(&mut self, candidates: &[usize], end: i64) {
        let end = end.min(self.room);
        for &at in candidates {
            let size = self.of.lines[at].size;
            let held = self.chosen.get(&at).map(|&(size, _)| size);
            let more = size - held.unwrap_or(0);
            if more > 0 && self.used + more <= end && (held.is_some() || self.is_new(at)) {
                self.choose(at, size, None);
                self.used += more;
            }
        }
    }

    /// Chooses the first lines of the user's messages, cut to one length so that all fit `room`.
    ///
    /// Where they are too many for that, the newest and the first are chosen, and the others are lines like any
    /// other.
    fn take_short(&mut self, room: i64) {
        let units = self.of.units.all();
        let mut requests: Vec<usize> = (0..units.len())
            .filter(|&at| is_request(&units[at]))
            .collect();
        let room = room.min(self.room - self.used);
        let sizes = requests.iter().map(|&at| self.of.lines[at].size).collect();
        let mut longest = common_length(sizes, room);
        if longest < SHORTEST {
            if let &[first, .., newest] = &*requests {
                requests = vec![newest, first];
            }
            longest = room.div_euclid(2);
        }
        for at in requests {
            let name = named(&units[at]);
            let text = self
                .of
                .short(self.of.units.text(&units[at]), longest - name);
            if !text.is_empty() {
                let size = self.of.size(&text) + name;
                self.choose(at, size, Some(text));
                self.used += size;
            }
        }
    }

    fn choose(&mut self, at: usize, size: i64, short: Option<String>) {
        self.chosen.insert(at, (size, short));
        for &word in self.of.units.words(&self.of.units.all()[at]) {
            self.said[word as usize] = true;
        }
    }

    fn is_new(&self, at: usize) -> bool {
        let words = self.of.units.words(&self.of.units.all()[at]).iter();
        let new = words.filter(|&&word| !self.said[word as usize]);
        let weight: u64 = new.map(|&word| self.of.weights[word as usize]).sum();
        weight * 10 >= LEAST_NOVELTY * self.of.lines[at].weight
    }

    /// The chosen lines in order, each with its speaker; those of one item stand together. None for no lines.
    fn text(&self) -> Option<String> {
        let mut text = HEADER.to_owned();
        let mut item = None;
        for (&at, (_, short)) in &self.chosen {
            let unit = &self.of.units.all()[at];
            text.push('\n');
            if item == Some(unit.item) {
                text.push_str(INDENT);
            } else {
                text.push_str(unit.speaker.name());
                text.push_str(": ");
            }
            text.push_str(short.as_deref().unwrap_or(self.of.units.text(unit)));
            item = Some(unit.item);
        }
        item.map(|_| text)
    }
}

/// Whether `unit` is the beginning of what a user said.
fn is_request(unit: &Unit) -> bool {
    unit.is_first && unit.speaker == super::Speaker::User
}

/// The size of the name of a line's speaker, with what stands around a text.
fn named(unit: &Unit) -> i64 {
    as_size(unit.speaker.name().len() + ": \n".len())
}

fn size(text: &str, code_points: bool) -> i64 {
    let size = TextSize::of(text.as_bytes());
    as_size(if code_points {
        size.code_points
    } else {
        size.bytes
    })
}

fn as_size(size: usize) -> i64 {
    i64::try_from(size).expect("a text fits the memory")
}

/// The largest length at which all texts of these `sizes`, each cut to it, fit `room` together.
fn common_length(mut sizes: Vec<i64>, room: i64) -> i64 {
    sizes.sort_unstable();
    let mut left = room;
    for (&size, others) in sizes.iter().zip((1..=as_size(sizes.len())).rev()) {
        let share = left.div_euclid(others);
        if size > share {
            return share;
        }
        left -= size;
    }
    room
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::extract::Speaker;

    fn said(speaker: Speaker, text: &str) -> Item<'_> {
        Item::Said {
            speaker,
            text: Cow::Borrowed(text),
            continues: false,
        }
    }

    fn of(speaker: Speaker, texts: &[&str]) -> Selection {
        Selection::of(texts.iter().map(|text| said(speaker, text)), false)
    }

    #[test]
    fn a_line_that_says_again_what_was_chosen_is_left_out() {
        let texts = ["alpha bravo charlie", "charlie alpha bravo", "delta echo"];
        let summary = of(Speaker::Assistant, &texts).within(1_000);
        let lines: Vec<_> = summary.lines().skip(1).collect();
        assert_eq!(
            lines,
            ["Assistant: charlie alpha bravo", "Assistant: delta echo"]
        );
    }

    #[test]
    fn no_summary_exceeds_its_room_and_a_larger_room_says_more() {
        let texts = [
            "Fix the flood gauge, please: it says 漢字 and 3 m.",
            "Then tell Ann.",
            "One more.",
        ];
        for code_points in [false, true] {
            let items = texts.map(|text| said(Speaker::User, text));
            let selection = Selection::of(items, code_points);
            for room in 0..300 {
                let size = size(&selection.within(room), code_points);
                assert!(size <= room, "{size} of {room}");
                assert!(size > 0 || room < 4);
            }
        }
        let all = of(Speaker::User, &texts).within(1_000);
        assert!(texts.iter().all(|text| all.contains(text)));
    }

    #[test]
    fn an_earlier_summary_leaves_room_to_what_is_new() {
        let texts: Vec<String> = (0..80).map(|n| format!("a{n} b{n} c{n} d{n}")).collect();
        let (old, new) = texts.split_at(40);
        let old = old.join("\n");
        let items = new.iter().map(|text| said(Speaker::Assistant, text));
        let summary =
            Selection::of([Item::Summary(&old)].into_iter().chain(items), false).within(600);
        let kept = |name: &str| summary.matches(name).count();
        assert!(summary.contains("Earlier: "));
        assert!(kept("Assistant: ") > 0);
        assert!(summary.lines().count() - kept("Assistant: ") > kept("Assistant: "));
    }

    #[test]
    fn a_text_is_cut_between_words() {
        let selection = of(Speaker::User, &[]);
        assert_eq!(selection.short("some words here", 15), "some words here");
        assert_eq!(selection.short("some words here", 14), "some words…");
        assert_eq!(selection.short("somewordshere", 9), "somewo…");
        assert_eq!(selection.short("some", 3), "");
        assert_eq!(selection.within(50), NOTHING_SAID);
    }

    #[test]
    fn a_common_length_fits() {
        assert_eq!(common_length(vec![], 10), 10);
        assert_eq!(common_length(vec![2, 30, 40], 22), 10);
        assert_eq!(common_length(vec![2, 3], 22), 22);
        assert_eq!(common_length(vec![2, 3], -3), -2);
    }
}
