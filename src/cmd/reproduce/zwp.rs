//! The tables of the zone write plugging patches: six write workloads under zone write locking and
//! plugging, with each scheduler (Le Moal, "Zone write plugging", April 2024). One fio job writes.
use super::measure::Results;
use super::published::Key;
use super::table::{Base, Cell, Comparison, Layout, Setup, Style, Table, Unit};
use zonal_blk::ZoneWrite;

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

/// The null device of the publication.
const NULL_BLK: &str = "null:zones=4096,zone_size=256M,max_open=128";

/// `zwp-null_blk`.
pub fn null_blk() -> Table {
    Table {
        name: "zwp-null_blk",
        about: "zone write locking and plugging on a null device, with each scheduler",
        layout: Layout::Grid,
        comparisons: &[Comparison { heading: "against ZWL mq-deadline", style: Style::Change }],
        cells: cells(NULL_BLK),
        remarks: none_against_locking,
    }
}

/// The cells on a device, row by row.
fn cells(device: &str) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (row, config, scheduler, zone_write) in ROWS {
        for (nr, (column, rw, bs, iodepth, unit)) in COLUMNS.into_iter().enumerate() {
            let jobs = vec![
                format!("--name={column}"),
                format!("--filename={device}"),
                "--zonemode=zbd".to_owned(),
                format!("--rw={rw}"),
                format!("--bs={bs}"),
                format!("--iodepth={iodepth}"),
            ];
            let is_base = config == "ZWL";
            cells.push(Cell {
                row,
                column,
                published: Some(Key { config, scheduler, workload: column }),
                unit,
                setup: Setup { scheduler, zone_write: Some(zone_write), jobs },
                bases: vec![(!is_base).then_some(Base { cell: nr, times: 1.0 })],
            });
        }
    }
    cells
}

/// Whether doing without a scheduler costs anything, which in the published figures it does for
/// random writes.
fn none_against_locking(table: &Table, results: &Results) -> Vec<String> {
    let figures = table.figures();
    let published = |at| figures.iter().find(|f| table.cell_of(f) == Some(at))?.value();
    let verdict = |whose: &str, ratio: &dyn Fn(usize, usize) -> Option<f64>| {
        let none = table.cells.iter().enumerate().filter(|(_, c)| c.setup.scheduler == "none");
        let slower = none.filter_map(|(at, cell)| {
            let ratio = ratio(at, cell.bases[0]?.cell).filter(|&ratio| ratio < 1.0)?;
            Some(format!("{} ({})", cell.column, Style::Change.show(ratio)))
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
