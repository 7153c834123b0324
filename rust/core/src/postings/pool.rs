//! The memory of growing lists: each has room for 4 codes, then 16, then 64 and so on, all in one vector.
//!
//! A full list moves to a place with four times as much room. Its old place is reused by the next list of that
//! size.

use crate::simd::columns::BLOCK;

/// The first capacity of a list, in codes.
const SMALLEST: u16 = 4;
/// The factor by which a list grows. A factor of 2 would save memory, and cost more moves.
const GROWTH: u16 = 4;
const SIZES: usize = (BLOCK / SMALLEST as usize).ilog(GROWTH as usize) as usize + 1;
/// The least number of codes that the pool grows by.
const LEAST: usize = 256;

/// The codes of all lists, and the places that are free.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    pub(super) codes: Vec<u16>,
    /// The starts of free places, by size.
    free: [Vec<u32>; SIZES],
}

impl Pool {
    /// A pool whose first codes belong to no list.
    pub(super) fn reserving(codes: usize) -> Self {
        Self {
            codes: vec![0; codes],
            free: Default::default(),
        }
    }

    /// Moves the full list at `start` to a larger place; a list without a place gets its first. Returns the start
    /// of the new place, and its size.
    pub(super) fn grow(&mut self, start: usize, room: u16) -> (u32, u16) {
        let larger = (GROWTH * room).max(SMALLEST);
        let to = self.take(larger);
        if room > 0 {
            self.codes
                .copy_within(start..start + usize::from(room), to as usize);
            self.leave(start, room);
        }
        (to, larger)
    }

    /// Frees the place of a list for the next list of its size.
    pub(super) fn leave(&mut self, start: usize, room: u16) {
        self.free[size(room)].push(narrow(start));
    }

    fn take(&mut self, room: u16) -> u32 {
        if let Some(start) = self.free[size(room)].pop() {
            return start;
        }
        let start = self.codes.len();
        let end = start + usize::from(room);
        if end > self.codes.capacity() {
            // A quarter more, not twice as much: it is one large piece of memory.
            let more = (start / 4).max(LEAST).max(usize::from(room));
            self.codes.reserve_exact(more);
        }
        self.codes.resize(end, 0);
        narrow(start)
    }

    /// Its size in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let free = self.free.iter().map(|free| free.capacity() * 4);
        self.codes.capacity() * 2 + free.sum::<usize>()
    }
}

/// The number of a size.
fn size(room: u16) -> usize {
    (room / SMALLEST).ilog(GROWTH) as usize
}

fn narrow(start: usize) -> u32 {
    u32::try_from(start).expect("the lists of a block have fewer than 2^32 codes")
}
