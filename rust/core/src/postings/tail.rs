//! The newest entries of a block, bucket by bucket: lists that grow where they lie.
//!
//! A list has room for 4 codes, then 16, then 64, and moves when it is full; what it leaves is given to the
//! next list of that size. All lie in one pool. A list of more than [`LARGEST`] codes becomes a column.
//! Counts above 15 are several codes of one entry. A few entries need no lists: they lie as they came.

use crate::postings::dictionary::Dictionary;
use crate::postings::fresh::Fresh;
use crate::postings::newest::Newest;
use crate::postings::part::{Builder, MAX_CODE, code, count, entry};
use crate::simd::columns::{BLOCK, Column};

const BUCKETS: usize = 4096;
/// Entries that lie as they came: fewer bytes, and a query reads them nearly as fast.
const FEW: usize = 64;
/// The room of a list at first.
const SMALLEST: u16 = 4;
/// The room of a list at most: a column costs a query less than a longer one, and takes 2 KB.
const LARGEST: u16 = 256;
/// How many times as much room a list gets when it moves. Twice would take fewer bytes, and more moves.
const GROWTH: u16 = 4;
const SIZES: usize = (LARGEST / SMALLEST).ilog(GROWTH) as usize + 1;
/// Codes without room that wait for the others.
const AT_ONCE: usize = 64;
/// A place in the pool that is of no list.
const NO_PLACE: usize = 0;
/// Stands for the length of a list that became a column.
const DENSE: u16 = u16::MAX;

/// The newest entries of a block.
#[derive(Clone, Debug)]
pub struct Tail {
    first: u16,
    len: u16,
    few: Fresh<u16>,
    lists: Option<Box<Lists>>,
}

/// What the newest entries have of a bucket: the sum of both is meant.
#[derive(Clone, Copy, Debug)]
pub struct Growing<'a> {
    /// Codes, ascending by entry; an entry with a count above 15 has several.
    pub codes: &'a [u16],
    /// The counts of most entries that have the bucket.
    pub column: Option<&'a Column>,
}

impl Growing<'_> {
    /// Calls `visit` with each code of either, in no order.
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

impl Tail {
    /// The entries, where they are so few that they lie as they came.
    #[must_use]
    pub fn few(&self) -> Option<&Fresh<u16>> {
        Some(&self.few).filter(|_| self.lists.is_none())
    }

    /// The lists, where there are some.
    #[must_use]
    pub fn lists(&self) -> Option<&Lists> {
        self.lists.as_deref()
    }
}

impl Newest<u16> for Tail {
    fn new(first: u16) -> Self {
        Self {
            first,
            len: 0,
            few: Fresh::new(first),
            lists: None,
        }
    }

    fn push(&mut self, row: impl IntoIterator<Item = (u16, u32)>) {
        let entry = self.first + self.len;
        self.len += 1;
        if let Some(lists) = &mut self.lists {
            lists.push(entry, row);
            return;
        }
        self.few.push(row);
        if self.few.len() > FEW {
            let mut lists = Box::new(Lists::default());
            self.few
                .for_each(|entry, bucket, count| lists.push(entry, [(bucket, count)]));
            self.lists = Some(lists);
            self.few = Fresh::new(self.first);
        }
    }

    fn len(&self) -> usize {
        usize::from(self.len)
    }

    fn postings(&self) -> usize {
        let lists = self.lists.as_ref().map_or(0, |lists| lists.postings);
        self.few.postings() + lists
    }

    fn bytes(&self) -> usize {
        self.few.bytes() + self.lists.as_ref().map_or(0, |lists| lists.bytes())
    }

    fn move_to<D: Dictionary<Key = u16>>(
        &self,
        builder: &mut Builder<D>,
        from: usize,
        budget: usize,
    ) -> Option<usize> {
        let Some(lists) = &self.lists else {
            return self.few.move_to(builder, from, budget);
        };
        let mut moved = 0;
        for (number, bucket) in (0_u16..).take(BUCKETS).enumerate().skip(from) {
            if moved >= budget {
                return Some(number);
            }
            moved += lists.move_bucket(bucket, builder) + 1;
        }
        None
    }
}

