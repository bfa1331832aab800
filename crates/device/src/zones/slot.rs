//! The state of one zone, in one cache line.
use std::sync::atomic::{AtomicU8, Ordering};
use zonal_blk::ZoneCondition;
use zonal_blk::lock::{SpinLock, SpinLockGuard};

/// A zone's condition and write pointer. Aligned so that threads that write neighbouring zones do
/// not share a cache line.
#[repr(align(64))]
pub(super) struct Slot {
    /// Guarded by the lock below, with one exception that the module doc of `zones` explains.
    pub(super) cond: Condition,
    /// Where the next write must begin, in sectors from the zone's start.
    wp: SpinLock<u64>,
    /// Written to fetch the line, never read.
    touched: AtomicU8,
}

const _: () = assert!(size_of::<Slot>() == 64, "a zone costs one cache line");

impl Slot {
    pub(super) fn new(cond: ZoneCondition) -> Self {
        Slot {
            cond: Condition(AtomicU8::new(cond as u8)),
            wp: SpinLock::new(0),
            touched: AtomicU8::new(0),
        }
    }

    /// Fetches the zone's cache line for writing, without waiting for it: the processor goes on
    /// while a store is on its way, which it does not while it takes a lock.
    #[inline]
    pub(super) fn prefetch(&self) {
        self.touched.store(1, Ordering::Relaxed);
    }

    /// Locks the zone; gives its write pointer.
    #[inline]
    pub(super) fn lock(&self) -> SpinLockGuard<'_, u64> {
        self.wp.lock()
    }
}

/// A zone's condition, readable without its lock.
///
/// Accesses are relaxed: the condition publishes no other data, and who must see a change is
/// ordered behind it by a lock, or by the channel that told it of a completion.
pub(super) struct Condition(AtomicU8);

const IMPLICIT_OPEN: u8 = ZoneCondition::ImplicitOpen as u8;
const EXPLICIT_OPEN: u8 = ZoneCondition::ExplicitOpen as u8;

/// The conditions by their codes, which have four bits; unused codes are never stored.
const BY_CODE: [ZoneCondition; 16] = {
    use ZoneCondition::*;
    let mut table = [NotWritePointer; 16];
    let written = [Empty, ImplicitOpen, ExplicitOpen, Closed, ReadOnly, Full, Offline];
    let mut i = 0;
    while i < written.len() {
        table[written[i] as usize] = written[i];
        i += 1;
    }
    table
};

impl Condition {
    /// Whether the zone is open: the question of every write, answered without decoding.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        matches!(self.0.load(Ordering::Relaxed), IMPLICIT_OPEN | EXPLICIT_OPEN)
    }

    #[inline]
    pub(super) fn get(&self) -> ZoneCondition {
        BY_CODE[usize::from(self.0.load(Ordering::Relaxed) & 0xf)]
    }

    pub(super) fn set(&self, cond: ZoneCondition) {
        self.0.store(cond as u8, Ordering::Relaxed);
    }
}
