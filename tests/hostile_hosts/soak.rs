//! Honest hosts that write, read back and verify, beside every attack on every export, in turns.
//!
//! By default it takes 20 seconds, looks for errors and growth, and leaves out the exports that need
//! privileges. With all exports for half an hour, with latency, on a machine without other work:
//!
//! ```text
//! ZONAL_SOAK_SECONDS=1800 cargo test --release --features fuse --test hostile_hosts soak -- --nocapture
//! ```
//!
//! `ZONAL_SOAK_WITHOUT=fuse,ublk` leaves out exports that the machine does not have.
//!
//! Latency beside attacks is compared with latency beside harmless clients, who come as often and use every
//! export: what is judged is the harm, and neither part has a machine that sleeps. Honest hosts send at a
//! fixed rate, far below what the server can do, and never wait for room in their queue unless they are
//! kept waiting: so a server that stands still for a hundredth of the time shows in the 99th percentile,
//! which has hardly any of the I/Os of a host that sends when its last I/O has completed.
use crate::hostile::Answers;
use crate::hostile::attacks::{ATTACKS, Hoard, Victim};
use crate::hostile::local::{self, LOCAL_ATTACKS, LocalHoard, LocalVictim};
use crate::hostile::single::{self, SINGLE_ATTACKS, SingleHoard, SingleVictim};
use crate::server::{HOST, Privileged, Server, Usage, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// The honest host's device, for an image.
const HONEST: &str = "null:zones=64,zone_size=1M,lba=4096,max_open=8";
/// The device that attacks read and write.
const ATTACKED: &str = "null:zones=16,zone_size=256M,lba=4096,max_open=4";
/// Runs shorter than this have too few samples for a percentile of latency.
const LATENCY_COUNTS: Duration = Duration::from_secs(60);
/// From the start of a round of attacks, or of harmless clients, to the next.
const ROUND: Duration = Duration::from_millis(100);
/// I/Os per second of an honest host, of reads and of writes each.
const RATE: u32 = 500;
/// Where latency counts, half of each turn is without attacks, in every other turn the first half. Turns are
/// short, so that other work on the machine, which comes and goes, affects both parts, and many, so that a
/// median leaves out the rest.
const TURN: Duration = Duration::from_secs(60);
/// Turns at least, where latency counts.
const TURNS: u32 = 4;
/// How much higher the 99th percentile of latency may be beside attacks, in half of the turns.
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
        command.args(["--bs=4k", "--iodepth=64", "--verify=crc32c", "--verify_backlog=64"]);
        command.args(["--size=64M", "--max_open_zones=8", &format!("--rate_iops={RATE},{RATE}")]);
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

/// The clients beside the honest hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Company {
    Harmless,
    Hostile,
}

/// Counts of attacks and of the answers to them.
#[derive(Debug, Default)]
struct Attacked {
    rounds: usize,
    answers: Answers,
    peak_kib: [u64; 2],
}

/// What the attackers of one part of a turn hold on to.
#[derive(Default)]
struct Hoards(Hoard, LocalHoard, SingleHoard);

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

    /// Honest hosts beside these clients, for a time.
    fn serve(&self, company: Company, time: Duration, attacked: &mut Attacked) -> [Report; 2] {
        // What the part before has left comes to its end: exports of one client have room again.
        self.visit();
        let jobs = self.all().map(|server| Job::start(server, time));
        let (begin, mut hoards) = (Instant::now(), Hoards::default());
        let mut next = Duration::ZERO;
        while begin.elapsed() < time {
            match company {
                Company::Harmless => self.visit(),
                Company::Hostile => self.attack(attacked, &mut hoards),
            }
            next = (next + ROUND).max(begin.elapsed());
            std::thread::sleep(next - begin.elapsed().min(next));
        }
        attacked.answers.add(&hoards.0.answers);
        jobs.map(Job::end)
    }

    /// A round of clients that use each export as it is meant.
    fn visit(&self) {
        let (server, _, local) = &self.shared;
        let (_, single) = &self.single;
        drop(crate::connect_and_read(&server.target));
        assert!(local::serves_metrics(local).expect("an answer"));
        wait_until("a monitor is served", || local::is_served(local));
        wait_until("a monitor of a disk is served", || single::is_served(single));
        single::read_zones(single).expect("files are read");
    }

    /// A round of attacks. The servers may answer as they like, and end connections.
    fn attack(&self, attacked: &mut Attacked, Hoards(hosts, locals, singles): &mut Hoards) {
        let ((_, victim, local), (_, single)) = (&self.shared, &self.single);
        let round = attacked.rounds;
        let _ = ATTACKS[round % ATTACKS.len()].1(victim, hosts);
        let _ = LOCAL_ATTACKS[round % LOCAL_ATTACKS.len()].1(local, locals);
        let _ = SINGLE_ATTACKS[round % SINGLE_ATTACKS.len()].1(single, singles);
        attacked.rounds += 1;
        for (peak, server) in attacked.peak_kib.iter_mut().zip(self.all()) {
            *peak = server.usage().resident_kib.max(*peak);
        }
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
    let turns = u32::try_from(seconds / TURN.as_secs()).expect("not for years");
    let is_long = seconds >= LATENCY_COUNTS.as_secs();
    let turns = if is_long { TURNS.max(turns) } else { 2 };
    let parts: &[Company] =
        if is_long { &[Company::Harmless, Company::Hostile] } else { &[Company::Hostile] };
    let time = Duration::from_secs(seconds) / (turns * parts.len() as u32);
    let servers = Servers::start(exports);
    let mut attacked = Attacked::default();
    let mut usages: Vec<[Usage; 2]> = Vec::new();
    let mut ratios: [[Vec<f64>; 2]; 2] = Default::default();
    for turn in 0..turns {
        let mut parts = parts.to_vec();
        if turn % 2 == 1 {
            parts.reverse();
        }
        let mut reports = BTreeMap::new();
        for company in parts {
            let report = servers.serve(company, time, &mut attacked);
            println!("{turn}: {company:?}: {report:?}");
            reports.insert(company, report);
        }
        usages.push(servers.all().map(Server::idle_usage));
        println!("then {:?}", usages.last());
        if let (Some(harmless), hostile) =
            (reports.get(&Company::Harmless), &reports[&Company::Hostile])
        {
            for (server, kind) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let [hostile, harmless] = [hostile, harmless].map(|part| part[server].p99[kind]);
                ratios[server][kind].push(hostile as f64 / harmless as f64);
            }
        }
    }
    println!("{exports:?}, {attacked:?}");
    assert!(attacked.rounds >= ATTACKS.len());
    for (server, ratios) in ratios.into_iter().enumerate() {
        assert_flat(usages[0][server], usages[usages.len() - 1][server]);
        for (kind, ratios) in KINDS.into_iter().zip(ratios).filter(|_| is_long) {
            println!("server {server}, {kind}: attacked, p99 is {ratios:.2?} times as long");
            let ratio = median(ratios);
            assert!(ratio <= MAX_RATIO, "server {server}, {kind}: {ratio:.2}");
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let upper = values.len() / 2;
    let lower = (values.len() - 1) / 2;
    f64::midpoint(values[lower], values[upper])
}

#[test]
fn median_of_ratios() {
    assert_eq!(median(vec![9.0, 1.0, 5.0]).to_bits(), 5.0_f64.to_bits());
    assert_eq!(median(vec![9.0, 1.0, 5.0, 2.0]).to_bits(), 3.5_f64.to_bits());
}
