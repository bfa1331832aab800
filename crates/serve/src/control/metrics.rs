//! Metrics in Prometheus' text format 0.0.4.
//!
//! Names end in their unit, and those of counters in `_total`.
use super::managed::ManagedDevice;
use super::manager::DeviceManager;
use super::snapshot::{Answer, Snapshot};
use std::collections::BTreeMap;
use std::fmt::Write;
use zonal_blk::IoStat;
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
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let sample = format!("{name}{{{}}} {value}", labels.join(","));
        self.by_name.entry(name).or_insert((kind, help, Vec::new())).2.push(sample);
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
const FAULTS: (&str, &str, &str) =
    ("zonal_fault_hits_total", "counter", "Requests that a fault rule applied to.");

impl DeviceManager {
    /// All metrics. A device that waits is waited for only briefly: see [`Snapshot`].
    pub(super) fn metrics(&self) -> String {
        let mut samples = Samples::default();
        let devices = || self.devices().iter().zip(self.snapshots());
        devices().for_each(|(device, snapshot)| snapshot.ask(device));
        devices().for_each(|(device, snapshot)| of_device(device, snapshot, &mut samples));
        let mut text = String::new();
        for (name, (kind, help, lines)) in samples.by_name {
            // Writing to a string does not fail.
            let _ =
                writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{}", lines.join("\n"));
        }
        text
    }
}

fn of_device(managed: &ManagedDevice, snapshot: &Snapshot, samples: &mut Samples) {
    let ManagedDevice { name, description, queue, device, files, .. } = managed;
    let name = ("device", name.as_str());
    let scheduler = queue.scheduler();
    let labels = [
        name,
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
    for &(part, time) in &answer.stats.times {
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
    fn a_device_that_waits_delays_one_page_and_no_other() {
        let (device, manager) = slow();
        let zones = "zonal_zones{device=\"a\",condition=\"Empty\"} 4\n";
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
