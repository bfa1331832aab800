//! A guest: 16 MiB of memory, registers, an admin queue and I/O queues.
//!
//! ```text
//!  0x0000   admin submission queue       0x1_0000 + q   I/O submission queue q
//!  0x4000   admin completion queue       0x4_0000 + q   I/O completion queue q
//!  LIST     PRP lists and SGLs           DATA           data
//! ```
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use zerocopy::{FromBytes, IntoBytes};
use zonal_blk::{Bytes, Device, Nanos, Queue, QueueOptions};
use zonal_device::inject::InjectDevice;
use zonal_device::{DeviceControl, NullConfig, NullDevice};
use zonal_nvme::controller::pcie::{Dma, DmaError, Function, IoWorker};
use zonal_nvme::controller::{Namespace, Subsystem, SubsystemConfig};
use zonal_nvme::wire::opcode::{AdminOpcode, IoOpcode};
use zonal_nvme::wire::pcie::{CreateCq, CreateSq};
use zonal_nvme::wire::{Cqe, Sgl, Sqe};

pub const LIST: u64 = 0x8_0000;
pub const DATA: u64 = 0x10_0000;
pub const ADMIN_ENTRIES: u16 = 32;
const SQ_ENTRIES: u16 = 64;
/// Fewer than those of submission queues.
const CQ_ENTRIES: u16 = 8;
const NOW: Nanos = Nanos(1_000_000);

pub struct Memory(Mutex<Vec<u8>>);

impl Memory {
    fn with<T>(&self, address: u64, len: usize, f: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
        let start = usize::try_from(address).ok()?;
        let mut bytes = self.0.lock().expect("memory lock");
        Some(f(bytes.get_mut(start..start.checked_add(len)?)?))
    }

    pub fn get(&self, address: u64, len: usize) -> Vec<u8> {
        self.with(address, len, |found| found.to_vec()).expect("an address of the guest")
    }

    pub fn put(&self, address: u64, bytes: &[u8]) {
        self.write(address, bytes).expect("an address of the guest");
    }
}

impl Dma for Memory {
    fn read(&self, address: u64, to: &mut [u8]) -> Result<(), DmaError> {
        let copied = self.with(address, to.len(), |found| to.copy_from_slice(found));
        copied.ok_or(DmaError { address })
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), DmaError> {
        let copied = self.with(address, from.len(), |found| found.copy_from_slice(from));
        copied.ok_or(DmaError { address })
    }

    fn load(&self, address: u64) -> Result<u32, DmaError> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn store(&self, address: u64, value: u32) -> Result<(), DmaError> {
        self.write(address, &value.to_le_bytes())
    }
}

/// The guest's side of a queue.
#[derive(Clone, Copy, Default)]
struct Place {
    next: u16,
    /// The phase tag of old entries.
    phase: u16,
}

pub struct Guest {
    pub function: Function,
    pub memory: Memory,
    pub now: Nanos,
    workers: Vec<IoWorker>,
    sqs: BTreeMap<u16, Place>,
    cqs: BTreeMap<u16, Place>,
}

/// A command without data.
pub fn command(opcode: u8, nsid: u32) -> Sqe {
    Sqe { flags: 0, ..Sqe::new(opcode, 1, nsid) }
}

fn transfer(opcode: IoOpcode, slba: u64, blocks: u32) -> Sqe {
    let [low, high] = [slba & 0xffff_ffff, slba >> 32].map(|half| (half as u32).into());
    Sqe { cdw10: low, cdw11: high, cdw12: (blocks - 1).into(), ..command(opcode.0, 1) }
}

pub fn read(slba: u64, blocks: u32) -> Sqe {
    transfer(IoOpcode::READ, slba, blocks)
}

pub fn write(slba: u64, blocks: u32) -> Sqe {
    transfer(IoOpcode::WRITE, slba, blocks)
}

