//! `zonal reproduce`.
use super::ClockKind;
use clap::{Args, ValueEnum};
use zonal_sim::Costs;

/// Options of `zonal reproduce`.
#[derive(Args, Debug)]
#[command(after_help = crate::cmd::reproduce::list())]
pub struct ReproduceArgs {
    /// The table
    #[arg(value_name = "TABLE")]
    pub table: String,
    /// A table for people, or the columns of the published figures with ours
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    pub format: TableFormat,
    /// Real threads and real time, or discrete events in virtual time
    #[arg(long, value_enum, default_value_t = ClockKind::Real)]
    pub clock: ClockKind,
    /// Time to measure each cell for, over all rounds, in seconds of that clock
    #[arg(long, value_name = "SECONDS", default_value = "1.4", value_parser = seconds)]
    pub time: f64,
    /// Times that each cell is measured; the median counts
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=101))]
    pub rounds: u32,
    /// Print the `zonal run` command that measures each cell, and measure nothing
    #[arg(long)]
    pub commands: bool,
    /// Chooses the random numbers of the jobs and of the devices; in virtual time the same seed
    /// gives the same output to the byte
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Virtual time that an I/O costs the thread that does it, in nanoseconds; `published` for what
    /// it cost the machine of the published zone write plugging tables, by scheduler and length
    #[arg(long, value_name = "NS", default_value = "1000")]
    pub io_cost: Costs,
}

/// `--format`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    Text,
    Csv,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected seconds such as 1.5".to_owned())?;
    if (0.0001..=86400.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("expected 0.0001 to 86400 seconds".to_owned())
    }
}
