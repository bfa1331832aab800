//! A virtio block device that a virtual machine monitor has over vhost-user.
mod client;
mod guest;
#[path = "../guest_memory/mod.rs"]
mod guest_memory;
#[path = "../held_reads/mod.rs"]
mod held_reads;
mod hostile;
mod restarts;

use client::{Client, EVENT_IDX, GET_QUEUE_NUM, GET_VRING_BASE, INDIRECT, ZONED};
use guest::{Guest, Request, Ring};
use guest_memory::wait;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use tempfile::TempDir;
use zonal_blk::{Bytes, Device, Nanos, Queue, QueueOptions, ZoneCondition, ZoneNo};
use zonal_device::inject::InjectDevice;
use zonal_device::{NullConfig, NullDevice, device_spec};
use zonal_frontend::vhost_user::{Server, ServerConfig};
use zonal_os::RealClock;
use zonal_os::poll::WaitPolicy;

const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;
const INVALID_CMD: u8 = 3;
const UNALIGNED_WP: u8 = 4;
const OPEN_RESOURCE: u8 = 5;
const ACTIVE_RESOURCE: u8 = 6;
/// Sectors of a zone.
const ZONE: u64 = 2048;

/// A server, and the directory of its socket.
struct Served {
    server: Server,
    queue: Arc<Queue>,
    _dir: TempDir,
}

/// 16 zones of 1 MiB, of which the first 4 are conventional; blocks of 4 KiB, I/O takes `latency`.
fn zoned(latency: Nanos) -> NullConfig {
    NullConfig {
        zones: 16,
        conventional: 4,
        zone_size: Bytes(1 << 20),
        zone_capacity: Some(Bytes(768 << 10)),
        max_open: Some(2),
        max_active: 3,
        lba: 4096,
        memory: true,
        latency,
        ..NullConfig::default()
    }
}

fn attach(device: Arc<dyn Device>) -> Arc<Queue> {
    let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
    Queue::attach(device, options).expect("a queue")
}

fn server(path: &Path, queue: &Arc<Queue>) -> Server {
    let config = ServerConfig {
        queues: 3,
        serial: "0123456789abcdef0123456789".to_owned(),
        waiting: WaitPolicy::default(),
        clock: RealClock::start(),
    };
    Server::start(path, queue, config).expect("a server")
}

impl Served {
    fn new(config: &NullConfig) -> Self {
        Served::over(Arc::new(NullDevice::new(config).expect("a device")))
    }

    fn over(device: Arc<dyn Device>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let queue = attach(device);
        let server = server(&dir.path().join("socket"), &queue);
        Served { server, queue, _dir: dir }
    }

    fn path(&self) -> &Path {
        self.server.path()
    }
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at / 16 * 7 + seed * 31) as u8).collect()
}

/// Writes a zone from the beginning, with lengths that differ, then reads and compares it.
fn verify(ring: &mut Ring, zone: u64) {
    let mut at = zone * ZONE;
    let mut written = Vec::new();
    for round in 0..12 {
        let data = pattern(zone + round, 4096 * (1 + round as usize % 5));
        let answer = ring.io(round as u16, &Request::write(at, &data));
        assert_eq!((answer.status, answer.len), (OK, 1), "zone {zone}, round {round}");
        written.push((at, data));
        at += written[written.len() - 1].1.len() as u64 / 512;
    }
    for (round, (at, data)) in (0..).zip(&written) {
        let answer = ring.io(round, &Request::read(*at, data.len()));
        assert_eq!((answer.status, answer.len as usize), (OK, data.len() + 1));
        assert!(answer.data == *data, "zone {zone}, round {round}");
    }
}

/// The zones of a report: capacity, start, write pointer, kind, state.
fn report(ring: &mut Ring, sector: u64, room: usize) -> Vec<(u64, u64, u64, u8, u8)> {
    let answer = ring.io(0, &Request { room, ..Request::new(16, sector) });
    assert_eq!(answer.status, OK);
    let number = |at: usize| u64::from_le_bytes(answer.data[at..at + 8].try_into().expect("8"));
    let count = usize::try_from(number(0)).expect("few");
    let zones = (1..=count).map(|zone| 64 * zone);
    zones
        .map(|at| {
            let [kind, state] = [answer.data[at + 24], answer.data[at + 25]];
            (number(at), number(at + 8), number(at + 16), kind, state)
        })
        .collect()
}

