//! The tables of the patches for one write at a time on rotating disks (Le Moal, "QD=1 writes",
//! linux-block, 2026): a 30 TB SMR disk under the zone write plugging of the kernel before them,
//! and with them.
use crate::experiment::Unit;
use crate::reproduce::published::Key;
use crate::reproduce::settings::MeasureSettings;
use crate::reproduce::table::{Cell, Crossings, FigureUse, FreeParameters, Layout, Setup, Table};
use zonal_blk::ZoneWrite;

/// The publication's name for the disk.
const PUBLISHED: &str = "SMR SATA 30 TB, AHCI";
/// Its model.
const MODEL: &str = "smr-30t";
/// The configuration with the patches.
const QD1: &str = "qd1-writes";
/// Queue depths and numbers of zones: powers of two up to 128.
const STEPS: std::ops::RangeInclusive<u32> = 0..=7;

/// The parameters of the shingled disks that were calibrated.
pub const SMR_PARAMETERS: [&str; 8] = [
    "track_outer",
    "track_inner",
    "command",
    "settle",
    "min_run",
    "cache",
    "cache_commands",
    "reserve",
];

const PARAMETERS: FreeParameters = FreeParameters { names: &SMR_PARAMETERS, inert: &[] };

/// `smr-seq-qd`.
pub fn sequential() -> Table {
    let cells = cells("6.19-rc8", |depth| Load {
        workload: format!("sequential 1 MiB direct writes qd={depth}"),
        options: vec!["--rw=write".to_owned(), format!("--iodepth={depth}")],
    });
    let deepest = |(at, cell): (usize, &Cell)| (cell.column == "128").then_some(at);
    let crossings = Crossings {
        title: "30 TB SMR disk, 128 writes in flight: head position",
        cells: cells.iter().enumerate().filter_map(deepest).collect(),
    };
    let table = Table::of_model(
        "smr-seq-qd",
        "sequential writes to a 30 TB SMR disk by queue depth, without and with QD=1 writes",
        Layout::Curves { axis: "queue depth" },
        MeasureSettings::virtual_time(3, Some(360.0)),
        cells,
    )
    .with_use(FigureUse::Calibration, &[("6.19-rc8", "1"), ("6.19-rc8", "32")]);
    Table { crossings, parameters: PARAMETERS, ..table }
}

/// `smr-rnd-zones`.
pub fn random() -> Table {
    let cells = cells("6.19-rc7", |zones| Load {
        workload: format!("16 jobs qd=32 1 MiB direct writes to {zones} random zones"),
        options: vec![
            "--rw=randwrite".to_owned(),
            "--iodepth=32".to_owned(),
            "--numjobs=16".to_owned(),
            format!("--max_open_zones={zones}"),
        ],
    });
    let baseline = ["1", "4", "8", "32"].map(|zones| ("6.19-rc7", zones));
    let calibrated = [&baseline[..], &[(QD1, "4"), (QD1, "32")]].concat();
    let table = Table::of_model(
        "smr-rnd-zones",
        "writes to random zones of a 30 TB SMR disk by their number, without and with QD=1 writes",
        Layout::Curves { axis: "zones" },
        MeasureSettings::virtual_time(9, Some(1800.0)),
        cells,
    )
    .with_use(FigureUse::Calibration, &calibrated);
    Table { parameters: PARAMETERS, ..table }
}

/// The load of a cell.
struct Load {
    /// The publication's name for it.
    workload: String,
    /// Job options, without those of all loads.
    options: Vec<String>,
}

/// The cells of both configurations, step by step. `baseline` is the publication's name for the
/// kernel without the patches.
fn cells(baseline: &'static str, load: impl Fn(u32) -> Load) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (config, zone_write) in [(baseline, ZoneWrite::Plug), (QD1, ZoneWrite::Qd1)] {
        for step in STEPS.map(|power| 1 << power) {
            let Load { workload, options } = load(step);
            let mut jobs = vec![
                format!("--name={step}"),
                format!("--filename={MODEL}"),
                "--zonemode=zbd".to_owned(),
                "--bs=1m".to_owned(),
            ];
            jobs.extend(options);
            let key = Key { device: PUBLISHED, config, scheduler: "none", workload };
            let setup = Setup { scheduler: "none", zone_write: Some(zone_write), jobs };
            let (column, unit) = (step.to_string(), Unit::MegabytesPerSecond);
            cells.push(Cell::published(config, &column, key, unit, setup));
        }
    }
    cells
}
