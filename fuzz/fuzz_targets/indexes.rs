//! Files of indexes that nobody wrote, with a checksum that fits: an error, or an index that works.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use siltstone_core::SparseRow;
use siltstone_core::bm25::{Bm25Index, Bm25Params, Document, Query};
use siltstone_core::embed::hash::HashRule;
use siltstone_core::embed::hashed_tf::counts;
use siltstone_ann::space::{Int8, Space, Sparse};
use siltstone_ann::{Hnsw, HnswParams, Plan};
use siltstone_core::index::HashedTfIndex;
use xxhash_rust::xxh3::xxh3_64;

const DIMENSION: usize = 3;
const ROWS: [[f32; DIMENSION]; 6] = [
    [1.0, 0.0, 0.0],
    [0.9, 0.1, 0.0],
    [0.0, 1.0, 0.5],
    [0.0, 0.0, 0.0],
    [-1.0, 0.0, 0.25],
    [0.5, 0.5, 0.5],
];
const TEXTS: [&str; 4] = [
    "silt settles",
    "where water is slow",
    "silt silt silt",
    "and sand",
];
/// Bytes at the beginning that every file of its kind has: the name and the version.
const HEADER: usize = 12;
const CHECKSUM: usize = 8;

/// A file of each kind, as it is written.
static FILES: LazyLock<[Vec<u8>; 4]> = LazyLock::new(|| {
    let sparse = Hnsw::<Sparse>::new(4_096, params()).expect("a dimension");
    sparse.add(&TEXTS.map(row)).expect("rows");
    let mut exact = HashedTfIndex::default();
    let mut bm25 = Bm25Index::new(Bm25Params::default());
    for text in TEXTS {
        exact.add(&row(text));
        bm25.add(&Document::of(text));
    }
    bm25.remove(2);
    let exact = exact.to_bytes("label").expect("memory");
    let bm25 = bm25.to_bytes("label").expect("memory");
    [graph(), sparse.to_bytes(), exact, bm25]
});

fn params() -> HnswParams {
    HnswParams::new(4, 20, 20, 16, 0).expect("they are within bounds")
}

fn row(text: &str) -> SparseRow {
    counts(text, HashRule::Xxh3)
}

fn graph() -> Vec<u8> {
    let index = Hnsw::<Int8>::new(DIMENSION, params()).expect("a dimension");
    index
        .add(ROWS.iter().map(<[f32; DIMENSION]>::as_slice))
        .expect("rows");
    index.remove(&[1]).expect("it is there");
    index.to_bytes()
}

// The first byte says which kind, and whether what follows is the contents, or edits of a file that was
// written: two bytes for a place, and one to put there.
fuzz_target!(|data: &[u8]| {
    let Some((&kind, data)) = data.split_first() else {
        return;
    };
    let written = &FILES[usize::from(kind & 0x7F) % FILES.len()];
    let mut file = written[..written.len() - CHECKSUM].to_vec();
    if kind & 0x80 == 0 {
        for edit in data.chunks_exact(3) {
            let place = usize::from(u16::from_be_bytes([edit[0], edit[1]])) % file.len();
            file[place] = edit[2];
        }
    } else {
        file.truncate(HEADER);
        file.extend(data);
    }
    let kind = usize::from(kind & 0x7F) % FILES.len();
    if kind < 2 {
        let checksum = xxh3_64(&file);
        file.extend(checksum.to_le_bytes());
    } else {
        file.extend([0; CHECKSUM]);
        renew(&mut file);
    }
    match kind {
        0 => dense(&file),
        1 => {
            if let Ok(index) = Hnsw::<Sparse>::from_bytes(&file) {
                both(&index, &row(TEXTS[0]));
            }
        }
        2 => {
            let accept = |label: &str| (label == "label").then_some(());
            if let Ok((index, ())) = HashedTfIndex::from_bytes(&file, accept) {
                index.for_each_near(&row(TEXTS[0]), |near| near.distance);
            }
        }
        _ => {
            if let Ok(index) = Bm25Index::from_bytes(&file, "label") {
                for found in index.search(&Query::of(TEXTS[0]), 9) {
                    assert!((0.0..=1.0).contains(&found.score), "{}", found.score);
                }
            }
        }
    }
});

/// Gives a file of arrays the checksums that fit what stands there, as far as its table tells.
fn renew(file: &mut [u8]) {
    const LINE: usize = 64;
    const ROW: usize = 32;
    const END: usize = 24;
    let Some(end) = file.len().checked_sub(END).filter(|&end| end >= LINE) else {
        return;
    };
    let number = |file: &[u8], at: usize| {
        let number = u64::from_ne_bytes(*file[at..].first_chunk().expect("eight bytes"));
        usize::try_from(number).unwrap_or(usize::MAX)
    };
    let begin = number(file, end).clamp(LINE, end);
    for row in (begin..end).step_by(ROW).take_while(|row| row + ROW <= end) {
        let from = number(file, row);
        let to = from.saturating_add(number(file, row + 8)).checked_next_multiple_of(LINE);
        if let Some(section) = file.get(from..to.unwrap_or(usize::MAX)) {
            let checksum = xxh3_64(section);
            file[row + ROW - CHECKSUM..row + ROW].copy_from_slice(&checksum.to_ne_bytes());
        }
    }
    let known_by = [&file[..LINE], &file[begin..file.len() - CHECKSUM]].concat();
    let last = file.len() - CHECKSUM;
    file[last..].copy_from_slice(&xxh3_64(&known_by).to_ne_bytes());
}

fn dense(file: &[u8]) {
    if let Ok(index) = Hnsw::<Int8>::from_bytes(file) {
        let query = vec![0.5; index.dimension()];
        both(&index, &query);
        index
            .add([query.as_slice()])
            .expect("a row of the dimension");
    }
}

/// With room for all rows, the graph gives what a scan does.
fn both<S: Space>(index: &Hnsw<S>, query: &S::Item) {
    let count = index.figures().rows;
    let scanned = index.search(query, count, Some(count), Some(Plan::Scan));
    assert_eq!(
        index.search(query, count, Some(count), Some(Plan::Graph)),
        scanned
    );
}
