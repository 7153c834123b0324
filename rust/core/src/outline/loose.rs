//! The groups that may leave a history, and their order: the least related to a question first.

use std::collections::HashSet;

use super::history::Outline;

/// The groups of a history that may leave it, by their first positions: those that say something, and those that
/// do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loose {
    speaking: Vec<usize>,
    blank: Vec<usize>,
}

impl Loose {
    /// Adds a group behind the others.
    pub fn push(&mut self, first: usize, is_blank: bool) {
        if is_blank {
            self.blank.push(first);
        } else {
            self.speaking.push(first);
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.speaking.len() + self.blank.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The order in which they leave, by the `scores` of those that say something: the lowest first, of equal
    /// ones the one that begins first. Groups without words leave last, by time.
    ///
    /// There is a score for each; where there are fewer, those without one stay.
    fn order(&self, scores: &[f64]) -> impl Iterator<Item = usize> {
        let scores = scores.iter().copied();
        let mut order: Vec<(f64, usize)> = scores.zip(self.speaking.iter().copied()).collect();
        order.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let order = order.into_iter().map(|(_, first)| first);
        order.chain(self.blank.iter().copied())
    }

    /// The positions that leave by those scores, ascending, until at most `most` units are left, and how many are left
    /// then; with `None` all of them leave. The group that has `spared` stays.
    ///
    /// `sums` are the sums of `outline`; a group beyond them weighs nothing.
    #[must_use]
    pub fn until(
        &self,
        outline: &Outline,
        scores: &[f64],
        sums: &[usize],
        most: Option<usize>,
        spared: Option<usize>,
    ) -> (Vec<usize>, usize) {
        let sum = |at: usize| sums.get(at).copied().unwrap_or_default();
        let mut left = sums.last().copied().unwrap_or_default();
        let mut gone = Vec::new();
        for first in self.order(scores) {
            if most.is_some_and(|most| left <= most) {
                break;
            }
            if spared.is_some_and(|spared| outline.members(first).any(|at| at == spared)) {
                continue;
            }
            for at in outline.members(first) {
                left = left.saturating_sub(sum(at + 1).saturating_sub(sum(at)));
                gone.push(at);
            }
        }
        gone.sort_unstable();
        (gone, left)
    }
}

impl Outline {
    /// `groups`, by their first positions, without those that have a request which is held.
    ///
    /// # Errors
    ///
    /// The groups of `is_held`.
    pub fn without_held<E>(
        &self,
        mut groups: Vec<usize>,
        mut is_held: impl FnMut(usize) -> Result<bool, E>,
    ) -> Result<Vec<usize>, E> {
        let mut held = HashSet::new();
        for request in self.turns().iter().map(|turn| turn.request) {
            if is_held(request)? {
                held.insert(request);
            }
        }
        if !held.is_empty() {
            groups.retain(|&first| !self.members(first).any(|at| held.contains(&at)));
        }
        Ok(groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outline::{Keys, Line, Lines, Role, Tie};

    /// A request, a call, words in between, its result, and another request.
    fn outline() -> Outline {
        let (mut keys, mut lines) = (Keys::default(), Lines::default());
        let call = keys.id(b"call");
        let mut push = |role, ties: &[Tie]| {
            lines.push(Line::of_text(role), ties);
        };
        push(Role::User, &[]); // 0
        push(Role::Assistant, &[Tie::Call(call)]); // 1
        push(Role::Assistant, &[]); // 2
        push(Role::Tool, &[Tie::Result(call)]); // 3
        push(Role::User, &[]); // 4
        Outline::new(lines, keys)
    }

    fn loose(speaking: &[usize], blank: &[usize]) -> Loose {
        let mut loose = Loose::default();
        let blank = blank.iter().map(|&first| (first, true));
        let speaking = speaking.iter().map(|&first| (first, false));
        for (first, is_blank) in blank.chain(speaking) {
            loose.push(first, is_blank);
        }
        loose
    }

    #[test]
    fn the_lowest_leaves_first_then_the_oldest_and_what_says_nothing_last() {
        let loose = loose(&[1, 3, 5, 7, 9, 11], &[0, 2]);
        let scores = [0.5, 0.0, f64::NAN, 0.0, -0.0, f64::NEG_INFINITY];
        let order = |scores| loose.order(scores).collect::<Vec<_>>();
        assert_eq!(order(&scores), [11, 9, 3, 7, 1, 5, 0, 2]);
        assert_eq!(order(&scores[..2]), [3, 1, 0, 2]);
        assert_eq!(loose.speaking, [1, 3, 5, 7, 9, 11]);
        assert!(loose.len() == 8 && !loose.is_empty() && Loose::default().is_empty());
    }

    #[test]
    fn groups_leave_whole_until_the_rest_is_small_enough() {
        let (outline, sums) = (outline(), [0, 10, 30, 33, 73, 80]);
        let (loose, scores) = (loose(&[0, 1, 2], &[4]), [0.2, 0.1, 0.3]);
        let until = |most, spared| loose.until(&outline, &scores, &sums, most, spared);
        assert_eq!(until(Some(80), None), (vec![], 80));
        assert_eq!(until(Some(79), None), (vec![1, 3], 20));
        assert_eq!(until(Some(20), None), (vec![1, 3], 20));
        assert_eq!(until(Some(19), None), (vec![0, 1, 3], 10));
        assert_eq!(until(Some(0), None), (vec![0, 1, 2, 3, 4], 0));
        assert_eq!(until(None, None), (vec![0, 1, 2, 3, 4], 0));
        assert_eq!(until(Some(20), Some(3)), (vec![0, 2, 4], 60));
        assert_eq!(loose.until(&outline, &scores, &[], None, None).1, 0);
    }

    #[test]
    fn a_group_stays_whose_request_is_held() {
        let (outline, mut asked) = (outline(), Vec::new());
        let held = outline.without_held(outline.loose([]), |request| {
            asked.push(request);
            Ok::<bool, ()>(request == 0)
        });
        assert_eq!((held, asked), (Ok(vec![1, 2, 4]), vec![0, 4]));
        assert_eq!(
            outline.without_held(vec![0, 4], |_| Ok::<bool, ()>(true)),
            Ok(vec![])
        );
        assert_eq!(outline.without_held(vec![0], Err), Err(0));
    }
}
