//! The tables that go through file systems: zoned btrfs on the devices of the zone write plugging
//! patches, zoned XFS on the disk of the patches for QD=1 writes, and UFS and ZFS on disks of 2009
//! with and without native command queueing. `docs/filesystems.md` explains the options.
use crate::experiment::Unit;
use crate::reproduce::published::Key;
use crate::reproduce::settings::MeasureSettings;
use crate::reproduce::table::{Cell, FigureUse, FreeParameters, Layout, Setup, Table};
use zonal_blk::ZoneWrite;

/// A row of `zwp-append-btrfs`: heading, configuration, scheduler, policy, the latency of a
/// null device and the issue cost with that scheduler, in nanoseconds.
const BTRFS_ROWS: [(&str, &str, &str, ZoneWrite, [u32; 2]); 4] = [
    ("ZWL mq-deadline", "ZWL", "mq-deadline", ZoneWrite::Lock, [44_380, 32_800]),
    ("ZWP mq-deadline", "ZWP", "mq-deadline", ZoneWrite::Plug, [44_380, 32_800]),
    ("ZWP bfq", "ZWP", "bfq", ZoneWrite::Plug, [45_480, 33_900]),
    ("ZWP none", "ZWP", "none", ZoneWrite::Plug, [41_580, 30_000]),
];

/// `zwp-append-btrfs`.
pub fn btrfs() -> Table {
    let mut cells = Vec::new();
    for (row, config, scheduler, zone_write, [latency, issue]) in BTRFS_ROWS {
        let null = |append| format!("null:{append}latency={latency}ns");
        let issue = format!("--fs_issue_cost={issue}");
        for (column, published, device, own) in [
            ("null native", "null_blk native zone append", null("append_max=1M,"), Some(&issue)),
            ("null emulated", "null_blk emulated zone append", null(""), Some(&issue)),
            ("ZNS native", "ZNS native zone append", "zns-1t".to_owned(), None),
            ("SMR emulated", "SMR emulated zone append", "smr-20t".to_owned(), None),
        ] {
            if zone_write == ZoneWrite::Lock && column == "null emulated" {
                // With locking only the SCSI disk driver emulated appends.
                continue;
            }
            let workload = "btrfs: 1 job, 128 MB files, 128 KB direct writes, qd=16".to_owned();
            let mut jobs = vec![
                "--name=btrfs".to_owned(),
                format!("--filename={device}"),
                "--filesystem=btrfs".to_owned(),
                "--rw=write".to_owned(),
                "--bs=128k".to_owned(),
                "--iodepth=16".to_owned(),
                "--direct=1".to_owned(),
                "--openfiles=1".to_owned(),
                "--nrfiles=100000".to_owned(),
                "--filesize=128m".to_owned(),
            ];
            jobs.extend(own.cloned());
            let key = Key { device: published, config, scheduler, workload };
            let setup = Setup { scheduler, zone_write: Some(zone_write), jobs };
            cells.push(Cell::published(row, column, key, Unit::MegabytesPerSecond, setup));
        }
    }
    let table = Table::of_model(
        "zwp-append-btrfs",
        "zoned btrfs writing by zone append, native and emulated, with each scheduler",
        Layout::Grid,
        MeasureSettings::virtual_time(3, Some(60.0)),
        cells,
    )
    .with_use(FigureUse::Identity, &[("ZWP none", "null native"), ("ZWP none", "null emulated")]);
    let names = &["fs_op_cost", "latency of null_blk", "fs_issue_cost"];
    Table { parameters: FreeParameters { names, inert: &[] }, ..table }
}

/// One of the file system; those of the disk are calibrated with other tables.
const XFS_PARAMETERS: FreeParameters = FreeParameters { names: &["fs_memory"], inert: &[] };

/// `smr-xfs`: AHCI takes 168 ranges of memory, with large folios of 64 KiB.
pub fn xfs() -> Table {
    let device = "smr-30t:max_io=10752K";
    let cells = xfs_cells("SMR SATA 30 TB, AHCI", device);
    let about = "zoned XFS writing files through the page cache, without and with QD=1 writes";
    let table = Table::of_model(
        "smr-xfs",
        about,
        Layout::Grid,
        MeasureSettings::virtual_time(3, Some(600.0)),
        cells,
    )
    .with_use(FigureUse::Calibration, &[("6.19-rc7", "256 MiB"), ("6.19-rc7", "2..8 MiB")]);
    Table { parameters: XFS_PARAMETERS, ..table }
}

