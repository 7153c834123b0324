//! The memory of lists that grow: room for 4 codes, then 16, then 64, all in one piece.
//!
//! A full list moves to four times as much room. The room that it had goes to the next list of that size.

use crate::simd::columns::BLOCK;

/// The room of a list at first.
const SMALLEST: u16 = 4;
/// How many times as much room a list gets when it moves. Twice would take fewer bytes, and more moves.
const GROWTH: u16 = 4;
const SIZES: usize = (BLOCK / SMALLEST as usize).ilog(GROWTH as usize) as usize + 1;
/// Codes that the pool grows by at least.
const LEAST: usize = 256;

/// The codes of lists, and the rooms that are free.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    pub(super) codes: Vec<u16>,
    /// Where rooms begin that lists have left, by size.
    free: [Vec<u32>; SIZES],
}

impl Pool {
    /// A pool whose first codes are of no list.
    pub(super) fn reserving(codes: usize) -> Self {
        Self {
            codes: vec![0; codes],
            free: Default::default(),
        }
    }

    /// Moves the list that fills the room at `start` to a larger one; a list without a room gets its first.
    /// Gives where the new room begins, and its size.
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

    /// Gives the room of a list to the next one of its size.
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

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        let free = self.free.iter().map(|free| free.capacity() * 4);
        self.codes.capacity() * 2 + free.sum::<usize>()
    }
}

/// The number of a size of rooms.
fn size(room: u16) -> usize {
    (room / SMALLEST).ilog(GROWTH) as usize
}

fn narrow(start: usize) -> u32 {
    u32::try_from(start).expect("the lists of a block have fewer than 2^32 codes")
}
