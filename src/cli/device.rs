//! `zonal device`.
use super::reproduce::seconds;
use clap::Args;
use zonal_sim::CostModel;

/// Options of `zonal device`.
#[derive(Args, Debug)]
pub struct DeviceArgs {
    /// The device: a spec (see `zonal devices`) or a TOML profile
    #[arg(value_name = "SPEC")]
    pub device: String,
    /// Virtual time for each load that is tried, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0, value_parser = seconds)]
    pub time: f64,
    /// Virtual time that an I/O costs the thread that does it, in nanoseconds; or `published`, what
    /// it cost the machine of the published tables, by scheduler and length
    #[arg(long, value_name = "NS|published", default_value = "1000")]
    pub io_cost: CostModel,
}
