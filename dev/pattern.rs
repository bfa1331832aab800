//! `zonal-dev pattern`: generates pattern files, and summarizes patterns and traces.
use crate::shown::stdout;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use zonal_backend::Stack;
use zonal_blk::Op;
use zonal_fio::generate::{Randomio, Region};
use zonal_fio::job::{BlkparseAction, Fraction, Job, PatternOptions};
use zonal_fio::options::parse_size;
use zonal_fio::rng::Rng;
use zonal_fio::trace::{self, Raidtest, Request, pattern};

/// The commands.
#[derive(Subcommand, Debug)]
pub enum PatternCommand {
    /// Generate a pattern file; the same arguments give the same bytes on every machine
    #[command(subcommand)]
    Generate(GenerateCommand),
    /// Summarize the requests of a pattern file or a trace
    Show {
        /// A pattern file, fio's iolog or blkparse's text
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// The kinds of patterns.
#[derive(Subcommand, Debug)]
pub enum GenerateCommand {
    /// As FreeBSD's `raidtest genfile`: reads and writes of random size at random offsets
    Raidtest(RaidtestArgs),
    /// As Dean Gaudet's randomio: reads and writes of one size at random offsets, and flushes
    Randomio(RandomioArgs),
}

/// Options of all kinds of patterns.
#[derive(Args, Debug)]
pub struct GenerateArgs {
    /// Size of the region, such as 1g (raidtest's -s)
    #[arg(long, value_name = "SIZE", value_parser = parse_size, required_unless_present = "device")]
    pub size: Option<u64>,
    /// The region is this device: a spec (see `zonal devices`) or a TOML profile
    #[arg(long, value_name = "SPEC", conflicts_with = "size")]
    pub device: Option<String>,
    /// Number of reads and writes (raidtest's -n)
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub requests: u64,
    /// Random seed; a job's `randseed`
    #[arg(long, default_value_t = zonal_fio::job::FIXED_SEED)]
    pub seed: u64,
    /// Share of writes, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.5")]
    pub writes: Fraction,
    /// File to write the pattern to [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Options of `zonal-dev pattern generate raidtest`.
#[derive(Args, Debug)]
pub struct RaidtestArgs {
    #[command(flatten)]
    pub common: GenerateArgs,
    /// Alignment of offsets and lengths (raidtest's -S)
    #[arg(long, value_name = "SIZE", default_value = "512", value_parser = parse_size)]
    pub align: u64,
    /// Longest request
    #[arg(long, value_name = "SIZE", default_value = "128k", value_parser = parse_size)]
    pub max_size: u64,
}

/// Options of `zonal-dev pattern generate randomio`.
#[derive(Args, Debug)]
pub struct RandomioArgs {
    #[command(flatten)]
    pub common: GenerateArgs,
    /// Share of writes that are followed by a flush, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0")]
    pub fsyncs: Fraction,
    /// Size of each read and write
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = parse_size)]
    pub io_size: u64,
    /// Alignment of offsets [default: the size of a request]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub align: Option<u64>,
}

/// Separates the random numbers of a randomio pattern from those of a job.
const RANDOMIO: u64 = u64::from_be_bytes(*b"randomio");

/// Runs a `zonal-dev pattern` command.
pub fn run(command: &PatternCommand) -> Result<ExitCode> {
    match command {
        PatternCommand::Generate(GenerateCommand::Raidtest(args)) => raidtest(args)?,
        PatternCommand::Generate(GenerateCommand::Randomio(args)) => randomio(args)?,
        PatternCommand::Show { file } => show(file)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn size(args: &GenerateArgs) -> Result<u64> {
    match (&args.size, &args.device) {
        (Some(size), _) => Ok(*size),
        (None, Some(name)) => {
            let device = Stack::create(name, &zonal_backend::load(name)?, 1)?;
            Ok(device.model.limits().capacity.to_bytes().0)
        }
        (None, None) => bail!("found neither --size nor --device, expected one of them"),
    }
}

fn raidtest(args: &RaidtestArgs) -> Result<()> {
    let &RaidtestArgs { ref common, align, max_size } = args;
    let &GenerateArgs { requests, seed, writes, .. } = common;
    let size = size(common)?;
    let raidtest = Raidtest { start: 0, size, requests, align, max_size, writes, seed };
    let requests = raidtest.generate()?;
    write(common, &raidtest.origin(), &requests)
}

fn randomio(args: &RandomioArgs) -> Result<()> {
    let &RandomioArgs { ref common, fsyncs, io_size, align } = args;
    let &GenerateArgs { requests, seed, writes, .. } = common;
    let (size, align) = (size(common)?, align.unwrap_or(io_size));
    for (option, bytes) in [("io_size", io_size), ("align", align)] {
        if bytes == 0 || bytes % 512 != 0 {
            bail!("{option}: found {bytes}, expected a multiple of 512");
        }
    }
    if size < io_size {
        bail!("size: found {size}, expected at least io_size={io_size}");
    }
    if requests == 0 || requests > Raidtest::MAX_REQUESTS {
        bail!("requests: found {requests}, expected 1 to {}", Raidtest::MAX_REQUESTS);
    }
    let pattern = PatternOptions {
        align: Some(align),
        writes: Some(writes),
        fsyncs: Some(fsyncs),
        ..PatternOptions::default()
    };
    let job = Job { bs: [io_size; 3], pattern, ..Job::default() };
    let region = Region { start: 0, end: size, size, io_size: u64::MAX, lba: 512, limit: size };
    let ios = Randomio::new(&job, region, Rng::new(seed, [RANDOMIO, 0, 0, 0]));
    let origin = format!(
        "randomio size={size} requests={requests} seed={seed} io_size={io_size} align={align} \
         writes={writes} fsyncs={fsyncs}"
    );
    write(common, &origin, &ios.requests(usize::try_from(requests)?))
}

fn write(args: &GenerateArgs, origin: &str, requests: &[Request]) -> Result<()> {
    let text = pattern::print(origin, requests);
    match &args.output {
        Some(path) => {
            std::fs::write(path, text).with_context(|| format!("--output {}", path.display()))
        }
        None => Ok(stdout().write_all(text.as_bytes())?),
    }
}

fn show(path: &Path) -> Result<()> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| name.clone())?;
    let (format, trace) = trace::read(&name, &mut BufReader::new(file), BlkparseAction::Queue)?;
    let mut out = stdout();
    writeln!(out, "{name}: {format}")?;
    for (file, line) in &trace.files {
        writeln!(out, "  line {line}: {file}")?;
    }
    let of = |wanted: fn(Op) -> bool| trace.requests.iter().filter(move |it| wanted(it.op));
    for (what, wanted) in [
        ("reads", (|op| op == Op::Read) as fn(Op) -> bool),
        ("writes", Op::is_write),
        ("trims", |op| op == Op::Discard),
        ("flushes", |op| op == Op::Flush),
        ("zone operations", |op| op.is_zone_management() || op == Op::ZoneResetAll),
    ] {
        let bytes: u128 = of(wanted).map(|request| u128::from(request.len)).sum();
        writeln!(out, "  {what}: {}, {bytes} bytes", of(wanted).count())?;
    }
    let end = trace.requests.iter().map(|it| it.offset + it.len).max().unwrap_or(0);
    writeln!(out, "  up to byte {end}, {} in {} ns", trace.requests.len(), trace.end())?;
    Ok(())
}
