//! Measured cells of a drive, predicted by a model.
//!
//! Each load of the cells runs in virtual time, on a device of its own whose zones are all written,
//! and its figures are compared with the measured ones.
//!
//! ```text
//!  cells     a CSV file --> cells, and the loads that they were measured under
//!  load      a load --> job options
//!  run       a load --> what the model does
//!  report    predicted and measured figures --> text, CSV, JSON
//! ```
mod cells;
mod load;
mod report;
mod run;

use crate::devices;
use crate::experiment::{available_cpus, parallel_map};
use crate::progress::StepProgress;
use anyhow::{Context, Result};
pub use cells::{COLUMNS, Cell, Cells, Metric, read};
pub use load::{Load, LoadKind};
pub use report::{Errors, csv, json, text};
use run::Predicted;
use zonal_sim::HostCost;

/// How to validate.
#[derive(Clone, Debug)]
pub struct ValidateOptions {
    /// The device: a spec or a TOML profile.
    pub device: String,
    /// The costs of the host; `None` for those of the host that a cell names as its driver.
    pub host: Option<HostCost>,
    /// Virtual seconds that are measured per load, at least.
    pub seconds: f64,
    /// The seed of the jobs and of the device.
    pub seed: u64,
}

/// A model's figures beside the measured ones.
pub struct Validation {
    /// The device, as it was named.
    pub device: String,
    /// The measured cells.
    pub cells: Cells,
    /// The model's figures, by cell.
    pub predicted: Vec<f64>,
}

impl Validation {
    /// By how many percent the model's figure of a cell differs from the measured one.
    pub fn error(&self, cell: usize) -> f64 {
        (self.predicted[cell] / self.cells.cells[cell].value - 1.0) * 100.0
    }
}

/// Predicts all cells.
///
/// # Errors
/// The device does not exist, or a load cannot run on it.
pub fn validate(
    cells: Cells,
    options: &ValidateOptions,
    progress: &dyn StepProgress,
) -> Result<Validation> {
    let spec = devices::load(&options.device)?;
    progress.start("validate", cells.loads.len() as u64);
    let loads = parallel_map(available_cpus(), &cells.loads, |load| {
        let predicted = run::run(load, &spec, options).with_context(|| load.to_string())?;
        progress.advance(1);
        Ok(predicted)
    });
    progress.finish();
    let loads: Vec<Predicted> = loads?;
    let of_cell = |cell: &Cell| loads[cell.load].figure(cell.dir, cell.metric);
    let predicted = cells.cells.iter().map(of_cell).collect();
    Ok(Validation { device: options.device.clone(), cells, predicted })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELLS: &str = "set,driver,lba,op,block,zones,depth,metric,value,unit\n\
        io,spdk,4096,append:write,4096,2,8,iops,143000,1/s\n\
        io,spdk,4096,write_read_50_50_offset:read,4096,1,4,iops,30000,1/s\n\
        io,spdk,4096,write_read_50_50_offset:write,4096,1,4,iops,30000,1/s\n\
        management,spdk,4096,reset_finished,141164544,1,1,lat_mean,3355.97,us\n";

    fn options(host: Option<HostCost>) -> ValidateOptions {
        ValidateOptions { device: "zn540".to_owned(), host, seconds: 0.01, seed: 0 }
    }

    #[test]
    fn cells_are_predicted_in_their_units_and_the_same_each_time() {
        let validate = || {
            let cells = cells::parse(CELLS).unwrap();
            super::validate(cells, &options(None), &()).unwrap().predicted
        };
        let predicted = validate();
        assert_eq!(predicted, validate());
        let [appends, reads, writes, reset] = predicted[..] else { panic!("four cells") };
        assert!((100e3..200e3).contains(&appends), "{appends}");
        assert!((reads / writes - 1.0).abs() < 0.05, "one read for each write: {reads} {writes}");
        assert!((3000.0..4000.0).contains(&reset), "{reset}");
    }

    #[test]
    fn unknown_driver_needs_the_costs_of_a_host() {
        let cells = || cells::parse(&CELLS.replace("spdk", "xnvme")).unwrap();
        let error = super::validate(cells(), &options(None), &()).err().unwrap();
        let error = format!("{error:#}");
        assert!(
            error.ends_with("found `xnvme`, expected spdk, io_uring, libaio, or give --host-cost"),
            "{error}"
        );
        let host = HostCost::named("spdk");
        assert!(super::validate(cells(), &options(host), &()).is_ok());
    }
}
