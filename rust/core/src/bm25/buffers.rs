//! The buffers of searches: the thread keeps them for its next search.

use std::cell::Cell;

use parking_lot::Mutex;

use crate::bm25::lists::TermList;
use crate::postings::BLOCK;

/// A term of a block, with its bound.
pub(super) struct Bounded<'a> {
    /// The most that it adds to any passage.
    pub(super) most: f64,
    pub(super) weight: f32,
    pub(super) list: TermList<'a>,
}

/// The buffers of a search; their contents are of no use to another search.
#[derive(Default)]
pub(super) struct Scratch<'a> {
    pub(super) bounds: Vec<Bounded<'a>>,
    /// All 0, if present.
    pub(super) added: Option<Box<[f32; BLOCK]>>,
    pub(super) sums: Vec<f64>,
    pub(super) places: Vec<u16>,
    pub(super) codes: Vec<u16>,
    pub(super) known: Vec<u16>,
}

thread_local! {
    static SCRATCH: Cell<Scratch<'static>> = Cell::default();
}

impl Scratch<'_> {
    /// Takes the buffers that the thread's last search gave back. Until they are given back again, a second search
    /// gets empty ones.
    pub(super) fn take() -> Self {
        SCRATCH.take()
    }

    pub(super) fn give_back(mut self) {
        self.bounds.clear();
        SCRATCH.set(Scratch {
            // The vector is empty: only its type changes, and its memory stays.
            bounds: self.bounds.into_iter().map_while(|_| None).collect(),
            ..self
        });
    }
}

// Lists of numbers that searches reuse.
//
// A search of a large session fills a few lists of one number an entry. If each search allocated and freed them,
// the system might unmap and map the memory each time, which costs several times the search itself.

/// The most numbers in all lists that are kept, for the whole process: 16 MB, those of one search of a million entries.
const MOST: usize = 1 << 21;

static SPARE: Mutex<Vec<Vec<f64>>> = Mutex::new(Vec::new());

/// An empty list, reused if one is kept. It never waits for the lock: in a child of `fork`, the thread that holds
/// the lock may not exist.
pub(super) fn list() -> Vec<f64> {
    let kept = SPARE.try_lock().and_then(|mut spare| spare.pop());
    kept.unwrap_or_default()
}

/// So many zeros.
pub(super) fn zeros(len: usize) -> Vec<f64> {
    let mut list = list();
    list.resize(len, 0.0);
    list
}

/// Keeps a list for the next search.
pub(super) fn give_back(mut list: Vec<f64>) {
    list.clear();
    if list.capacity() > 0
        && let Some(mut spare) = SPARE.try_lock()
        && numbers(&spare) + list.capacity() <= MOST
    {
        spare.push(list);
    }
}

fn numbers(lists: &[Vec<f64>]) -> usize {
    lists.iter().map(Vec::capacity).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_given_out_empty() {
        give_back(vec![1.0; 100]);
        assert_eq!(list(), []);
        assert_eq!(zeros(200), [0.0; 200]);
    }

    #[test]
    fn no_more_is_kept_than_one_large_search_needs() {
        for len in [MOST + 1, MOST / 2, MOST / 2, MOST / 2, 3] {
            give_back(vec![1.0; len]);
            assert!(numbers(&SPARE.lock()) <= MOST);
        }
    }
}
