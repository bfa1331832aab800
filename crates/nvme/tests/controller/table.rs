//! Every command of the NVM and ZNS command sets that names blocks, with and without FUA, at its limits
//! and one block to either side: its status, and what reaches the device of it.
use crate::support::{Ended, Host, Io, config, null, rw};
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::{
    BioFlags, Bytes, Device, HwQueue, Limits, Nanos, Op, Queue, QueueOptions, Request, Sector,
    Status, Wake,
};
use zonal_device::{NullConfig, NullDevice};
use zonal_nvme::NvmeStatus;
use zonal_nvme::controller::{Namespace, Subsystem};
use zonal_nvme::wire::Sgl;
use zonal_nvme::wire::io::control;
use zonal_nvme::wire::opcode::IoOpcode;

/// Blocks of 4 KiB: in a zone, in the namespace, in the longest transfer and in the longest append.
const ZONE: u64 = 32;
const BLOCKS: u64 = 4 * ZONE;
const MDTS: u64 = 16;
const ZASL: u64 = 8;
/// Blocks in a command to the device, unless it has no data.
const PART: u64 = 8;

#[derive(Default)]
struct Commands {
    seen: Vec<(Op, BioFlags, Sector, u32)>,
    /// The command, counted from here, that the medium fails.
    damaged: Option<usize>,
}

/// Notes what reaches a device, and damages one command of it.
struct Probe {
    inner: Arc<NullDevice>,
    limits: Limits,
    commands: Arc<Mutex<Commands>>,
}

struct ProbeQueue {
    inner: Box<dyn HwQueue>,
    commands: Arc<Mutex<Commands>>,
    failed: Vec<Box<Request>>,
}

fn lock(commands: &Mutex<Commands>) -> MutexGuard<'_, Commands> {
    commands.lock().expect("no test panics while it counts")
}

impl Device for Probe {
    fn inner(&self) -> Option<&dyn Device> {
        Some(&*self.inner)
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let inner = (Arc::clone(&self.inner) as Arc<dyn Device>).open_queue();
        Box::new(ProbeQueue { inner, commands: Arc::clone(&self.commands), failed: Vec::new() })
    }
}

impl HwQueue for ProbeQueue {
    fn inner(&self) -> Option<&dyn HwQueue> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn HwQueue> {
        Some(&mut *self.inner)
    }

    fn start(&mut self, now: Nanos, mut request: Box<Request>) -> Result<(), Box<Request>> {
        let mut commands = lock(&self.commands);
        commands.seen.push((request.op(), request.flags(), request.sector(), request.nr_sectors()));
        if commands.damaged == Some(commands.seen.len() - 1) {
            request.set_status(Status::Medium);
            self.failed.push(request);
            return Ok(());
        }
        self.inner.start(now, request)
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        done.append(&mut self.failed);
        self.inner.poll(now, done);
    }

    fn next_event(&self) -> Wake {
        if self.failed.is_empty() { self.inner.next_event() } else { Wake::At(Nanos(0)) }
    }
}

/// A host of a namespace with or without zones, on a device that writes zeroes without data or not.
fn host(zoned: bool, zeroes: bool) -> (Host, Io, Arc<Mutex<Commands>>) {
    let bytes = Bytes(PART * 4096);
    let config_of_device = NullConfig {
        zoned,
        size: Bytes(BLOCKS * 4096),
        zones: 4,
        zone_size: Bytes(ZONE * 4096),
        zone_capacity: None,
        max_open: None,
        max_active: 0,
        max_io: bytes,
        ..null()
    };
    let inner = Arc::new(NullDevice::new(&config_of_device).expect("a device"));
    let limits = Limits {
        max_write_zeroes_sectors: if zeroes { u32::MAX } else { 0 },
        ..inner.limits().clone()
    };
    let commands: Arc<Mutex<Commands>> = Arc::default();
    let device = Arc::new(Probe { inner, limits, commands: Arc::clone(&commands) });
    let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
    let queue = Queue::attach(device as Arc<dyn Device>, options).expect("a queue");
    let subsystem = Subsystem::new(config());
    let namespace = Namespace::new(queue, [7; 16]).expect("a namespace");
    subsystem.add(1, Arc::new(namespace)).expect("a free identifier");
    subsystem.limit_transfers(4, 4096);
    let host = Host::of(subsystem);
    let io = host.io(1);
    (host, io, commands)
}

