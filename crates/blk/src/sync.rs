//! The synchronisation primitives, so that those of loom and shuttle can take their place.
#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
};

/// Keeps a sequentially consistent store before the sequentially consistent load that follows it.
/// The two say so themselves; only loom, to which they are no more than acquire and release, has to
/// be told by a fence.
#[inline]
pub(crate) fn store_before_load() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}
