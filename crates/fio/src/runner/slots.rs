//! The slots of a clone's I/Os in flight.
use crate::job::DataDir;
use zonal_blk::{Nanos, Op};

/// No zone of a generator: zones are fewer.
pub(super) const NO_ZONE: u32 = u32::MAX;

/// The role of an I/O in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoRole {
    /// An I/O of the job.
    Plain,
    /// The same in a job with logs or limits, or with I/Os that wait for others.
    Watched,
    /// A zone reset or finish, or a flush, that is not accounted.
    ZoneMgmt,
    /// A flush of `fsync`, accounted as such.
    Flush,
    /// A write of the job that will be verified.
    Write,
    /// The trim of a write that will be verified.
    Trim,
    /// A read that is verified.
    Verify,
}

/// An I/O in flight.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// When its preparation began.
    pub start: Nanos,
    /// When it had been submitted, by its share of the time of its batch.
    pub issued: Nanos,
    pub len: u64,
    /// The zone of [`Io::zone`](crate::generate::Io::zone), or [`NO_ZONE`].
    pub zone: u32,
    pub op: Op,
    pub dir: DataDir,
    pub role: IoRole,
}

impl Slot {
    const UNUSED: Self = Slot {
        start: Nanos(0),
        issued: Nanos(0),
        len: 0,
        zone: NO_ZONE,
        op: Op::Flush,
        dir: DataDir::Read,
        role: IoRole::ZoneMgmt,
    };
}

/// A fixed number of slots. The one that was freed last is used next, as it is in the caches.
pub(super) struct Slots {
    slots: Box<[Slot]>,
    /// The slots in use, in the order in which they were taken until one is freed, then the free ones.
    order: Box<[u32]>,
    in_use: u32,
}

impl Slots {
    /// This many slots, all of them free.
    pub(super) fn new(count: u32) -> Self {
        let slots = vec![Slot::UNUSED; count as usize].into();
        Slots { slots, order: (0..count).collect(), in_use: 0 }
    }

    /// Slots in use.
    #[inline(always)]
    pub(super) fn in_use(&self) -> u32 {
        self.in_use
    }

    /// The next free slot, which [`Slots::take`] takes.
    ///
    /// # Panics
    /// If there is none.
    #[inline(always)]
    pub(super) fn next_free(&self) -> u32 {
        self.order[self.in_use as usize]
    }

    /// Takes the next free slot for an I/O.
    ///
    /// # Panics
    /// If there is none.
    #[inline(always)]
    pub(super) fn take(&mut self, io: Slot) {
        let slot = self.next_free();
        self.in_use += 1;
        self.slots[slot as usize] = io;
    }

    /// Frees a slot.
    ///
    /// # Panics
    /// If none is in use.
    #[inline(always)]
    pub(super) fn free(&mut self, slot: u32) {
        self.in_use -= 1;
        self.order[self.in_use as usize] = slot;
    }

    /// The I/O in a slot, or the last one that was in it.
    #[inline(always)]
    pub(super) fn get(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    /// Sets when the I/Os that were submitted last, since which no slot was freed, had been submitted.
    #[inline]
    pub(super) fn set_issued(&mut self, count: u32, issued: Nanos) {
        for &slot in &self.order[(self.in_use - count) as usize..self.in_use as usize] {
            self.slots[slot as usize].issued = issued;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_that_was_freed_last_is_taken_next() {
        let mut slots = Slots::new(4);
        let take = |slots: &mut Slots| {
            let slot = slots.next_free();
            slots.take(Slot::UNUSED);
            slot
        };
        assert_eq!([(); 3].map(|()| take(&mut slots)), [0, 1, 2]);
        slots.free(0);
        slots.free(2);
        assert_eq!(slots.in_use(), 1);
        assert_eq!([(); 3].map(|()| take(&mut slots)), [2, 0, 3]);
        assert_eq!(slots.in_use(), 4);
    }

    #[test]
    fn the_time_of_a_batch_is_that_of_its_ios_alone() {
        let mut slots = Slots::new(3);
        (0..3).for_each(|_| slots.take(Slot::UNUSED));
        slots.free(1);
        slots.take(Slot::UNUSED);
        slots.set_issued(1, Nanos(5));
        assert_eq!([0, 1, 2].map(|slot| slots.get(slot).issued.0), [0, 5, 0]);
    }
}
