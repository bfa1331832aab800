//! Metrics in Prometheus' text format 0.0.4.
//!
//! Names end in their unit, and those of counters in `_total`.
use super::managed::ManagedDevice;
use super::manager::DeviceManager;
use super::snapshot::{Answer, Snapshot};
use std::collections::BTreeMap;
use std::fmt::Write;
use zonal_blk::{IoHistograms, IoStat, Nanos, TIME_RANGES};
use zonal_device::control::Lateness;

/// Type, help and samples of metrics by name: the format wants all samples of a metric together.
#[derive(Default)]
struct Samples {
    by_name: BTreeMap<&'static str, (&'static str, &'static str, Vec<String>)>,
}

impl Samples {
    fn add(
        &mut self,
        (name, kind, help): (&'static str, &'static str, &'static str),
        labels: &[(&str, &str)],
        value: f64,
    ) {
        self.add_line((name, kind, help), "", labels, value);
    }

    /// A sample whose name has a suffix, as those of histograms have.
    fn add_line(
        &mut self,
        (name, kind, help): (&'static str, &'static str, &'static str),
        suffix: &str,
        labels: &[(&str, &str)],
        value: f64,
    ) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let sample = format!("{name}{suffix}{labels} {value}");
        self.by_name.entry(name).or_insert((kind, help, Vec::new())).2.push(sample);
    }

    /// A histogram of times, in buckets that end at powers of two of nanoseconds.
    fn add_times(&mut self, labels: [(&str, &str); 2], counts: &[u64; TIME_RANGES], total: Nanos) {
        let mut below = 0;
        for (at, count) in counts.iter().enumerate() {
            // Four ranges to a power of two; the first has what is shorter, too.
            if at % 4 == 0 && at > 0 {
                let end = (IoHistograms::range_start(at).0 as f64 / 1e9).to_string();
                let labels = [labels[0], labels[1], ("le", end.as_str())];
                self.add_line(DURATION, "_bucket", &labels, below as f64);
            }
            below += count;
        }
        let all = [labels[0], labels[1], ("le", "+Inf")];
        self.add_line(DURATION, "_bucket", &all, below as f64);
        self.add_line(DURATION, "_sum", &labels, total.0 as f64 / 1e9);
        self.add_line(DURATION, "_count", &labels, below as f64);
    }
}

/// Escapes a label's value.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

const INFO: (&str, &str, &str) = ("zonal_device_info", "gauge", "What the device is.");
const REQUESTS: (&str, &str, &str) =
    ("zonal_requests_total", "counter", "Requests that the device has completed.");
const BYTES: (&str, &str, &str) =
    ("zonal_bytes_total", "counter", "Bytes of requests that succeeded.");
const FAILURES: (&str, &str, &str) =
    ("zonal_request_failures_total", "counter", "Requests that failed.");
const PLUGS: (&str, &str, &str) = ("zonal_zone_plugs", "gauge", "Zone write plugs in use.");
const MERGES: (&str, &str, &str) =
    ("zonal_plug_merges_total", "counter", "Plugged writes that were merged into another.");
const WAITED: (&str, &str, &str) =
    ("zonal_plug_wait_seconds_total", "counter", "Time that writes were plugged, in total.");
const ZONES: (&str, &str, &str) = ("zonal_zones", "gauge", "Zones by condition.");
const FILES: (&str, &str, &str) =
    ("zonal_files_open_for_writing", "gauge", "Files of sequential zones that are open to write.");
const SCHEDULER: (&str, &str, &str) =
    ("zonal_scheduler_requests_total", "counter", "Requests in the scheduler, by class and event.");
const EVENTS: (&str, &str, &str) =
    ("zonal_device_events_total", "counter", "Events in the device.");
const BUSY: (&str, &str, &str) =
    ("zonal_device_busy_seconds_total", "counter", "Time that parts of the device were busy.");
const OWED: (&str, &str, &str) = (
    "zonal_device_answer_overdue_seconds",
    "gauge",
    "Time that the device has not answered for: zones and events are those of before.",
);
const MODEL: (&str, &str, &str) =
    ("zonal_model_completions_total", "counter", "Commands that the device's model has completed.");
const MODEL_LATE: (&str, &str, &str) = (
    "zonal_model_late_completions_total",
    "counter",
    "Commands that the device's model completed more than 20 us after they were due.",
);
const MODEL_LATENESS: (&str, &str, &str) = (
    "zonal_model_lateness_seconds_total",
    "counter",
    "Total time by which the commands of the device's model completed after they were due.",
);
const DURATION: (&str, &str, &str) = (
    "zonal_request_duration_seconds",
    "histogram",
    "Time from the start of a request by the device to its completion.",
);
const BUILD: (&str, &str, &str) =
    ("zonal_build_info", "gauge", "The version of the program that serves.");
const CPU: (&str, &str, &str) =
    ("process_cpu_seconds_total", "counter", "User and system CPU time of the server.");
const RESIDENT: (&str, &str, &str) =
    ("process_resident_memory_bytes", "gauge", "Resident memory of the server.");
const OPEN_FDS: (&str, &str, &str) =
    ("process_open_fds", "gauge", "Open file descriptors of the server.");
const FAULTS: (&str, &str, &str) =
    ("zonal_fault_hits_total", "counter", "Requests that a fault rule applied to.");

impl DeviceManager {
    /// All metrics. A device that waits is waited for only briefly: see [`Snapshot`].
    pub(super) fn metrics(&self) -> String {
        let mut samples = Samples::default();
        let devices = || self.devices().iter().zip(self.snapshots());
        devices().for_each(|(device, snapshot)| snapshot.ask(device));
        let names = short_names(self.devices().iter().map(|device| device.name.as_str()));
        devices().zip(&names).for_each(|((device, snapshot), name)| {
            of_device(device, ("device", name), snapshot, &mut samples);
        });
        samples.add(BUILD, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        of_process(&mut samples);
        let mut text = String::new();
        for (name, (kind, help, lines)) in samples.by_name {
            // Writing to a string does not fail.
            let _ =
                writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{}", lines.join("\n"));
        }
        text
    }
}

/// A short name for each device: the kind, the profile or the file's name, with a number if several have
/// the same.
fn short_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let short = |name: &'a str| {
        let (kind, _) = name.split_once(':').unwrap_or((name, ""));
        kind.rsplit('/').find(|part| !part.is_empty()).unwrap_or(name).to_owned()
    };
    let short: Vec<String> = names.map(short).collect();
    let numbered = |(at, name): (usize, &String)| {
        let is_same = |other: &&String| *other == name;
        match short.iter().filter(is_same).count() {
            1 => name.clone(),
            _ => format!("{name}-{}", short[..at].iter().filter(is_same).count() + 1),
        }
    };
    short.iter().enumerate().map(numbered).collect()
}

