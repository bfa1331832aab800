//! The guest of a client: rings, and requests of virtio-blk.
use super::client::{
    Client, EVENT_IDX, INDIRECT, SET_VRING_ADDR, SET_VRING_BASE, SET_VRING_CALL, SET_VRING_ENABLE,
    SET_VRING_ERR, SET_VRING_KICK, SET_VRING_NUM, USER, vring_addr,
};
use crate::guest_memory::{Memory, wait, wait_signal};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of the guest's memory.
pub const MEMORY: usize = 8 << 20;
/// Entries of a ring.
pub const SIZE: u16 = 64;
/// Descriptors of a request.
const LINKS: u16 = 4;
pub const WRITE: u16 = 2;
pub const NEXT: u16 = 1;
pub const TABLE: u16 = 4;

/// A guest with its monitor.
pub struct Guest {
    pub client: Client,
    pub memory: Arc<Memory>,
    pub features: u64,
}

impl Guest {
    /// Connects and shares memory; features `without` are not negotiated.
    pub fn start(path: &Path, without: u64) -> Self {
        Guest::with_memory(path, without, Arc::new(Memory::new(MEMORY)))
    }

    pub fn with_memory(path: &Path, without: u64, memory: Arc<Memory>) -> Self {
        let (mut client, features) = Client::negotiated(path, without);
        client.share(&memory);
        Guest { client, memory, features: features & !without }
    }

    /// Starts a ring at its place, whose next chain is `base`.
    pub fn ring(&mut self, index: u32, base: u16) -> Ring {
        let start = 0x2_0000 * u64::from(index);
        let client = &mut self.client;
        client.state(SET_VRING_NUM, index, SIZE.into()).expect("a size");
        client.state(SET_VRING_BASE, index, base.into()).expect("a base");
        let parts = [start, start + 0x4000, start + 0x2000].map(|part| USER + part);
        client.set(SET_VRING_ADDR, &vring_addr(index, parts), &[]).expect("addresses");
        let call = client.eventfd(SET_VRING_CALL, index.into());
        let error = client.eventfd(SET_VRING_ERR, index.into());
        let kick = client.eventfd(SET_VRING_KICK, index.into());
        client.state(SET_VRING_ENABLE, index, 1).expect("a ring");
        Ring {
            memory: Arc::clone(&self.memory),
            features: self.features,
            start,
            call,
            error,
            kick,
            avail: base,
            used: base,
        }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    pub kind: u32,
    pub sector: u64,
    /// Bytes that the device reads.
    pub out: Vec<u8>,
    /// Bytes that the device writes before the status.
    pub room: usize,
}

impl Request {
    pub fn new(kind: u32, sector: u64) -> Self {
        Request { kind, sector, out: Vec::new(), room: 0 }
    }

    pub fn read(sector: u64, len: usize) -> Self {
        Request { room: len, ..Request::new(0, sector) }
    }

    pub fn write(sector: u64, data: &[u8]) -> Self {
        Request { out: data.to_vec(), ..Request::new(1, sector) }
    }

    pub fn append(sector: u64, data: &[u8]) -> Self {
        // As Linux has it: the status is the last of 16 bytes.
        Request { room: 15, out: data.to_vec(), ..Request::new(15, sector) }
    }

    pub fn range(kind: u32, sector: u64, sectors: u32, flags: u32) -> Self {
        let range = [sectors, flags].map(u32::to_le_bytes).concat();
        Request { out: [sector.to_le_bytes().to_vec(), range].concat(), ..Request::new(kind, 0) }
    }
}

/// The device's answer: status, and the data that it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u8,
    pub data: Vec<u8>,
    pub len: u32,
}

/// A virtqueue of the driver.
pub struct Ring {
    pub memory: Arc<Memory>,
    pub features: u64,
    start: u64,
    pub call: OwnedFd,
    pub error: OwnedFd,
    pub kick: OwnedFd,
    pub avail: u16,
    pub used: u16,
}

impl Ring {
    fn avail_ring(&self) -> u64 {
        self.start + 0x2000
    }

    fn used_ring(&self) -> u64 {
        self.start + 0x4000
    }

    /// Memory of a request, by its slot: header, indirect table, data.
    pub fn place(&self, slot: u16) -> u64 {
        0x20_0000 + self.start * 16 + 0x1_0000 * u64::from(slot)
    }

    /// Writes a descriptor.
    pub fn describe(&self, index: u16, address: u64, len: u32, flags: u16, next: u16) {
        self.describe_at(self.start, index, address, len, flags, next);
    }

    pub fn describe_at(
        &self,
        table: u64,
        index: u16,
        address: u64,
        len: u32,
        flags: u16,
        next: u16,
    ) {
        let tail = [flags, next].map(u16::to_le_bytes).concat();
        let bytes = [address.to_le_bytes().to_vec(), len.to_le_bytes().to_vec(), tail].concat();
        self.memory.put(table + 16 * u64::from(index), &bytes);
    }

