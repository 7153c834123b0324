//! Finds the nearest of all rows without a graph: quick distances of every row, and exact ones of the candidates.

use crate::rescore::{nearest, widened};
use crate::segments::Marks;
use crate::space::base::Space;
use siltstone_core::index::Neighbor;

/// Rows whose quick distances are computed at once.
const ROWS: u32 = 1024;

/// The `k` nearest of the rows below `count` that are not `silent`; exact, ties by id.
pub(crate) fn scan<S: Space>(
    space: &S,
    silent: &Marks,
    count: u32,
    query: &mut S::Query,
    k: usize,
) -> Vec<Neighbor> {
    let slack = space.slack(query);
    let mut candidates: Vec<(f32, u32)> = Vec::new();
    let (mut ids, mut distances, mut limit) = (Vec::new(), Vec::new(), f64::INFINITY);
    // So many more than `k` that candidates are rarely narrowed down.
    let many = k.saturating_mul(4).saturating_add(ROWS as usize);
    for first in (0..count).step_by(ROWS as usize) {
        ids.clear();
        ids.extend(first..count.min(first.saturating_add(ROWS)));
        space.distances(query, &ids, &mut distances);
        for (&id, &distance) in ids.iter().zip(&distances) {
            if f64::from(distance) <= limit && !silent.contains(id) {
                candidates.push((distance, id));
            }
        }
        if candidates.len() >= many && k > 0 {
            limit = narrow(&mut candidates, k, slack);
        }
    }
    candidates.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    nearest(space, query, &candidates, k)
}

/// Drops the candidates that cannot be among the `k` nearest; returns the quick distance above which none can.
///
/// The exact distance of the `k`-th candidate differs from its quick distance by at most the slack, and so does
/// that of a dropped row: hence twice the slack.
fn narrow(candidates: &mut Vec<(f32, u32)>, k: usize, slack: f64) -> f64 {
    let (_, &mut (distance, _), _) =
        candidates.select_nth_unstable_by(k - 1, |a, b| a.0.total_cmp(&b.0));
    let limit = widened(f64::from(distance), 2.0 * slack);
    candidates.retain(|&(distance, _)| f64::from(distance) <= limit);
    limit
}
