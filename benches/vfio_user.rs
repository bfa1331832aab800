//! A guest's I/O over vfio-user: our controller, on a null device that takes no time and keeps no data,
//! under a guest in this process, which drives its queues directly.
//!
//! ```text
//!  this thread       the guest: commands, shadow doorbells and completions in shared memory
//!  vfio-user         the server's thread: messages, of which the guest sends few
//!  vfio-user-N       the server's thread of queue N, which polls; each wants a core
//! ```
//!
//! The server copies the data of each read into the guest's memory. `cargo bench --bench vfio_user`;
//! rounds are taken in turn, and a row shows its best round and the median of all. CPU is the processor
//! time of the queues' threads for an I/O, which they have also spent on looking for work. With two
//! queues the guest wants a third core: on two, compare that CPU time.
#[path = "../crates/frontend/tests/vfio_user/client.rs"]
#[allow(dead_code, reason = "this guest uses a part of it")]
mod client;
#[path = "../crates/frontend/tests/vfio_user/guest.rs"]
#[allow(dead_code, reason = "this guest uses a part of it")]
mod guest;
#[path = "../crates/frontend/tests/guest_memory/mod.rs"]
#[allow(dead_code, reason = "this guest uses a part of it")]
mod guest_memory;
#[path = "support/start.rs"]
mod start;

use guest::{DATA, Guest, QueuePair, transfer};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zonal_blk::{Device, Queue, QueueOptions};
use zonal_device::device_spec;
use zonal_frontend::vfio_user::{Server, ServerConfig};
use zonal_nvme::controller::{Namespace, Subsystem, SubsystemConfig};
use zonal_nvme::wire::opcode::IoOpcode;
use zonal_os::RealClock;
use zonal_os::poll::WaitPolicy;

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(400);

/// A load: 4 KiB reads.
struct Row {
    name: &'static str,
    /// Commands in flight of each queue.
    depth: u16,
    queues: u16,
    goal: &'static str,
}

const ROWS: [Row; 3] = [
    Row { name: "depth 1", depth: 1, queues: 1, goal: "under 5 us" },
    Row { name: "depth 128", depth: 128, queues: 1, goal: "1500 KIOPS" },
    Row { name: "depth 128, 2 queues", depth: 128, queues: 2, goal: "" },
];

/// A round: I/Os a second, and the processor time of one in the server.
#[derive(Clone, Copy)]
struct Measured {
    iops: f64,
    cpu: Duration,
}

fn server(directory: &tempfile::TempDir) -> Server {
    let device = device_spec::parse("null:zoned=false,size=64G,lba=4096").expect("a spec");
    let device: Arc<dyn Device> = device_spec::build(&device).expect("a device");
    let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
    let queue = Queue::attach(device, options).expect("a queue");
    let subsystem = Subsystem::new(SubsystemConfig {
        nqn: "nqn.2026-11.org.example:bench".to_owned(),
        serial: "1".to_owned(),
        model: "Zonal".to_owned(),
        firmware: "0".to_owned(),
    });
    let namespace = Namespace::new(queue, [1; 16]).expect("a namespace");
    subsystem.add(1, Arc::new(namespace)).expect("a free identifier");
    let config =
        ServerConfig { io_queues: 4, waiting: WaitPolicy::Yield, clock: RealClock::start() };
    Server::start(&directory.path().join("socket"), &subsystem, config).expect("a server")
}

/// Processor time so far of the threads that have queues.
fn cpu_time() -> Duration {
    let of_task = |path: std::path::PathBuf| {
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
        if name.starts_with("vfio-user-") { nanos } else { 0 }
    };
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    Duration::from_nanos(tasks.map(|task| of_task(task.expect("a thread").path())).sum())
}

/// Submits as many reads as were completed, and rings for all of them.
fn submit(guest: &mut Guest, queue: &mut QueuePair, count: u64, seed: &mut u64) {
    for _ in 0..count {
        // Xorshift: the order needs to be no better.
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        let buffer = DATA + *seed % 128 * 4096;
        queue.put(&guest.memory, &transfer(IoOpcode::READ, *seed % (16 << 20), 1, [buffer, 0]));
    }
    guest.ring_tail(queue);
}

/// Takes what has completed of a queue.
fn take(guest: &mut Guest, queue: &mut QueuePair) -> u64 {
    let mut count = 0;
    while let Some(cqe) = queue.take(&guest.memory) {
        assert!(cqe.status().is_success(), "{cqe:?}");
        count += 1;
    }
    if count > 0 {
        guest.ring_head(queue);
    }
    count
}

fn round(row: &Row) -> Measured {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(&directory);
    let mut guest = Guest::start(server.path());
    guest.use_shadow_doorbells();
    let mut queues: Vec<QueuePair> = (1..=row.queues).map(|qid| guest.create(qid)).collect();
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    for queue in &mut queues {
        submit(&mut guest, queue, row.depth.into(), &mut seed);
    }
    let (begin, cpu, mut count) = (Instant::now(), cpu_time(), 0);
    while begin.elapsed() < ROUND {
        let mut taken = 0;
        for queue in &mut queues {
            let here = take(&mut guest, queue);
            if here > 0 {
                submit(&mut guest, queue, here, &mut seed);
            }
            taken += here;
        }
        count += taken;
        if taken == 0 {
            std::thread::yield_now();
        }
    }
    let spent = begin.elapsed();
    let cpu = (cpu_time() - cpu).div_f64(count as f64);
    Measured { iops: count as f64 / spent.as_secs_f64(), cpu }
}

fn main() {
    if !start::measures() {
        return;
    }
    let mut rounds = ROWS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (row, rounds) in ROWS.iter().zip(&mut rounds) {
            rounds.push(round(row));
        }
    }
    println!(
        "{:22} {:>8} {:>8} {:>9} {:>8}  goal",
        "4 KiB reads", "KIOPS", "median", "mean, us", "CPU, ns"
    );
    for (row, rounds) in ROWS.iter().zip(&mut rounds) {
        rounds.sort_by(|one, other| other.iops.total_cmp(&one.iops));
        let (Measured { iops, cpu }, median) = (rounds[0], rounds[ROUNDS / 2].iops / 1e3);
        // Little's law: as many commands as the depth are in flight all the time.
        let mean = f64::from(row.depth * row.queues) / iops * 1e6;
        println!(
            "{:22} {:8.1} {median:8.1} {mean:9.2} {:8}  {}",
            row.name,
            iops / 1e3,
            cpu.as_nanos(),
            row.goal
        );
    }
}
