//! Which nodes has this search seen? One bit each, taken back one by one.

/// Numbers that were seen. Emptying it takes as long as filling it did, however many there could be.
#[derive(Debug, Default)]
pub(super) struct Visited {
    words: Vec<u64>,
    touched: Vec<u32>,
}

impl Visited {
    /// Empties the set, and makes room for the numbers below `count`.
    pub(super) fn reset(&mut self, count: u32) {
        for word in self.touched.drain(..) {
            self.words[word as usize] = 0;
        }
        let words = count.div_ceil(u64::BITS) as usize;
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
    }

    /// Adds a number; says whether it was not there yet.
    #[inline]
    pub(super) fn insert(&mut self, number: u32) -> bool {
        let (place, bit) = (number / u64::BITS, 1 << (number % u64::BITS));
        let word = &mut self.words[place as usize];
        if *word == 0 {
            self.touched.push(place);
        }
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once_until_the_set_is_emptied() {
        let mut visited = Visited::default();
        for count in [10, 1_000, 70] {
            visited.reset(count);
            assert!((0..count).rev().all(|number| visited.insert(number)));
            assert!((0..count).all(|number| !visited.insert(number)));
        }
    }
}
