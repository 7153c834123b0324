//! Lists of numbers that searches reuse.
//!
//! A search of a large session fills a few lists of one number an entry. If each search allocated and freed them,
//! the system might unmap and map the memory each time, which costs several times the search itself.

use parking_lot::Mutex;

/// The most lists that are kept, for the whole process: those of two searches at once.
const MOST: usize = 6;
/// The largest capacity of a list that is kept, in numbers: 2 MB. Larger sessions are few, and slow anyway.
const LARGEST: usize = 1 << 18;

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
    if (1..=LARGEST).contains(&list.capacity())
        && let Some(mut spare) = SPARE.try_lock()
        && spare.len() < MOST
    {
        spare.push(list);
    }
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
    fn a_list_of_a_huge_session_is_not_kept() {
        give_back(vec![1.0; LARGEST + 1]);
        assert!(SPARE.lock().iter().all(|list| list.capacity() <= LARGEST));
    }

    #[test]
    fn no_more_is_kept_than_a_few_searches_need() {
        for _ in 0..3 * MOST {
            give_back(vec![1.0; 3]);
        }
        assert!(SPARE.lock().len() <= MOST);
    }
}