#[test]
fn guest_writes_and_reads_through_several_queues_at_once() {
    for without in [0, EVENT_IDX, INDIRECT, EVENT_IDX | INDIRECT] {
        let served = Served::new(&zoned(Nanos(0)));
        let mut guest = Guest::start(served.path(), without);
        assert_eq!(guest.client.number(GET_QUEUE_NUM), 3);
        thread::scope(|scope| {
            for index in 0..3 {
                let mut ring = guest.ring(index, 0);
                // Two conventional zones, and one that is sequential.
                let zone = if index == 2 { 5 } else { u64::from(index) };
                scope.spawn(move || verify(&mut ring, zone));
            }
        });
    }
}

#[test]
fn ring_takes_many_requests_and_answers_all() {
    let served = Served::new(&zoned(Nanos(0)));
    let mut guest = Guest::start(served.path(), 0);
    for part in [0x2000, 0x4000] {
        guest.memory.put(part + 2, &65530_u16.to_le_bytes());
    }
    let mut ring = guest.ring(0, 65530);
    // As many as there are slots, with pauses in which the server sleeps; indices wrap around.
    for round in 0..40_u64 {
        let requests: Vec<_> =
            (0..16).map(|slot| Request::write(slot * 8, &pattern(round + slot, 4096))).collect();
        (0..).zip(&requests).for_each(|(slot, request)| ring.submit(slot, request));
        for _ in 0..16 {
            let (head, len) = wait(|| ring.take());
            let slot = head as u16 / 4;
            let answer = ring.answer(slot, &requests[usize::from(slot)], len);
            assert_eq!(answer.status, OK, "round {round}");
        }
        if round % 8 == 0 {
            thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

#[test]
fn zones_are_reported_managed_and_appended_to() {
    let served = Served::new(&zoned(Nanos(0)));
    let mut guest = Guest::start(served.path(), 0);
    let mut ring = guest.ring(0, 0);
    let zones = report(&mut ring, 0, 64 * 20);
    assert_eq!(zones.len(), 16);
    assert_eq!((zones[0].0, zones[0].1, zones[0].3, zones[0].4), (ZONE, 0, 1, 0), "conventional");
    assert_eq!(zones[4], (1536, 4 * ZONE, 4 * ZONE, 2, 1), "empty");
    let data = pattern(1, 8192);
    for expected in [0_u64, 16, 32] {
        let answer = ring.io(1, &Request::append(5 * ZONE, &data));
        assert_eq!(
            (answer.status, answer.data[..8].to_vec()),
            (OK, (5 * ZONE + expected).to_le_bytes().to_vec())
        );
    }
    // From the zone that has the sector on, as many as there is room for.
    let zones = report(&mut ring, 5 * ZONE + 7, 64 * 3 + 63);
    assert_eq!(zones.len(), 2);
    assert_eq!(zones[0], (1536, 5 * ZONE, 5 * ZONE + 48, 2, 2), "implicitly open");
    let mut manage = |kind: u32, zone: u64| ring.io(0, &Request::new(kind, zone * ZONE)).status;
    let [open, close, finish, reset] = [18, 20, 22, 24];
    assert_eq!(manage(close, 5), OK);
    assert_eq!([manage(open, 6), manage(open, 7), manage(open, 8)], [OK, OK, ACTIVE_RESOURCE]);
    assert_eq!([manage(reset, 5), manage(open, 8)], [OK, OPEN_RESOURCE]);
    assert_eq!([manage(finish, 6), manage(reset, 7)], [OK, OK]);
    for kind in [open, close, finish, reset] {
        assert_eq!(manage(kind, 1), INVALID_CMD, "{kind} of a conventional zone");
    }
    assert_eq!(manage(open, 6), INVALID_CMD, "full");
    let states = |ring: &mut Ring| report(ring, 5 * ZONE, 64 * 4).into_iter().map(|z| z.4);
    assert!(states(&mut ring).eq([1, 14, 1]));
    assert_eq!(ring.io(0, &Request::new(26, 0)).status, OK);
    assert!(states(&mut ring).eq([1, 1, 1]));
}

#[test]
fn what_zones_do_not_allow_has_the_status_that_the_standard_has_for_it() {
    let served = Served::new(&zoned(Nanos(0)));
    let mut guest = Guest::start(served.path(), 0);
    let mut ring = guest.ring(0, 0);
    let data = pattern(1, 4096);
    for (request, status) in [
        (Request::write(4 * ZONE + 8, &data), UNALIGNED_WP),
        (Request::write(4 * ZONE, &data[..512]), UNALIGNED_WP),
        (Request::write(4 * ZONE, &data), OK),
        (Request::write(4 * ZONE, &data), UNALIGNED_WP),
        (Request::append(4 * ZONE + 8, &data), INVALID_CMD),
        (Request::append(ZONE, &data), INVALID_CMD),
        (Request { room: 7, ..Request::append(4 * ZONE, &data) }, IO_ERROR),
        (Request { room: 8, ..Request::append(4 * ZONE, &data) }, OK),
        (Request::write(5 * ZONE - 8, &pattern(1, 8192)), INVALID_CMD),
        (Request::read(5 * ZONE - 8, 8192), INVALID_CMD),
        (Request::write(ZONE - 8, &pattern(1, 8192)), OK),
        (Request::write(16 * ZONE, &data), IO_ERROR),
        (Request::write(u64::MAX, &data), IO_ERROR),
        (Request::read(16 * ZONE - 8, 8192), IO_ERROR),
        (Request::read(0, 100), IO_ERROR),
        (Request::read(0, 0), IO_ERROR),
        (Request::new(22, 4 * ZONE), OK),
        (Request::write(4 * ZONE + 16, &data), INVALID_CMD),
        (Request::new(24, 4 * ZONE + 8), INVALID_CMD),
        (Request::new(24, u64::MAX), INVALID_CMD),
        (Request { room: 64, ..Request::new(16, 16 * ZONE) }, INVALID_CMD),
        (Request { room: 63, ..Request::new(16, 0) }, IO_ERROR),
        (Request::range(11, 0, 8, 0), UNSUPPORTED),
        (Request::new(14, 0), UNSUPPORTED),
        (Request::new(u32::MAX, 0), UNSUPPORTED),
        (Request::new(4, 0), OK),
    ] {
        assert_eq!(ring.io(0, &request).status, status, "{request:?}");
    }
}

#[test]
fn device_without_zones_discards_and_zeroes_and_knows_nothing_of_zones() {
    let config = NullConfig { zoned: false, size: Bytes(16 << 20), ..zoned(Nanos(0)) };
    let served = Served::new(&config);
    let mut guest = Guest::start(served.path(), 0);
    assert_eq!(guest.features & ZONED, 0);
    let mut ring = guest.ring(1, 0);
    verify(&mut ring, 3);
    let zeroes = Request::range(13, 3 * ZONE, 8, 1);
    assert_eq!(ring.io(0, &zeroes).status, OK);
    assert!(ring.io(0, &Request::read(3 * ZONE, 4096)).data.iter().all(|byte| *byte == 0));
    let id = ring.io(0, &Request { room: 20, ..Request::new(8, 0) });
    assert_eq!((id.status, id.data, id.len), (OK, b"0123456789abcdef0123".to_vec(), 21));
    for (request, status) in [
        (Request::range(11, 0, 64, 0), OK),
        (Request::range(11, 0, 64, 1), UNSUPPORTED),
        (Request::range(13, 0, 64, 2), UNSUPPORTED),
        (Request::range(13, 0, u32::MAX, 0), IO_ERROR),
        (Request::range(11, u64::MAX, 64, 0), IO_ERROR),
        (Request { out: vec![0; 32], ..Request::new(11, 0) }, IO_ERROR),
        (Request::new(11, 0), IO_ERROR),
        (Request { room: 256, ..Request::new(16, 0) }, UNSUPPORTED),
        (Request::append(0, &[0; 4096]), UNSUPPORTED),
        (Request::new(24, 0), UNSUPPORTED),
    ] {
        assert_eq!(ring.io(0, &request).status, status, "{request:?}");
    }
}

#[test]
fn driver_that_knows_nothing_of_zones_reads_and_does_not_write() {
    let served = Served::new(&zoned(Nanos(0)));
    let mut guest = Guest::start(served.path(), ZONED);
    let mut ring = guest.ring(0, 0);
    assert_eq!(ring.io(0, &Request::read(0, 4096)).status, OK);
    assert_eq!(ring.io(0, &Request::write(0, &[0; 4096])).status, IO_ERROR);
    assert_eq!(ring.io(0, &Request::range(13, 0, 8, 0)).status, IO_ERROR);
    assert_eq!(ring.io(0, &Request { room: 256, ..Request::new(16, 0) }).status, UNSUPPORTED);
    for management in [18, 20, 22, 24, 26] {
        assert_eq!(ring.io(0, &Request::new(management, 0)).status, UNSUPPORTED, "{management}");
    }
}

#[test]
fn zones_without_a_write_pointer_report_their_end() {
    let drive = Arc::new(NullDevice::new(&zoned(Nanos(0))).expect("a device"));
    let served = Served::over(drive.clone());
    let mut guest = Guest::start(served.path(), 0);
    let mut ring = guest.ring(0, 0);
    let data = pattern(1, 4096);
    // No more than three at a time can be active.
    for zone in 4..8 {
        assert_eq!(ring.io(0, &Request::write(zone * ZONE, &data)).status, OK);
        match zone {
            4 => assert_eq!(ring.io(0, &Request::new(22, 4 * ZONE)).status, OK, "finished"),
            5 => drive.set_condition(ZoneNo(5), ZoneCondition::ReadOnly).expect("a zone"),
            6 => drive.set_condition(ZoneNo(6), ZoneCondition::Offline).expect("a zone"),
            _ => {}
        }
    }
    let found: Vec<_> = report(&mut ring, 4 * ZONE, 64 * 5).iter().map(|z| (z.2, z.4)).collect();
    let expected = [(5 * ZONE, 14), (6 * ZONE, 13), (7 * ZONE, 15), (7 * ZONE + 8, 2)];
    assert_eq!(found, expected);
    assert_eq!(report(&mut ring, 0, 128)[0].2, ZONE, "a conventional one");
}

#[test]
fn configuration_space_has_the_zones() {
    let served = Served::new(&zoned(Nanos(0)));
    let (mut client, _) = Client::negotiated(served.path(), 0);
    let config = client.config(0, 96);
    let number = |at: usize| u32::from_le_bytes(config[at..at + 4].try_into().expect("four"));
    assert_eq!(config[..8], (16 * ZONE).to_le_bytes());
    assert_eq!((number(20), config[34]), (4096, 3), "block size and queues");
    assert_eq!([72, 76, 80, 84, 88].map(number), [2048, 2, 3, 2048, 4096]);
    assert_eq!(config[92], 1, "host-managed");
    assert_eq!(client.config(92, 8), [1, 0, 0, 0, 0, 0, 0, 0], "zeroes after it");
    assert_eq!(
        client.set(client::SET_CONFIG, &[&[32, 0, 0, 0, 1], [0; 8].as_slice()].concat(), &[]),
        Err(1)
    );
}

#[test]
fn device_that_has_lost_zones_has_another_size() {
    let spec = "hdd:recording=smr,zones=16,zone_size=1M,heads=4,max_open=8,lba=4096";
    let disk = device_spec::parse(spec).and_then(|spec| device_spec::build(&spec));
    let disk = disk.expect("a disk");
    let served = Served::over(disk.clone());
    let mut guest = Guest::start(served.path(), 0);
    assert_eq!(guest.client.config(0, 8), (16 * ZONE).to_le_bytes());
    assert_eq!(disk.format_without_head(1), Ok(12));
    served.queue.freeze();
    assert_eq!(served.queue.revalidate(), Ok(12));
    served.queue.unfreeze();
    assert_eq!(guest.client.config(0, 8), (12 * ZONE).to_le_bytes());
    let mut ring = guest.ring(0, 0);
    assert_eq!(report(&mut ring, 0, 64 * 17).len(), 12);
    let beyond = Request { room: 128, ..Request::new(16, 12 * ZONE) };
    assert_eq!(ring.io(0, &beyond).status, INVALID_CMD);
    assert_eq!(ring.io(0, &Request::write(12 * ZONE, &[7; 4096])).status, IO_ERROR);
    assert_eq!(ring.io(0, &Request::write(11 * ZONE, &[7; 4096])).status, OK);
}

#[test]
fn ring_that_is_stopped_has_answered_everything_and_goes_on_later() {
    let served = Served::new(&zoned(Nanos(20_000_000)));
    let mut guest = Guest::start(served.path(), 0);
    let mut ring = guest.ring(0, 0);
    let mut done = 0;
    for round in 0..3_u64 {
        let requests: Vec<_> = (0..4)
            .map(|slot| Request::write(4 * ZONE + (round * 4 + slot) * 8, &pattern(slot, 4096)))
            .collect();
        (0..).zip(&requests).for_each(|(slot, request)| ring.submit(slot, request));
        let base = guest.client.call(GET_VRING_BASE, &client::state(0, 0));
        let base = u32::from_le_bytes(base[4..].try_into().expect("four"));
        // All that the device has taken is answered, and the rest is for later.
        assert_eq!(u32::from(ring.used_index()), base);
        let (avail, used) = (ring.avail, ring.used);
        ring = guest.ring(0, u16::try_from(base).expect("an index"));
        (ring.avail, ring.used) = (avail, used);
        for _ in 0..4 {
            let (head, len) = wait(|| ring.take());
            let slot = head as u16 / 4;
            assert_eq!(ring.answer(slot, &requests[usize::from(slot)], len).status, OK);
            done += 1;
        }
    }
    assert_eq!(done, 12);
}

#[test]
fn ring_that_is_stopped_has_committed_what_it_answered_or_the_client_is_disconnected() {
    let stop = |rule: &str| {
        let device = NullDevice::new(&zoned(Nanos(0))).expect("a device");
        let faults = Arc::new(InjectDevice::new(Arc::new(device), 0));
        faults.add(rule.parse().expect("a rule"));
        let served = Served::over(Arc::clone(&faults) as _);
        let mut guest = Guest::start(served.path(), 0);
        let mut ring = guest.ring(0, 0);
        assert_eq!(ring.io(0, &Request::write(4 * ZONE, &pattern(1, 4096))).status, OK);
        guest.client.send(GET_VRING_BASE, &client::state(0, 0), &[]);
        let closed = rule.starts_with("fail") && guest.client.is_closed();
        if !closed {
            guest.client.receive(GET_VRING_BASE);
        }
        (closed, faults.rules()[0].1)
    };
    assert_eq!(stop("delay=flush,time=20ms"), (false, 1));
    assert_eq!(stop("fail=flush"), (true, 1));
}

#[test]
fn memory_comes_and_goes_in_pieces() {
    let served = Served::new(&zoned(Nanos(0)));
    let mut guest = Guest::start(served.path(), 0);
    assert!(guest.client.number(client::GET_MAX_MEM_SLOTS) >= 32);
    let mut ring = guest.ring(0, 0);
    let extra = guest_memory::Memory::new(1 << 20);
    let region = client::mem_table(&[(1 << 32, 1 << 20, client::USER + (1 << 40), 0)]);
    let region = [vec![0; 8], region[8..].to_vec()].concat();
    let data = pattern(9, 4096);
    extra.put(4096, &data);
    let place = ring.place(0);
    let mut write = |guest: &mut Guest, at: u64| {
        let header = [1_u32, 0].map(u32::to_le_bytes).concat();
        guest.memory.put(place, &[header, at.to_le_bytes().to_vec()].concat());
        guest.memory.put(place + 16, &[0xff]);
        ring.describe(0, place, 16, guest::NEXT, 1);
        ring.describe(1, (1 << 32) + 4096, 4096, guest::NEXT, 2);
        ring.describe(2, place + 16, 1, guest::WRITE, 0);
        ring.offer(0);
        wait(|| ring.take());
        guest.memory.get(place + 16, 1)[0]
    };
    assert_eq!(write(&mut guest, 0), IO_ERROR, "it is not there");
    {
        use std::os::fd::AsFd;
        guest.client.set(client::ADD_MEM_REG, &region, &[extra.file.as_fd()]).expect("memory");
    }
    assert_eq!(write(&mut guest, 8), OK);
    guest.client.set(client::REM_MEM_REG, &region, &[]).expect("it was there");
    assert_eq!(write(&mut guest, 16), IO_ERROR);
    assert_eq!(guest.client.set(client::REM_MEM_REG, &region, &[]), Err(1));
    assert!(ring.io(0, &Request::read(8, 4096)).data == data);
}

#[test]
fn client_without_eventfds_is_woken_by_a_pipe() {
    use std::io::Read;
    use std::os::fd::AsFd;
    let served = Served::new(&zoned(Nanos(0)));
    let mut guest = Guest::start(served.path(), 0);
    let mut ring = guest.ring(0, 0);
    let (mut woken, wakes) = std::io::pipe().expect("a pipe");
    guest.client.set(client::SET_VRING_CALL, &[0; 8], &[wakes.as_fd()]).expect("a pipe");
    let kick = guest.client.set(client::SET_VRING_KICK, &[0; 8], &[wakes.as_fd()]);
    assert_eq!(kick, Err(1), "that is read by the server");
    drop(wakes);
    ring.submit(0, &Request::write(4 * ZONE, &pattern(1, 4096)));
    let mut count = [0; 8];
    woken.read_exact(&mut count).expect("it is woken");
    assert_eq!(count, 1_u64.to_ne_bytes());
    wait(|| ring.take());
}
