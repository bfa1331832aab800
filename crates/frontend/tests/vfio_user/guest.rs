//! The guest's NVMe driver: queues in memory that the client shares.
//!
//! ```text
//!  0x0000  admin submission queue     0x10_0000 + q  I/O submission queue q
//!  0x2000  admin completion queue     0x20_0000 + q  I/O completion queue q
//!  SHADOW  shadow doorbells, indices  LIST, DATA     PRP list, data
//! ```
use super::client::{Client, Memory, load, wait};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use zerocopy::{FromBytes, IntoBytes};
use zonal_nvme::wire::opcode::{AdminOpcode, IoOpcode};
use zonal_nvme::wire::pcie::{CreateCq, CreateSq, prp_pointer};
use zonal_nvme::wire::{Cqe, Sqe};

pub const SHADOW: u64 = 0x8000;
pub const LIST: u64 = 0x3f_0000;
pub const DATA: u64 = 0x40_0000;
pub const MEMORY: usize = 16 << 20;
const ADMIN_ENTRIES: u16 = 32;
/// Entries of an I/O queue; a command can be in flight on all but one.
pub const ENTRIES: u16 = 256;

/// A submission queue and the completion queue with its identifier.
pub struct QueuePair {
    pub qid: u16,
    entries: u16,
    sq: u64,
    cq: u64,
    tail: u16,
    head: u16,
    phase: u32,
}

impl QueuePair {
    fn new(qid: u16, entries: u16, sq: u64, cq: u64) -> Self {
        QueuePair { qid, entries, sq, cq, tail: 0, head: 0, phase: 1 }
    }

    /// Puts a command, without a doorbell. Its identifier is its place.
    pub fn put(&mut self, memory: &Memory, sqe: &Sqe) {
        let sqe = Sqe { cid: self.tail.into(), ..*sqe };
        memory.put(self.sq + u64::from(self.tail) * 64, sqe.as_bytes());
        self.tail = (self.tail + 1) % self.entries;
    }

    /// The next completion, if it is there.
    pub fn take(&mut self, memory: &Memory) -> Option<Cqe> {
        let address = self.cq + u64::from(self.head) * 16;
        if load(memory.number(address + 12)) >> 16 & 1 != self.phase {
            return None;
        }
        self.head = (self.head + 1) % self.entries;
        if self.head == 0 {
            self.phase ^= 1;
        }
        Some(Cqe::read_from_bytes(&memory.get(address, 16)).expect("16 bytes"))
    }
}

/// A guest with a controller that is enabled.
pub struct Guest {
    pub client: Client,
    pub memory: Memory,
    admin: QueuePair,
    pub shadow: bool,
}

/// A command without data.
pub fn command(opcode: u8, nsid: u32) -> Sqe {
    Sqe { flags: 0, ..Sqe::new(opcode, 0, nsid) }
}

/// A command on blocks of namespace 1, with data at two places.
pub fn transfer(opcode: IoOpcode, slba: u64, blocks: u32, prps: [u64; 2]) -> Sqe {
    let [low, high] = [slba & 0xffff_ffff, slba >> 32].map(|half| (half as u32).into());
    let dptr = prp_pointer(prps);
    Sqe { cdw10: low, cdw11: high, cdw12: (blocks - 1).into(), dptr, ..command(opcode.0, 1) }
}

impl Guest {
    /// Connects, shares memory and enables the controller.
    pub fn start(path: &Path) -> Self {
        let memory = Memory::new(MEMORY);
        let mut client = Client::negotiated(path);
        client.map(0, MEMORY as u64, 0, &[memory.file.as_fd()]).expect("memory");
        let mut guest = Guest { client, memory, admin: admin(), shadow: false };
        guest.enable();
        guest
    }

