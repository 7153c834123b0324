//! The outline of a history, which a policy reads before any message: speakers, groups and turns.
//!
//! An [`Outline`] has a [`Line`] for each message, and knows nothing of texts. Its rules are those of
//! `siltstone.messages.groups` and `siltstone.messages.turns`, which are its slow twins.
//! [`measured`] makes the line of a message, and a [`Rendering`] has what a summariser reads of one: both
//! read any [`Value`], whoever keeps it.

mod dialects;
mod fields;
mod groups;
mod keys;
mod lines;
mod measure;
mod read;
mod render;
mod turns;
mod value;

use groups::Groups;
use turns::Turns;

pub use keys::{Key, Keys};
pub use lines::{Line, Lines, Provenance, Role, Tie};
pub use measure::{Measure, Measured, Units, measured};
pub use render::Rendering;
pub use turns::Turn;
pub use value::{Field, Unread, Value};

/// A history in outline. Positions are those of its messages, from 0; a position beyond them has nothing.
#[derive(Debug)]
pub struct Outline {
    lines: Vec<Line>,
    groups: Groups,
    turns: Turns,
}

impl Outline {
    /// The outline of `lines`. `keys` is how many keys their ties have. Time is linear.
    #[must_use]
    pub fn new(lines: Lines, keys: usize) -> Self {
        let groups = Groups::new(&lines, keys);
        let turns = Turns::new(&lines, keys);
        Self {
            lines: lines.all,
            groups,
            turns,
        }
    }

    /// The messages.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The turns, in order.
    #[must_use]
    pub fn turns(&self) -> &[Turn] {
        self.turns.all()
    }

    /// Whether the newest turn is still going on.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.turns.in_flight()
    }

    /// The positions of every group that has a call without a result, ascending.
    #[must_use]
    pub fn pending(&self) -> Vec<usize> {
        self.groups.pending()
    }

    /// The group whose last message stands at `position`, ascending; `None` where none ends.
    #[must_use]
    pub fn group_ending_at(&self, position: usize) -> Option<Vec<usize>> {
        self.groups.ending_at(position)
    }

    /// The positions of `kept` and of every group that has one of them, as ascending half-open ranges
    /// that do not touch.
    #[must_use]
    pub fn closed(&self, kept: impl IntoIterator<Item = usize>) -> Vec<(usize, usize)> {
        self.groups.closed(kept)
    }

    /// Where the messages of `spans`, one after the other, can be parted without parting a group: how
    /// many of them lie before each such place, their end included.
    #[must_use]
    pub fn breaks(&self, spans: impl IntoIterator<Item = (usize, usize)>) -> Vec<usize> {
        self.groups.breaks(spans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(role: Role) -> Line {
        Line {
            role,
            provenance: Provenance::Original,
            is_item: false,
            is_reasoning: false,
            opens_turn: role == Role::User,
            parts: 1,
        }
    }

    #[test]
    fn a_call_its_late_result_and_a_pending_call_worked_by_hand() {
        let mut keys = Keys::default();
        let (one, two) = (keys.id(b"one"), keys.id(b"two"));
        let mut lines = Lines::default();
        lines.push(line(Role::System), &[]); // 0
        lines.push(line(Role::User), &[]); // 1
        lines.push(line(Role::Assistant), &[Tie::Call(one)]); // 2
        lines.push(line(Role::Assistant), &[]); // 3
        lines.push(line(Role::Tool), &[Tie::Result(one)]); // 4
        lines.push(line(Role::User), &[]); // 5
        lines.push(line(Role::Assistant), &[Tie::Call(two)]); // 6
        let outline = Outline::new(lines, keys.count());
        let spans: Vec<_> = outline
            .turns()
            .iter()
            .map(|turn| (turn.start, turn.end, turn.request))
            .collect();
        assert_eq!(spans, [(1, 5, 1), (5, 7, 5)]);
        assert!(outline.in_flight());
        assert_eq!(outline.pending(), [6]);
        assert_eq!(outline.group_ending_at(4), Some(vec![2, 4]));
        assert_eq!(outline.group_ending_at(2), None);
        assert_eq!(outline.group_ending_at(7), None);
        assert_eq!(outline.closed([4, 1, 99]), [(1, 3), (4, 5)]);
        assert_eq!(outline.closed([]), []);
        assert_eq!(outline.breaks([(1, 3), (4, 7), (9, 9)]), [1, 3, 4, 5]);
    }

    #[test]
    fn nothing_has_an_outline_too() {
        let outline = Outline::new(Lines::default(), 0);
        assert!(outline.turns().is_empty() && !outline.in_flight());
        assert!(outline.pending().is_empty() && outline.closed([0]).is_empty());
    }
}
