//! Computes exact distances of the rows with the best quick distances, as far as they can matter.

use crate::space::base::Space;
use siltstone_core::TopK;
use siltstone_core::index::Neighbor;

/// How many candidates ahead the floats are prefetched.
const AHEAD: usize = 3;

/// The `k` nearest of `candidates`, which are rows by ascending quick distance; ties by id.
///
/// A quick distance differs from the exact one by at most a known angle. So the loop ends at the first row whose
/// quick distance exceeds the `k`-th exact one by more than that, and the result is the same as with exact
/// distances of all candidates.
pub(crate) fn nearest<S: Space>(
    space: &S,
    query: &S::Query,
    candidates: &[(f32, u32)],
    k: usize,
) -> Vec<Neighbor> {
    let slack = space.slack(query);
    let (mut best, mut limit) = (TopK::new(k), f64::INFINITY);
    for (place, &(quick, id)) in candidates.iter().enumerate() {
        if let Some(&(_, coming)) = candidates.get(place + AHEAD) {
            space.fetch(coming);
        }
        if f64::from(quick) > limit || k == 0 {
            break;
        }
        let distance = space.exact(query, id);
        best.offer(Neighbor { id, distance });
        if let Some(farthest) = best.least() {
            limit = widened(farthest.distance, slack);
        }
    }
    best.into_best_first()
}

/// The distance of two directions whose angle is `slack` radians larger than at `distance`.
pub(crate) fn widened(distance: f64, slack: f64) -> f64 {
    let cosine = (1.0 - distance).clamp(-1.0, 1.0);
    let (sine, spread) = ((1.0 - cosine * cosine).sqrt(), slack.sin());
    if cosine < -slack.cos() {
        return 2.0; // the largest distance
    }
    1.0 - (cosine * slack.cos() - sine * spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_widened_by_an_angle() {
        // 60 degrees and 30 more are 90; 170 and 30 more are all there is.
        assert!((widened(0.5, 30.0_f64.to_radians()) - 1.0).abs() < 1e-12);
        let far = 1.0 - 170.0_f64.to_radians().cos();
        assert!((widened(far, 30.0_f64.to_radians()) - 2.0).abs() < 1e-12);
        assert!((widened(0.25, 0.0) - 0.25).abs() < 1e-12);
    }
}