fn null() -> Arc<dyn DeviceControl> {
    let config = NullConfig {
        zones: 8,
        zone_size: Bytes(16 * 4096),
        lba: 4096,
        memory: true,
        descriptor_extension: 128,
        ..NullConfig::default()
    };
    Arc::new(NullDevice::new(&config).expect("a device"))
}

fn function(device: Arc<dyn DeviceControl>) -> Function {
    let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
    let queue = Queue::attach(device as Arc<dyn Device>, options).expect("a queue");
    let text = |text: &str| text.to_owned();
    let subsystem = Subsystem::new(SubsystemConfig {
        nqn: text("nqn.2026-11.org.example:pcie"),
        serial: text("1"),
        model: text("Zonal"),
        firmware: text("1"),
    });
    let namespace = Namespace::new(queue, [7; 16]).expect("a namespace");
    subsystem.add(1, Arc::new(namespace)).expect("a free identifier");
    Function::new(NOW, &subsystem, 4).expect("a free identifier")
}

impl Guest {
    /// With a controller that is not enabled.
    pub fn new() -> Self {
        Guest::with(null())
    }

    /// The same, with commands that a rule makes late or fails.
    pub fn with_fault(rule: &str) -> Self {
        let device = InjectDevice::new(null(), 0);
        device.add(rule.parse().expect("a rule"));
        Guest::with(Arc::new(device))
    }

    fn with(device: Arc<dyn DeviceControl>) -> Self {
        Guest {
            function: function(device),
            memory: Memory(Mutex::new(vec![0; 16 << 20])),
            now: NOW,
            workers: Vec::new(),
            sqs: BTreeMap::new(),
            cqs: BTreeMap::new(),
        }
    }

    /// With I/O queues 1.
    pub fn with_queues() -> Self {
        let mut guest = Guest::new();
        guest.enable();
        guest.create_queues();
        guest
    }

    pub fn fill(&mut self, address: u64, len: usize, byte: u8) {
        self.memory.put(address, &vec![byte; len]);
    }

    pub fn put_list(&mut self, address: u64, entries: &[u64]) {
        self.memory.put(address, entries.as_bytes());
    }

    pub fn put_sgl(&mut self, address: u64, descriptors: &[Sgl]) {
        self.memory.put(address, descriptors.as_bytes());
    }

