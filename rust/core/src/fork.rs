//! A process may fork while threads of it are at work here. Who is about to fork waits until they are done, and
//! those who come meanwhile wait until it has forked.
//!
//! A child has the memory of its parent and none of its other threads: a lock that one of them held stays locked
//! for ever, and SQLite believes that the process has the file locks that its parent has. So nobody may be in here
//! when a process forks, and every connection to a file must be closed.
//!
//! Who waits for a fork sleeps and looks again: a lock that threads are parked at would be found by the child.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a fork waits for work that is under way.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// How long who waits sleeps before it looks again.
const PAUSE: Duration = Duration::from_micros(200);

/// How many threads are about to fork.
static FORKING: AtomicUsize = AtomicUsize::new(0);

/// How many are at work.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// Whether this process was forked while a store of its parent could not be closed.
static IS_UNCLEAN: AtomicBool = AtomicBool::new(false);

/// Held by who is at work. Nobody forks meanwhile, unless it waited for [`PATIENCE`].
#[must_use]
pub struct Permit(());

/// Waits for forks that are under way, and then keeps others waiting until the answer is dropped.
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
        // A permit of the parent is never dropped in the child: the thread that held it is not there.
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until nobody is at work, and keeps everybody from beginning; then `close` may close what must not be open
/// in a child, by the time it is given. It says whether all of it is closed.
pub(crate) fn before(close: impl FnOnce(Instant) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    FORKING.fetch_add(1, Ordering::SeqCst);
    while INSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
        thread::sleep(PAUSE);
    }
    IS_UNCLEAN.store(!close(deadline), Ordering::SeqCst);
}

/// Lets those go on who waited.
pub(crate) fn after_in_parent() {
    IS_UNCLEAN.store(false, Ordering::SeqCst);
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

/// Begins anew in a child, where nobody else is.
pub(crate) fn after_in_child() {
    INSIDE.store(0, Ordering::SeqCst);
    FORKING.store(0, Ordering::SeqCst);
}

/// Whether this process was forked while a store was at work that could not be closed in time.
pub(crate) fn is_unclean() -> bool {
    IS_UNCLEAN.load(Ordering::SeqCst)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since what it is about is the whole process.
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
        before(|_| false); // it gives up waiting, and a child would know
        after_in_child();
        assert!(is_unclean());
        drop(enter());
        IS_UNCLEAN.store(false, Ordering::SeqCst);
    }
}