/// The statuses of which one has to come; none if the command has to succeed.
fn refusals(opcode: IoOpcode, zoned: bool, slba: u64, blocks: u64, bytes: u64) -> Vec<NvmeStatus> {
    let transfers = !matches!(opcode, IoOpcode::WRITE_ZEROES | IoOpcode::VERIFY);
    let writes = matches!(opcode, IoOpcode::WRITE | IoOpcode::WRITE_ZEROES);
    let append = opcode == IoOpcode::ZONE_APPEND;
    let outside = slba.checked_add(blocks).is_none_or(|end| end > BLOCKS);
    let crosses = slba % ZONE + blocks > ZONE;
    let rules = [
        (append && !zoned, NvmeStatus::INVALID_OPCODE),
        (outside, NvmeStatus::LBA_RANGE),
        (transfers && bytes > MDTS * 4096, NvmeStatus::INVALID_FIELD),
        (transfers && bytes != blocks * 4096, NvmeStatus::SGL_LENGTH),
        (append && (blocks > ZASL || !slba.is_multiple_of(ZONE)), NvmeStatus::INVALID_FIELD),
        (zoned && !outside && (writes || append) && crosses, NvmeStatus::ZONE_BOUNDARY),
        // All zones are empty.
        (zoned && !outside && writes && !slba.is_multiple_of(ZONE), NvmeStatus::ZONE_INVALID_WRITE),
    ];
    rules.into_iter().filter(|(broken, _)| *broken).map(|(_, status)| status).collect()
}

const OPCODES: [IoOpcode; 6] = [
    IoOpcode::READ,
    IoOpcode::WRITE,
    IoOpcode::COMPARE,
    IoOpcode::VERIFY,
    IoOpcode::WRITE_ZEROES,
    IoOpcode::ZONE_APPEND,
];

/// A command with a data pointer of so many bytes.
fn send(io: &mut Io, opcode: IoOpcode, fua: bool, range: (u64, u64), bytes: u64) -> Ended {
    let (slba, blocks) = range;
    let mut command = rw(opcode, slba, u32::try_from(blocks).expect("few"));
    if fua {
        command.control = control::FUA.into();
    }
    let transfers = !matches!(opcode, IoOpcode::WRITE_ZEROES | IoOpcode::VERIFY);
    if transfers {
        command.dptr = Sgl::transport(u32::try_from(bytes).expect("few"));
    }
    let sends = transfers && opcode != IoOpcode::READ;
    io.send(command, &vec![0; if sends { bytes as usize } else { 0 }])
}

/// What reached the device is the range, once, from its start to its end, in commands of the operation,
/// durable when they complete if the command is to be.
fn check_executed(
    seen: &[(Op, BioFlags, Sector, u32)],
    opcode: IoOpcode,
    fua: bool,
    (slba, blocks): (u64, u64),
    zeroes: bool,
) {
    let op = match opcode {
        IoOpcode::WRITE_ZEROES if zeroes => Op::WriteZeroes,
        IoOpcode::WRITE | IoOpcode::WRITE_ZEROES | IoOpcode::ZONE_APPEND => Op::Write,
        _ => Op::Read,
    };
    let what = format!("{opcode:?} of {blocks} blocks from {slba}, FUA {fua}: {seen:?}");
    let mut at = slba * 8;
    for &(executed, flags, sector, nr_sectors) in seen {
        assert_eq!((executed, sector), (op, Sector(at)), "{what}");
        assert_eq!(flags.contains(BioFlags::FUA), fua && op != Op::Read, "{what}");
        at += u64::from(nr_sectors);
    }
    assert_eq!(at, (slba + blocks) * 8, "{what}");
}

