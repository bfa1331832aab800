//! Queues in guest memory: where the next entry is, and whose turn it is.
use super::{Dma, DmaError};
use crate::wire::{Cqe, Sqe};
use std::collections::VecDeque;
use zerocopy::{FromBytes, IntoBytes};

/// A submission queue: the host moves the tail, the controller the head.
#[derive(Debug)]
pub(super) struct SqRing {
    base: u64,
    entries: u16,
    pub head: u16,
}

impl SqRing {
    /// A queue of `entries` at `base`.
    pub fn new(base: u64, entries: u16) -> Self {
        SqRing { base, entries, head: 0 }
    }

    /// Entries that the queue has.
    pub fn entries(&self) -> u16 {
        self.entries
    }

    /// Fetches up to `most` commands before `tail`, which must be less than the queue's entries.
    ///
    /// # Errors
    /// The queue is not in guest memory.
    pub fn fetch(
        &mut self,
        dma: &impl Dma,
        tail: u16,
        most: usize,
        to: &mut Vec<Sqe>,
    ) -> Result<(), DmaError> {
        to.clear();
        while self.head != tail && to.len() < most {
            let end = if tail > self.head { tail } else { self.entries };
            let count = usize::from(end - self.head).min(most - to.len());
            let before = to.len();
            to.resize(before + count, Sqe::zeroed());
            let address = self.base.wrapping_add(u64::from(self.head) * Sqe::SIZE as u64);
            dma.read(address, to[before..].as_mut_bytes())?;
            let count = u16::try_from(count).expect("no more than the queue has");
            self.head = (self.head + count) % self.entries;
        }
        Ok(())
    }
}

/// A completion queue: the controller moves the tail, the host the head. Completions for which there
/// is no room wait.
#[derive(Debug)]
pub(super) struct CqRing {
    base: u64,
    entries: u16,
    tail: u16,
    /// The phase tag of the entries of this round.
    phase: u16,
    backlog: VecDeque<Cqe>,
}

impl CqRing {
    /// A queue of `entries` at `base`.
    pub fn new(base: u64, entries: u16) -> Self {
        CqRing { base, entries, tail: 0, phase: 1, backlog: VecDeque::new() }
    }

    /// Entries that the queue has.
    pub fn entries(&self) -> u16 {
        self.entries
    }

    /// Queues a completion.
    pub fn push(&mut self, cqe: Cqe) {
        self.backlog.push_back(cqe);
    }

    /// Whether completions wait for room.
    pub fn is_full(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Writes what there is room for. `head` must be less than the queue's entries. Returns whether
    /// anything was written.
    ///
    /// # Errors
    /// The queue is not in guest memory.
    pub fn post(&mut self, dma: &impl Dma, head: u16) -> Result<bool, DmaError> {
        let mut posted = false;
        while let Some(&cqe) = self.backlog.front() {
            let next = (self.tail + 1) % self.entries;
            if next == head {
                break;
            }
            let cqe = Cqe { status: (cqe.status.get() & !1 | self.phase).into(), ..cqe };
            let address = self.base.wrapping_add(u64::from(self.tail) * Cqe::SIZE as u64);
            let bytes = cqe.as_bytes();
            // The dword with the phase tag at last: it makes the entry valid.
            let last = u32::read_from_bytes(&bytes[12..]).expect("a dword");
            dma.write(address, &bytes[..12])?;
            dma.store(address.wrapping_add(12), u32::from_le(last))?;
            self.backlog.pop_front();
            self.tail = next;
            if next == 0 {
                self.phase ^= 1;
            }
            posted = true;
        }
        Ok(posted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NvmeStatus;
    use std::sync::Mutex;

    struct Memory(Mutex<Vec<u8>>);

    impl Memory {
        fn with<T>(
            &self,
            address: u64,
            len: usize,
            access: impl FnOnce(&mut [u8]) -> T,
        ) -> Result<T, DmaError> {
            let start = usize::try_from(address).expect("a small address");
            let mut bytes = self.0.lock().expect("lock");
            let found = bytes.get_mut(start..start + len).ok_or(DmaError { address })?;
            Ok(access(found))
        }
    }

    impl Dma for Memory {
        fn read(&self, address: u64, to: &mut [u8]) -> Result<(), DmaError> {
            self.with(address, to.len(), |found| to.copy_from_slice(found))
        }
        fn write(&self, address: u64, from: &[u8]) -> Result<(), DmaError> {
            self.with(address, from.len(), |found| found.copy_from_slice(from))
        }
        fn load(&self, address: u64) -> Result<u32, DmaError> {
            self.with(address, 4, |found| u32::read_from_bytes(found).expect("four"))
        }
        fn store(&self, address: u64, value: u32) -> Result<(), DmaError> {
            self.write(address, &value.to_le_bytes())
        }
    }

    #[test]
    fn completions_wait_for_room_and_change_phase_with_each_round() {
        let memory = Memory(Mutex::new(vec![0; 64]));
        let mut ring = CqRing::new(16, 3);
        let phase = |slot: usize| memory.0.lock().expect("lock")[16 + slot * 16 + 14] & 1;
        (0..3).for_each(|cid| ring.push(Cqe::new(cid, NvmeStatus::SUCCESS)));
        assert_eq!(ring.post(&memory, 0), Ok(true));
        assert_eq!((phase(0), phase(1), phase(2), ring.is_full()), (1, 1, 0, true));
        assert_eq!(ring.post(&memory, 0), Ok(false), "it is full");
        assert_eq!(ring.post(&memory, 1), Ok(true));
        assert_eq!((phase(2), ring.is_full()), (1, false));
        ring.push(Cqe::new(3, NvmeStatus::SUCCESS));
        assert_eq!(ring.post(&memory, 2), Ok(true));
        assert_eq!(phase(0), 0, "the second round");
        let mut outside = CqRing::new(56, 3);
        outside.push(Cqe::new(0, NvmeStatus::SUCCESS));
        assert!(outside.post(&memory, 0).is_err());
    }

    #[test]
    fn commands_are_fetched_in_order_round_the_end() {
        let memory = Memory(Mutex::new(vec![0; 4 * 64]));
        for slot in 0..4 {
            memory.write(slot * 64 + 2, &[u8::try_from(slot).expect("small")]).expect("memory");
        }
        let (mut ring, mut fetched) = (SqRing::new(0, 4), Vec::new());
        let mut cids = |ring: &mut SqRing, tail, most| {
            ring.fetch(&memory, tail, most, &mut fetched).expect("memory");
            fetched.iter().map(|sqe| sqe.cid.get()).collect::<Vec<_>>()
        };
        assert_eq!(cids(&mut ring, 3, 2), [0, 1]);
        assert_eq!(cids(&mut ring, 1, 9), [2, 3, 0]);
        assert_eq!((cids(&mut ring, 1, 9), ring.head), (vec![], 1));
    }
}