/// `smr-xfs-1m-limit`.
pub fn xfs_limited() -> Table {
    let published = "SMR SATA 30 TB, mpi3mr HBA (commands up to 1 MiB)";
    let cells = xfs_cells(published, "smr-30t-mpi3mr");
    let about = "the workloads of smr-xfs behind an adapter that limits commands to 1 MiB";
    let table = Table::of_model(
        "smr-xfs-1m-limit",
        about,
        Layout::Grid,
        MeasureSettings::virtual_time(3, Some(600.0)),
        cells,
    )
    // `cache` of the disk lies between what this cell and 8 random zones ask for.
    .with_use(FigureUse::Calibration, &[("6.19-rc7", "256 MiB")]);
    Table { parameters: XFS_PARAMETERS, ..table }
}

fn xfs_cells(published: &'static str, device: &str) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (config, zone_write) in [("6.19-rc7", ZoneWrite::Plug), ("qd1-writes", ZoneWrite::Qd1)] {
        for (column, files, size) in [
            ("256 MiB", "256 MiB files", "256m"),
            ("4..128 MiB", "4..128 MiB random file size", "4m-128m"),
            ("2..8 MiB", "2..8 MiB random file size", "2m-8m"),
        ] {
            let workload = format!("XFS buffered, 8 jobs, {files}");
            let jobs = vec![
                "--name=xfs".to_owned(),
                format!("--filename={device}"),
                "--filesystem=xfs".to_owned(),
                "--rw=write".to_owned(),
                "--bs=1m".to_owned(),
                "--numjobs=8".to_owned(),
                "--openfiles=1".to_owned(),
                "--nrfiles=100000".to_owned(),
                format!("--filesize={size}"),
            ];
            let key = Key { device: published, config, scheduler: "none", workload };
            let setup = Setup { scheduler: "none", zone_write: Some(zone_write), jobs };
            cells.push(Cell::published(config, column, key, Unit::MegabytesPerSecond, setup));
        }
    }
    cells
}

/// A test of `ncq-raidtest`: heading, disks, the publication's name for the file system, its
/// options, and whether it was run only once.
const TESTS: [(&str, u32, &str, &[&str], bool); 5] = [
    ("UFS O_DIRECT", 1, "UFS O_DIRECT", &["--filesystem=ufs", "--direct=1"], true),
    ("UFS buffered", 1, "UFS buffered", &["--filesystem=ufs"], false),
    ("ZFS", 1, "ZFS", &["--filesystem=zfs"], false),
    (
        "ZFS, ARC 1700M",
        1,
        "ZFS kmem 1900M arc 1700M",
        &["--filesystem=zfs", "--fs_memory=1700m"],
        false,
    ),
    ("ZFS, 2 disks", 2, "ZFS", &["--filesystem=zfs", "--fs_disks=2"], false),
];

/// `ncq-raidtest`.
pub fn raidtest() -> Table {
    let mut cells = Vec::new();
    for (test, disks, published, options, once) in TESTS {
        for (config, host) in [("ata(4)", "ata"), ("ahci(4)", "ahci")] {
            for processes in [1, 32] {
                let runs: &[&str] = if once { &["run"] } else { &["first", "second"] };
                for (warm, run) in runs.iter().enumerate() {
                    let workload = format!(
                        "raidtest 10000 requests 512B-128KB, {published}, {processes} \
                         process(es), {run}"
                    );
                    let device = match disks {
                        1 => "1 SATA disk(s), 2009",
                        _ => "2 SATA disk(s), 2009",
                    };
                    let mut jobs = vec![
                        "--name=raidtest".to_owned(),
                        format!("--filename=sata-2009:host={host}"),
                        "--pattern=raidtest".to_owned(),
                        "--filesize=20g".to_owned(),
                        "--fs_shared".to_owned(),
                        format!("--numjobs={processes}"),
                    ];
                    jobs.extend(options.iter().map(|&option| option.to_owned()));
                    if warm > 0 {
                        jobs.push(format!("--fs_warm_runs={warm}"));
                    }
                    let order = if warm == 0 { "first" } else { "second" };
                    let (row, column) = (format!("{test}, {host}"), format!("{processes} {order}"));
                    let key = Key { device, config, scheduler: "-", workload };
                    let setup = Setup { scheduler: "none", zone_write: None, jobs };
                    cells.push(Cell::published(&row, &column, key, Unit::Tps, setup));
                }
            }
        }
    }
    let calibrated = [
        ("UFS O_DIRECT, ata", "1 first"),
        ("ZFS, ata", "1 first"),
        ("ZFS, ata", "1 second"),
        ("ZFS, ata", "32 first"),
        ("ZFS, ahci", "1 first"),
        ("ZFS, ahci", "1 second"),
    ];
    let table = Table::of_model(
        "ncq-raidtest",
        "raidtest's 10,000 random requests on UFS and ZFS, without and with NCQ",
        Layout::Grid,
        MeasureSettings::virtual_time(3, None),
        cells,
    )
    .with_use(FigureUse::Calibration, &calibrated);
    let names = &["settle", "write_settle", "fs_op_cost"];
    Table { parameters: FreeParameters { names, inert: &[] }, ..table }
}
