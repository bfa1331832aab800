//! A controller that a virtual machine monitor has over vfio-user.
mod client;
mod guest;
#[path = "../guest_memory/mod.rs"]
mod guest_memory;
#[path = "../held_reads/mod.rs"]
mod held_reads;
mod hostile;

use client::{Client, RESET, wait};
use guest::{DATA, ENTRIES, Guest, command, transfer};
use guest_memory::wait_signal;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use zonal_blk::{Bytes, Device, Nanos, Queue, QueueOptions};
use zonal_device::inject::InjectDevice;
use zonal_device::{NullConfig, NullDevice};
use zonal_frontend::vfio_user::{Server, ServerConfig};
use zonal_nvme::NvmeStatus;
use zonal_nvme::controller::{Namespace, Subsystem, SubsystemConfig};
use zonal_nvme::wire::opcode::{AdminOpcode, IoOpcode};
use zonal_nvme::wire::pcie::prp_pointer;
use zonal_os::RealClock;
use zonal_os::poll::WaitPolicy;

const OK: NvmeStatus = NvmeStatus::SUCCESS;

/// A server, and the directory of its socket.
struct Served {
    server: Server,
    queue: Arc<Queue>,
    _dir: TempDir,
}

/// A device of 8 zones of 256 blocks, whose I/O takes `latency`.
fn null(latency: Nanos) -> Arc<dyn Device> {
    let config = NullConfig {
        zones: 8,
        zone_size: Bytes(256 * 4096),
        lba: 4096,
        memory: true,
        latency,
        ..NullConfig::default()
    };
    Arc::new(NullDevice::new(&config).expect("a device"))
}

impl Served {
    /// With a device whose I/O takes `latency`.
    fn new(latency: Nanos) -> Self {
        Served::over(null(latency))
    }

    fn over(device: Arc<dyn Device>) -> Self {
        let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
        let queue = Queue::attach(device, options).expect("a queue");
        let text = |text: &str| text.to_owned();
        let subsystem = Subsystem::new(SubsystemConfig {
            nqn: text("nqn.2026-11.org.example:vfio"),
            serial: text("1"),
            model: text("Zonal"),
            firmware: text("1"),
        });
        let namespace = Namespace::new(Arc::clone(&queue), [7; 16]).expect("a namespace");
        subsystem.add(1, Arc::new(namespace)).expect("a free identifier");
        let dir = tempfile::tempdir().expect("a directory");
        let config = ServerConfig {
            io_queues: 4,
            waiting: WaitPolicy::default(),
            clock: RealClock::start(),
        };
        let server = Server::start(&dir.path().join("socket"), &subsystem, config);
        Served { server: server.expect("a server"), queue, _dir: dir }
    }

    fn path(&self) -> &Path {
        self.server.path()
    }
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..4096_u32).map(|at| (at / 16) as u8 ^ seed).collect()
}

/// Writes a zone from the beginning, block by block, then reads and compares it.
fn verify(guest: &mut Guest, qid: u16, zone: u64) {
    let mut queue = guest.create(qid);
    let event = guest.client.set_vector(qid.into());
    let buffer = DATA + u64::from(qid) * 0x1_0000;
    for block in 0..16 {
        guest.memory.put(buffer, &pattern(block));
        let write = transfer(IoOpcode::WRITE, zone * 256 + u64::from(block), 1, [buffer, 0]);
        let cqe = guest.io(&mut queue, write);
        assert_eq!((cqe.status(), cqe.sqid.get()), (OK, qid));
        wait_signal(&event);
    }
    for block in 0..16 {
        let read = transfer(IoOpcode::READ, zone * 256 + u64::from(block), 1, [buffer, 0]);
        assert_eq!(guest.io(&mut queue, read).status(), OK);
        assert!(guest.memory.get(buffer, 4096) == pattern(block), "block {block}");
    }
}

#[test]
fn guest_writes_and_reads_through_several_queues() {
    let served = Served::new(Nanos(0));
    let mut guest = Guest::start(served.path());
    (1..=4).for_each(|qid| verify(&mut guest, qid, qid.into()));
}

