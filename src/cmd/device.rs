//! `zonal device`: what a device model is, and whether its numbers make sense together.
//!
//! Takes a device spec; gives its characteristics, what simulated loads come to on it, and how that
//! compares with plain arithmetic on its parameters. Keeps true: the same spec gives the same text;
//! a comparison that fails is said to fail, and the exit code is 1.
use crate::cli::{ClockKind, DeviceArgs, Eta};
use crate::devices::{self, DeviceOptions};
use crate::experiment::{self, Outcome, PREPARATION, RunLength, processors, side_by_side};
use crate::machine::Executor;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;
use zonal_blk::{Limits, ZoneNo};
use zonal_device::control::{DeviceControl, EstimatedLoad};
use zonal_device::device_spec;
use zonal_device::quantity::format_size;

/// Where along the device sequential loads are tried, in percent of its capacity.
const PLACES: [u32; 5] = [0, 25, 50, 75, 99];

/// By how much, in percent, a simulated load may differ from the arithmetic: that leaves out what
/// commands wait for one another.
const TOLERANCE: f64 = 25.0;

/// A load that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// Sequential, from a place on.
    Sequential(u32),
    /// Random reads of 4 KiB, so many at once.
    Random(u32),
}

/// What was found of a device.
struct ProbeResults {
    sequential: Vec<(u32, Outcome)>,
    random: Vec<(u32, Outcome)>,
}

