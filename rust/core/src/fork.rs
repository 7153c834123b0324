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
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The pause between two checks of a thread that waits.
const PAUSE: Duration = Duration::from_micros(200);

/// Who is at work, and who is about to fork.
struct Gate {
    /// The number of threads that are about to fork.
    forking: AtomicUsize,
    /// The number of threads that are at work.
    inside: AtomicUsize,
    /// Whether this process was forked while a store of its parent could not be closed in time.
    is_unclean: AtomicBool,
}

/// The gate of the process.
static GATE: Gate = Gate::new();

/// A permit to work. No fork happens while it lives, except after a wait of one second.
#[must_use]
pub struct Permit(&'static Gate);

impl Drop for Permit {
    fn drop(&mut self) {
        // Permits of the parent are never dropped in the child, because the threads that held them are not there.
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Gate {
    const fn new() -> Self {
        Self {
            forking: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            is_unclean: AtomicBool::new(false),
        }
    }

    fn enter_at_once(&'static self) -> Option<Permit> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let permit = Permit(self); // taken back by its drop
        (self.forking.load(Ordering::SeqCst) == 0).then_some(permit)
    }

    fn enter(&'static self) -> Permit {
        loop {
            if let Some(permit) = self.enter_at_once() {
                return permit;
            }
            while self.forking.load(Ordering::SeqCst) > 0 {
                thread::sleep(PAUSE);
            }
        }
    }

    fn before(&self, close: impl FnOnce(Instant) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        self.forking.fetch_add(1, Ordering::SeqCst);
        while self.inside.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
        self.is_unclean.store(!close(deadline), Ordering::SeqCst);
    }

    fn after_in_parent(&self) {
        self.is_unclean.store(false, Ordering::SeqCst);
        self.forking.fetch_sub(1, Ordering::SeqCst);
    }

    fn after_in_child(&self) {
        self.inside.store(0, Ordering::SeqCst);
        self.forking.store(0, Ordering::SeqCst);
    }

    fn is_unclean(&self) -> bool {
        self.is_unclean.load(Ordering::SeqCst)
    }
}

/// Waits for running forks. New forks wait until the permit is dropped.
pub fn enter() -> Permit {
    GATE.enter()
}

/// Waits until no thread is at work, and stops new work. Then `close` closes what must not be open
/// in a child, until the given deadline. It returns whether all of it is closed.
pub(crate) fn before(close: impl FnOnce(Instant) -> bool) {
    GATE.before(close);
}

/// Lets the waiting threads go on.
pub(crate) fn after_in_parent() {
    GATE.after_in_parent();
}

/// Resets the counters in a child, which has no other threads.
pub(crate) fn after_in_child() {
    GATE.after_in_child();
}

/// Whether this process was forked while a store of its parent could not be closed in time.
pub(crate) fn is_unclean() -> bool {
    GATE.is_unclean()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_waits_for_who_is_at_work_and_keeps_others_out() {
        static GATE: Gate = Gate::new(); // that of the process is for the other tests
        let permit = GATE.enter();
        let worker = thread::spawn(|| {
            GATE.before(|deadline| {
                assert!(
                    Instant::now() < deadline,
                    "it waited until the work was done"
                );
                assert_eq!(GATE.inside.load(Ordering::SeqCst), 0);
                true
            });
        });
        while GATE.forking.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        assert!(GATE.enter_at_once().is_none());
        drop(permit);
        worker.join().unwrap();
        let late = thread::spawn(|| drop(GATE.enter()));
        thread::sleep(Duration::from_millis(5));
        assert!(!late.is_finished());
        GATE.after_in_parent();
        late.join().unwrap();

        std::mem::forget(GATE.enter());
        GATE.before(|_| false); // the wait ends without success, and a child would know it
        GATE.after_in_child();
        assert!(GATE.is_unclean() && !is_unclean());
        drop(GATE.enter());
        assert!(GATE.enter_at_once().is_some());
    }
}
