//! `zonal reproduce`.
use super::ClockKind;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use zonal_sim::CostModel;

/// Options of `zonal reproduce`.
#[derive(Args, Debug)]
#[command(after_help = crate::cmd::reproduce::list())]
pub struct ReproduceArgs {
    /// The tables; all if none is named
    #[arg(value_name = "TABLE")]
    pub tables: Vec<String>,
    /// How the tables are printed
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    pub format: TableFormat,
    /// Write each plot to a file of its own in this directory, which is made if need be
    #[arg(long, value_name = "DIR", conflicts_with = "commands")]
    pub plot: Option<PathBuf>,
    /// Real threads and real time, or discrete events in virtual time [default: virtual for models
    /// of drives, else real]
    #[arg(long, value_enum)]
    pub clock: Option<ClockKind>,
    /// Time to measure each cell for, over all rounds, in seconds of that clock [default: the
    /// table's own]. Where jobs run to their end, they take as long as that takes
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,
    /// Times that each cell is measured, each with a seed of its own; the median counts [default:
    /// the table's own]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=101))]
    pub rounds: Option<u32>,
    /// Print the `zonal run` command that measures each cell, and measure nothing
    #[arg(long)]
    pub commands: bool,
    /// Chooses the random numbers of the jobs and of the devices; in virtual time the same seed
    /// gives the same output to the byte
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Virtual time that an I/O costs the thread that does it, in nanoseconds; `published` for what
    /// it cost the machine of the published zone write plugging tables, by scheduler and length
    /// [default: the table's own]
    #[arg(long, value_name = "NS")]
    pub io_cost: Option<CostModel>,
}

/// `--format`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// For people
    Text,
    /// All that was measured, with how
    Json,
    /// The columns of the published figures with ours
    Csv,
    /// A page with tables and plots
    Html,
}

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected seconds such as 1.5".to_owned())?;
    if (0.0001..=86400.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("expected 0.0001 to 86400 seconds".to_owned())
    }
}
