//! The expiry times of entries.

/// The points of a scope that expire, ascending, each with its time in milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Expiry {
    points: Vec<(u32, i64)>,
    soonest: Option<i64>,
}

impl Expiry {
    /// The same from a list of points and times. None if the points do not ascend.
    pub(super) fn of(points: Vec<(u32, i64)>) -> Option<Self> {
        let ascends = points.is_sorted_by(|one, next| one.0 < next.0);
        let soonest = points.iter().map(|&(_, at)| at).min();
        ascends.then_some(Self { points, soonest })
    }

    /// Adds the next point; a point without a time never expires.
    pub(super) fn push(&mut self, point: usize, at: Option<i64>) {
        if let (Some(at), Ok(point)) = (at, u32::try_from(point)) {
            self.points.push((point, at));
            self.soonest = Some(self.soonest.map_or(at, |soonest| soonest.min(at)));
        }
    }

    /// The points that expire, each with its time.
    pub(super) fn points(&self) -> &[(u32, i64)] {
        &self.points
    }

    /// Its approximate bytes.
    pub(super) fn bytes(&self) -> usize {
        self.points.capacity() * size_of::<(u32, i64)>()
    }

    /// The points that have expired at `now`, ascending.
    pub(super) fn gone(&self, now: i64) -> Vec<u32> {
        match self.soonest {
            Some(soonest) if soonest <= now => {
                let gone = self.points.iter().filter(|&&(_, at)| at <= now);
                gone.map(|&(point, _)| point).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Keeps only points that are in `left`, which ascends. A point's new number is its position in `left`.
    pub(super) fn only(&mut self, left: &[(u32, i64)]) {
        let place = |point: u32| {
            let place = left.binary_search_by_key(&point, |&(point, _)| point);
            place.ok().and_then(|place| u32::try_from(place).ok())
        };
        let points = self.points.iter();
        let points = points.filter_map(|&(point, at)| Some((place(point)?, at)));
        self.points = points.collect();
        self.soonest = self.points.iter().map(|&(_, at)| at).min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_is_gone_from_that_moment_on() {
        let mut expiry = Expiry::default();
        for (point, at) in [
            (0, None),
            (1, Some(20)),
            (2, Some(10)),
            (3, None),
            (4, Some(20)),
        ] {
            expiry.push(point, at);
        }
        assert_eq!(expiry.gone(9), []);
        assert_eq!(expiry.gone(10), [2]);
        assert_eq!(expiry.gone(20), [1, 2, 4]);
        expiry.only(&[(0, 7), (2, 7), (4, 7)]);
        assert_eq!(expiry.points(), [(1, 10), (2, 20)]);
        expiry.only(&[(2, 7)]);
        assert_eq!((expiry.gone(19), expiry.gone(20)), (vec![], vec![0]));
        assert_eq!(Expiry::of(vec![(0, 20)]), Some(expiry));
        assert_eq!(Expiry::of(vec![(1, 5), (1, 6)]), None);
    }
}