/// The server's use of its machine, with the names that Prometheus' own clients have for it. Where the
/// system does not say it, there are no such metrics.
fn of_process(samples: &mut Samples) {
    if let Some(usage) = zonal_os::usage::of_process() {
        samples.add(CPU, &[], usage.cpu.as_secs_f64());
        samples.add(RESIDENT, &[], usage.resident as f64);
        samples.add(OPEN_FDS, &[], f64::from(usage.open_fds));
    }
}

fn of_device(
    managed: &ManagedDevice,
    name: (&str, &str),
    snapshot: &Snapshot,
    samples: &mut Samples,
) {
    let ManagedDevice { name: spec, description, queue, device, files, .. } = managed;
    let scheduler = queue.scheduler();
    let labels = [
        name,
        ("spec", spec.as_str()),
        ("description", description.as_str()),
        ("scheduler", scheduler.name()),
        ("zone_write", queue.zone_write().name()),
    ];
    samples.add(INFO, &labels, 1.0);
    let stat = queue.iostat().unwrap_or_default();
    let IoStat { reads, writes, discards, flushes, zone_management, failures, .. } = stat;
    for (op, count) in [
        ("read", reads),
        ("write", writes),
        ("discard", discards),
        ("flush", flushes),
        ("zone_management", zone_management),
    ] {
        samples.add(REQUESTS, &[name, ("op", op)], count as f64);
    }
    for (op, sectors) in [("read", stat.sectors_read), ("write", stat.sectors_written)] {
        samples.add(BYTES, &[name, ("op", op)], sectors as f64 * 512.0);
    }
    samples.add(FAILURES, &[name], failures as f64);
    if let (Some(histograms), Some(times)) = (queue.histograms(), queue.iotimes()) {
        samples.add_times([name, ("op", "read")], &histograms.reads, times.reads);
        samples.add_times([name, ("op", "write")], &histograms.writes, times.writes);
    }
    samples.add(PLUGS, &[name], f64::from(queue.live_plugs()));
    let (mut merges, mut waited) = (0_u64, 0_u64);
    for plug in queue.dump_plugs(true) {
        merges += u64::from(plug.counters.merges);
        waited = waited.saturating_add(plug.counters.parked_ns);
    }
    samples.add(MERGES, &[name], merges as f64);
    samples.add(WAITED, &[name], waited as f64 / 1e9);
    let (answer, overdue) = snapshot.answer();
    for (condition, &count) in &answer.zones {
        samples.add(ZONES, &[name, ("condition", condition)], f64::from(count));
    }
    samples.add(OWED, &[name], overdue.as_secs_f64());
    if let Some(files) = files {
        samples.add(FILES, &[name], f64::from(files.open_for_writing()));
    }
    for (class, counters) in
        ["rt", "be", "idle"].iter().zip(queue.sched_counters().iter().flatten())
    {
        for (event, count) in [
            ("inserted", counters.inserted),
            ("merged", counters.merged),
            ("dispatched", counters.dispatched),
            ("completed", counters.completed),
        ] {
            let labels = [name, ("class", class), ("fate", event)];
            samples.add(SCHEDULER, &labels, count as f64);
        }
    }
    of_model(&answer, name, samples);
    for (rule, hits) in device.rules() {
        samples.add(FAULTS, &[name, ("rule", &rule.to_string())], hits as f64);
    }
}

