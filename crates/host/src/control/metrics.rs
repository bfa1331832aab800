//! Metrics in Prometheus' text format 0.0.4, served over HTTP at `/metrics`.
//!
//! Names end in their unit, and those of counters in `_total`.
use super::http::{HttpServer, Limits, Page, Route};
use super::manager::{DeviceManager, ManagedDevice};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use zonal_blk::{IoStat, ZoneNo};
use zonal_device::control::DeviceControl;

/// The media type of the format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

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
const FAULTS: (&str, &str, &str) =
    ("zonal_fault_hits_total", "counter", "Requests that a fault rule applied to.");

/// All metrics.
pub(super) fn text(manager: &DeviceManager) -> String {
    let mut samples = Samples::default();
    manager.devices().iter().for_each(|device| of_device(device, &mut samples));
    let mut text = String::new();
    for (name, (kind, help, lines)) in samples.by_name {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{}", lines.join("\n"));
    }
    text
}

fn of_device(managed: &ManagedDevice, samples: &mut Samples) {
    let ManagedDevice { name, description, queue, device, files } = managed;
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
    let mut zones = Vec::new();
    if queue.report_zones(ZoneNo(0), queue.limits().nr_zones as usize, &mut zones).is_ok() {
        let mut conditions: BTreeMap<String, u32> = BTreeMap::new();
        for zone in &zones {
            *conditions.entry(format!("{:?}", zone.cond)).or_default() += 1;
        }
        for (condition, count) in conditions {
            samples.add(ZONES, &[name, ("condition", &condition)], f64::from(count));
        }
    }
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
    let activity = device.stats();
    for (event, count) in activity.counts {
        samples.add(EVENTS, &[name, ("event", event)], count as f64);
    }
    for (part, time) in activity.times {
        samples.add(BUSY, &[name, ("part", part)], time.0 as f64 / 1e9);
    }
    for (rule, hits) in device.rules() {
        samples.add(FAULTS, &[name, ("rule", &rule.to_string())], hits as f64);
    }
}

/// The HTTP server. Dropping it stops it, and waits for no client.
pub struct MetricsServer(HttpServer);

impl MetricsServer {
    /// Answers `GET /metrics` on `address`; port 0 for any free one.
    ///
    /// # Errors
    /// Those of listening on the address.
    pub fn start(address: SocketAddr, manager: Arc<DeviceManager>) -> io::Result<Self> {
        let page = move || Page { content_type: CONTENT_TYPE, text: text(&manager) };
        let routes = vec![Route { path: "/metrics", page: Box::new(page) }];
        HttpServer::start("metrics", address, routes, Limits::default()).map(MetricsServer)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}
