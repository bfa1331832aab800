//! `mq-deadline-scaling`: what a scheduler costs as threads are added, with 512 B random reads
//! (after a report of January 2024).
//!
//! The publication compares with the limit of its drive. A device without latency is limited by the
//! CPUs alone, so each row is also compared with the same threads without a scheduler.
use crate::experiment::Unit;
use crate::reproduce::published::Key;
use crate::reproduce::results::Results;
use crate::reproduce::settings::MeasureSettings;
use crate::reproduce::table::{
    Base, Cell, Comparability, Comparison, Crossings, FigureUse, FreeParameters, Layout,
    PercentKind, Published, Setup, Table,
};

/// The load of a row.
struct Load {
    /// Heading of the row.
    row: &'static str,
    /// Heading of the row that measures the same without a scheduler.
    plain_row: &'static str,
    /// The workload in the published figures.
    workload: &'static str,
    drives: u32,
    /// Threads for each drive.
    threads: u32,
    /// Threads are pinned, half of them to each of two CPUs.
    pinned: bool,
    /// I/Os submitted together, and reaped together at most.
    batch: u32,
}

/// The published rows with the scheduler.
const LOADS: [Load; 5] = [
    Load {
        row: "1 drive, 1 thread, batches of 32",
        plain_row: "1 drive, 1 thread, batches of 32, no scheduler (device limit)",
        workload: "1 drive, 1 thread, batches of 32, mq-deadline, 512 B random read",
        drives: 1,
        threads: 1,
        pinned: false,
        batch: 32,
    },
    Load {
        row: "1 drive, 4 threads pinned to 2 CPUs, batches of 32",
        plain_row: "  the same, no scheduler",
        workload: "1 drive, 4 threads pinned to 2 cores, batches of 32, mq-deadline, \
                   512 B random read",
        drives: 1,
        threads: 4,
        pinned: true,
        batch: 32,
    },
    Load {
        row: "1 drive, 4 threads unpinned, batches of 32",
        plain_row: "  the same, no scheduler",
        workload: "1 drive, 4 threads unpinned, batches of 32, mq-deadline, 512 B random read",
        drives: 1,
        threads: 4,
        pinned: false,
        batch: 32,
    },
    Load {
        row: "1 drive, 4 threads unpinned, single requests",
        plain_row: "  the same, no scheduler",
        workload: "1 drive, 4 threads unpinned, single requests, mq-deadline, 512 B random read",
        drives: 1,
        threads: 4,
        pinned: false,
        batch: 1,
    },
    Load {
        row: "4 drives, 4 threads on 2 CPUs, batches of 32",
        plain_row: "  the same, no scheduler",
        workload: "4 drives, 4 threads on 2 cores, mq-deadline, 512 B random read",
        drives: 4,
        threads: 1,
        pinned: true,
        batch: 32,
    },
];

/// The published row without the scheduler: the first load's.
const LIMIT: &str = "1 drive, no scheduler (device limit), 512 B random read";

/// `mq-deadline-scaling`.
pub fn table() -> Table {
    let mut cells: Vec<Cell> = Vec::new();
    for load in &LOADS {
        let key = |scheduler, workload: &str| Key {
            device: "NVMe SSD",
            config: "2024-01 kernel",
            scheduler,
            workload: workload.to_owned(),
        };
        let limit = Some(Base { cell: 0, times: f64::from(load.drives) });
        let cell = |row: &str, published, scheduler, same| Cell {
            row: row.to_owned(),
            column: "512 B random read".to_owned(),
            published,
            figure_use: FigureUse::Prediction,
            unit: Unit::Miops,
            setup: Setup { scheduler, zone_write: None, jobs: load.jobs() },
            bases: vec![limit, same],
        };
        let is_limit = cells.is_empty();
        // The limit is the first row; elsewhere the published row comes first.
        let plain = if is_limit { 0 } else { cells.len() + 1 };
        let same = Some(Base { cell: plain, times: 1.0 });
        let scheduled =
            cell(load.row, Some(key("mq-deadline", load.workload)), "mq-deadline", same);
        let published = is_limit.then(|| key("none", LIMIT));
        let unscheduled = cell(load.plain_row, published, "none", None);
        cells.extend(if is_limit { [unscheduled, scheduled] } else { [scheduled, unscheduled] });
    }
    Table {
        name: "mq-deadline-scaling",
        about: "mq-deadline with more and more threads, against the device's limit",
        layout: Layout::List,
        comparability: Comparability::Ratios,
        settings: MeasureSettings::real_time(),
        comparisons: &[
            Comparison { heading: "of limit", kind: PercentKind::Share },
            Comparison { heading: "of none", kind: PercentKind::Share },
        ],
        cells,
        crossings: Crossings::default(),
        parameters: FreeParameters::default(),
        remarks,
    }
}

impl Load {
    /// A job for each drive.
    fn jobs(&self) -> Vec<String> {
        let mut options = vec![
            "--rw=randread".to_owned(),
            "--bs=512".to_owned(),
            "--norandommap".to_owned(),
            "--iodepth=32".to_owned(),
            format!("--iodepth_batch={}", self.batch),
            format!("--iodepth_batch_complete_max={}", self.batch),
            format!("--numjobs={}", self.threads),
        ];
        if self.pinned && self.threads > 1 {
            options
                .extend(["--cpus_allowed=0,1", "--cpus_allowed_policy=split"].map(str::to_owned));
        }
        for drive in 0..self.drives {
            // Drives are different devices because their specs differ by the seed.
            options.push(format!("--name=drive{drive}"));
            options.push(format!("--filename=null:zoned=false,seed={drive}"));
            if self.pinned && self.threads == 1 {
                options.push(format!("--cpus_allowed={}", drive % 2));
            }
        }
        options
    }
}

fn remarks(table: &Table, results: &Results, _published: &Published) -> Vec<String> {
    let share = |(at, cell): (usize, &Cell)| {
        let Base { cell: same, times } = cell.bases[1]?;
        Some((results.ratio(at, same, times), cell.row.clone()))
    };
    let least = table.cells.iter().enumerate().filter_map(share);
    let least = least.min_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut remarks = vec![
        "of limit: of the figure in the first row, for each drive; of none: of the same threads \
         without a scheduler, which is what limits a device without latency."
            .to_owned(),
    ];
    remarks.extend(least.map(|(share, row)| {
        let share = PercentKind::Share.format(share);
        format!("Zonal: mq-deadline reaches at least {share} of none ({row}).")
    }));
    remarks
}
