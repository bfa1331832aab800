//! Honest hosts that write, read back and verify, alone and beside every attack on every export, in turns.
//!
//! By default it takes 20 seconds, looks for errors and growth, and leaves out the exports that need
//! privileges. With all exports for half an hour, with latency, on a machine without other work:
//!
//! ```text
//! ZONAL_SOAK_SECONDS=1800 cargo test --release --features fuse --test hostile_hosts soak -- --nocapture
//! ```
//!
//! `ZONAL_SOAK_WITHOUT=fuse,ublk` leaves out exports that the machine does not have.
use crate::hostile::Answers;
use crate::hostile::attacks::{ATTACKS, Hoard, Victim};
use crate::hostile::local::{LOCAL_ATTACKS, LocalHoard, LocalVictim};
use crate::hostile::single::{SINGLE_ATTACKS, SingleHoard, SingleVictim};
use crate::server::{HOST, Privileged, Server, Usage};
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// The honest host's device, for an image.
const HONEST: &str = "null:zones=64,zone_size=1M,lba=4096,max_open=8";
/// The device that attacks read and write.
const ATTACKED: &str = "null:zones=16,zone_size=256M,lba=4096,max_open=4";
/// Runs shorter than this have too few samples for a percentile of latency.
const LATENCY_COUNTS: Duration = Duration::from_secs(60);
/// Between two attacks.
const PAUSE: Duration = Duration::from_millis(100);
/// Where latency counts, a third of each turn is without attacks. Turns are short, so that other work on
/// the machine, which comes and goes, affects both parts, and many, so that a median leaves out the rest.
const TURN: Duration = Duration::from_secs(90);
/// Turns at least.
const TURNS: u32 = 3;
/// How much higher the median of the 99th percentiles of latency may be beside attacks.
const MAX_RATIO: f64 = 3.0;
/// How much more memory a server may use after the last turn than after the first.
const MAX_GROWTH_KIB: u64 = 16 << 10;
/// How many more descriptors, mappings and threads: threads end a moment after their connections, and
/// leave the memory of their stacks to the next.
const MAX_GROWTH: usize = 64;

/// Of `p99`.
const KINDS: [&str; 2] = ["reads", "writes"];

/// An honest host: a job in a process of its own, on the zones that nobody attacks.
struct Job(Child);

/// How a job ended.
#[derive(Debug)]
struct Report {
    errors: u64,
    ios: u64,
    /// 99th percentiles of the completion latency of reads and writes, in ns.
    p99: [u64; 2],
}

impl Job {
    fn start(server: &Server, runtime: Duration) -> Self {
        let mut command = server.zonal();
        command.args(["run", "--eta", "never", "--output-format", "json", "--name=honest"]);
        command.args(["--device", &server.device("&nsid=1"), "--zonemode=zbd", "--rw=randwrite"]);
        command.args(["--bs=4k", "--iodepth=8", "--verify=crc32c", "--verify_backlog=64"]);
        command.args(["--size=64M", "--max_open_zones=8"]);
        command.args(["--time_based", &format!("--runtime={}", runtime.as_secs())]);
        Job(command.stdout(Stdio::piped()).spawn().expect("the program starts"))
    }

    #[track_caller]
    fn end(self) -> Report {
        let output = self.0.wait_with_output().expect("it ends");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let job = &json["jobs"][0];
        let number = |value: &Value| value.as_u64().expect("a number");
        // On a busy machine a short run may have verified nothing: then there are no percentiles of reads.
        let p99 = |dir: &str| match number(&job[dir]["total_ios"]) {
            0 => 0,
            _ => number(&job[dir]["clat_ns"]["percentile"]["99.000000"]),
        };
        let report = Report {
            errors: number(&job["error"]),
            ios: number(&job["read"]["total_ios"]) + number(&job["write"]["total_ios"]),
            p99: ["read", "write"].map(p99),
        };
        assert!(output.status.success() && report.errors == 0 && report.ios > 0, "{report:?}");
        report
    }
}

/// A server with the exports that several devices can have, and one with the exports of a single device.
struct Servers {
    shared: (Server, Victim, LocalVictim),
    single: (Server, SingleVictim),
}

/// Counts of attacks and of the answers to them.
#[derive(Debug, Default)]
struct Attacked {
    rounds: usize,
    answers: Answers,
    peak_kib: [u64; 2],
}

impl Servers {
    fn start(exports: Privileged) -> Self {
        let (server, local) = Server::with_shared_exports(HONEST, &[ATTACKED]);
        let target = server.target.clone();
        let victim = Victim { target, hostnqn: HOST.to_owned(), nsid: 2 };
        Servers { shared: (server, victim, local), single: Server::with_single_exports(exports) }
    }

    fn all(&self) -> [&Server; 2] {
        [&self.shared.0, &self.single.0]
    }

    fn jobs(&self, runtime: Duration) -> [Job; 2] {
        self.all().map(|server| Job::start(server, runtime))
    }

