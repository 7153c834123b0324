//! Room that a search for the best passages works in: its thread keeps it for the next one.

use std::cell::Cell;

use crate::bm25::lists::TermList;
use crate::postings::BLOCK;

/// A term of a block, and what it adds.
pub(super) struct Bounded<'a> {
    /// No passage gets more of it.
    pub(super) most: f64,
    pub(super) weight: f32,
    pub(super) list: TermList<'a>,
}

/// The lists of a search; what is in them is of no use to another one.
#[derive(Default)]
pub(super) struct Scratch<'a> {
    pub(super) bounds: Vec<Bounded<'a>>,
    /// All 0, where there is something.
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
    /// What the thread's last search gave back. Until it is given back again, another one finds nothing.
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