    pub fn enable(&mut self) {
        self.memory.put(0x2000, &[0; 4096]);
        self.admin = admin();
        self.shadow = false;
        let size = u32::from(ADMIN_ENTRIES) - 1;
        self.client.set_register(0x24, size << 16 | size);
        self.client.write_region(0, 0x28, &0_u64.to_le_bytes());
        self.client.write_region(0, 0x30, &0x2000_u64.to_le_bytes());
        self.client.set_register(0x14, 0x46_0061);
        wait(|| (self.client.register(0x1c) == 1).then_some(()));
    }

    pub fn disable(&mut self) {
        self.client.set_register(0x14, 0x46_0060);
        wait(|| (self.client.register(0x1c) == 0).then_some(()));
    }

    /// The completion of an admin command.
    #[track_caller]
    pub fn admin(&mut self, sqe: Sqe) -> Cqe {
        self.admin.put(&self.memory, &sqe);
        self.client.set_register(0x1000, self.admin.tail.into());
        let cqe = wait(|| self.admin.take(&self.memory));
        self.client.set_register(0x1004, self.admin.head.into());
        cqe
    }

    /// Creates I/O queues, with interrupts by the vector of the same number.
    #[track_caller]
    pub fn create(&mut self, qid: u16) -> QueuePair {
        let [sq, cq] = [0x10_0000, 0x20_0000].map(|base| base + u64::from(qid) * 0x8000);
        self.memory.put(cq, &[0; ENTRIES as usize * 16]);
        if self.shadow {
            self.memory.put(SHADOW + u64::from(qid) * 8, &[0; 8]);
        }
        let mut create = CreateCq::zeroed();
        create.opcode = AdminOpcode::CREATE_CQ.0;
        (create.qid, create.size, create.flags_11) = (qid.into(), (ENTRIES - 1).into(), 3.into());
        (create.vector, create.address) = (qid.into(), cq.into());
        assert!(self.admin(create.into()).status().is_success());
        let mut create = CreateSq::zeroed();
        create.opcode = AdminOpcode::CREATE_SQ.0;
        (create.qid, create.size, create.flags_11) = (qid.into(), (ENTRIES - 1).into(), 1.into());
        (create.cqid, create.address) = (qid.into(), sq.into());
        assert!(self.admin(create.into()).status().is_success());
        QueuePair::new(qid, ENTRIES, sq, cq)
    }

    /// From now on doorbells are in memory.
    #[track_caller]
    pub fn use_shadow_doorbells(&mut self) {
        self.memory.put(SHADOW, &[0; 8192]);
        let mut config = command(AdminOpcode::DOORBELL_BUFFER_CONFIG.0, 0);
        config.dptr = prp_pointer([SHADOW, SHADOW + 4096]);
        assert!(self.admin(config).status().is_success());
        self.shadow = true;
    }

    /// Rings for what was put.
    pub fn ring_tail(&mut self, queue: &QueuePair) {
        self.ring(u64::from(queue.qid) * 8, queue.tail);
    }

    /// Gives back the entries of completions that were taken.
    pub fn ring_head(&mut self, queue: &QueuePair) {
        self.ring(u64::from(queue.qid) * 8 + 4, queue.head);
    }

    fn ring(&mut self, at: u64, value: u16) {
        if self.shadow {
            let old = self.memory.number(SHADOW + at).swap(value.into(), Ordering::AcqRel);
            fence(Ordering::SeqCst);
            // As virtio has it: whether the index that the device waits for was passed.
            let index = load(self.memory.number(SHADOW + 4096 + at)) as u16;
            let old = old as u16;
            if value.wrapping_sub(index).wrapping_sub(1) >= value.wrapping_sub(old) {
                return;
            }
        }
        self.client.set_register(0x1000 + at, value.into());
    }

    /// The completion of the only command in flight of a queue.
    #[track_caller]
    pub fn io(&mut self, queue: &mut QueuePair, sqe: Sqe) -> Cqe {
        queue.put(&self.memory, &sqe);
        self.ring_tail(queue);
        let cqe = wait(|| queue.take(&self.memory));
        self.ring_head(queue);
        cqe
    }
}

fn admin() -> QueuePair {
    QueuePair::new(0, ADMIN_ENTRIES, 0, 0x2000)
}
