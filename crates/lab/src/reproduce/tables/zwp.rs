//! The tables of the zone write plugging patches: six write workloads under zone write locking and
//! plugging, with each scheduler (Le Moal, "Zone write plugging", April 2024). One fio job writes.
use super::smr::SMR_PARAMETERS;
use crate::experiment::Unit;
use crate::reproduce::published::Key;
use crate::reproduce::results::Results;
use crate::reproduce::settings::MeasureSettings;
use crate::reproduce::table::{
    Base, Cell, Comparability, Comparison, Crossings, FigureUse, FreeParameters, Layout,
    PercentKind, Published, Setup, Table,
};
use zonal_blk::ZoneWrite;
use zonal_sim::CostModel;

/// A row: heading, configuration, scheduler, policy.
const ROWS: [(&str, &str, &str, ZoneWrite); 4] = [
    ("ZWL mq-deadline", "ZWL", "mq-deadline", ZoneWrite::Lock),
    ("ZWP mq-deadline", "ZWP", "mq-deadline", ZoneWrite::Plug),
    ("ZWP bfq", "ZWP", "bfq", ZoneWrite::Plug),
    ("ZWP none", "ZWP", "none", ZoneWrite::Plug),
];

/// A column: workload, pattern, block size, depth, unit.
const COLUMNS: [(&str, &str, &str, u32, Unit); 6] = [
    ("seqw4K1", "write", "4k", 1, Unit::MegabytesPerSecond),
    ("seqw4K16", "write", "4k", 16, Unit::MegabytesPerSecond),
    ("seqw1M1", "write", "1m", 1, Unit::MegabytesPerSecond),
    ("seqw1M16", "write", "1m", 16, Unit::MegabytesPerSecond),
    ("rndw4K16", "randwrite", "4k", 16, Unit::Kiops),
    ("rndw128K16", "randwrite", "128k", 16, Unit::Kiops),
];

/// `zwp-null_blk`: the published device has no latency, and neither has a null device.
pub fn null_blk() -> Table {
    let published = "null_blk zoned, 4096 zones x 256 MB, 128 max open";
    let mut cells = cells(published, "null:zones=4096,zone_size=256M,max_open=128");
    let (locking, others) = cells.split_at_mut(COLUMNS.len());
    locking.iter_mut().for_each(|cell| cell.bases = vec![None]);
    for (nr, cell) in others.iter_mut().enumerate() {
        cell.bases = vec![Some(Base { cell: nr % COLUMNS.len(), times: 1.0 })];
    }
    Table {
        name: "zwp-null_blk",
        about: "zone write locking and plugging on a null device, with each scheduler",
        layout: Layout::Grid,
        comparability: Comparability::Ratios,
        settings: MeasureSettings::real_time(),
        comparisons: &[Comparison {
            heading: "against ZWL mq-deadline",
            kind: PercentKind::Change,
        }],
        cells,
        crossings: Crossings::default(),
        parameters: FreeParameters::default(),
        remarks: none_against_locking,
    }
}

/// `zwp-zns`.
pub fn zns() -> Table {
    let calibrated = [
        ("ZWL mq-deadline", "seqw4K1"),
        ("ZWL mq-deadline", "seqw4K16"),
        ("ZWL mq-deadline", "seqw1M1"),
        ("ZWL mq-deadline", "seqw1M16"),
        ("ZWL mq-deadline", "rndw4K16"),
        ("ZWL mq-deadline", "rndw128K16"),
        ("ZWP none", "seqw4K1"),
        ("ZWP none", "seqw1M1"),
        ("ZWP none", "rndw4K16"),
    ];
    let table = Table::of_model(
        "zwp-zns",
        "the workloads of zwp-null_blk on a model of a ZNS drive",
        Layout::Grid,
        on_published_machine(5, 20.0),
        cells("NVMe ZNS 1 TB, 2 GB zones, 14 max open and active", "zns-1t"),
    )
    .with_use(FigureUse::Calibration, &calibrated);
    let names = &["write_time", "zone_switch", "link_rate", "zone_rate"];
    Table { parameters: FreeParameters { names, inert: &[] }, ..table }
}

/// `zwp-smr`.
pub fn smr() -> Table {
    let calibrated = ["seqw4K1", "seqw1M1", "rndw4K16", "rndw128K16"].map(|c| ("ZWP none", c));
    let table = Table::of_model(
        "zwp-smr",
        "the workloads of zwp-null_blk on a model of a 20 TB SMR disk",
        Layout::Grid,
        on_published_machine(3, 600.0),
        cells("SMR SATA HDD 20 TB, 256 MB zones, 128 max open", "smr-20t"),
    )
    .with_use(FigureUse::Calibration, &calibrated);
    Table { parameters: FreeParameters { names: &SMR_PARAMETERS, inert: &[] }, ..table }
}

fn on_published_machine(rounds: u32, seconds: f64) -> MeasureSettings {
    let costs = CostModel::Published;
    MeasureSettings { costs, ..MeasureSettings::virtual_time(rounds, Some(seconds)) }
}

/// The cells on a device, row by row. `published` is the publication's name for it.
fn cells(published: &'static str, device: &str) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (row, config, scheduler, zone_write) in ROWS {
        for (column, rw, bs, iodepth, unit) in COLUMNS {
            let jobs = vec![
                format!("--name={column}"),
                format!("--filename={device}"),
                "--zonemode=zbd".to_owned(),
                format!("--rw={rw}"),
                format!("--bs={bs}"),
                format!("--iodepth={iodepth}"),
            ];
            let workload = column.to_owned();
            let key = Key { device: published, config, scheduler, workload };
            let setup = Setup { scheduler, zone_write: Some(zone_write), jobs };
            cells.push(Cell::published(row, column, key, unit, setup));
        }
    }
    cells
}

/// Whether plugging without a scheduler is slower than locking; in the published figures it is, for
/// random writes.
fn none_against_locking(table: &Table, results: &Results, published: &Published) -> Vec<String> {
    let verdict = |whose: &str, ratio: &dyn Fn(usize, usize) -> Option<f64>| {
        let none = table.cells.iter().enumerate().filter(|(_, c)| c.setup.scheduler == "none");
        let slower = none.filter_map(|(at, cell)| {
            let ratio = ratio(at, cell.bases[0]?.cell).filter(|&ratio| ratio < 1.0)?;
            Some(format!("{} ({})", cell.column, PercentKind::Change.format(ratio)))
        });
        let slower: Vec<String> = slower.collect();
        if slower.is_empty() {
            format!("{whose}: ZWP none is at least as fast as ZWL mq-deadline in every column.")
        } else {
            let columns = slower.join(", ");
            format!("{whose}: ZWP none is slower than ZWL mq-deadline in {columns}.")
        }
    };
    vec![
        verdict("Zonal", &|at, base| Some(results.ratio(at, base, 1.0))),
        verdict("Published", &|at, base| Some(published(at)? / published(base)?)),
    ]
}
