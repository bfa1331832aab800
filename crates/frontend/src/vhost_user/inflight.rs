//! Requests in flight, in memory of the client: they survive a server that is killed.
//!
//! For each ring there is a header, and an entry for each descriptor (vhost-user, "Inflight I/O
//! tracking"). The next server finds out which requests nobody has answered, and executes them again. A
//! batch of answers is noted before the driver can see it, so that none of them is repeated.
use super::super::guest::memory::{GuestMemory, PAGE, RegionRequest};
use super::chain::RingError;
use super::ring::MAX_RING;
use super::wire::{InflightArea, InflightEntry, InflightHeader};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use zerocopy::{FromZeros, IntoBytes};
use zonal_nvme::controller::pcie::Dma;

const HEADER: u64 = size_of::<InflightHeader>() as u64;
const ENTRY: u64 = size_of::<InflightEntry>() as u64;
/// The layout that the header names.
const VERSION: u16 = 1;

/// Bytes of the requests of one ring.
fn ring_len(size: u16) -> u64 {
    (HEADER + ENTRY * u64::from(size)).next_multiple_of(64)
}

fn area_len(rings: u16, size: u16) -> u64 {
    (ring_len(size) * u64::from(rings)).next_multiple_of(PAGE)
}

/// New memory for the requests of this many rings of this size.
///
/// # Errors
/// `EINVAL` for a size that rings do not have; those of memfd.
pub fn create(rings: u16, size: u16) -> Result<(OwnedFd, InflightArea), Errno> {
    if size == 0 || size > MAX_RING {
        return Err(Errno::INVAL);
    }
    let len = area_len(rings, size);
    let file = memfd_create("vhost-user-inflight", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, len)?;
    let queues = rings.into();
    let area = InflightArea { size: len.into(), offset: 0.into(), queues, queue_size: size.into() };
    Ok((file, area))
}

/// The memory of a client.
#[derive(Clone, Debug)]
pub struct InflightMemory {
    memory: Arc<GuestMemory>,
    size: u16,
}

impl InflightMemory {
    /// Memory that the client has sent.
    ///
    /// # Errors
    /// `EINVAL`: it is too small for the rings; those of mmap.
    pub fn new(area: &InflightArea, rings: u16, file: OwnedFd) -> Result<Self, Errno> {
        let size = area.queue_size.get();
        if size == 0
            || size > MAX_RING
            || area.queues.get() < rings
            || area.size.get() < ring_len(size) * u64::from(rings)
        {
            return Err(Errno::INVAL);
        }
        let mut memory = GuestMemory::default();
        let request = RegionRequest {
            address: 0,
            size: area.size.get(),
            offset: area.offset.get(),
            readable: true,
            writable: true,
        };
        memory.map(&request, Some(file))?;
        Ok(InflightMemory { memory: Arc::new(memory), size })
    }

    /// Whether the client has taken it away.
    pub fn is_lost(&self) -> bool {
        self.memory.is_lost()
    }

    /// The requests of a ring. `None` if the ring has more than there is room for.
    pub fn ring(&self, index: u16, size: u16) -> Option<Inflight> {
        let start = ring_len(self.size) * u64::from(index);
        (size <= self.size).then(|| Inflight {
            memory: Arc::clone(&self.memory),
            start,
            size,
            counter: 0,
            batch: Vec::new(),
        })
    }
}

/// Requests in flight of one ring.
#[derive(Debug)]
pub struct Inflight {
    memory: Arc<GuestMemory>,
    start: u64,
    size: u16,
    /// Orders the requests.
    counter: u64,
    /// Heads that were pushed, and that the driver cannot see.
    batch: Vec<u16>,
}

impl Inflight {
    fn header(&self) -> Result<InflightHeader, RingError> {
        let mut header = InflightHeader::new_zeroed();
        self.memory.read(self.start, header.as_mut_bytes())?;
        Ok(header)
    }

    fn at(&self, head: u16) -> u64 {
        self.start + HEADER + ENTRY * u64::from(head)
    }

    fn entry(&self, head: u16) -> Result<InflightEntry, RingError> {
        let mut entry = InflightEntry::new_zeroed();
        self.memory.read(self.at(head), entry.as_mut_bytes())?;
        Ok(entry)
    }

    fn set_entry(&self, head: u16, entry: InflightEntry) -> Result<(), RingError> {
        Ok(self.memory.write(self.at(head), entry.as_bytes())?)
    }

