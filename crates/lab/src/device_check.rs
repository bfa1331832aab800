//! The abilities of a device model, and whether its numbers make sense together.
//!
//! Simulated loads are compared with plain arithmetic on the model's parameters. The same options
//! give the same report.
use crate::chart::{Axis, Chart, Marks, Scale, Series};
use crate::devices::DeviceOptions;
use crate::executor::Executor;
use crate::experiment::{self, Outcome, PREPARATION, RunLength, available_cpus, parallel_map};
use crate::page;
use crate::table::Table;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fmt;
use zonal_blk::{Limits, ZoneNo};
use zonal_device::control::{DeviceControl, EstimatedLoad};
use zonal_device::device_spec;
use zonal_device::quantity::format_size;
use zonal_sim::CostModel;

/// Positions of the sequential loads, in percent of the capacity.
const POSITIONS: [u32; 5] = [0, 25, 50, 75, 99];

/// How many percent a simulated load may differ from the arithmetic, which ignores that commands
/// wait for one another.
const TOLERANCE: f64 = 10.0;

/// The checks to make, and for how long.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// The device: a spec or a TOML profile.
    pub device: String,
    /// Virtual seconds per load.
    pub seconds: f64,
    /// The cost of an I/O for the thread that submits it.
    pub io_cost: CostModel,
}

/// A description of a device, with checks of its model.
pub struct DeviceCheck {
    /// The device, as it was named.
    pub device: String,
    /// One line that describes it.
    pub description: String,
    /// Names and values of its characteristics.
    pub characteristics: Vec<(&'static str, String)>,
    /// Names and results of the loads.
    pub loads: Vec<(String, String)>,
    /// Positions in percent of the capacity, and the sequential rate there in bytes per second.
    rates: Vec<(u32, f64)>,
    /// The checks, in the order in which they were made.
    pub checks: Vec<Check>,
}

/// A check of a device's numbers.
pub struct Check {
    /// Whether it passed.
    pub ok: bool,
    /// The comparison.
    pub text: String,
}

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// Sequential, from a position on.
    Sequential(u32),
    /// Random reads of 4 KiB at a queue depth.
    Random(u32),
}

/// Results of the loads, by position and by queue depth.
struct ProbeResults {
    sequential: Vec<(u32, Outcome)>,
    random: Vec<(u32, Outcome)>,
}

/// Describes and checks a device.
///
/// # Errors
/// The device does not exist, or a load cannot run on it.
pub fn check(options: &CheckOptions) -> Result<DeviceCheck> {
    let spec = zonal_backend::load(&options.device)?;
    let model = device_spec::build(&spec).with_context(|| format!("device {}", options.device))?;
    let limits = model.limits();
    let mut characteristics = general(&*model)?;
    characteristics.extend(model.characteristics());
    let results = ProbeResults::measure(options, limits)?;
    let mut checks: Vec<Check> = Vec::new();
    for estimate in &model.estimates() {
        let (what, figure, unit, scale) = results.of(estimate.load);
        let (figure, value) = (figure / scale, estimate.value / scale);
        let error = (figure / value - 1.0) * 100.0;
        let from = &estimate.from;
        checks.push(Check {
            ok: error.abs() <= TOLERANCE,
            text: format!("{what}: {figure:.1} {unit}, {error:+.1}% against {value:.1} of {from}"),
        });
    }
    checks.extend(results.rules());
    Ok(DeviceCheck {
        device: options.device.clone(),
        description: spec.describe(),
        characteristics,
        loads: results.describe(limits),
        rates: results.sequential.iter().map(|(place, outcome)| (*place, outcome.bytes)).collect(),
        checks,
    })
}

impl DeviceCheck {
    /// Whether all checks passed.
    pub fn is_sound(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let pair = |(name, value): (&str, &String)| json!({ "name": name, "value": value });
        let rate = |&(place, rate): &(u32, f64)| json!({ "place_percent": place, "bytes_per_second": rate });
        let check = |Check { ok, text }: &Check| json!({ "ok": ok, "text": text });
        let characteristics = self.characteristics.iter().map(|(name, value)| pair((name, value)));
        json!({
            "device": self.device,
            "description": self.description,
            "characteristics": characteristics.collect::<Vec<_>>(),
            "loads": self.loads.iter().map(|(name, value)| pair((name, value))).collect::<Vec<_>>(),
            "sequential": self.rates.iter().map(rate).collect::<Vec<_>>(),
            "checks": self.checks.iter().map(check).collect::<Vec<_>>(),
            "sound": self.is_sound(),
        })
    }