#[test]
fn guest_rings_shadow_doorbells() {
    let served = Served::new(Nanos(0));
    let mut guest = Guest::start(served.path());
    guest.use_shadow_doorbells();
    verify(&mut guest, 1, 0);
    // As many as fit, many times, with pauses in which the server sleeps.
    let mut queue = guest.create(2);
    for round in 0..20 {
        for _ in 1..ENTRIES {
            queue.put(&guest.memory, &transfer(IoOpcode::READ, 0, 1, [DATA, 0]));
        }
        guest.ring_tail(&queue);
        for _ in 1..ENTRIES {
            assert_eq!(wait(|| queue.take(&guest.memory)).status(), OK, "round {round}");
        }
        guest.ring_head(&queue);
        if round % 4 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

#[test]
fn zones_are_managed_and_appended_to() {
    let served = Served::new(Nanos(0));
    let mut guest = Guest::start(served.path());
    let mut queue = guest.create(1);
    for expected in 512..516 {
        let append = transfer(IoOpcode::ZONE_APPEND, 512, 1, [DATA, 0]);
        let cqe = guest.io(&mut queue, append);
        assert_eq!((cqe.status(), cqe.result()), (OK, expected));
    }
    let mut reset = command(IoOpcode::ZONE_MANAGEMENT_SEND.0, 1);
    (reset.cdw10, reset.cdw13) = (512.into(), 4.into());
    assert_eq!(guest.io(&mut queue, reset).status(), OK);
    let wrong = transfer(IoOpcode::WRITE, 513, 1, [DATA, 0]);
    assert_eq!(guest.io(&mut queue, wrong).status().code(), NvmeStatus::ZONE_INVALID_WRITE);
}

#[test]
fn reset_waits_for_io_in_flight_and_the_guest_begins_anew() {
    let served = Served::new(Nanos(20_000_000));
    let mut guest = Guest::start(served.path());
    for round in 0..3 {
        let mut queue = guest.create(1);
        for block in 0..8 {
            let write = transfer(IoOpcode::WRITE, round * 256 + block, 1, [DATA, 0]);
            queue.put(&guest.memory, &write);
        }
        guest.ring_tail(&queue);
        match round {
            0 => guest.disable(),
            1 => assert_eq!(guest.client.call(RESET, &[], &[]), Ok(Vec::new())),
            // Function level reset.
            _ => guest.client.write_region(client::CONFIG, 0x68, &[0, 0x80]),
        }
        guest.memory.put(0x20_8000, &[0xee; 4096]);
        guest.enable();
        assert!(guest.memory.get(0x20_8010, 16) == [0xee; 16], "nothing completes after a reset");
    }
    let mut queue = guest.create(1);
    assert_eq!(guest.io(&mut queue, command(IoOpcode::FLUSH.0, 1)).status(), OK);
}

#[test]
fn submission_queue_is_deleted_when_its_commands_have_completed() {
    let served = Served::new(Nanos(20_000_000));
    let mut guest = Guest::start(served.path());
    let mut queue = guest.create(1);
    for block in 0..4 {
        queue.put(&guest.memory, &transfer(IoOpcode::READ, block, 1, [DATA, 0]));
    }
    guest.ring_tail(&queue);
    let mut delete = command(AdminOpcode::DELETE_SQ.0, 0);
    delete.cdw10 = 1.into();
    assert_eq!(guest.admin(delete).status(), OK);
    let mut delete = command(AdminOpcode::DELETE_CQ.0, 0);
    delete.cdw10 = 1.into();
    assert_eq!(guest.admin(delete).status(), OK);
    verify(&mut guest, 1, 3);
}

#[test]
fn next_client_finds_the_controller_as_the_first_did() {
    let served = Served::new(Nanos(5_000_000));
    for round in 0..3 {
        let mut guest = Guest::start(served.path());
        let mut queue = guest.create(1);
        queue.put(&guest.memory, &transfer(IoOpcode::READ, 0, 2, [DATA, DATA + 4096]));
        guest.ring_tail(&queue);
        if round == 1 {
            // One at a time.
            assert!(Client::connect(served.path()).is_closed());
            assert_eq!(guest.client.register(0x1c), 1);
        }
    }
    let mut guest = Guest::start(served.path());
    verify(&mut guest, 1, 5);
}

#[test]
fn server_ends_with_io_in_flight_and_removes_its_socket() {
    let served = Served::new(Nanos(20_000_000));
    let path = served.path().to_owned();
    let mut guest = Guest::start(&path);
    let mut queue = guest.create(1);
    queue.put(&guest.memory, &transfer(IoOpcode::WRITE, 0, 1, [DATA, 0]));
    guest.ring_tail(&queue);
    drop(served);
    assert!(guest.client.is_closed());
    assert!(!path.exists());
}

#[test]
fn identify_reaches_guest_memory_by_the_admin_queue() {
    let served = Served::new(Nanos(0));
    let mut guest = Guest::start(served.path());
    let event = guest.client.set_vector(0);
    let mut identify = command(AdminOpcode::IDENTIFY.0, 0);
    (identify.cdw10, identify.dptr) = (1.into(), prp_pointer([DATA, 0]));
    assert_eq!(guest.admin(identify).status(), OK);
    wait_signal(&event);
    assert_eq!(guest.memory.get(DATA + 24, 5), b"Zonal");
}

#[test]
fn shutdown_waits_for_the_flush_also_when_the_server_ends() {
    let faults = || {
        let spec = zonal_device::device_spec::parse("null:zones=4,zone_size=1M,memory=true");
        let device = zonal_device::device_spec::build(&spec.expect("a spec")).expect("a device");
        let faults = Arc::new(InjectDevice::new(device, 0));
        faults.add("delay=flush,time=50ms".parse().expect("a rule"));
        faults
    };
    let shut_down = |served: &Served| {
        let mut guest = Guest::start(served.path());
        guest.create(1);
        guest.client.set_register(0x14, 0x46_4061);
        guest
    };
    let slow = faults();
    let served = Served::over(Arc::clone(&slow) as _);
    let mut guest = shut_down(&served);
    let csts = || guest.client.register(0x1c);
    let before = std::iter::repeat_with(csts).take_while(|&csts| csts != 0b1001);
    assert!(before.inspect(|csts| assert_eq!(*csts, 0b0101)).count() > 0);
    assert_eq!(slow.rules()[0].1, 1);
    let slow = faults();
    let served = Served::over(Arc::clone(&slow) as _);
    let _guest = shut_down(&served);
    wait(|| (slow.rules()[0].1 == 1).then_some(()));
    drop(served);
}
