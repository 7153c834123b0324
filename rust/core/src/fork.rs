//! Makes forks safe while other threads are at work here. A thread that is about to fork waits until the work is done,
//! and new work waits until the fork is done.
//!
//! A child has the memory of its parent, but none of its other threads. A lock that another thread held stays locked
//! for ever. SQLite believes in the child that the process has the file locks of the parent. So no thread may be at
//! work here during a fork, and every connection to a file must be closed.
//!
//! Threads that wait for a fork sleep and check again. They must not park at a lock, because the child would inherit
//! the lock with its waiters.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time that a fork waits for running work.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// The pause between two checks of a thread that waits.
const PAUSE: Duration = Duration::from_micros(200);

/// The number of threads that are about to fork.
static FORKING: AtomicUsize = AtomicUsize::new(0);

/// The number of threads that are at work.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// Whether this process was forked while a store of its parent could not be closed in time.
static IS_UNCLEAN: AtomicBool = AtomicBool::new(false);

/// A permit to work. No fork happens while it lives, except after a wait of [`PATIENCE`].
#[must_use]
pub struct Permit(());

/// Waits for running forks. New forks wait until the permit is dropped.
pub fn enter() -> Permit {
    loop {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        if FORKING.load(Ordering::SeqCst) == 0 {
            return Permit(());
        }
        INSIDE.fetch_sub(1, Ordering::SeqCst);
        while FORKING.load(Ordering::SeqCst) > 0 {
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Permits of the parent are never dropped in the child, because the threads that held them are not there.
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until no thread is at work, and stops new work. Then `close` closes what must not be open
/// in a child, until the given deadline. It returns whether all of it is closed.
pub(crate) fn before(close: impl FnOnce(Instant) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    FORKING.fetch_add(1, Ordering::SeqCst);
    while INSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
        thread::sleep(PAUSE);
    }
    IS_UNCLEAN.store(!close(deadline), Ordering::SeqCst);
}

/// Lets the waiting threads go on.
pub(crate) fn after_in_parent() {
    IS_UNCLEAN.store(false, Ordering::SeqCst);
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

/// Resets the counters in a child, which has no other threads.
pub(crate) fn after_in_child() {
    INSIDE.store(0, Ordering::SeqCst);
    FORKING.store(0, Ordering::SeqCst);
}

/// Whether this process was forked while a store of its parent could not be closed in time.
pub(crate) fn is_unclean() -> bool {
    IS_UNCLEAN.load(Ordering::SeqCst)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test for all, because the state belongs to the whole process.
    #[test]
    fn a_fork_waits_for_who_is_at_work_and_keeps_others_out() {
        let permit = enter();
        let worker = thread::spawn(|| {
            before(|deadline| {
                assert!(
                    Instant::now() < deadline,
                    "it waited until the work was done"
                );
                assert_eq!(INSIDE.load(Ordering::SeqCst), 0);
                true
            });
        });
        while FORKING.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        drop(permit);
        worker.join().unwrap();
        let late = thread::spawn(|| drop(enter()));
        thread::sleep(Duration::from_millis(5));
        assert!(!late.is_finished());
        after_in_parent();
        late.join().unwrap();

        std::mem::forget(enter());
        before(|_| false); // the wait ends without success, and a child would know it
        after_in_child();
        assert!(is_unclean());
        drop(enter());
        IS_UNCLEAN.store(false, Ordering::SeqCst);
    }
}
