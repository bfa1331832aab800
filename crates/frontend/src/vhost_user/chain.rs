//! Descriptor chains: what a request reads, and what it may write (VIRTIO 1.3 section 2.7).
//!
//! A chain is read once, before anything is done with it, so that the guest cannot change it later. No
//! chain is longer than [`MAX_CHAIN`], whatever the guest links.
use super::super::guest::memory::GuestMemory;
use super::wire::{Descriptor, desc};
use std::fmt;
use zerocopy::{FromZeros, IntoBytes};
use zonal_nvme::controller::pcie::{Dma, DmaError};

/// Descriptors of a chain.
const MAX_CHAIN: usize = 1024;
/// Bytes of a descriptor.
const DESCRIPTOR: u32 = size_of::<Descriptor>() as u32;

/// Why a ring cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    #[error("memory of the ring at {0:#x} cannot be accessed")]
    Memory(u64),
    #[error("found {found} requests in flight on a ring of {size}")]
    TooManyRequests { found: u16, size: u16 },
    #[error("found descriptor {found} in a table of {size}")]
    NoDescriptor { found: u16, size: u16 },
    #[error("found a chain of more than {0} descriptors")]
    TooLong(usize),
    #[error("found {0}")]
    Chain(ChainError),
}

/// An error in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainError {
    IndirectNotNegotiated,
    IndirectInIndirect,
    IndirectWithNext,
    IndirectLen(u32),
    ReadableAfterWritable,
    NoHeader,
    NoStatus,
    StatusNotWritable,
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChainError::IndirectNotNegotiated => {
                write!(f, "an indirect descriptor, which was not negotiated")
            }
            ChainError::IndirectInIndirect => {
                write!(f, "an indirect descriptor in an indirect table")
            }
            ChainError::IndirectWithNext => write!(f, "an indirect descriptor with a next one"),
            ChainError::IndirectLen(len) => write!(
                f,
                "an indirect table of {len} bytes, expected a multiple of 16, up to {}",
                MAX_CHAIN * 16
            ),
            ChainError::ReadableAfterWritable => {
                write!(f, "a readable descriptor after a writable one")
            }
            ChainError::NoHeader => write!(f, "a request without a whole header"),
            ChainError::NoStatus => write!(f, "a request without room for its status"),
            ChainError::StatusNotWritable => {
                write!(f, "a request whose status cannot be written")
            }
        }
    }
}

impl From<DmaError> for RingError {
    fn from(error: DmaError) -> Self {
        RingError::Memory(error.address)
    }
}

/// A scatter-gather list: segments of guest memory, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SgList {
    segments: Vec<(u64, u32)>,
    len: u64,
}

impl SgList {
    fn push(&mut self, address: u64, len: u32) {
        if len > 0 {
            self.segments.push((address, len));
            self.len += u64::from(len);
        }
    }

    /// Bytes of all.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Visits the segments of `len` bytes from byte `offset` on, with their addresses and their ranges within
    /// these bytes.
    ///
    /// # Errors
    /// The errors of `visit`.
    fn each(
        &self,
        mut offset: u64,
        len: usize,
        mut visit: impl FnMut(u64, std::ops::Range<usize>) -> Result<(), DmaError>,
    ) -> Result<(), DmaError> {
        assert!(offset + len as u64 <= self.len, "{len} bytes from {offset} of {}", self.len);
        let mut done = 0;
        for &(address, segment) in &self.segments {
            let segment = u64::from(segment);
            if done == len {
                break;
            }
            if offset >= segment {
                offset -= segment;
                continue;
            }
            let here = usize::try_from(segment - offset).unwrap_or(usize::MAX).min(len - done);
            // Beyond the last address there is no memory either.
            let at = address.checked_add(offset).ok_or(DmaError { address })?;
            visit(at, done..done + here)?;
            (offset, done) = (0, done + here);
        }
        Ok(())
    }

