//! What it takes to attach a served 30 TB disk, and its first I/O: 111,760 zones, of which the host has
//! to ask for a report, none of them written and all of them.
//!
//! ```text
//!  NVMe/TCP     connect, identify, report all zones, attach the block layer; then a write
//!  vhost-user   connect, share memory, start a ring, report all zones as a guest's kernel does; then a write
//!  zonal run    the program from start to end with a job of one write over NVMe/TCP
//! ```
//!
//! The server is in this process. The device is the null device with the disk's geometry, so that a write
//! takes no time, and the disk's model, whose heads have to move.
//!
//! `cargo bench --bench served`: each figure is the median of five rounds, each with a server of its own.
#[path = "../crates/frontend/tests/vhost_user/client.rs"]
#[allow(dead_code, reason = "this guest uses a part of it")]
mod client;
#[path = "../crates/frontend/tests/vhost_user/guest.rs"]
#[allow(dead_code, reason = "this guest uses a part of it")]
mod guest;
#[path = "../crates/frontend/tests/guest_memory/mod.rs"]
#[allow(dead_code, reason = "this guest uses a part of it")]
mod guest_memory;
#[path = "support/median.rs"]
mod median;
#[path = "support/start.rs"]
mod start;

use guest::{Guest, Request, Ring};
use median::median;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zonal_backend::nvme_tcp;
use zonal_blk::{Bio, Buf, Clock, Op, Queue, QueueOptions, Sector, Status};
use zonal_device::device_spec;
use zonal_frontend::{nvme_tcp as target, vhost_user};
use zonal_nvme::controller::{Namespace, Subsystem, SubsystemConfig};
use zonal_os::RealClock;
use zonal_os::poll::WaitPolicy;

const ROUNDS: usize = 5;
const NQN: &str = "nqn.2026-11.org.example:bench";
const ZONES: usize = 111_760;
/// Bytes of a zone report to a guest: the longest that the guest of the tests has room for.
const REPORT: usize = 960 << 10;

const DEVICES: [(&str, &str); 4] = [
    ("null of 30 TB", "null:zones=111760,zone_size=256M,max_open=128,lba=4096"),
    ("the same, written", "null:zones=111760,zone_size=256M,max_open=128,lba=4096,written=100%"),
    ("smr-30t", "smr-30t"),
    ("the same, written", "smr-30t:written=100%"),
];

/// Times of a round.
#[derive(Clone, Copy)]
struct Times {
    /// From connect until the first I/O is submitted.
    attach: Duration,
    /// Until it has completed.
    first_io: Duration,
}

fn queue(device: &str) -> Arc<Queue> {
    let device = device_spec::parse(device).expect("a spec");
    let device = device_spec::build(&device).expect("a device");
    let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
    Queue::attach(device, options).expect("a queue")
}

fn serve_nvme_tcp(queue: Arc<Queue>) -> target::Server {
    let subsystem = Subsystem::new(SubsystemConfig {
        nqn: NQN.to_owned(),
        serial: "1".to_owned(),
        model: "Zonal".to_owned(),
        firmware: "0".to_owned(),
    });
    let namespace = Namespace::new(queue, [1; 16]).expect("a namespace");
    subsystem.add(1, Arc::new(namespace)).expect("a free identifier");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    target::Server::start(address, subsystem, target::ServerConfig::default()).expect("a port")
}

/// The sector of the first I/O, a read: also a zone that is full can be read.
const FIRST: Sector = Sector(0);

