//! Dot products of a table of counts with rows of buckets: sums of integers.
//!
//! There is one kernel for every path: the gather instruction takes longer than separate look-ups. So rows are laid
//! out for look-ups. Most counts are 1 or 2, and a bucket that is named once or twice needs no multiplication. Four
//! of the sixteen places of a run are for larger counts, with 4 bits of the count above the 12 bits of the bucket.
//! All runs have the same form, so there is one loop, whose end is the only branch.

/// Places of a run.
pub const RUN: usize = 16;

/// Places of a run that name a bucket; the others are codes.
const NAMED: usize = 12;
const CODES: usize = RUN - NAMED;
/// The largest count that a code holds.
const MOST: u32 = 15;
/// A place that names no bucket.
const NONE: u16 = 4096;
/// Sums that are computed in parallel.
const LANES: usize = 4;

/// The count of every bucket, and 0 for every other number of 16 bits, so no place has to be checked. The entries
/// beyond the buckets are never written; places without a bucket read them.
pub struct Table(Box<[u32; 1 << u16::BITS]>);

impl Default for Table {
    fn default() -> Self {
        let zeros = vec![0; 1 << u16::BITS].into_boxed_slice();
        Self(zeros.try_into().expect("as many as 16 bits can name"))
    }
}

impl Table {
    /// Removes the counts of `before`, and adds those of `row`; a table has the counts of one row at a time.
    pub fn replace(&mut self, before: &[u16], row: &[u16]) {
        for_each(before, |bucket, _| self.0[usize::from(bucket)] = 0);
        for_each(row, |bucket, count| {
            let sum = &mut self.0[usize::from(bucket)];
            *sum = sum.saturating_add(count);
        });
    }
}

/// Calls `visit` with the buckets and counts of a row, in no order; a bucket may come more than once.
pub fn for_each(row: &[u16], mut visit: impl FnMut(u16, u32)) {
    for run in row.as_chunks::<RUN>().0 {
        let (named, codes) = run.split_at(NAMED);
        for &bucket in named.iter().filter(|&&bucket| bucket < NONE) {
            visit(bucket, 1);
        }
        for &code in codes.iter().filter(|&&code| code > 0xFFF) {
            visit(code & 0xFFF, u32::from(code >> 12));
        }
    }
}

/// The runs of a row of buckets below 4,096 and their counts: as few runs as possible, and at least one.
#[must_use]
pub fn packed(counts: impl IntoIterator<Item = (u16, u32)>) -> Vec<u16> {
    let mut items: Vec<(u16, u32)> = Vec::new();
    for (bucket, mut count) in counts {
        while count > 0 {
            items.push((bucket, count.min(MOST)));
            count -= count.min(MOST);
        }
    }
    // The largest counts become codes; every other bucket is named as often as it counts.
    items.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let mut left: usize = items.iter().map(|&(_, count)| count as usize).sum();
    let (mut runs, mut taken) = (0, 0);
    while runs == 0 || left > runs * NAMED {
        let more = items[taken..].iter().take(CODES);
        left -= more.map(|&(_, count)| count as usize).sum::<usize>();
        taken = items.len().min(taken + CODES);
        runs += 1;
    }
    let joined = |&(bucket, count): &(u16, u32)| bucket | u16::try_from(count).unwrap_or(0) << 12;
    let (large, small) = items.split_at(taken);
    let mut codes = large.iter().map(joined).chain(std::iter::repeat(0));
    let mut named = small
        .iter()
        .flat_map(|&(bucket, count)| (0..count).map(move |_| bucket))
        .chain(std::iter::repeat(NONE));
    let mut row = Vec::with_capacity(runs * RUN);
    for _ in 0..runs {
        row.extend(named.by_ref().take(NAMED));
        row.extend(codes.by_ref().take(CODES));
    }
    row
}

/// The sum of the products of the table's counts with those of a row that [`packed`] gave.
#[inline]
#[must_use]
pub fn dot(table: &Table, row: &[u16]) -> u64 {
    let mut sums = [0_u64; LANES];
    for run in row.as_chunks::<RUN>().0 {
        for (place, &bucket) in run[..NAMED].iter().enumerate() {
            sums[place % LANES] += u64::from(table.0[usize::from(bucket)]);
        }
        for (place, &code) in run[NAMED..].iter().enumerate() {
            let count = u64::from(code >> 12);
            sums[place % LANES] += count * u64::from(table.0[usize::from(code & 0xFFF)]);
        }
    }
    sums.into_iter().sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::btree_map;
    use proptest::prelude::*;

    use super::*;

    fn rows() -> impl Strategy<Value = BTreeMap<u16, u32>> {
        let count = prop_oneof![4 => 0_u32..3, 2 => 3_u32..16, 1 => 16_u32..300];
        btree_map(0_u16..4096, count, 0..90)
    }

    proptest! {
        #[test]
        fn a_sum_is_that_of_dense_vectors(rows in (rows(), rows(), rows())) {
            let (a, b, other) = rows;
            let [a, b, other] = [a, b, other].map(|mut row| {
                row.retain(|_, count| *count > 0);
                (packed(row.clone()), row)
            });
            let mut table = Table::default();
            table.replace(&[], &other.0);
            table.replace(&other.0, &a.0);
            let product = |(bucket, &count): (&u16, &u32)| {
                u64::from(count) * u64::from(*b.1.get(bucket).unwrap_or(&0))
            };
            let expected: u64 = a.1.iter().map(product).sum();
            prop_assert_eq!(dot(&table, &b.0), expected);
            let mut again = BTreeMap::new();
            for_each(&a.0, |bucket, count| *again.entry(bucket).or_default() += count);
            prop_assert_eq!(again, a.1);
        }
    }

    #[test]
    fn a_row_worked_by_hand() {
        // 40 = 15 + 15 + 10 takes three codes, 3 the fourth, and 2 and 1 are named.
        let row = packed([(5, 1), (7, 2), (9, 3), (4095, 40)]);
        let named = [
            7, 7, 5, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE,
        ];
        let codes = [
            15 << 12 | 4095,
            15 << 12 | 4095,
            10 << 12 | 4095,
            3 << 12 | 9,
        ];
        assert_eq!(row, [&named[..], &codes].concat());
        assert_eq!(packed([]).len(), RUN);
        let mut table = Table::default();
        table.replace(&[], &packed([(7, 4), (8, 9), (4095, 1)]));
        assert_eq!(dot(&table, &row), 2 * 4 + 40);
    }
}