    /// Heads that a server before this one has not answered, in the order in which they came; the used
    /// index of the ring is `used`.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn resume(&mut self, used: u16) -> Result<Vec<u16>, RingError> {
        let header = self.header()?;
        if header.version.get() != VERSION || header.entries.get() != self.size {
            self.clear(used)?;
            return Ok(Vec::new());
        }
        // A server was killed after the driver saw its last batch, and before it was noted.
        let mut head = header.last_batch_head.get();
        let seen = used.wrapping_sub(header.used_idx.get());
        for _ in 0..seen.min(self.size) {
            if head >= self.size {
                break;
            }
            let entry = self.entry(head)?;
            self.set_entry(head, InflightEntry { in_flight: 0, ..entry })?;
            head = entry.next.get();
        }
        self.set_used(used)?;
        let mut heads = Vec::new();
        for head in 0..self.size {
            let entry = self.entry(head)?;
            if entry.in_flight != 0 {
                heads.push((entry.counter.get(), head));
            }
        }
        heads.sort_unstable();
        self.counter = heads.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        Ok(heads.into_iter().map(|(_, head)| head).collect())
    }

    fn clear(&self, used: u16) -> Result<(), RingError> {
        for head in 0..self.size {
            self.set_entry(head, InflightEntry::new_zeroed())?;
        }
        let header = InflightHeader {
            version: VERSION.into(),
            entries: self.size.into(),
            used_idx: used.into(),
            ..InflightHeader::new_zeroed()
        };
        Ok(self.memory.write(self.start, header.as_bytes())?)
    }

    fn set_used(&self, used: u16) -> Result<(), RingError> {
        Ok(self.memory.store16(self.start + 14, used)?)
    }

    /// A request was taken.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn take(&mut self, head: u16) -> Result<(), RingError> {
        if head >= self.size {
            return Ok(());
        }
        let counter = self.counter.into();
        self.counter = self.counter.wrapping_add(1);
        self.set_entry(head, InflightEntry { in_flight: 1, counter, ..InflightEntry::new_zeroed() })
    }

    /// An answer was pushed, which the driver cannot see yet.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn push(&mut self, head: u16) -> Result<(), RingError> {
        if head >= self.size {
            return Ok(());
        }
        let next = self.header()?.last_batch_head;
        self.set_entry(head, InflightEntry { next, ..self.entry(head)? })?;
        self.memory.store16(self.start + 12, head)?;
        self.batch.push(head);
        Ok(())
    }

    /// The driver sees what was pushed.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn published(&mut self, used: u16) -> Result<(), RingError> {
        fence(Ordering::SeqCst);
        for head in std::mem::take(&mut self.batch) {
            self.set_entry(head, InflightEntry { in_flight: 0, ..self.entry(head)? })?;
        }
        fence(Ordering::SeqCst);
        self.set_used(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(file: &OwnedFd, area: &InflightArea) -> Inflight {
        let file = file.try_clone().expect("a descriptor");
        let memory = InflightMemory::new(area, 2, file).expect("memory");
        memory.ring(1, 8).expect("room")
    }

    #[test]
    fn next_server_repeats_what_was_not_answered_in_its_order() {
        let (file, area) = create(2, 8).expect("memory");
        let mut first = served(&file, &area);
        assert_eq!(first.resume(65535), Ok(Vec::new()));
        for head in [5, 2, 7, 1] {
            first.take(head).expect("memory");
        }
        first.push(2).expect("memory");
        first.published(0).expect("memory");
        drop(first);
        assert_eq!(served(&file, &area).resume(0), Ok(vec![5, 7, 1]));
    }

    #[test]
    fn batch_that_the_driver_saw_is_not_repeated_and_one_that_it_did_not_see_is() {
        let (file, area) = create(2, 8).expect("memory");
        let mut first = served(&file, &area);
        first.resume(0).expect("memory");
        for head in 0..6 {
            first.take(head).expect("memory");
        }
        for head in [3, 1, 4] {
            first.push(head).expect("memory");
        }
        // Killed here, after the driver saw all three.
        drop(first);
        let mut second = served(&file, &area);
        assert_eq!(second.resume(3), Ok(vec![0, 2, 5]));
        second.push(2).expect("memory");
        // Killed here, before.
        drop(second);
        assert_eq!(served(&file, &area).resume(3), Ok(vec![0, 2, 5]));
    }

    #[test]
    fn memory_that_is_too_small_is_refused() {
        let (file, area) = create(2, 8).expect("memory");
        let new = |area: &InflightArea| {
            InflightMemory::new(area, 2, file.try_clone().expect("a descriptor")).err()
        };
        assert_eq!(new(&area), None);
        for bad in [
            InflightArea { queues: 1.into(), ..area },
            InflightArea { queue_size: 1024.into(), ..area },
            InflightArea { queue_size: 0.into(), ..area },
            InflightArea { size: 8192.into(), ..area },
            InflightArea { offset: u64::MAX.into(), ..area },
        ] {
            assert_eq!(new(&bad), Some(Errno::INVAL), "{bad:?}");
        }
        assert!(create(2, 0).is_err() && create(2, 1025).is_err());
    }
}
