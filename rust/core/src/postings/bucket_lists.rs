//! The newest entries of a block, by bucket: one growing posting list for each of the 4,096 buckets.
//!
//! A list of more than [`LARGEST`] codes becomes a column. A count above 15 is stored as several codes of one
//! entry.

use crate::postings::dictionary::{BUCKETS, Buckets};
use crate::postings::part::{Builder, MAX_CODE, code, count, entry};
use crate::postings::pool::Pool;
use crate::postings::tail::{Growing, Lists};
use crate::simd::columns::{BLOCK, Column};

/// The largest capacity of a list, in codes. Above it a column, which takes 2 KB, is cheaper for a query.
const LARGEST: u16 = 256;
/// Codes that found their list full, and are added together afterwards.
const AT_ONCE: usize = 64;
/// A place in the pool that belongs to no list.
const NO_PLACE: usize = 0;
/// The length value that marks a list as a column.
const DENSE: u16 = u16::MAX;

/// The counts of the newest entries for one bucket: the sum of `codes` and `column`.
#[derive(Clone, Copy, Debug)]
pub struct GrowingList<'a> {
    /// Codes, ascending by entry; an entry with a count above 15 has several.
    pub codes: &'a [u16],
    /// For a frequent bucket, the counts up to 15 of the entries.
    pub column: Option<&'a Column>,
}

impl GrowingList<'_> {
    /// Calls `visit` with each code of both, in no order.
    pub fn for_each_code(&self, mut visit: impl FnMut(u16)) {
        if let Some(column) = self.column {
            let codes = column
                .iter()
                .map(|(entry, count)| code(entry, count.into()));
            codes.for_each(&mut visit);
        }
        self.codes.iter().copied().for_each(visit);
    }
}

/// The place of a bucket's codes in the pool, or the number of its column.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    start: u32,
    len: u16,
    room: u16,
}

/// A list that became a column.
#[derive(Clone, Debug)]
struct Dense {
    column: Column,
    entries: usize,
    /// Further codes of entries that are in the column already.
    above: Vec<u16>,
}

impl Dense {
    fn push(&mut self, code: u16) {
        if self.column.get(entry(code)) == 0 {
            self.column.set(entry(code), count(code));
            self.entries += 1;
        } else {
            self.above.push(code);
        }
    }
}

/// A list for each bucket.
#[derive(Clone, Debug)]
pub struct BucketLists {
    slots: Box<[Slot; BUCKETS]>,
    pool: Pool,
    dense: Vec<Dense>,
    postings: usize,
}

impl Default for BucketLists {
    fn default() -> Self {
        let slots = vec![Slot::default(); BUCKETS].into_boxed_slice();
        Self {
            slots: slots.try_into().expect("one for each bucket"),
            pool: Pool::reserving(NO_PLACE + 1),
            dense: Vec::new(),
            postings: 0,
        }
    }
}

