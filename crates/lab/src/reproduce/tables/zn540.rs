//! A ZNS drive measured by fio over SPDK, from the data set of "Performance Characterization of NVMe
//! Flash Devices with Zoned Namespaces (ZNS)" (IEEE CLUSTER 2023). `zonal validate` predicts all of
//! its cells that are known here.
use crate::experiment::Unit;
use crate::reproduce::published::Key;
use crate::reproduce::settings::MeasureSettings;
use crate::reproduce::table::{Cell, FigureUse, FreeParameters, Layout, Setup, Table};
use zonal_blk::ZoneWrite;
use zonal_sim::{CostModel, HostCost};

/// The publication's drive.
const PUBLISHED: &str = "ZNS NVMe SSD, 904 zones x 1077 MiB, 14 max open";

/// The parameters of the profile that were calibrated, as it names them.
const PARAMETERS: [&str; 20] = [
    "latency",
    "write_time",
    "append_time",
    "partial_time",
    "link_rate",
    "read_link_rate",
    "send_time",
    "page_read",
    "transfer_time",
    "channel_rate",
    "stream_rate",
    "suspend_step",
    "program",
    "reset_time",
    "reset_rate",
    "unit_time",
    "page_spread",
    "erase",
    "reset_hold",
    "buffer",
];

/// A row: what is done, block size, zones with a job each, depths, and whether a parameter was adjusted
/// to loads of this kind, as `docs/models.md` says.
type Row = (&'static str, u32, u32, &'static [u32], FigureUse);

/// The rows, those that have the columns in order first.
const ROWS: [Row; 12] = [
    ("append", 131_072, 1, &[1], FigureUse::Calibration),
    ("read", 16384, 4, &[2, 4, 8], FigureUse::Prediction),
    ("read", 4096, 4, &[1, 8, 16], FigureUse::Prediction),
    ("read", 4096, 1, &[8], FigureUse::Prediction),
    ("read", 65536, 8, &[1], FigureUse::Prediction),
    ("randread", 16384, 1, &[64], FigureUse::Calibration),
    ("randread", 16384, 8, &[1], FigureUse::Prediction),
    ("randread", 4096, 1, &[4, 256], FigureUse::Calibration),
    ("randread", 4096, 8, &[1], FigureUse::Prediction),
    ("append", 4096, 1, &[1, 8], FigureUse::Calibration),
    ("append", 4096, 8, &[1], FigureUse::Prediction),
    ("write", 16384, 8, &[1], FigureUse::Calibration),
];

/// `zn540`.
pub fn table() -> Table {
    let mut cells = Vec::new();
    for (op, block, zones, depths, figure_use) in ROWS {
        for &depth in depths {
            cells.push(Cell { figure_use, ..cell(op, block, zones, depth) });
        }
    }
    let costs = HostCost::named("spdk").map(CostModel::Host).expect("the host has a name");
    let table = Table::of_model(
        "zn540",
        "appends, writes and reads of a ZNS drive, by fio over SPDK",
        Layout::Curves { axis: "queue depth" },
        MeasureSettings { costs, ..MeasureSettings::virtual_time(3, Some(1.5)) },
        cells,
    );
    Table { parameters: FreeParameters { names: &PARAMETERS, inert: &[] }, ..table }
}

fn cell(op: &str, block: u32, zones: u32, depth: u32) -> Cell {
    let workload = format!("{op} bs={block} zones={zones} qd={depth}");
    // Sequential reads were measured in the format with LBAs of 512 bytes, and each in 100 zones.
    let (rw, size, device) = match op {
        "append" => ("write", 100, "zn540"),
        "read" => (op, 100, "zn540:lba=512,written=100%"),
        "randread" => (op, 1, "zn540:written=100%"),
        _ => (op, 100, "zn540"),
    };
    let mut jobs = vec![
        format!("--name={op}"),
        format!("--filename={device}"),
        format!("--rw={rw}"),
        format!("--bs={block}"),
        format!("--iodepth={depth}"),
        format!("--numjobs={zones}"),
        format!("--size={size}z"),
        format!("--offset_increment={size}z"),
        "--zonemode=zbd".to_owned(),
        "--max_open_zones=14".to_owned(),
    ];
    match op {
        "append" => jobs.push("--zone_append=1".to_owned()),
        "randread" => jobs.push("--norandommap=1".to_owned()),
        _ => {}
    }
    if rw == "write" {
        jobs.push("--job_max_open_zones=1".to_owned());
    }
    let key = Key { device: PUBLISHED, config: "fio 3.32 over SPDK", scheduler: "none", workload };
    let setup = Setup { scheduler: "none", zone_write: Some(ZoneWrite::Plug), jobs };
    let zones = if zones == 1 { "1 zone".to_owned() } else { format!("{zones} zones") };
    let row = format!("{op}, {} KiB, {zones}", block / 1024);
    Cell::published(&row, &depth.to_string(), key, Unit::Kiops, setup)
}

#[cfg(test)]
mod tests {
    use super::PARAMETERS;
    use crate::fit::Profile;

    #[test]
    fn parameters_are_those_that_the_profile_names_as_calibrated() {
        assert_eq!(Profile::calibrated_options("zn540"), PARAMETERS);
    }
}
