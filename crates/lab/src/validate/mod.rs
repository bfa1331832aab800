//! Measured cells of a drive, predicted by a model.
//!
//! Each load of the cells runs in virtual time, on a device of its own, and its figures are compared
//! with the measured ones.
//!
//! ```text
//!  state       predictions that are kept in a file, so that a validation can be resumed
//!  baseline    what interpolation between neighbouring cells predicts
//!  errors      predicted and measured figures --> errors by kind of work and metric
//!  report      these --> text, CSV, JSON
//!  plot        predicted against measured figures as scatter plots
//!  html        all of these --> a page
//! ```
mod baseline;
mod errors;
mod html;
mod plot;
mod report;
mod state;

use crate::experiment::{available_cpus, parallel_map};
use crate::fit::Profile;
use crate::measurements::{Cells, Interrupted, Predicted, RunOptions, run};
use crate::progress::StepProgress;
use anyhow::{Context, Result};
use errors::Summary;
pub use errors::{Demerit, Errors};
pub use html::page as html;
pub use plot::plots;
pub use report::{csv, json, text};
use state::StateFile;
use std::path::PathBuf;

/// How to validate.
#[derive(Clone, Debug)]
pub struct ValidateOptions {
    /// How the loads run.
    pub run: RunOptions,
    /// One load in this many is held out: a fit with the same number did not see it.
    pub hold_out: Option<u32>,
    /// The file that keeps predictions, and that they are taken from.
    pub resume: Option<PathBuf>,
}

/// A model's figures beside the measured ones.
pub struct Validation {
    /// The device, as it was named.
    pub device: String,
    /// The options of its profile that were adjusted to measurements.
    pub free: Vec<String>,
    /// The measured cells.
    pub cells: Cells,
    /// The model's figures, by load.
    pub loads: Vec<Predicted>,
    /// One load in this many is held out.
    pub hold_out: Option<u32>,
    /// Loads whose predictions were in the state file.
    pub resumed: usize,
}

impl Validation {
    /// The model's figure of a cell.
    pub fn predicted(&self, cell: usize) -> f64 {
        let cell = &self.cells.cells[cell];
        self.loads[cell.load].figure(cell)
    }

    /// By how many percent the model's figure of a cell differs from the measured one.
    pub fn error(&self, cell: usize) -> f64 {
        (self.predicted(cell) / self.cells.cells[cell].value - 1.0) * 100.0
    }

    /// Whether a cell is held out from fits; without such cells, all are.
    pub fn is_held_out(&self, cell: usize) -> bool {
        let load = &self.cells.loads[self.cells.cells[cell].load];
        self.hold_out.is_none_or(|one_in| load.is_held_out(one_in))
    }
}

