//! The buffers of a search for the best passages: the thread keeps them for its next search.

use std::cell::Cell;

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
