//! The nearest nodes that a search has seen, and which of them it has expanded: `W` and `C` of the paper in one
//! list.
//!
//! Algorithm 2 keeps candidates `C` and results `W` in two heaps. All of `C` that matters is in `W`, so one sorted
//! list with a mark on expanded nodes replaces both.

/// Nodes by ascending distance, ties by id.
///
/// The pool holds `ef` nodes that count. Removed nodes that are still linked do not count: they are expanded like
/// others, but take no place.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// From high to low bits: the bits of the distance (which is not negative), the id, and the mark of an expanded
    /// node. So the order of the keys is the order of the nodes.
    keys: Vec<u64>,
    ef: usize,
    /// How many of the nodes do not count.
    gone: usize,
    /// All nodes before this place are expanded.
    next: usize,
}

const LOOKED: u64 = 1;

impl Pool {
    /// Clears the pool.
    pub(super) fn reset(&mut self, ef: usize) {
        self.keys.clear();
        (self.ef, self.gone, self.next) = (ef, 0, 0);
    }

    /// The distance up to which a node may still be taken; infinite while there is room.
    #[inline]
    pub(super) fn limit(&self) -> f32 {
        match self.keys.last() {
            Some(&last) if self.keys.len() >= self.ef + self.gone => distance(last),
            _ => f32::INFINITY,
        }
    }

    /// Adds a node that was not offered before, if it is near enough. `is_gone` says which nodes do not count.
    #[inline]
    pub(super) fn offer(&mut self, id: u32, near: f32, is_gone: impl Fn(u32) -> bool) {
        let key = u64::from(near.to_bits()) << 32 | u64::from(id) << 1;
        let full = self.keys.len() >= self.ef + self.gone;
        if full && self.keys.last().is_none_or(|&last| key > last) {
            return;
        }
        let place = self.keys.partition_point(|&other| other < key);
        self.keys.insert(place, key);
        self.next = self.next.min(place);
        self.gone += usize::from(is_gone(id));
        while self.keys.len() > self.ef + self.gone {
            if let Some(last) = self.keys.pop() {
                self.gone -= usize::from(is_gone(number(last)));
            }
        }
    }

    /// The nearest node that is not expanded yet; it is marked as expanded.
    #[inline]
    pub(super) fn look(&mut self) -> Option<u32> {
        let rest = self.keys.get_mut(self.next..)?;
        let place = rest.iter().position(|&key| key & LOOKED == 0)?;
        rest[place] |= LOOKED;
        self.next += place + 1;
        Some(number(rest[place]))
    }

    /// The nodes found, in order.
    pub(super) fn found(&self) -> impl Iterator<Item = (f32, u32)> {
        self.keys.iter().map(|&key| (distance(key), number(key)))
    }
}

fn distance(key: u64) -> f32 {
    f32::from_bits((key >> 32) as u32)
}

#[expect(clippy::cast_possible_truncation, reason = "the parts of a key")]
fn number(key: u64) -> u32 {
    (key as u32) >> 1
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_keeps_the_nearest_and_those_that_do_not_count_beside_them(
            nodes in vec((0_u8..20, any::<bool>()), 0..60),
            ef in 1_usize..12,
        ) {
            let gone = |id: u32| nodes[id as usize].1;
            let mut pool = Pool::default();
            pool.reset(ef);
            let mut looked = 0;
            for (id, &(distance, _)) in (0..).zip(&nodes) {
                pool.offer(id, f32::from(distance), gone);
                looked += usize::from(id % 3 == 0 && pool.look().is_some());
            }
            while pool.look().is_some() {
                looked += 1;
            }
            let found: Vec<u32> = pool.found().map(|(_, id)| id).collect();
            let mut sorted: Vec<u32> = (0..).take(nodes.len()).collect();
            sorted.sort_by_key(|&id| (nodes[id as usize].0, id));
            let counted: Vec<u32> = sorted.iter().copied().filter(|&id| !gone(id)).take(ef).collect();
            let kept: Vec<u32> = found.iter().copied().filter(|&id| !gone(id)).collect();
            prop_assert_eq!(&kept, &counted);
            prop_assert!(found.is_sorted_by_key(|&id| (nodes[id as usize].0, id)));
            prop_assert!(looked >= found.len());
        }
    }
}