/// Describes and checks a device.
pub fn run(args: &DeviceArgs) -> Result<ExitCode> {
    let spec = devices::load(&args.device)?;
    let model = device_spec::build(&spec).with_context(|| format!("device {}", args.device))?;
    let limits = model.limits();
    let mut text = format!("{}: {}\n\n", args.device, spec.describe());
    for (name, value) in general(&*model)?.into_iter().chain(model.characteristics()) {
        writeln!(text, "{name:22}  {value}")?;
    }
    let probes: Vec<Probe> = PLACES.map(Probe::Sequential).into_iter().collect();
    let probes = [probes, vec![Probe::Random(1), Probe::Random(32)]].concat();
    let outcomes = side_by_side(processors(), &probes, |probe| measure(args, limits, *probe))?;
    let mut found = ProbeResults { sequential: Vec::new(), random: Vec::new() };
    for (probe, outcome) in probes.into_iter().zip(outcomes) {
        match probe {
            Probe::Sequential(at) => found.sequential.push((at, outcome)),
            Probe::Random(depth) => found.random.push((depth, outcome)),
        }
    }
    found.describe(limits, &mut text)?;
    let mut sound = true;
    text.push_str("\nchecks\n");
    let estimates = model.estimates();
    for estimate in &estimates {
        let (what, ours, unit, scale) = found.of(estimate.load);
        let (ours, value) = (ours / scale, estimate.value / scale);
        let error = (ours / value - 1.0) * 100.0;
        let ok = error.abs() <= TOLERANCE;
        sound &= ok;
        let mark = if ok { "ok  " } else { "FAIL" };
        writeln!(
            text,
            "  {mark}  {what}: {ours:.1} {unit}, {error:+.1}% against {value:.1} of {}",
            estimate.from
        )?;
    }
    for (ok, rule) in found.rules() {
        sound &= ok;
        writeln!(text, "  {}  {rule}", if ok { "ok  " } else { "FAIL" })?;
    }
    io::stdout().write_all(text.as_bytes())?;
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the limits of any device say.
fn general(model: &dyn DeviceControl) -> Result<Vec<(&'static str, String)>> {
    let limits = model.limits();
    let bytes = limits.capacity.to_bytes().0;
    let mut lines = vec![
        ("capacity", format!("{:.2} TB ({})", bytes as f64 / 1e12, format_size(bytes))),
        ("longest command", format_size(u64::from(limits.max_sectors) << 9)),
    ];
    if limits.nr_zones > 0 {
        let or_any = |limit: u32| match limit {
            0 => "any number".to_owned(),
            limit => limit.to_string(),
        };
        let mut zones = Vec::new();
        model.report_zones(ZoneNo(0), limits.nr_zones as usize, &mut zones)?;
        let writable: u64 = zones.iter().map(|zone| zone.capacity.to_bytes().0).sum();
        lines.push(("writable", format!("{:.2} TB", writable as f64 / 1e12)));
        lines.push((
            "zones",
            format!(
                "{} of {}, {} open, {} active at most",
                limits.nr_zones,
                format_size(limits.zone_size.to_bytes().0),
                or_any(limits.max_open_zones),
                or_any(limits.max_active_zones)
            ),
        ));
    }
    Ok(lines)
}

/// Tries a load on a device of its own.
fn measure(args: &DeviceArgs, limits: &Limits, probe: Probe) -> Result<Outcome> {
    let zoned = limits.nr_zones > 0;
    let mut jobs = vec!["--name=probe".to_owned()];
    jobs.extend(match probe {
        Probe::Sequential(at) => {
            let (rw, mode) = if zoned { ("write", "zbd") } else { ("read", "none") };
            vec![
                format!("--rw={rw}"),
                format!("--zonemode={mode}"),
                format!("--offset={at}%"),
                "--bs=1m".to_owned(),
                "--iodepth=4".to_owned(),
            ]
        }
        Probe::Random(depth) => {
            vec!["--rw=randread".to_owned(), "--bs=4k".to_owned(), format!("--iodepth={depth}")]
        }
    });
    if zoned && !limits.rotational && matches!(probe, Probe::Random(_)) {
        // What was never written is not read from the flash.
        let there = ["--zonemode=zbd", "--size=4z"].map(str::to_owned);
        let writer = [format!("--name={PREPARATION}"), "--rw=write".to_owned()];
        let before = [&writer[..], &there, &["--bs=1m".to_owned()]].concat();
        jobs = [&before[..], &jobs, &there, &["--stonewall".to_owned()]].concat();
    }
    let device_options =
        DeviceOptions { device: Some(args.device.clone()), ..DeviceOptions::default() };
    let mut executor = Executor::new(ClockKind::Virtual, args.io_cost, Eta::Never)?;
    experiment::run(&jobs, &device_options, Some(RunLength::of(args.time)), &mut executor)
        .with_context(|| format!("{probe:?}"))
}

impl ProbeResults {
    fn describe(&self, limits: &Limits, text: &mut String) -> Result<()> {
        let what = if limits.nr_zones > 0 { "sequential writes" } else { "sequential reads" };
        for (at, outcome) in &self.sequential {
            let place = format!("{what} {at}%");
            writeln!(text, "{place:22}  {:.1} MB/s", outcome.bytes / 1e6)?;
        }
        for (depth, outcome) in &self.random {
            let load = format!("random reads depth {depth}");
            let latency = outcome.latencies.percentiles(&[50.0, 99.0]);
            writeln!(
                text,
                "{load:22}  {:.1} IOPS of 4 KiB, median {:.2} ms, 99% within {:.2} ms",
                outcome.ios,
                latency[0] as f64 / 1e6,
                latency[1] as f64 / 1e6
            )?;
        }
        Ok(())
    }

    /// What a load came to: its name, the figure, and the unit with how much of the figure it is.
    fn of(&self, load: EstimatedLoad) -> (&'static str, f64, &'static str, f64) {
        let sequential = |at: usize| self.sequential[at].1.bytes;
        match load {
            EstimatedLoad::SequentialAtStart => {
                ("sequential at the start", sequential(0), "MB/s", 1e6)
            }
            EstimatedLoad::SequentialAtEnd => {
                ("sequential at the end", sequential(self.sequential.len() - 1), "MB/s", 1e6)
            }
            EstimatedLoad::RandomReads => {
                ("random reads one by one", self.random[0].1.ios, "IOPS", 1.0)
            }
        }
    }

    /// What holds for every drive.
    fn rules(&self) -> Vec<(bool, &'static str)> {
        let rates: Vec<f64> = self.sequential.iter().map(|(_, outcome)| outcome.bytes).collect();
        // Two places may have the same rate but for where their tracks begin.
        let falls = rates.windows(2).all(|pair| pair[1] <= pair[0] * 1.01);
        let [(_, one), (_, many)] = &self.random[..] else { return Vec::new() };
        vec![
            (falls, "no place is faster than one further out"),
            (many.ios >= one.ios * 0.99, "more commands at once are not slower than one"),
        ]
    }
}
