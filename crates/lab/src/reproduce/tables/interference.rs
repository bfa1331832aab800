//! `interference`: writes and reads of a ZNS drive beside resets and finishes of other zones, from the
//! artefact of "ConfZNS++" (SYSTOR 2024). `zonal validate` runs all of its loads that are in
//! `crates/lab/data/interference.csv`.
use crate::experiment::Unit;
use crate::reproduce::published::Key;
use crate::reproduce::results::Results;
use crate::reproduce::settings::MeasureSettings;
use crate::reproduce::table::{Cell, FigureUse, FreeParameters, Layout, Published, Setup, Table};
use zonal_blk::ZoneWrite;
use zonal_sim::{CostModel, HostCost};

/// The publication's drive.
const PUBLISHED: &str = "ZNS NVMe SSD, 904 zones x 1077 MiB, 14 max open";

/// The parameters of the profile that were calibrated to disturbed loads.
const PARAMETERS: [&str; 3] = ["erase", "reset_hold", "buffer"];

/// The work that disturbs.
#[derive(Clone, Copy)]
enum Disturber {
    /// Resets of full zones, this many a second in total.
    Resets(f64),
    /// Zones are finished one after the other, each after a write of 4 KiB.
    Finishes,
    Nothing,
}

impl Disturber {
    fn name(self) -> String {
        match self {
            Disturber::Resets(rate) => format!("{rate:.0} resets/s"),
            Disturber::Finishes => "finishes".to_owned(),
            Disturber::Nothing => "alone".to_owned(),
        }
    }

    /// The jobs: resets in zones 0 to 299, finishes in zones 300 to 359.
    fn jobs(self) -> Vec<String> {
        let own = match self {
            Disturber::Resets(rate) => {
                let bytes = (rate * (2_u64 << 30) as f64).round();
                ["--rw=randtrim".to_owned(), "--bs=2g".to_owned(), format!("--rate=,,{bytes}")]
            }
            Disturber::Finishes => ["--rw=write", "--bs=4k", "--zone_finish=1"].map(str::to_owned),
            Disturber::Nothing => return Vec::new(),
        };
        let all = ["--name=disturber", "--filename=zn540:written=0-299+600-903", "--zonemode=zbd"];
        let zones = match self {
            Disturber::Finishes => ["--offset=300z", "--size=60z"],
            _ => ["--offset=0z", "--size=300z"],
        };
        let fixed = all.into_iter().chain(zones).chain(["--max_open_zones=14"]);
        fixed.map(str::to_owned).chain(own).collect()
    }
}

/// Rows of writes: the number of jobs, and the work that disturbs them.
const WRITES: [(u32, &[Disturber]); 4] = [
    (1, &[Disturber::Resets(6.0), Disturber::Resets(30.0)]),
    (2, &[Disturber::Nothing, Disturber::Resets(15.0), Disturber::Resets(30.0)]),
    (
        3,
        &[Disturber::Nothing, Disturber::Resets(6.0), Disturber::Resets(30.0), Disturber::Finishes],
    ),
    (
        4,
        &[Disturber::Nothing, Disturber::Resets(6.0), Disturber::Resets(30.0), Disturber::Finishes],
    ),
];

/// Rows of random reads of 4 KiB: the depth, and the work that disturbs them.
const READS: [(u32, &[Disturber]); 2] = [
    (32, &[Disturber::Nothing, Disturber::Resets(3.0)]),
    (64, &[Disturber::Nothing, Disturber::Resets(3.0), Disturber::Resets(10.0)]),
];

/// `interference`.
pub fn table() -> Table {
    let mut cells = Vec::new();
    for (jobs, disturbers) in WRITES {
        cells.extend(disturbers.iter().map(|&disturber| writes(jobs, disturber)));
    }
    for (depth, disturbers) in READS {
        cells.extend(disturbers.iter().map(|&disturber| reads(depth, disturber)));
    }
    let costs = HostCost::named("io_uring_cmd").map(CostModel::Host).expect("it has a name");
    let table = Table::of_model(
        "interference",
        "writes and reads of a ZNS drive beside resets and finishes, by fio over io_uring passthrough",
        Layout::List,
        MeasureSettings { costs, ..MeasureSettings::virtual_time(3, Some(2.0)) },
        cells,
    );
    let parameters = FreeParameters { names: &PARAMETERS, inert: &[] };
    let remarks = |_: &Table, _: &Results, _: &Published| {
        vec!["No predictions: all figures were in view when parameters were chosen.".to_owned()]
    };
    Table { parameters, remarks, ..table }
}

fn common(rw: &str, block: u32, jobs: u32) -> Vec<String> {
    vec![
        format!("--name={rw}"),
        "--filename=zn540:written=0-299+600-903".to_owned(),
        format!("--rw={rw}"),
        format!("--bs={block}"),
        format!("--numjobs={jobs}"),
        "--zonemode=zbd".to_owned(),
        "--max_open_zones=14".to_owned(),
    ]
}

fn writes(jobs: u32, disturber: Disturber) -> Cell {
    let mut options = common("write", 8192, jobs);
    let zones = 240 / jobs;
    options.push("--offset=360z".to_owned());
    options.push(format!("--size={zones}z"));
    options.push(format!("--offset_increment={zones}z"));
    cell(&format!("writes of 8 KiB, {jobs} jobs"), disturber, options, Unit::MegabytesPerSecond)
}

fn reads(depth: u32, disturber: Disturber) -> Cell {
    let mut options = common("randread", 4096, 1);
    options.push(format!("--iodepth={depth}"));
    options.extend(["--offset=600z", "--size=304z", "--norandommap=1"].map(str::to_owned));
    cell(&format!("random reads of 4 KiB, depth {depth}"), disturber, options, Unit::Kiops)
}

fn cell(load: &str, disturber: Disturber, mut jobs: Vec<String>, unit: Unit) -> Cell {
    jobs.extend(disturber.jobs());
    let workload = format!("{load}, {}", disturber.name());
    let key = Key {
        device: PUBLISHED,
        config: "fio over io_uring passthrough",
        scheduler: "none",
        workload: workload.clone(),
    };
    let setup = Setup { scheduler: "none", zone_write: Some(ZoneWrite::Off), jobs };
    Cell { figure_use: FigureUse::Calibration, ..Cell::published(&workload, "", key, unit, setup) }
}
