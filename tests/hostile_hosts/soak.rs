//! An honest host that writes, reads back and verifies, alone and then beside every attack on every export.
//!
//! 20 seconds, which look for errors and growth. For half an hour, which looks at latency too, on a
//! machine without other work:
//!
//! ```text
//! ZONAL_SOAK_SECONDS=1800 cargo test --release --test hostile_hosts soak -- --nocapture
//! ```
use crate::hostile::Answers;
use crate::hostile::attacks::{ATTACKS, Hoard, Victim};
use crate::hostile::local::{LOCAL_ATTACKS, LocalHoard};
use crate::server::{HOST, Server};
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
/// How much more memory the server may use after the last third of the attacks than after the first.
const MAX_GROWTH_KIB: u64 = 16 << 10;
/// How many more descriptors, mappings and threads: threads end a moment after their connections, and
/// leave the memory of their stacks to the next.
const MAX_GROWTH: usize = 64;

/// The honest host: a job in a process of its own.
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
        command.args(["--time_based", &format!("--runtime={}", runtime.as_secs())]);
        Job(command.stdout(Stdio::piped()).spawn().expect("the program starts"))
    }

    fn end(self) -> Report {
        let output = self.0.wait_with_output().expect("it ends");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let job = &json["jobs"][0];
        let number = |value: &Value| value.as_u64().expect("a number");
        let p99 = |dir: &str| number(&job[dir]["clat_ns"]["percentile"]["99.000000"]);
        let report = Report {
            errors: number(&job["error"]),
            ios: number(&job["read"]["total_ios"]) + number(&job["write"]["total_ios"]),
            p99: ["read", "write"].map(p99),
        };
        assert!(output.status.success(), "{report:?}");
        report
    }
}

#[test]
fn soak_with_an_honest_host_beside_hostile_ones() {
    let seconds = std::env::var("ZONAL_SOAK_SECONDS").ok();
    let seconds = seconds.map_or(20, |text| text.parse().expect("ZONAL_SOAK_SECONDS: a number"));
    let (alone, attacked) =
        (Duration::from_secs(seconds / 4), Duration::from_secs(seconds * 3 / 4));
    let (server, local) = Server::with_all_exports(HONEST, &[ATTACKED]);
    let undisturbed = Job::start(&server, alone).end();
    let start = server.usage();

    let target = server.target.clone();
    let victim = Victim { target, hostnqn: HOST.to_owned(), nsid: 2 };
    let (mut answers, mut rounds, mut peak, begin) = (Answers::default(), 0, 0, Instant::now());
    let job = Job::start(&server, attacked);
    // What the server uses after each third, when the hostile hosts have gone.
    let usages = [1, 2, 3].map(|third| {
        let (mut hoard, mut local_hoard) = (Hoard::default(), LocalHoard::default());
        while begin.elapsed() < attacked * third / 3 {
            let (_, attack) = ATTACKS[rounds % ATTACKS.len()];
            // The server may answer as it likes, and end the connection.
            let _ = attack(&victim, &mut hoard);
            let (_, attack) = LOCAL_ATTACKS[rounds % LOCAL_ATTACKS.len()];
            let _ = attack(&local, &mut local_hoard);
            rounds += 1;
            peak = server.usage().resident_kib.max(peak);
            std::thread::sleep(PAUSE);
        }
        answers.add(&hoard.answers);
        drop((hoard, local_hoard));
        server.idle_usage()
    });
    let disturbed = job.end();
    println!("undisturbed: {undisturbed:?}\ndisturbed: {disturbed:?}");
    println!("{rounds} attacks, answers: {answers:?}");
    println!("resident: {peak} KiB at most\nat first {start:?}\nbetween attacks {usages:#?}");
    assert_eq!((undisturbed.errors, disturbed.errors), (0, 0));
    assert!(undisturbed.ios > 0 && disturbed.ios > 0 && rounds >= ATTACKS.len());
    let [first, _, last] = usages;
    let grown = last.resident_kib.saturating_sub(first.resident_kib);
    assert!(grown <= MAX_GROWTH_KIB, "{grown} KiB more after the last third than after the first");
    for (what, last, first) in [
        ("descriptors", last.descriptors, first.descriptors),
        ("mappings", last.mappings, first.mappings),
        ("threads", last.threads, first.threads),
    ] {
        assert!(
            last <= first + MAX_GROWTH,
            "{what}: {first} after the first third, {last} at last"
        );
    }
    if seconds >= LATENCY_COUNTS.as_secs() {
        for (disturbed, undisturbed) in disturbed.p99.into_iter().zip(undisturbed.p99) {
            assert!(disturbed <= 3 * undisturbed, "p99 of {disturbed} ns, {undisturbed} alone");
        }
    }
}