/// Where the codes of a bucket lie in the pool; or which column there is.
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
    /// What is above 15.
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
pub struct Lists {
    slots: Box<[Slot; BUCKETS]>,
    pool: Vec<u16>,
    /// Places in the pool that lists have left, by size.
    left: [Vec<u32>; SIZES],
    dense: Vec<Dense>,
    postings: usize,
}

impl Default for Lists {
    fn default() -> Self {
        let slots = vec![Slot::default(); BUCKETS].into_boxed_slice();
        Self {
            slots: slots.try_into().expect("one for each bucket"),
            pool: vec![0; NO_PLACE + 1],
            left: Default::default(),
            dense: Vec::new(),
            postings: 0,
        }
    }
}

impl Lists {
    /// What there is of `bucket`, which is below 4,096.
    #[inline]
    #[must_use]
    pub fn get(&self, bucket: u16) -> Growing<'_> {
        let slot = self.slots[usize::from(bucket) % BUCKETS];
        let start = slot.start as usize;
        if slot.len == DENSE {
            let dense = &self.dense[start];
            return Growing {
                codes: &dense.above,
                column: Some(&dense.column),
            };
        }
        Growing {
            codes: &self.pool[start..start + usize::from(slot.len)],
            column: None,
        }
    }

    /// Whether a list has room is a coin toss for the processor, since most rows have some frequent buckets. So
    /// each code is written, to a place of no list where there is none, and what found none comes after.
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
            self.pool[if has_room { place } else { NO_PLACE }] = code;
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
            self.pool[slot.start as usize + usize::from(slot.len)] = code;
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
        let room = (GROWTH * slot.room).max(SMALLEST);
        let start = self.take(room);
        let (from, len) = (slot.start as usize, usize::from(slot.len));
        self.pool.copy_within(from..from + len, start as usize);
        self.pool[start as usize + len] = code;
        self.leave(slot);
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
        for &code in &self.pool[start..start + usize::from(slot.len)] {
            dense.push(code);
        }
        self.leave(slot);
        self.slots[number] = Slot {
            start: u32::try_from(self.dense.len()).expect("there are 4,096 buckets"),
            len: DENSE,
            room: 0,
        };
        self.dense.push(dense);
    }

    /// Room for that many codes.
    fn take(&mut self, room: u16) -> u32 {
        if let Some(start) = self.left[size(room)].pop() {
            return start;
        }
        let start = self.pool.len();
        let end = start + usize::from(room);
        if end > self.pool.capacity() {
            // A quarter more, not twice as much: it is one large piece of memory.
            self.pool
                .reserve_exact((start / 4).max(usize::from(LARGEST)));
        }
        self.pool.resize(end, 0);
        u32::try_from(start).expect("the lists of a block have fewer than 2^32 codes")
    }

    fn leave(&mut self, slot: Slot) {
        if slot.room > 0 {
            self.left[size(slot.room)].push(slot.start);
        }
    }

    /// Gives the postings of `bucket` to `builder`, and says how many codes that was.
    fn move_bucket<D: Dictionary<Key = u16>>(
        &self,
        bucket: u16,
        builder: &mut Builder<D>,
    ) -> usize {
        let Growing { codes, column } = self.get(bucket);
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

    fn bytes(&self) -> usize {
        let left = self.left.iter().map(|left| left.capacity() * 4);
        let above = self.dense.iter().map(|dense| dense.above.capacity() * 2);
        size_of_val(&*self.slots)
            + self.pool.capacity() * 2
            + left.sum::<usize>()
            + above.sum::<usize>()
            + self.dense.len() * (size_of::<Dense>() + BLOCK / 2)
    }
}

/// The number of a size of lists.
fn size(room: u16) -> usize {
    (room / SMALLEST).ilog(GROWTH) as usize
}

fn sum(codes: &[u16]) -> u32 {
    codes.iter().map(|&code| u32::from(count(code))).sum()
}