    /// Attacks all exports for a time. The servers may answer as they like, and end connections.
    fn attack(&self, time: Duration, attacked: &mut Attacked) {
        let (_, victim, local) = &self.shared;
        let (_, single) = &self.single;
        let (mut hoard, mut local_hoard) = (Hoard::default(), LocalHoard::default());
        let (mut single_hoard, begin) = (SingleHoard::default(), Instant::now());
        while begin.elapsed() < time {
            let round = attacked.rounds;
            let _ = ATTACKS[round % ATTACKS.len()].1(victim, &mut hoard);
            let _ = LOCAL_ATTACKS[round % LOCAL_ATTACKS.len()].1(local, &mut local_hoard);
            let _ = SINGLE_ATTACKS[round % SINGLE_ATTACKS.len()].1(single, &mut single_hoard);
            attacked.rounds += 1;
            for (peak, server) in attacked.peak_kib.iter_mut().zip(self.all()) {
                *peak = server.usage().resident_kib.max(*peak);
            }
            std::thread::sleep(PAUSE);
        }
        attacked.answers.add(&hoard.answers);
    }
}

/// The exports that need privileges, without those that were left out.
fn privileged(long: bool) -> Privileged {
    let without = std::env::var("ZONAL_SOAK_WITHOUT").unwrap_or_default();
    let mut exports = Privileged { files: long, block: long };
    for name in without.split(',').filter(|name| !name.is_empty()) {
        match name {
            "fuse" => exports.files = false,
            "ublk" => exports.block = false,
            _ => panic!("ZONAL_SOAK_WITHOUT: found `{name}`, expected fuse or ublk"),
        }
    }
    for (wanted, device, name) in
        [(exports.files, "/dev/fuse", "fuse"), (exports.block, "/dev/ublk-control", "ublk")]
    {
        let there = std::path::Path::new(device).exists();
        assert!(
            !wanted || there,
            "there is no {device}: ZONAL_SOAK_WITHOUT={name} leaves the export out"
        );
    }
    assert!(
        !exports.files || cfg!(feature = "fuse"),
        "this program is without the feature fuse: ZONAL_SOAK_WITHOUT=fuse leaves the export out"
    );
    exports
}

#[test]
fn soak_with_honest_hosts_beside_hostile_ones() {
    let seconds = std::env::var("ZONAL_SOAK_SECONDS").ok();
    let exports = privileged(seconds.is_some());
    let seconds = seconds.map_or(20, |text| text.parse().expect("ZONAL_SOAK_SECONDS: a number"));
    let turns = TURNS.max(u32::try_from(seconds / TURN.as_secs()).expect("not for years"));
    let time = Duration::from_secs(seconds) / turns;
    let is_long = seconds >= LATENCY_COUNTS.as_secs();
    let alone = if is_long { time / 3 } else { Duration::ZERO };
    let beside = time - alone;
    let servers = Servers::start(exports);
    let mut attacked = Attacked::default();
    let turns: Vec<_> = (0..turns)
        .map(|turn| {
            let undisturbed = is_long.then(|| servers.jobs(alone).map(Job::end));
            let jobs = servers.jobs(beside);
            servers.attack(beside, &mut attacked);
            let disturbed = jobs.map(Job::end);
            let usage = servers.all().map(Server::idle_usage);
            println!("{turn}: alone {undisturbed:?}\nattacked {disturbed:?}\nthen {usage:?}");
            (undisturbed, disturbed, usage)
        })
        .collect();
    println!("{exports:?}, {attacked:?}");
    assert!(attacked.rounds >= ATTACKS.len());
    for server in 0..2 {
        let usages: Vec<Usage> = turns.iter().map(|(_, _, usage)| usage[server]).collect();
        assert_flat(usages[0], usages[usages.len() - 1]);
        for kind in if is_long { 0..2 } else { 0..0 } {
            let alone = turns.iter().filter_map(|(alone, ..)| alone.as_ref());
            let undisturbed = alone.map(|alone| alone[server].p99[kind]).collect();
            let disturbed = turns.iter().map(|(_, beside, _)| beside[server].p99[kind]).collect();
            let ratio = median(disturbed) / median(undisturbed);
            println!("server {server}, {}: attacked, p99 is {ratio:.2} times as long", KINDS[kind]);
            assert!(ratio <= MAX_RATIO, "server {server}, {}: {ratio:.2}", KINDS[kind]);
        }
    }
}

/// Fails if a server uses more after the last turn than after the first.
#[track_caller]
fn assert_flat(first: Usage, last: Usage) {
    let grown = last.resident_kib.saturating_sub(first.resident_kib);
    assert!(grown <= MAX_GROWTH_KIB, "{grown} KiB more after the last turn than after the first");
    for (what, last, first) in [
        ("descriptors", last.descriptors, first.descriptors),
        ("mappings", last.mappings, first.mappings),
        ("threads", last.threads, first.threads),
    ] {
        assert!(last <= first + MAX_GROWTH, "{what}: {first} after the first turn, {last} at last");
    }
}

/// The median of latencies.
fn median(mut values: Vec<u64>) -> f64 {
    values.sort_unstable();
    let upper = values.len() / 2;
    let lower = (values.len() - 1) / 2;
    (values[lower] + values[upper]) as f64 / 2.0
}

#[test]
fn median_of_latencies() {
    assert_eq!(median(vec![9, 1, 5]).to_bits(), 5.0_f64.to_bits());
    assert_eq!(median(vec![9, 1, 5, 2]).to_bits(), 3.5_f64.to_bits());
}
