//! Memory that searches are done with, for those that follow.
//!
//! A search of a large session fills a few lists of a number an entry. Asked for and given back each time, the
//! system may take them away and map them anew, which costs several times what the search does.

use parking_lot::Mutex;

/// Lists that are kept, for all searches of the process: those of two at once.
const MOST: usize = 6;
/// Numbers that a list which is kept has room for, at most: 2 MB. Those of larger sessions are few, and slow.
const LARGEST: usize = 1 << 18;

static SPARE: Mutex<Vec<Vec<f64>>> = Mutex::new(Vec::new());

/// An empty list, with room from before where there is some. Nobody waits for it: in a child of `fork` who holds
/// the lock may be gone.
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