    /// The report as one self-contained page.
    ///
    /// # Errors
    /// The plot cannot be drawn.
    pub fn html(&self) -> Result<String> {
        let mut out = page::begin(&format!("Device {}", self.device));
        page::paragraphs(&mut out, [&self.description]);
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let of = self.characteristics.iter().map(|(name, value)| words(&[name, value]));
        Table::new(["property", "value"], of).html(&mut out, 2);
        self.chart().html(&mut out)?;
        let of = self.loads.iter().map(|(name, value)| words(&[name, value]));
        Table::new(["load", "result"], of).html(&mut out, 2);
        let result = |ok| if ok { "ok" } else { "FAIL" };
        let of = self.checks.iter().map(|Check { ok, text }| words(&[result(*ok), text]));
        Table::new(["check", "what was compared"], of).html(&mut out, 2);
        Ok(out + page::END)
    }

    /// The sequential rate over the place.
    fn chart(&self) -> Chart {
        let x = Axis {
            label: "place, % of the capacity".to_owned(),
            steps: None,
            scale: Scale::Linear,
        };
        let points = self.rates.iter().map(|&(place, rate)| (f64::from(place), rate / 1e6));
        let series = Series {
            name: "sequential".to_owned(),
            colour: 0,
            slot: (0, 1),
            marks: Marks::Line { dashed: false, points: true },
            points: points.collect(),
        };
        Chart {
            title: "Sequential rate by place".to_owned(),
            x,
            y_label: "MB/s".to_owned(),
            scale: Scale::Linear,
            series: vec![series],
        }
    }
}

impl fmt::Display for DeviceCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}\n", self.device, self.description)?;
        for (name, value) in &self.characteristics {
            writeln!(f, "{name:22}  {value}")?;
        }
        for (name, value) in &self.loads {
            writeln!(f, "{name:22}  {value}")?;
        }
        f.write_str("\nchecks\n")?;
        for Check { ok, text } in &self.checks {
            writeln!(f, "  {}  {text}", if *ok { "ok  " } else { "FAIL" })?;
        }
        Ok(())
    }
}

/// Characteristics of any device, from its limits.
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

/// Runs a load on a device of its own.
fn measure(options: &CheckOptions, limits: &Limits, probe: Probe) -> Result<Outcome> {
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
        // Reads of unwritten blocks would not reach the flash.
        let there = ["--zonemode=zbd", "--size=4z"].map(str::to_owned);
        let writer = [format!("--name={PREPARATION}"), "--rw=write".to_owned()];
        let before = [&writer[..], &there, &["--bs=1m".to_owned()]].concat();
        jobs = [&before[..], &jobs, &there, &["--stonewall".to_owned()]].concat();
    }
    let device_options =
        DeviceOptions { device: Some(options.device.clone()), ..DeviceOptions::default() };
    let mut executor = Executor::virtual_time(options.io_cost);
    experiment::run(&jobs, &device_options, Some(RunLength::of(options.seconds)), &mut executor)
        .with_context(|| format!("{probe:?}"))
}

impl ProbeResults {
    fn measure(options: &CheckOptions, limits: &Limits) -> Result<Self> {
        let probes = POSITIONS.map(Probe::Sequential).into_iter();
        let probes: Vec<Probe> = probes.chain([1, 32].map(Probe::Random)).collect();
        let outcomes =
            parallel_map(available_cpus(), &probes, |&probe| measure(options, limits, probe))?;
        let mut results = ProbeResults { sequential: Vec::new(), random: Vec::new() };
        for (probe, outcome) in probes.into_iter().zip(outcomes) {
            match probe {
                Probe::Sequential(position) => results.sequential.push((position, outcome)),
                Probe::Random(depth) => results.random.push((depth, outcome)),
            }
        }
        Ok(results)
    }

    fn describe(&self, limits: &Limits) -> Vec<(String, String)> {
        let what = if limits.nr_zones > 0 { "sequential writes" } else { "sequential reads" };
        let sequential = self.sequential.iter().map(|(position, outcome)| {
            (format!("{what} {position}%"), format!("{:.1} MB/s", outcome.bytes / 1e6))
        });
        let random = self.random.iter().map(|(depth, outcome)| {
            let millis = |nanos: u64| nanos as f64 / 1e6;
            let latency = outcome.latencies.percentiles(&[50.0, 99.0]);
            let result = format!(
                "{:.1} IOPS of 4 KiB, median {:.2} ms, 99% within {:.2} ms",
                outcome.ios,
                millis(latency[0]),
                millis(latency[1])
            );
            (format!("random reads depth {depth}"), result)
        });
        sequential.chain(random).collect()
    }

    /// The result of a load: its name, the figure, and the unit with the number that divides the
    /// figure.
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

    /// Checks that hold for every drive.
    fn rules(&self) -> Vec<Check> {
        let rates: Vec<f64> = self.sequential.iter().map(|(_, outcome)| outcome.bytes).collect();
        // Rates of two positions on the same tracks differ slightly.
        let falls = rates.windows(2).all(|pair| pair[1] <= pair[0] * 1.01);
        let [(_, one), (_, many)] = &self.random[..] else { return Vec::new() };
        let check = |ok, text: &str| Check { ok, text: text.to_owned() };
        vec![
            check(falls, "no place is faster than one further out"),
            check(many.ios >= one.ios * 0.99, "more commands at once are not slower than one"),
        ]
    }
}
