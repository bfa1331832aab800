//! `zonal pattern`: patterns of requests in files.
use clap::{Args, Subcommand};
use std::path::PathBuf;
use zonal_fio::options::read_size;
use zonal_fio::trace::Fraction;

/// What to do.
#[derive(Subcommand, Debug)]
pub enum PatternCommand {
    /// Make a pattern file; the same arguments give the same bytes on every machine
    #[command(subcommand)]
    Generate(GenerateCommand),
    /// Count what a pattern file or a trace asks for
    Show {
        /// A pattern file, fio's iolog or blkparse's text
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Whose pattern.
#[derive(Subcommand, Debug)]
pub enum GenerateCommand {
    /// As FreeBSD's `raidtest genfile`: reads and writes of random size at random places
    Raidtest(RaidtestArgs),
    /// As Dean Gaudet's randomio: reads and writes of one size at random places, and flushes
    Randomio(RandomioArgs),
}

/// Where, how many and where to.
#[derive(Args, Debug)]
pub struct GenerateArgs {
    /// Size of the region, such as 1g (raidtest's -s)
    #[arg(long, value_name = "SIZE", value_parser = read_size, required_unless_present = "device")]
    pub size: Option<u64>,
    /// The region is this device: a spec (see `zonal devices`) or a TOML profile
    #[arg(long, value_name = "SPEC", conflicts_with = "size")]
    pub device: Option<String>,
    /// Number of reads and writes (raidtest's -n)
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub requests: u64,
    /// Chooses the random numbers; a job's `randseed`
    #[arg(long, default_value_t = zonal_fio::job::FIXED_SEED)]
    pub seed: u64,
    /// Share of writes, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.5")]
    pub writes: Fraction,
    /// Where to write the pattern [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Options of `zonal pattern generate raidtest`.
#[derive(Args, Debug)]
pub struct RaidtestArgs {
    #[command(flatten)]
    pub common: GenerateArgs,
    /// What offsets and lengths are multiples of (raidtest's -S)
    #[arg(long, value_name = "SIZE", default_value = "512", value_parser = read_size)]
    pub align: u64,
    /// Longest request
    #[arg(long, value_name = "SIZE", default_value = "128k", value_parser = read_size)]
    pub max_size: u64,
}

/// Options of `zonal pattern generate randomio`.
#[derive(Args, Debug)]
pub struct RandomioArgs {
    #[command(flatten)]
    pub common: GenerateArgs,
    /// Share of the writes that a flush follows, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0")]
    pub fsyncs: Fraction,
    /// Size of each read and write
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = read_size)]
    pub io_size: u64,
    /// What offsets are multiples of [default: the size of a request]
    #[arg(long, value_name = "SIZE", value_parser = read_size)]
    pub align: Option<u64>,
}