fn over_nvme_tcp(device: &str) -> Times {
    let server = serve_nvme_tcp(queue(device));
    let address = format!("nvme-tcp://{}/{NQN}", server.address());
    let address = address.parse().expect("an address");
    let begin = Instant::now();
    let (connected, _) =
        nvme_tcp::open(&address, 1, &(Arc::new(|_: &str| ()) as _)).expect("a device");
    let queue = Queue::attach(connected, QueueOptions::default()).expect("a queue");
    let mut channel = queue.channel().expect("a hardware queue");
    let attach = begin.elapsed();
    let clock = RealClock::start();
    let read = Bio { buf: Some(Buf::zeroed(4096)), ..Bio::new(Op::Read, FIRST, 8, 0) };
    channel.submit(clock.now(), read);
    let mut done = Vec::new();
    while done.is_empty() {
        channel.poll(clock.now(), &mut done);
    }
    assert_eq!(done[0].status, Status::Ok);
    assert_eq!(queue.limits().nr_zones as usize, ZONES);
    Times { attach, first_io: begin.elapsed() }
}

/// Asks for all zones, one report after the other.
fn report_all(ring: &mut Ring) {
    let (mut zones, mut next) = (0, 0);
    while zones < ZONES {
        let request = Request { room: REPORT, ..Request::new(16, next) };
        let answer = ring.io(0, &request);
        assert_eq!(answer.status, 0, "a zone report");
        let number = |at: usize| u64::from_le_bytes(answer.data[at..at + 8].try_into().expect("8"));
        let count = usize::try_from(number(0)).expect("zones");
        assert!(count > 0, "zones are left");
        // Capacity and start of the last.
        next = number(64 * count + 8) + (256 << 11);
        zones += count;
    }
    assert_eq!(zones, ZONES);
}

fn over_vhost_user(device: &str) -> Times {
    let directory = tempfile::tempdir().expect("a directory");
    let config = vhost_user::ServerConfig {
        queues: 1,
        serial: "1".to_owned(),
        waiting: WaitPolicy::default(),
        clock: RealClock::start(),
    };
    let server =
        vhost_user::Server::start(&directory.path().join("socket"), &queue(device), config);
    let server = server.expect("a server");
    let begin = Instant::now();
    let mut guest = Guest::start(server.path(), 0);
    let mut ring = guest.ring(0, 0);
    report_all(&mut ring);
    let attach = begin.elapsed();
    let answer = ring.io(0, &Request::read(FIRST.0, 4096));
    assert_eq!(answer.status, 0);
    Times { attach, first_io: begin.elapsed() }
}

/// `zonal run` with a job of one read.
fn program(device: &str) -> Duration {
    let server = serve_nvme_tcp(queue(device));
    let device = format!("--device=nvme-tcp://{}/{NQN}", server.address());
    let job = ["run", "--name=first", "--rw=read", "--bs=4k", "--number_ios=1", "--zonemode=zbd"];
    let mut zonal = Command::new(env!("CARGO_BIN_EXE_zonal"));
    zonal.args(job).args(["--read_beyond_wp=1", "--output-format=terse", &device]);
    let begin = Instant::now();
    let output = zonal.output().expect("the program starts");
    let spent = begin.elapsed();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    spent
}

fn row(figure: &str, times: impl Iterator<Item = Duration>, goal: &str) {
    let ms = median(times.map(|time| time.as_secs_f64() * 1e3));
    println!("{figure:<52} {ms:>9.1} ms  {goal}");
}

fn main() {
    if !start::measures() {
        return;
    }
    println!("{:<52} {:>9}     goal", "figure", "measured");
    for (name, device) in DEVICES {
        for (transport, measure) in
            [("NVMe/TCP", over_nvme_tcp as fn(&str) -> Times), ("vhost-user", over_vhost_user)]
        {
            let rounds: Vec<Times> = (0..ROUNDS).map(|_| measure(device)).collect();
            let attach = rounds.iter().map(|times| times.attach);
            row(&format!("{name}, {transport}, attached"), attach, "at most 100");
            let first = rounds.iter().map(|times| times.first_io);
            row(&format!("{name}, {transport}, first read completed"), first, "");
        }
        let whole = (0..ROUNDS).map(|_| program(device));
        row(&format!("{name}, zonal run of one read, start to end"), whole, "");
    }
}