    /// Copies bytes from `offset` on, all of which there must be.
    ///
    /// # Errors
    /// Some of them cannot be read.
    pub fn read(&self, memory: &GuestMemory, offset: u64, to: &mut [u8]) -> Result<(), DmaError> {
        self.each(offset, to.len(), |address, range| memory.read(address, &mut to[range]))
    }

    /// Copies bytes to `offset` on, all of which there must be.
    ///
    /// # Errors
    /// Some of them cannot be written.
    pub fn write(&self, memory: &GuestMemory, offset: u64, from: &[u8]) -> Result<(), DmaError> {
        self.each(offset, from.len(), |address, range| memory.write(address, &from[range]))
    }
}

/// A request as the driver made it available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Its first descriptor.
    pub head: u16,
    pub readable: SgList,
    pub writable: SgList,
}

/// A descriptor table.
#[derive(Clone, Copy)]
struct Table {
    address: u64,
    entries: u16,
    indirect: bool,
}

impl Chain {
    /// Reads the chain that begins with descriptor `head` of the table of a ring.
    ///
    /// # Errors
    /// It is no chain, or its descriptors cannot be read.
    pub fn read(
        memory: &GuestMemory,
        table: u64,
        size: u16,
        head: u16,
        indirect: bool,
    ) -> Result<Self, RingError> {
        let mut chain = Chain { head, readable: SgList::default(), writable: SgList::default() };
        let mut table = Table { address: table, entries: size, indirect: false };
        let mut next = Some(head);
        let mut count = 0;
        while let Some(index) = next {
            count += 1;
            if count > MAX_CHAIN {
                return Err(RingError::TooLong(MAX_CHAIN));
            }
            let descriptor = table.get(memory, index)?;
            let flags = descriptor.flags.get();
            if flags & desc::INDIRECT != 0 {
                table = table.indirect(&descriptor, indirect).map_err(RingError::Chain)?;
                next = (table.entries > 0).then_some(0);
                continue;
            }
            chain.add(&descriptor).map_err(RingError::Chain)?;
            next = (flags & desc::NEXT != 0).then_some(descriptor.next.get());
        }
        Ok(chain)
    }

    fn add(&mut self, descriptor: &Descriptor) -> Result<(), ChainError> {
        let segments = if descriptor.flags.get() & desc::WRITE != 0 {
            &mut self.writable
        } else if self.writable.segments.is_empty() {
            &mut self.readable
        } else {
            return Err(ChainError::ReadableAfterWritable);
        };
        segments.push(descriptor.address.get(), descriptor.len.get());
        Ok(())
    }
}

impl Table {
    fn get(&self, memory: &GuestMemory, index: u16) -> Result<Descriptor, RingError> {
        if index >= self.entries {
            return Err(RingError::NoDescriptor { found: index, size: self.entries });
        }
        let offset = u64::from(index) * u64::from(DESCRIPTOR);
        let address = self.address.checked_add(offset).ok_or(RingError::Memory(self.address))?;
        let mut descriptor = Descriptor::new_zeroed();
        memory.read(address, descriptor.as_mut_bytes())?;
        Ok(descriptor)
    }

    /// The table that a descriptor of this one refers to.
    fn indirect(&self, descriptor: &Descriptor, negotiated: bool) -> Result<Self, ChainError> {
        let len = descriptor.len.get();
        if !negotiated {
            return Err(ChainError::IndirectNotNegotiated);
        }
        if self.indirect {
            return Err(ChainError::IndirectInIndirect);
        }
        if descriptor.flags.get() & desc::NEXT != 0 {
            return Err(ChainError::IndirectWithNext);
        }
        let entries = u16::try_from(len / DESCRIPTOR).ok();
        let fits = |entries: &u16| usize::from(*entries) <= MAX_CHAIN;
        match entries.filter(fits) {
            Some(entries) if len.is_multiple_of(DESCRIPTOR) && entries > 0 => {
                Ok(Table { address: descriptor.address.get(), entries, indirect: true })
            }
            _ => Err(ChainError::IndirectLen(len)),
        }
    }
}