#[test]
fn commands_at_their_limits_are_executed_and_those_beyond_refused() {
    let (mut executed, mut refused) = (0, 0);
    for (zoned, zeroes) in [(true, true), (true, false), (false, true), (false, false)] {
        let (_host, mut io, commands) = host(zoned, zeroes);
        let starts = [0, 1, ZONE - 1, ZONE, ZONE + 1, 3 * ZONE, BLOCKS - 2, BLOCKS - 1, BLOCKS];
        let far = [BLOCKS + 1, 1 << 52, u64::MAX / 8, u64::MAX - 1, u64::MAX];
        let lengths = [1, 2, ZASL - 1, ZASL, ZASL + 1, MDTS - 1, MDTS, MDTS + 1]
            .into_iter()
            .chain([ZONE - 1, ZONE, ZONE + 1, BLOCKS - 1, BLOCKS, BLOCKS + 1, 1 << 16]);
        for (slba, blocks) in lengths
            .flat_map(|length| starts.into_iter().chain(far).map(move |start| (start, length)))
        {
            let exact = blocks * 4096;
            for opcode in OPCODES {
                let moves = !matches!(opcode, IoOpcode::WRITE_ZEROES | IoOpcode::VERIFY);
                let near = [exact, exact - 1, exact + 1, exact - 512, exact + 4096];
                let few = near.into_iter().filter(|bytes| moves && *bytes <= (MDTS + 2) * 4096);
                let all = few.chain((!moves).then_some(exact));
                for (bytes, fua) in all.flat_map(|bytes| [(bytes, false), (bytes, true)]) {
                    if zoned {
                        assert_eq!(io.manage(0, 4, 1), NvmeStatus::SUCCESS, "all are reset");
                    }
                    lock(&commands).seen.clear();
                    let status = send(&mut io, opcode, fua, (slba, blocks), bytes).status;
                    let refusals = refusals(opcode, zoned, slba, blocks, bytes);
                    let what = format!("{opcode:?} {slba} {blocks} {bytes}: {status:?}");
                    let seen = std::mem::take(&mut lock(&commands).seen);
                    if refusals.is_empty() {
                        assert_eq!(status, NvmeStatus::SUCCESS, "{what}");
                        check_executed(&seen, opcode, fua, (slba, blocks), zeroes);
                        executed += 1;
                    } else {
                        assert!(refusals.contains(&status), "{what}, expected {refusals:?}");
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(executed > 1000 && refused > 1000, "{executed} executed, {refused} refused");
}

#[test]
fn flush_reaches_the_device_as_such() {
    let (_host, mut io, commands) = host(false, true);
    for nsid in [1, u32::MAX] {
        lock(&commands).seen.clear();
        io.send(zonal_nvme::wire::Sqe::new(IoOpcode::FLUSH.0, 1, nsid), &[]).fine();
        let seen = std::mem::take(&mut lock(&commands).seen);
        assert!(matches!(seen[..], [(Op::Flush, ..)]), "{seen:?}");
    }
}

#[test]
fn damage_in_any_part_of_a_command_is_told() {
    for (opcode, blocks, parts) in [
        (IoOpcode::READ, MDTS, 2),
        (IoOpcode::WRITE, MDTS, 2),
        (IoOpcode::COMPARE, MDTS, 2),
        (IoOpcode::VERIFY, BLOCKS, 16),
        (IoOpcode::WRITE_ZEROES, BLOCKS, 16),
    ] {
        let (_host, mut io, commands) = host(false, false);
        for part in 0..=parts {
            *lock(&commands) = Commands { seen: Vec::new(), damaged: Some(part) };
            let ended = send(&mut io, opcode, false, (0, blocks), blocks * 4096);
            let reads = matches!(opcode, IoOpcode::READ | IoOpcode::COMPARE | IoOpcode::VERIFY);
            let expected = match part {
                _ if part == parts => NvmeStatus::SUCCESS,
                _ if reads => NvmeStatus::UNRECOVERED_READ,
                _ => NvmeStatus::WRITE_FAULT,
            };
            assert_eq!(ended.status, expected, "{opcode:?}, part {part} of {parts}");
            assert!(ended.data.is_empty() || part == parts, "{opcode:?}: no data with an error");
        }
    }
}
