//! A split virtqueue in guest memory (VIRTIO 1.3 section 2.7), of which nothing is believed.
//!
//! The driver adds heads of chains to the available ring, and the device adds them to the used ring when
//! their requests are done. Either side says from when on it wants to be woken: by a flag, or with
//! `VIRTIO_F_EVENT_IDX` by an index.
use super::super::guest::memory::GuestMemory;
use super::chain::{Chain, RingError};
use super::wire::{NO_INTERRUPT, NO_NOTIFY, UsedElement, feature};
use std::sync::atomic::{Ordering, fence};
use zerocopy::IntoBytes;
use zonal_nvme::controller::pcie::Dma;

/// Entries of a ring.
pub const MAX_RING: u16 = 1024;

/// Where the parts of a ring are, as guest addresses.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// A power of two, up to [`MAX_RING`].
    pub size: u16,
    pub desc: u64,
    pub avail: u64,
    pub used: u64,
}

impl Layout {
    /// Whether a ring can be there: the parts are aligned, and no address wraps.
    pub fn is_sound(&self) -> bool {
        let Layout { size, desc, avail, used } = *self;
        let aligned = desc.is_multiple_of(16) && avail.is_multiple_of(2) && used.is_multiple_of(4);
        let ends = [desc, avail, used].map(|start| start.checked_add(u64::from(MAX_RING) * 16 + 8));
        size.is_power_of_two() && size <= MAX_RING && aligned && ends.iter().all(Option::is_some)
    }

    fn avail_flags(&self) -> u64 {
        self.avail
    }

    fn avail_idx(&self) -> u64 {
        self.avail + 2
    }

    fn avail_entry(&self, index: u16) -> u64 {
        self.avail + 4 + 2 * u64::from(index % self.size)
    }

    /// The used index from which on the driver wants an interrupt.
    fn used_event(&self) -> u64 {
        self.avail + 4 + 2 * u64::from(self.size)
    }

    fn used_flags(&self) -> u64 {
        self.used
    }

    fn used_idx(&self) -> u64 {
        self.used + 2
    }

    fn used_entry(&self, index: u16) -> u64 {
        self.used + 4 + 8 * u64::from(index % self.size)
    }

    /// The available index from which on the device wants a kick.
    fn avail_event(&self) -> u64 {
        self.used + 4 + 8 * u64::from(self.size)
    }
}

/// A ring that is served.
#[derive(Debug)]
pub struct Ring {
    layout: Layout,
    event_idx: bool,
    indirect: bool,
    next_avail: u16,
    next_used: u16,
    /// The used index that the driver can see.
    published: u16,
}

impl Ring {
    /// Goes on with a ring whose next chain is at `next_avail`, with these features.
    ///
    /// # Errors
    /// Its memory cannot be accessed.
    pub fn new(
        memory: &GuestMemory,
        layout: Layout,
        next_avail: u16,
        features: u64,
    ) -> Result<Self, RingError> {
        let next_used = memory.load16(layout.used_idx())?;
        let mut ring = Ring {
            layout,
            event_idx: features & feature::EVENT_IDX != 0,
            indirect: features & feature::INDIRECT_DESC != 0,
            next_avail,
            next_used,
            published: next_used,
        };
        ring.suppress_kicks(memory)?;
        Ok(ring)
    }

    /// The index of the next chain.
    pub fn next_avail(&self) -> u16 {
        self.next_avail
    }

    /// The used index that the driver can see.
    pub fn published(&self) -> u16 {
        self.published
    }

    /// Passes over the chains that are in flight, which the client has not counted.
    pub fn resume(&mut self, in_flight: u16) {
        self.next_avail = self.next_used.wrapping_add(in_flight);
    }

    /// The number of chains, after a check that there can be as many.
    fn available(&self, memory: &GuestMemory) -> Result<u16, RingError> {
        let avail = memory.load16(self.layout.avail_idx())?;
        let in_flight = avail.wrapping_sub(self.next_used);
        if in_flight > self.layout.size {
            let size = self.layout.size;
            return Err(RingError::TooManyRequests { found: in_flight, size });
        }
        let count = avail.wrapping_sub(self.next_avail);
        // A base ahead of the driver: nothing is there yet.
        Ok(if count > self.layout.size { 0 } else { count })
    }

    /// The head of the next chain.
    ///
    /// # Errors
    /// The ring is broken.
    pub fn pop(&mut self, memory: &GuestMemory) -> Result<Option<u16>, RingError> {
        if self.available(memory)? == 0 {
            return Ok(None);
        }
        let head = memory.load16(self.layout.avail_entry(self.next_avail))?;
        self.next_avail = self.next_avail.wrapping_add(1);
        Ok(Some(head))
    }

    /// The chain that begins with descriptor `head`.
    ///
    /// # Errors
    /// The ring is broken.
    pub fn chain(&self, memory: &GuestMemory, head: u16) -> Result<Chain, RingError> {
        Chain::read(memory, self.layout.desc, self.layout.size, head, self.indirect)
    }

    /// Adds a chain to the used ring: `len` bytes of it were written, from its first writable one on.
    ///
    /// # Errors
    /// The ring is broken.
    pub fn push(&mut self, memory: &GuestMemory, head: u16, len: u32) -> Result<(), RingError> {
        let element = UsedElement { id: u32::from(head).into(), len: len.into() };
        memory.write(self.layout.used_entry(self.next_used), element.as_bytes())?;
        self.next_used = self.next_used.wrapping_add(1);
        Ok(())
    }

    /// Whether chains were pushed that the driver cannot see.
    pub fn has_unpublished(&self) -> bool {
        self.next_used != self.published
    }

    /// Shows the driver what was pushed. Returns whether it wants an interrupt.
    ///
    /// # Errors
    /// The ring is broken.
    pub fn publish(&mut self, memory: &GuestMemory) -> Result<bool, RingError> {
        let before = self.published;
        memory.store16(self.layout.used_idx(), self.next_used)?;
        self.published = self.next_used;
        // The driver writes what it wants, then reads the index again.
        fence(Ordering::SeqCst);
        if self.event_idx {
            let event = memory.load16(self.layout.used_event())?;
            // Whether the index has passed the event.
            let past = self.published.wrapping_sub(event).wrapping_sub(1);
            return Ok(past < self.published.wrapping_sub(before));
        }
        Ok(memory.load16(self.layout.avail_flags())? & NO_INTERRUPT == 0)
    }

    /// The driver need not kick: the ring is polled.
    ///
    /// # Errors
    /// The ring is broken.
    pub fn suppress_kicks(&mut self, memory: &GuestMemory) -> Result<(), RingError> {
        // With event indices one that has passed is enough.
        if !self.event_idx {
            memory.store16(self.layout.used_flags(), NO_NOTIFY)?;
        }
        Ok(())
    }

    /// The driver is to kick for the next chain. Returns false if there is one already.
    ///
    /// # Errors
    /// The ring is broken.
    pub fn want_kick(&mut self, memory: &GuestMemory) -> Result<bool, RingError> {
        if self.event_idx {
            memory.store16(self.layout.avail_event(), self.next_avail)?;
        } else {
            memory.store16(self.layout.used_flags(), 0)?;
        }
        // The driver writes its index, then reads what the device wants.
        fence(Ordering::SeqCst);
        Ok(self.available(memory)? == 0)
    }
}