impl BucketLists {
    /// The counts of `bucket`, which is below 4,096.
    #[inline]
    #[must_use]
    pub fn get(&self, bucket: u16) -> GrowingList<'_> {
        let slot = self.slots[usize::from(bucket) % BUCKETS];
        let start = slot.start as usize;
        if slot.len == DENSE {
            let dense = &self.dense[start];
            return GrowingList {
                codes: &dense.above,
                column: Some(&dense.column),
            };
        }
        GrowingList {
            codes: &self.pool.codes[start..start + usize::from(slot.len)],
            column: None,
        }
    }

    #[inline(never)]
    fn push_rest(&mut self, rest: &[(u16, u16)]) {
        for &(bucket, code) in rest {
            self.push_to_full(bucket, code);
        }
    }

    #[inline(never)]
    fn push_to_any(&mut self, bucket: u16, code: u16) {
        let slot = &mut self.slots[usize::from(bucket) % BUCKETS];
        if slot.len < slot.room {
            self.pool.codes[slot.start as usize + usize::from(slot.len)] = code;
            slot.len += 1;
        } else {
            self.push_to_full(bucket, code);
        }
    }

    fn push_to_full(&mut self, bucket: u16, code: u16) {
        let number = usize::from(bucket) % BUCKETS;
        let slot = self.slots[number];
        if slot.len == DENSE {
            self.dense[slot.start as usize].push(code);
            return;
        }
        if slot.room == LARGEST {
            self.make_dense(number);
            self.dense[self.slots[number].start as usize].push(code);
            return;
        }
        let (start, room) = self.pool.grow(slot.start as usize, slot.room);
        self.pool.codes[start as usize + usize::from(slot.len)] = code;
        let len = slot.len + 1;
        self.slots[number] = Slot { start, len, room };
    }

    fn make_dense(&mut self, number: usize) {
        let slot = self.slots[number];
        let mut dense = Dense {
            column: Column::default(),
            entries: 0,
            above: Vec::new(),
        };
        let start = slot.start as usize;
        for &code in &self.pool.codes[start..start + usize::from(slot.len)] {
            dense.push(code);
        }
        self.pool.leave(start, slot.room);
        self.slots[number] = Slot {
            start: u32::try_from(self.dense.len()).expect("there are 4,096 buckets"),
            len: DENSE,
            room: 0,
        };
        self.dense.push(dense);
    }

    /// Moves the postings of `bucket` to `builder`. Returns the amount of work, in codes.
    fn move_bucket(&self, bucket: u16, builder: &mut Builder<Buckets>) -> usize {
        let GrowingList { codes, column } = self.get(bucket);
        let mut moved = codes.len();
        if let Some(column) = column {
            moved += BLOCK / 8;
            let slot = self.slots[usize::from(bucket) % BUCKETS];
            builder.column(column, self.dense[slot.start as usize].entries);
            for same in codes.chunk_by(|&one, &other| entry(one) == entry(other)) {
                builder.overflow(entry(same[0]), sum(same));
            }
        } else if codes.is_sorted_by(|&one, &other| entry(one) < entry(other)) {
            builder.extend(codes);
        } else {
            for same in codes.chunk_by(|&one, &other| entry(one) == entry(other)) {
                builder.push(same[0]);
                if same.len() > 1 {
                    builder.overflow(entry(same[0]), sum(&same[1..]));
                }
            }
        }
        if moved > 0 {
            builder.end_key(bucket);
        }
        moved
    }
}

impl Growing for Buckets {
    type Lists = BucketLists;
}

impl Lists<Buckets> for BucketLists {
    const FEW: usize = 64;

    /// Whether a list has room cannot be predicted by the processor, since most rows have some frequent buckets. So
    /// each code is written without a branch: to its list, or to an unused place if the list is full. The codes
    /// that found no room are added afterwards.
    #[inline]
    fn push(&mut self, entry: u16, row: impl IntoIterator<Item = (u16, u32)>) {
        let (mut rest, mut waiting) = ([(0_u16, 0_u16); AT_ONCE], 0);
        for (bucket, mut count) in row {
            self.postings += 1;
            while count > MAX_CODE {
                self.push_to_any(bucket, code(entry, MAX_CODE));
                count -= MAX_CODE;
            }
            let code = code(entry, count);
            let slot = &mut self.slots[usize::from(bucket) % BUCKETS];
            let has_room = slot.len < slot.room;
            let place = slot.start as usize + usize::from(slot.len);
            self.pool.codes[if has_room { place } else { NO_PLACE }] = code;
            slot.len += u16::from(has_room);
            rest[waiting] = (bucket, code);
            waiting += usize::from(!has_room);
            if waiting == AT_ONCE {
                self.push_rest(&rest);
                waiting = 0;
            }
        }
        self.push_rest(&rest[..waiting]);
    }

    fn postings(&self) -> usize {
        self.postings
    }

    fn bytes(&self) -> usize {
        let above = self.dense.iter().map(|dense| dense.above.capacity() * 2);
        size_of_val(&*self.slots)
            + self.pool.bytes()
            + above.sum::<usize>()
            + self.dense.len() * (size_of::<Dense>() + BLOCK / 2)
    }

    fn move_to(&self, builder: &mut Builder<Buckets>, from: usize, budget: usize) -> Option<usize> {
        let mut moved = 0;
        for (number, bucket) in (0_u16..).take(BUCKETS).enumerate().skip(from) {
            if moved >= budget {
                return Some(number);
            }
            moved += self.move_bucket(bucket, builder) + 1;
        }
        None
    }
}

fn sum(codes: &[u16]) -> u32 {
    codes.iter().map(|&code| u32::from(count(code))).sum()
}
