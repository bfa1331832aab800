//! `mq-deadline-scaling`: what a scheduler costs as threads are added (Axboe, January 2024), with
//! 512 B random reads.
//!
//! The publication compares with the limit of its drive. A device without latency has no limit but
//! that of the processors, so each row is also compared with the same threads without a scheduler.
use super::measure::Results;
use super::published::Key;
use super::table::{Base, Cell, Comparison, Layout, Setup, Style, Table, Unit};

/// How the reads come.
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
    /// On two processors, each thread on one.
    pinned: bool,
    /// I/Os submitted together, and taken back together at the most.
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
    let mut cells = Vec::new();
    for load in &LOADS {
        let plain = cells.len();
        let limit = Base { cell: 0, times: f64::from(load.drives) };
        let key = |scheduler, workload| Key { config: "2024-01 kernel", scheduler, workload };
        let cell = |row, published, scheduler, bases| Cell {
            row,
            column: "512 B random read",
            published,
            unit: Unit::Miops,
            setup: Setup { scheduler, zone_write: None, jobs: load.jobs() },
            bases,
        };
        let published = (plain == limit.cell).then(|| key("none", LIMIT));
        cells.push(cell(load.plain_row, published, "none", vec![Some(limit), None]));
        let same = Base { cell: plain, times: 1.0 };
        let published = Some(key("mq-deadline", load.workload));
        cells.push(cell(load.row, published, "mq-deadline", vec![Some(limit), Some(same)]));
    }
    Table {
        name: "mq-deadline-scaling",
        about: "mq-deadline with more and more threads, against the device's limit",
        layout: Layout::List,
        comparisons: &[
            Comparison { heading: "of limit", style: Style::Share },
            Comparison { heading: "of none", style: Style::Share },
        ],
        cells,
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
            // The seed tells the drives apart: a device has one name.
            options.push(format!("--name=drive{drive}"));
            options.push(format!("--filename=null:zoned=false,seed={drive}"));
            if self.pinned && self.threads == 1 {
                options.push(format!("--cpus_allowed={}", drive % 2));
            }
        }
        options
    }
}

fn remarks(table: &Table, results: &Results) -> Vec<String> {
    let share = |at: usize| {
        let base = table.cells[at].bases[1]?;
        let (value, base) = (results.0[at].median(), results.0[base.cell].median());
        Some((value / base, table.cells[at].row))
    };
    let shares = (0..table.cells.len()).filter_map(share);
    let least = shares.min_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut remarks = vec![
        "of limit: of the figure in the first row, for each drive; of none: of the same threads \
         without a scheduler, which is what limits a device without latency."
            .to_owned(),
    ];
    remarks.extend(least.map(|(share, row)| {
        format!("Zonal: mq-deadline reaches at least {:.0}% of none ({row}).", share * 100.0)
    }));
    remarks
}