    /// Makes the chain that begins with a descriptor available, and kicks if the device wants it.
    pub fn offer(&mut self, head: u16) {
        let at = self.avail_ring() + 4 + 2 * u64::from(self.avail % SIZE);
        self.memory.put(at, &head.to_le_bytes());
        self.jump(self.avail.wrapping_add(1));
    }

    /// Sets the available index.
    pub fn jump(&mut self, avail: u16) {
        let old = std::mem::replace(&mut self.avail, avail);
        let index = self.memory.number(self.avail_ring());
        index.store(u32::from(self.avail) << 16, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
        let wanted = if self.features & EVENT_IDX != 0 {
            let event = self.memory.get(self.used_ring() + 4 + 8 * u64::from(SIZE), 2);
            let event = u16::from_le_bytes([event[0], event[1]]);
            self.avail.wrapping_sub(event).wrapping_sub(1) < self.avail.wrapping_sub(old)
        } else {
            self.memory.number(self.used_ring()).load(Ordering::SeqCst) & 1 == 0
        };
        if wanted {
            rustix::io::write(&self.kick, &1_u64.to_ne_bytes()).expect("an eventfd");
        }
    }

    /// Waits until the device has taken everything, and sleeps (it then says from when on it wants a
    /// kick).
    pub fn wait_taken(&self) {
        assert_ne!(self.features & EVENT_IDX, 0);
        let event = self.used_ring() + 4 + 8 * u64::from(SIZE);
        wait(|| (self.memory.get(event, 2) == self.avail.to_le_bytes()).then_some(()));
    }

    /// The index up to which the device has answered.
    pub fn used_index(&self) -> u16 {
        (self.memory.number(self.used_ring()).load(Ordering::Acquire) >> 16) as u16
    }

    /// The head and the length of the next answer.
    pub fn take(&mut self) -> Option<(u32, u32)> {
        if self.used_index() == self.used {
            return None;
        }
        let at = self.used_ring() + 4 + 8 * u64::from(self.used % SIZE);
        self.used = self.used.wrapping_add(1);
        let element = self.memory.get(at, 8);
        let number = |at: usize| u32::from_le_bytes(element[at..at + 4].try_into().expect("four"));
        Some((number(0), number(4)))
    }

    /// Asks for an interrupt at the next answer.
    fn want_call(&self) {
        let at = self.avail_ring() + 4 + 2 * u64::from(SIZE);
        self.memory.put(at, &self.used.to_le_bytes());
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// Puts a request in a slot, of which a ring has 16, and offers it.
    pub fn submit(&mut self, slot: u16, request: &Request) {
        let (place, head) = (self.place(slot), slot * LINKS);
        let header = [request.kind, 0].map(u32::to_le_bytes).concat();
        self.memory.put(place, &[header, request.sector.to_le_bytes().to_vec()].concat());
        let data = place + 0x1000;
        self.memory.put(data, &request.out);
        self.memory.put(data + request.out.len() as u64 + request.room as u64, &[0xff]);
        let (out, room) = (request.out.len() as u32, request.room as u32);
        // The header in two pieces, and data and status in one.
        let links = [
            (place, 10, 0),
            (place + 10, 6, 0),
            (data, out, 0),
            (data + u64::from(out), room + 1, WRITE),
        ];
        let links: Vec<_> = links.into_iter().filter(|(_, len, _)| *len > 0).collect();
        let indirect = self.features & INDIRECT != 0 && slot % 2 == 1;
        let (table, first) = if indirect { (place + 0x100, 0) } else { (self.start, head) };
        for (at, &(address, len, flags)) in (first..).zip(&links) {
            let last = usize::from(at - first) + 1 == links.len();
            let flags = if last { flags } else { flags | NEXT };
            self.describe_at(table, at, address, len, flags, at + 1);
        }
        if indirect {
            self.describe(head, table, 16 * links.len() as u32, TABLE, 0);
        }
        self.want_call();
        self.offer(head);
    }

    /// The answer to the request of a slot, which must have come.
    pub fn answer(&self, slot: u16, request: &Request, len: u32) -> Answer {
        let at = self.place(slot) + 0x1000 + request.out.len() as u64;
        let mut data = self.memory.get(at, request.room + 1);
        let status = data.pop().expect("a status");
        Answer { status, data, len }
    }

    /// Waits for the next answer, as a guest does.
    #[track_caller]
    pub fn wait(&mut self) -> (u32, u32) {
        wait_signal(&self.call);
        wait(|| self.take())
    }

    /// Executes a request.
    #[track_caller]
    pub fn io(&mut self, slot: u16, request: &Request) -> Answer {
        self.submit(slot, request);
        let (head, len) = self.wait();
        assert_eq!(head, u32::from(slot * LINKS));
        self.answer(slot, request, len)
    }
}
