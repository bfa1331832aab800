//! `flash`: the write amplification of random overwrites in steady state, against closed forms.
use crate::experiment::Unit;
use crate::reproduce::published::Key;
use crate::reproduce::settings::MeasureSettings;
use crate::reproduce::table::{Cell, Layout, Setup, Table};

/// A drive with superblocks of 16 pages, in its steady state. It has so many that the free ones, which
/// theory does not have, make no difference.
const DRIVE: &str = "ssd:size=256M,dies=32,superblock_dies=1,planes=1,cell_pages=1,page=4K,\
                     block=64K,separate=false,gc_low=2,gc_high=2,prefill=random:4";

/// Over-provisioning, by its name in the published figures.
const OVERPROVISION: [(&str, &str); 4] = [
    ("7%", "overprovision=7%"),
    ("12.5%", "overprovision=12.5%"),
    ("28%", "overprovision=28%"),
    ("50%", "overprovision=50%"),
];

/// `flash`.
pub fn table() -> Table {
    let mut cells = Vec::new();
    for policy in ["fifo", "greedy"] {
        for (column, config) in OVERPROVISION {
            let key = Key {
                device: "translation layer, superblocks of 16 pages",
                config,
                scheduler: policy,
                workload: "uniform overwrites".to_owned(),
            };
            let row = format!("uniform overwrites, {policy}");
            let unit = Unit::WriteAmplification;
            cells.push(Cell::published(&row, column, key, unit, setup(policy, config)));
        }
    }
    Table::of_model(
        "flash",
        "write amplification of a translation layer, by over-provisioning",
        Layout::Grid,
        MeasureSettings::virtual_time(1, None),
        cells,
    )
}

fn setup(policy: &str, overprovision: &str) -> Setup {
    let device = format!("--filename={DRIVE},gc={policy},{overprovision}");
    let job = "--name=overwrite --rw=randwrite --norandommap --bs=4k --iodepth=16 --io_size=1g";
    let jobs = job.split(' ').map(str::to_owned).chain([device]).collect();
    Setup { scheduler: "none", zone_write: None, jobs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_device::ssd::closed_forms::{fifo, greedy};

    #[test]
    fn published_values_are_those_of_the_closed_forms() {
        let alphas = [1.07, 1.125, 1.28, 1.5];
        let values = alphas.map(fifo).into_iter().chain(alphas.map(|alpha| greedy(alpha, 16)));
        let table = table();
        for ((at, value), figure) in values.enumerate().zip(table.figures()) {
            assert_eq!(table.cell_of(&figure), Some(at));
            assert_eq!(figure.text(), format!("{value:.3}"));
        }
    }
}