/// Predicts all cells.
///
/// # Errors
/// The device does not exist, no load can run on it, or the state file is of another validation. Loads
/// that cannot run beside others that can are left out, see [`Cells::refused`].
pub fn validate(
    mut cells: Cells,
    options: &ValidateOptions,
    progress: &dyn StepProgress,
) -> Result<Validation> {
    let device = &options.run.device;
    let spec = zonal_backend::load(device)?;
    let state = match &options.resume {
        Some(path) => StateFile::open(path, &spec, &options.run)
            .with_context(|| format!("--resume {}", path.display()))?,
        None => StateFile::none(),
    };
    let (mut loads, mut left) = (Vec::with_capacity(cells.loads.len()), Vec::new());
    for (at, load) in cells.loads.iter().enumerate() {
        let known = state.get(load);
        left.extend(known.is_none().then_some(at));
        loads.push(known.unwrap_or_default());
    }
    progress.start("validate", cells.loads.len() as u64);
    progress.advance((loads.len() - left.len()) as u64);
    let fresh = parallel_map(available_cpus(), &left, |&at| {
        let load = &cells.loads[at];
        let in_load = || load.to_string();
        let predicted = match run(load, &spec, &options.run) {
            Err(error) if error.is::<Interrupted>() => return Err(error),
            Err(error) => Err(error.context(load.to_string())),
            Ok(predicted) => {
                state.keep(load, &predicted).with_context(in_load)?;
                Ok(predicted)
            }
        };
        progress.advance(1);
        Ok(predicted)
    });
    progress.finish();
    let resumed = loads.len() - left.len();
    let mut refused = Vec::new();
    for (at, predicted) in left.into_iter().zip(fresh?) {
        match predicted {
            Ok(predicted) => loads[at] = predicted,
            Err(error) if refused.len() + 1 == loads.len() => return Err(error),
            Err(error) => refused.push((at, format!("{error:#}"))),
        }
    }
    cells.refuse(refused);
    let free = Profile::calibrated_options(device);
    let (device, hold_out) = (device.clone(), options.hold_out);
    Ok(Validation { device, free, cells, loads, hold_out, resumed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::{self, Assume};
    use std::sync::Arc;
    use zonal_sim::{CostModel, HostCost};

    const CELLS: &str = "set,driver,lba,op,block,zones,depth,metric,value,unit\n\
        io,spdk,4096,append:write,4096,2,8,iops,143000,1/s\n\
        io,spdk,4096,write_read_50_50_offset:read,4096,1,4,iops,30000,1/s\n\
        io,spdk,4096,write_read_50_50_offset:write,4096,1,4,iops,30000,1/s\n\
        management,spdk,4096,reset_finished,141164544,1,1,lat_mean,3355.97,us\n";

    pub(super) fn options(costs: Option<CostModel>) -> ValidateOptions {
        let device = "zn540".to_owned();
        let stop = Arc::default();
        let run = RunOptions { device, costs, seconds: Some(0.01), ramp: None, seed: 0, stop };
        ValidateOptions { run, hold_out: None, resume: None }
    }

    pub(super) fn cells(text: &str) -> Cells {
        measurements::parse("cells", text, &Assume::default()).expect("the cells are well formed")
    }

    #[test]
    fn cells_are_predicted_in_their_units_and_the_same_each_time() {
        let validate = || {
            let done = super::validate(cells(CELLS), &options(None), &()).unwrap();
            (0..4).map(|cell| done.predicted(cell)).collect::<Vec<f64>>()
        };
        let predicted = validate();
        assert_eq!(predicted, validate());
        let [appends, reads, writes, reset] = predicted[..] else { panic!("four cells") };
        assert!((100e3..200e3).contains(&appends), "{appends}");
        assert!((reads / writes - 1.0).abs() < 0.05, "one read for each write: {reads} {writes}");
        assert!((3000.0..4000.0).contains(&reset), "{reset}");
    }

    #[test]
    fn finish_and_reset_of_an_empty_zone_take_the_controllers_time_only() {
        let cell = |op: &str| format!("management,spdk,4096,{op},0,1,1,lat_mean,13.5,us\n");
        let mut text: String = ["finish", "reset", "close_write"].map(cell).concat();
        text += &cell("finish").replace(",0,", ",1129312256,");
        let header = "set,driver,lba,op,block,zones,depth,metric,value,unit\n";
        let done = super::validate(cells(&format!("{header}{text}")), &options(None), &()).unwrap();
        let micros = |cell: usize| done.predicted(cell);
        assert!((10.0..20.0).contains(&micros(0)), "{}", micros(0));
        assert!(micros(1) < 5000.0, "{}", micros(1));
        assert!((micros(2) - 13.9).abs() < 0.5, "with a write before: {}", micros(2));
        assert!(
            (2400.0..2800.0).contains(&micros(3)),
            "one block missing, a program: {}",
            micros(3)
        );
    }

    #[test]
    fn reads_of_a_drive_without_zones_find_data_on_its_flash() {
        let cells = cells("job,value,unit\nrw=randread bs=4k norandommap,10,KIOPS\n");
        let mut options = options(None);
        options.run.device =
            "ssd:size=64M,dies=4,channels=2,block=48K,overprovision=50%".to_owned();
        let done = super::validate(cells, &options, &()).unwrap();
        // Sensing a page takes 65 us.
        let rate = done.predicted(0);
        assert!((10_000.0..15_500.0).contains(&rate), "{rate} a second");
    }

    #[test]
    fn unknown_driver_needs_the_costs_of_a_host() {
        let cells = || cells(&CELLS.replace("spdk", "xnvme"));
        let error = super::validate(cells(), &options(None), &()).err().unwrap();
        let error = format!("{error:#}");
        assert!(
            error.ends_with(
                "found `xnvme`, expected spdk, io_uring, io_uring_cmd, libaio, or give --host-cost"
            ),
            "{error}"
        );
        let host = HostCost::named("spdk").map(CostModel::Host);
        assert!(super::validate(cells(), &options(host), &()).is_ok());
    }
}
