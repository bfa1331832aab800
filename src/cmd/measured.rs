//! Options of `zonal validate` and `zonal fit` about measurements.
use crate::args::zone_write;
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;
use zonal_blk::ZoneWrite;
use zonal_device::device_spec::DeviceSpec;
use zonal_lab::host_cost;
use zonal_lab::measurements::{self, Assume, Cells, Kernel};
use zonal_sim::CostModel;

/// Measurements, and what is assumed where they do not say it.
#[derive(Args, Debug)]
pub struct MeasuredArgs {
    /// Measurements of a drive: JSON reports of fio, or CSV with the columns that docs/models.md
    /// describes
    #[arg(required = true, value_name = "RESULTS")]
    pub results: Vec<PathBuf>,
    /// The costs of the host: spdk, io_uring, io_uring_cmd, libaio or a TOML file [default: those of the
    /// engine of each job]
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "io_cost")]
    pub host_cost: Option<String>,
    /// In place of these, the virtual time that an I/O costs the thread that does it, as `zonal run`
    /// takes it
    #[arg(long, value_name = "NS")]
    pub io_cost: Option<CostModel>,
    /// How the host kept writes to a zone in order, where a report does not say it
    #[arg(long, value_parser = zone_write(), value_name = "POLICY")]
    pub zone_write: Option<ZoneWrite>,
    /// The host's I/O scheduler, where neither the jobs nor a report say it
    #[arg(long, value_name = "NAME")]
    pub scheduler: Option<String>,
    /// The host's version of Linux, such as 6.8, for both: zone write locking by mq-deadline before
    /// 6.10, zone write plugging since, with one write at a time to disks since 7.1
    #[arg(long, value_name = "VERSION")]
    pub kernel: Option<Kernel>,
    /// Random seed of the jobs and of the device
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

impl MeasuredArgs {
    /// Reads the measurements, which are of a device of this kind.
    pub fn read(&self, spec: &DeviceSpec) -> Result<Cells> {
        let assume = Assume {
            zone_write: self.zone_write,
            scheduler: self.scheduler.clone(),
            kernel: self.kernel,
            ..Assume::of(spec)
        };
        measurements::read(&self.results, &assume)
    }

    /// The cost of I/O for the host; `None` for the costs of each job's engine.
    pub fn costs(&self) -> Result<Option<CostModel>> {
        let host = self.host_cost.as_deref().map(host_cost::load).transpose();
        Ok(host.context("--host-cost")?.map(CostModel::Host).or(self.io_cost))
    }
}
