//! `flash-cache`: the write amplification of CacheLib on a drive with and without data placement, from
//! "Towards Efficient Flash Caches with Emerging NVMe Flexible Data Placement SSDs" (EuroSys 2025).
//!
//! CacheLib overwrites buckets of 4 KiB with small objects at random, and writes large ones in order, around
//! the rest of its space. The publication says how much of it each has. Not published, and chosen so that
//! the figures without data placement are met: that nine tenths of the bytes written are buckets, and
//! where in the published range from 7 to 20 % the over-provisioning is.
use crate::experiment::{PREPARATION, Unit};
use crate::reproduce::published::Key;
use crate::reproduce::settings::MeasureSettings;
use crate::reproduce::table::{Cell, FigureUse, FreeParameters, Layout, Setup, Table};

/// The published drive.
const PUBLISHED: &str = "1.88 TB, 8 reclaim unit handles, reclaim units of 6 GB";

/// A drive of about as many superblocks.
const DRIVE: &str = "ssd:size=100M,overprovision=18%,dies=4,channels=2,planes=1,cell_pages=1,\
                     page=16K,block=64K,gc_low=2,gc_high=2";

/// Megabytes that the caches write before the drive is measured, and then.
const WRITTEN: [u64; 2] = [2000, 1000];

/// The caches of a cell.
#[derive(Clone, Copy)]
struct Load {
    workload: &'static str,
    /// Caches side by side.
    caches: u64,
    /// MiB of small and of large objects in each of them.
    sizes: [u64; 2],
}

const HALF: Load = Load { workload: "4% small, 50% of the drive", caches: 1, sizes: [2, 48] };
const WHOLE: Load = Load { workload: "4% small, 100% of the drive", caches: 1, sizes: [4, 96] };
const SMALL: Load = Load { workload: "64% small, 100% of the drive", caches: 1, sizes: [64, 36] };
const TWO: Load =
    Load { workload: "two caches, 4% small, 100% of the drive", caches: 2, sizes: [2, 48] };

/// The configurations, as the publication names them, and the loads of each.
const ROWS: [(&str, &[(Load, FigureUse)]); 2] = [
    (
        "without FDP",
        &[
            (HALF, FigureUse::Calibration),
            (WHOLE, FigureUse::Calibration),
            (TWO, FigureUse::Prediction),
        ],
    ),
    (
        "FDP",
        &[
            (HALF, FigureUse::Prediction),
            (WHOLE, FigureUse::Prediction),
            (SMALL, FigureUse::Prediction),
            (TWO, FigureUse::Prediction),
        ],
    ),
];

/// `flash-cache`.
pub fn table() -> Table {
    let mut cells = Vec::new();
    for (config, loads) in ROWS {
        for &(load, figure_use) in loads {
            let key = Key {
                device: PUBLISHED,
                config,
                scheduler: "none",
                workload: load.workload.to_owned(),
            };
            let row = format!("{config}, {}", load.workload);
            let unit = Unit::WriteAmplification;
            let setup = setup(load, config == "FDP");
            cells.push(Cell { figure_use, ..Cell::published(&row, "", key, unit, setup) });
        }
    }
    let table = Table::of_model(
        "flash-cache",
        "write amplification of a flash cache of small and large objects, without and with FDP",
        Layout::List,
        MeasureSettings::virtual_time(1, None),
        cells,
    );
    let names = &["overprovision", "share of small objects in the writes"];
    Table { parameters: FreeParameters { names, inert: &[] }, ..table }
}

/// The caches write until the drive is in their steady state, then they are measured.
fn setup(load: Load, placed: bool) -> Setup {
    let mut jobs = Vec::new();
    for (name, written) in [(PREPARATION, WRITTEN[0]), ("cache", WRITTEN[1])] {
        for cache in 0..load.caches {
            for large in [false, true] {
                jobs.extend(job(name, load, cache, large, written, placed));
            }
        }
    }
    let measured = jobs.iter().position(|option| option == "--name=cache").expect("it was added");
    jobs.insert(measured + 1, "--stonewall".to_owned());
    Setup { scheduler: "none", zone_write: None, jobs }
}

/// The small or large objects of a cache, of all that write this many megabytes.
fn job(name: &str, load: Load, cache: u64, large: bool, written: u64, placed: bool) -> Vec<String> {
    let [small_size, large_size] = load.sizes;
    let first = cache * (small_size + large_size);
    let mut options =
        vec![format!("--name={name}"), format!("--filename={DRIVE}{}", handles(placed))];
    let (offset, size, tenths, own) = if large {
        (first + small_size, large_size, 1, ["--rw=write", "--bs=64k", "--flow=1"])
    } else {
        (first, small_size, 9, ["--rw=randwrite", "--bs=4k", "--flow=144"])
    };
    options.extend(own.map(str::to_owned));
    options.extend(["--norandommap", "--iodepth=16"].map(str::to_owned));
    let io_size = written * tenths / 10 / load.caches;
    options.extend([
        format!("--offset={offset}m"),
        format!("--size={size}m"),
        format!("--io_size={io_size}m"),
    ]);
    if placed {
        options.push("--dataplacement=fdp".to_owned());
        options.push(format!("--plids={}", 2 * cache + u64::from(large)));
    }
    options
}

/// The option of a drive with data placement.
fn handles(placed: bool) -> &'static str {
    if placed { ",fdp_handles=8" } else { "" }
}