    pub fn register(&mut self, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        self.function.read_bar(offset, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    pub fn set_register(&mut self, offset: u64, value: u32) {
        self.function.write_bar(self.now, offset, &value.to_le_bytes());
    }

    /// Enables the controller with queues of 32 entries.
    pub fn enable(&mut self) {
        self.enable_at(0, 0x4000);
    }

    pub fn enable_at(&mut self, sq: u64, cq: u64) {
        self.fill(0x4000, 4096, 0);
        self.sqs = BTreeMap::from([(0, Place::default())]);
        self.cqs = BTreeMap::from([(0, Place::default())]);
        let size = u32::from(ADMIN_ENTRIES) - 1;
        self.set_register(0x24, size << 16 | size);
        self.function.write_bar(self.now, 0x28, &sq.to_le_bytes());
        self.function.write_bar(self.now, 0x30, &cq.to_le_bytes());
        self.set_register(0x14, 0x46_0061);
        self.poll();
    }

    pub fn create_queues(&mut self) {
        self.create_cq_at(1, 0x4_1000);
        self.create_sq(1, 1);
    }

    pub fn create_cq_at(&mut self, qid: u16, address: u64) {
        let mut create = CreateCq::zeroed();
        create.opcode = AdminOpcode::CREATE_CQ.0;
        (create.qid, create.size) = (qid.into(), (CQ_ENTRIES - 1).into());
        (create.flags_11, create.vector, create.address) = (3.into(), qid.into(), address.into());
        assert!(self.admin(create.into()).status().is_success());
        self.fill(0x4_0000 + u64::from(qid) * 4096, 4096, 0);
        self.cqs.insert(qid, Place::default());
    }

    pub fn create_sq(&mut self, qid: u16, cqid: u16) {
        let mut create = CreateSq::zeroed();
        create.opcode = AdminOpcode::CREATE_SQ.0;
        (create.qid, create.size) = (qid.into(), (SQ_ENTRIES - 1).into());
        (create.flags_11, create.cqid) = (1.into(), cqid.into());
        create.address = (0x1_0000 + u64::from(qid) * 4096).into();
        assert!(self.admin(create.into()).status().is_success());
        self.sqs.insert(qid, Place::default());
    }

    pub fn delete_sq(&mut self, qid: u16) -> Cqe {
        let mut delete = command(AdminOpcode::DELETE_SQ.0, 0);
        delete.cdw10 = u32::from(qid).into();
        self.admin(delete)
    }

    /// Puts a command into a queue without ringing.
    pub fn put_command(&mut self, qid: u16, sqe: Sqe) {
        let entries = if qid == 0 { ADMIN_ENTRIES } else { SQ_ENTRIES };
        let base = if qid == 0 { 0 } else { 0x1_0000 + u64::from(qid) * 4096 };
        let place = self.sqs.get_mut(&qid).expect("a queue");
        self.memory.put(base + u64::from(place.next) * 64, sqe.as_bytes());
        place.next = (place.next + 1) % entries;
    }

    pub fn submit(&mut self, qid: u16, sqe: Sqe) {
        self.put_command(qid, sqe);
        let tail = self.sqs[&qid].next;
        self.set_register(0x1000 + u64::from(qid) * 8, tail.into());
    }

    pub fn submit_admin(&mut self, sqe: Sqe) {
        self.submit(0, sqe);
        self.poll();
    }

    /// The next completion, if there is one. Takes it and rings.
    pub fn take_completion(&mut self, cqid: u16) -> Option<Cqe> {
        let entries = if cqid == 0 { ADMIN_ENTRIES } else { CQ_ENTRIES };
        let base = if cqid == 0 { 0x4000 } else { 0x4_0000 + u64::from(cqid) * 4096 };
        let place = self.cqs.get_mut(&cqid).expect("a queue");
        let bytes = self.memory.get(base + u64::from(place.next) * 16, 16);
        let cqe = Cqe::read_from_bytes(&bytes).expect("16 bytes");
        if cqe.status.get() & 1 == place.phase {
            return None;
        }
        place.next = (place.next + 1) % entries;
        if place.next == 0 {
            place.phase ^= 1;
        }
        let head = place.next;
        self.set_register(0x1004 + u64::from(cqid) * 8, head.into());
        Some(cqe)
    }

    #[track_caller]
    pub fn completion(&mut self, cqid: u16) -> Cqe {
        self.take_completion(cqid).expect("a completion")
    }

    #[track_caller]
    pub fn admin_completion(&mut self) -> Cqe {
        self.poll();
        self.completion(0)
    }

    /// The completion of an admin command.
    #[track_caller]
    pub fn admin(&mut self, sqe: Sqe) -> Cqe {
        self.submit_admin(sqe);
        self.completion(0)
    }

    /// The completion of a command on I/O queue 1.
    #[track_caller]
    pub fn io(&mut self, sqe: Sqe) -> Cqe {
        self.io_on(1, sqe)
    }

    #[track_caller]
    pub fn io_on(&mut self, qid: u16, sqe: Sqe) -> Cqe {
        self.submit(qid, sqe);
        self.poll();
        self.completion(1)
    }

    /// Polls all until there is nothing to do.
    pub fn poll(&mut self) {
        for _ in 0..1000 {
            let (mut worked, _) = self.function.poll(self.now, &self.memory);
            while let Some(worker) = self.function.take_worker() {
                worked = true;
                self.workers.push(worker);
            }
            self.workers.retain_mut(|worker| {
                let polled = worker.poll(self.now, &self.memory);
                worked |= polled.worked || polled.done;
                !polled.done
            });
            if !worked {
                return;
            }
        }
        panic!("it spins");
    }

    pub fn prepare_to_sleep(&mut self) -> bool {
        let ready = self.workers[0].prepare_to_sleep(&self.memory);
        self.workers[0].awake();
        ready
    }
}