/// The device's own counts.
fn of_model(answer: &Answer, name: (&str, &str), samples: &mut Samples) {
    for &(event, count) in &answer.stats.counts {
        samples.add(EVENTS, &[name, ("event", event)], count as f64);
    }
    // A device that is not polled does not know how long it has been idle, and that is no work.
    for &(part, time) in answer.stats.times.iter().filter(|(part, _)| *part != "idle") {
        samples.add(BUSY, &[name, ("part", part)], time.0 as f64 / 1e9);
    }
    if let Some(Lateness { completions, late, total, .. }) = answer.lateness {
        samples.add(MODEL, &[name], completions as f64);
        samples.add(MODEL_LATE, &[name], late as f64);
        samples.add(MODEL_LATENESS, &[name], total.0 as f64 / 1e9);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::{self, Receiver};
    use std::sync::{Mutex, PoisonError};
    use zonal_blk::{Device, HwQueue, Limits, Queue, QueueOptions, Status, Zone, ZoneNo};
    use zonal_device::control::DeviceControl;
    use zonal_device::inject::InjectDevice;
    use zonal_device::{NullConfig, NullDevice};

    /// A device that reports its zones when it is told to.
    struct Slow {
        device: Arc<NullDevice>,
        told: Mutex<Option<Receiver<()>>>,
    }

    impl Device for Slow {
        fn limits(&self) -> &Limits {
            self.device.limits()
        }

        fn report_zones(&self, at: ZoneNo, max: usize, to: &mut Vec<Zone>) -> Result<(), Status> {
            if let Some(told) = &*self.told.lock().unwrap_or_else(PoisonError::into_inner) {
                let _ = told.recv();
            }
            self.device.report_zones(at, max, to)
        }

        fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
            Arc::clone(&self.device).open_queue()
        }
    }

    impl DeviceControl for Slow {
        fn lateness(&self) -> Option<Lateness> {
            Some(Lateness { completions: 7, late: 3, ..Lateness::default() })
        }
    }

    fn slow() -> (Arc<Slow>, DeviceManager) {
        let config = NullConfig { zones: 4, ..NullConfig::default() };
        let device = Arc::new(NullDevice::new(&config).expect("a device"));
        let device = Arc::new(Slow { device, told: Mutex::new(None) });
        let inject = Arc::new(InjectDevice::new(Arc::clone(&device) as _, 1));
        let queue = Queue::attach(Arc::clone(&inject) as _, QueueOptions::default());
        let managed = ManagedDevice {
            name: "a".to_owned(),
            description: String::new(),
            queue: queue.expect("a queue"),
            device: inject,
            files: None,
            mark: None,
            power: None,
        };
        (device, DeviceManager::new(vec![managed], Vec::new()))
    }

    #[test]
    fn late_completions_of_a_model_are_counted() {
        let page = slow().1.metrics();
        assert!(page.contains("zonal_model_completions_total{device=\"a\"} 7\n"), "{page}");
        assert!(page.contains("zonal_model_late_completions_total{device=\"a\"} 3\n"), "{page}");
    }

    #[test]
    fn names_of_devices_are_short_and_their_own() {
        let names = [
            "null:zones=4,zone_size=1M",
            "/var/a/disk.img",
            "smr-30t:lba=4096",
            "null",
            "b/disk.img",
        ];
        let short = ["null-1", "disk.img-1", "smr-30t", "null-2", "disk.img-2"];
        assert_eq!(short_names(names.into_iter()), short);
    }

    #[test]
    fn histograms_are_cumulative_and_end_with_all() {
        let mut counts = [0; TIME_RANGES];
        (counts[0], counts[3], counts[4], counts[TIME_RANGES - 1]) = (1, 2, 4, 8);
        let mut samples = Samples::default();
        samples.add_times([("device", "a"), ("op", "read")], &counts, Nanos(1_500_000_000));
        let (_, _, lines) = &samples.by_name[DURATION.0];
        let line = |rest: &str| format!("zonal_request_duration_seconds{rest}");
        assert_eq!(lines[0], line("_bucket{device=\"a\",op=\"read\",le=\"0.000000512\"} 3"));
        assert_eq!(lines[1], line("_bucket{device=\"a\",op=\"read\",le=\"0.000001024\"} 7"));
        let end = lines[lines.len() - 3..].to_vec();
        let all = [
            "_bucket{device=\"a\",op=\"read\",le=\"+Inf\"} 15",
            "_sum{device=\"a\",op=\"read\"} 1.5",
            "_count{device=\"a\",op=\"read\"} 15",
        ];
        assert_eq!(end, all.map(line));
        assert_eq!(lines.len(), TIME_RANGES / 4 + 2);
    }

    #[test]
    fn the_server_says_which_version_it_is_and_what_it_takes() {
        let page = slow().1.metrics();
        let version = concat!("zonal_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1\n");
        assert!(page.contains(version), "{page}");
        for metric in [CPU, RESIDENT, OPEN_FDS] {
            let line = page.lines().find(|line| line.starts_with(&format!("{} ", metric.0)));
            let value: f64 =
                line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a number");
            assert!(value > 0.0 || metric == CPU, "{page}");
        }
    }

    #[test]
    fn a_device_that_waits_delays_one_page_and_no_other() {
        let (device, manager) = slow();
        let zones = "zonal_zones{device=\"a\",condition=\"empty\"} 4\n";
        let answered = "zonal_device_answer_overdue_seconds{device=\"a\"} 0\n";
        let page = manager.metrics();
        assert!(page.contains(zones) && page.contains(answered), "{page}");
        let (tell, told) = mpsc::channel();
        *device.told.lock().expect("nobody panics") = Some(told);
        for _ in 0..3 {
            let page = manager.metrics();
            assert!(page.contains(zones) && !page.contains(answered), "{page}");
        }
        drop(tell);
        while !manager.metrics().contains(answered) {}
    }
}
