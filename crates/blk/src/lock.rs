//! The lock of a zone: held for a few dozen instructions, taken several times for each I/O. Models of
//! drives use it, too, for a few hundred.
//!
//! A mutex of the standard library costs two atomic read-modify-writes each time; a spin lock is
//! unlocked with a plain store, which is half. It is held so briefly that threads hardly ever wait;
//! one that does yields after a moment, in case the holder was preempted.
#[cfg(any(loom, shuttle))]
use crate::sync::{Mutex as Inner, MutexGuard as Guard};
#[cfg(not(any(loom, shuttle)))]
use std::cell::Cell;

#[cfg(not(any(loom, shuttle)))]
type Inner<T> = spin::mutex::SpinMutex<T, SpinThenYield>;
#[cfg(not(any(loom, shuttle)))]
type Guard<'a, T> = spin::mutex::SpinMutexGuard<'a, T, SpinThenYield>;

/// A mutual exclusion lock for very short sections.
#[derive(Debug)]
pub struct SpinLock<T>(Inner<T>);

/// Access to what a [`SpinLock`] protects, until it is dropped.
pub type SpinLockGuard<'a, T> = Guard<'a, T>;

impl<T> SpinLock<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        SpinLock(Inner::new(value))
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> SpinLockGuard<'_, T> {
        #[cfg(not(any(loom, shuttle)))]
        return self.0.lock();
        #[cfg(any(loom, shuttle))]
        return self.0.lock().expect("no thread panics while it holds a short lock");
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<SpinLockGuard<'_, T>> {
        #[cfg(not(any(loom, shuttle)))]
        return self.0.try_lock();
        #[cfg(any(loom, shuttle))]
        return self.0.try_lock().ok();
    }
}

/// How to wait: a few turns on the spot, then let others go first.
#[cfg(not(any(loom, shuttle)))]
#[derive(Debug)]
pub struct SpinThenYield;

/// Looks at the lock between two occasions to let others go first: about a microsecond, many times
/// as long as the lock is held.
#[cfg(not(any(loom, shuttle)))]
const SPINS_BEFORE_YIELD: u32 = 32;

#[cfg(not(any(loom, shuttle)))]
impl spin::RelaxStrategy for SpinThenYield {
    fn relax() {
        thread_local!(static LEFT: Cell<u32> = const { Cell::new(SPINS_BEFORE_YIELD) });
        let left = LEFT.get();
        if left == 0 {
            LEFT.set(SPINS_BEFORE_YIELD);
            std::thread::yield_now();
        } else {
            LEFT.set(left - 1);
            std::hint::spin_loop();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn increments_of_many_threads_are_all_counted() {
        let times = if cfg!(miri) { 100 } else { 10_000 };
        let counter = SpinLock::new(0_u32);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..times).for_each(|_| *counter.lock() += 1));
            }
        });
        assert_eq!(*counter.lock(), 4 * times);
    }
}
