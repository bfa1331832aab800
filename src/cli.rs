//! The command line.
//!
//! `zonal run` and `zonal advise` take fio's job options beside their own, so their arguments are
//! sorted first: what [`RunArgs`] or [`AdviseArgs`] know is Zonal's, everything else is for the job
//! parser.
mod advise;
mod ctl;
mod device;
mod fit;
mod image;
mod pattern;
mod reproduce;
mod serve;
mod torture;
mod zone;

pub use advise::{AdviceFormat, AdviseArgs, Goal};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
pub use ctl::CtlArgs;
pub use device::DeviceArgs;
pub use fit::FitArgs;
pub use image::{CheckArgs, CreateArgs};
pub use pattern::{GenerateArgs, GenerateCommand, PatternCommand, RaidtestArgs, RandomioArgs};
pub use reproduce::{ReproduceArgs, TableFormat};
pub use serve::{ControlArgs, ServeArgs};
use std::ffi::{OsStr, OsString};
pub use torture::TortureArgs;
use zonal_blk::ZoneWrite;
use zonal_sim::CostModel;
pub use zone::{ActionArgs, Filter, RangeArgs, ZoneCommand, sectors};

/// What was asked for.
pub enum Command {
    /// Run jobs: our own options, and the arguments that describe the jobs.
    Run(RunArgs, Vec<OsString>),
    /// Show or manage the zones of a device.
    Zone(ZoneCommand),
    /// Make a published table again.
    Reproduce(ReproduceArgs),
    /// Find the best configuration for jobs: our own options, and the arguments that describe them.
    Advise(AdviseArgs, Vec<OsString>),
    /// Describe and check a device.
    Device(DeviceArgs),
    /// Fit a profile to measurements.
    Fit(FitArgs),
    /// Make or show a pattern file.
    Pattern(PatternCommand),
    /// Look for faults of the block layer.
    Torture(TortureArgs),
    /// Export a device.
    Serve(Box<ServeArgs>),
    /// Watch or change a device that is exported.
    Ctl(CtlArgs),
    /// Make an image.
    Create(CreateArgs),
    /// Check an image.
    Check(CheckArgs),
    /// Explain device specs.
    Devices,
    /// Show where the fields of hot structures lie: of those with this in their name.
    Layout(Option<String>),
    /// Explain job options, as Markdown if so.
    Options(bool),
}

#[derive(Parser)]
#[command(name = "zonal", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Subcommand)]
enum Sub {
    /// Run fio jobs through the zoned block layer onto a device
    #[command(
        override_usage = "zonal run [OPTIONS] [JOBFILE]... [--name=JOB --rw=... --bs=... ...]",
        after_help = "Job options are fio's; `zonal options` lists them."
    )]
    Run(RunArgs),
    /// Show or manage the zones of a device, as blkzone(8) does
    #[command(subcommand)]
    Zone(ZoneCommand),
    /// Measure the cells of a published table and print them beside the published figures
    Reproduce(ReproduceArgs),
    /// Find the scheduler, zone-write policy and queue depth that suit jobs on a device
    #[command(
        override_usage = "zonal advise --device SPEC [OPTIONS] [JOBFILE]... [--name=JOB ...]",
        after_help = "Job options are fio's; `zonal options` lists them."
    )]
    Advise(AdviseArgs),
    /// Show what a device model is made of and what it can do, and check that it makes sense
    Device(DeviceArgs),
    /// Adjust a device profile to measurements of a drive
    Fit(FitArgs),
    /// Make request patterns of raidtest or randomio, or show patterns and traces
    #[command(subcommand)]
    Pattern(PatternCommand),
    /// Look for faults: random runs over a failing device, each checked against a model
    Torture(TortureArgs),
    /// Export a device to other machines and guests
    Serve(Box<ServeArgs>),
    /// Watch or change a device that `zonal serve --ctl` exports
    #[command(after_help = CTL_HELP)]
    Ctl(CtlArgs),
    /// Make a persistent image: a zoned device in a file
    Create(CreateArgs),
    /// Check the metadata of an image
    Check(CheckArgs),
    /// Explain device specs such as null:zones=4096,zone_size=256M
    Devices,
    /// Show the memory layout of the structures that every I/O touches, as pahole(1) does
    Layout {
        /// Only structures whose name contains this
        name: Option<String>,
    },
    /// Explain the job options, which are fio's
    Options {
        /// As Markdown, with the options of fio that have no effect here
        #[arg(long)]
        markdown: bool,
    },
}

const CTL_HELP: &str = "\
Commands:
  status                                the devices and where they are exported
  stat                                  what the device did
  plugs [all]                           zone write plugs that live, or all that were used
  get [ATTRIBUTE]                       an attribute, or all
  set ATTRIBUTE VALUE                   change scheduler, scheduler.ATTRIBUTE, zone_write,
                                        zoned_qd1_writes, max_sectors_kb, nr_requests, io_timeout
  zone FIRST[-LAST] read-only|offline|mend
  fault [list]                          rules by which I/O fails
  fault add fail=KIND[,status=STATUS][,zone=FIRST-LAST][,one_in=N][,count=N]
  fault add delay=KIND,time=TIME[,zone=FIRST-LAST][,one_in=N][,count=N]
                                        KIND is any, read, write, flush or zone; STATUS is ioerr,
                                        medium, timeout, nospc, protection or offline
  fault clear                           remove all rules
  metrics                               counters as Prometheus reads them";

/// Options of `zonal run` that are not job options.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Device for all jobs: a spec (see `zonal devices`), a TOML profile, or in real time an image
    /// NAME.img, nvme-tcp://HOST:PORT/NQN, a block device /dev/NAME or an NVMe namespace
    /// /dev/ngXnY. Without it, each job's `filename` names its device, which is none of the last two
    #[arg(long, value_name = "SPEC")]
    pub device: Option<String>,
    /// Real threads and real time, or discrete events in virtual time
    #[arg(long, value_enum, default_value_t = ClockKind::Real)]
    pub clock: ClockKind,
    /// Chooses the random numbers of the jobs and of the device; in virtual time the same seed
    /// gives the same output to the byte
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// How writes to sequential zones are kept in order [default: qd1 for rotating devices, else
    /// plug]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub zone_write: Option<ZoneWriteArg>,
    /// I/O scheduler of all devices: none, mq-deadline, bfq or kyber. Without it, each job's
    /// `ioscheduler` names its device's [default: none]
    #[arg(long, value_name = "NAME")]
    pub scheduler: Option<String>,
    /// Set an attribute of the scheduler; can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub sched_opt: Vec<String>,
    /// Do not merge waiting writes that follow one another
    #[arg(long)]
    pub nomerges: bool,
    /// Virtual time that an I/O costs the thread that does it, in nanoseconds; `published` for what
    /// it cost the machine of the published zone write plugging tables, by scheduler and length
    #[arg(long, value_name = "NS", default_value = "1000")]
    pub io_cost: CostModel,
    /// Output formats, separated by commas: normal, json, json+, terse
    #[arg(long, value_name = "LIST", default_value = "normal")]
    pub output_format: String,
    /// Write the report to a file
    #[arg(long, value_name = "FILE")]
    pub output: Option<std::path::PathBuf>,
    /// Show progress: on a terminal, always or never
    #[arg(long, value_enum, default_value_t = Eta::Auto)]
    pub eta: Eta,
    /// After the run, show the zone write plugs that live
    #[arg(long)]
    pub dump_plugs: bool,
    /// Read and check everything, run nothing
    #[arg(long)]
    pub parse_only: bool,
}

/// `--clock`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockKind {
    Real,
    Virtual,
}

/// `--eta`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Eta {
    Auto,
    Always,
    Never,
}

/// `--zone-write`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ZoneWriteArg {
    /// Zone write plugging: one write in flight per zone
    Plug,
    /// One write to sequential zones in flight per device
    Qd1,
    /// Zone write locking, the policy before plugging: the scheduler mq-deadline holds back the
    /// writes of a zone that has one in flight
    Lock,
    /// Nothing: the device fails what comes out of order
    Off,
}

impl From<ZoneWriteArg> for ZoneWrite {
    fn from(arg: ZoneWriteArg) -> Self {
        match arg {
            ZoneWriteArg::Plug => ZoneWrite::Plug,
            ZoneWriteArg::Qd1 => ZoneWrite::Qd1,
            ZoneWriteArg::Lock => ZoneWrite::Lock,
            ZoneWriteArg::Off => ZoneWrite::Off,
        }
    }
}

/// Reads the command line; ends the program where clap does (help, version, errors).
pub fn parse(args: impl Iterator<Item = OsString>) -> Command {
    let args: Vec<OsString> = args.collect();
    let (ours, jobs) = match args.get(1) {
        Some(command) if command == "run" => sort::<RunArgs>(args),
        Some(command) if command == "advise" => sort::<AdviseArgs>(args),
        _ => (args, Vec::new()),
    };
    let matches = Cli::command().get_matches_from(ours);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match cli.command {
        Sub::Run(run) => Command::Run(run, jobs),
        Sub::Zone(zone) => Command::Zone(zone),
        Sub::Reproduce(reproduce) => Command::Reproduce(reproduce),
        Sub::Advise(advise) => Command::Advise(advise, jobs),
        Sub::Device(device) => Command::Device(device),
        Sub::Fit(fit) => Command::Fit(fit),
        Sub::Pattern(pattern) => Command::Pattern(pattern),
        Sub::Torture(torture) => Command::Torture(torture),
        Sub::Serve(serve) => Command::Serve(serve),
        Sub::Ctl(ctl) => Command::Ctl(ctl),
        Sub::Create(create) => Command::Create(create),
        Sub::Check(check) => Command::Check(check),
        Sub::Devices => Command::Devices,
        Sub::Layout { name } => Command::Layout(name),
        Sub::Options { markdown } => Command::Options(markdown),
    }
}

/// Sorts the arguments of a command that runs jobs into those that it knows, `A`, and those of the
/// jobs.
fn sort<A: Args>(args: Vec<OsString>) -> (Vec<OsString>, Vec<OsString>) {
    let command = A::augment_args(clap::Command::new("jobs"));
    let mut args = args.into_iter();
    let mut ours: Vec<OsString> = args.by_ref().take(2).collect();
    let mut jobs = Vec::new();
    while let Some(arg) = args.next() {
        match takes_value(&command, &arg) {
            None => jobs.push(arg),
            Some(wants_next) => {
                ours.push(arg);
                if wants_next {
                    ours.extend(args.next());
                }
            }
        }
    }
    (ours, jobs)
}

/// For an option of ours: whether its value is the next argument.
fn takes_value(command: &clap::Command, arg: &OsStr) -> Option<bool> {
    let text = arg.to_str()?;
    if text == "-h" || text == "--help" {
        return Some(false);
    }
    let (name, value) = match text.strip_prefix("--")?.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text.strip_prefix("--")?, None),
    };
    let known = command.get_arguments().find(|known| known.get_long() == Some(name))?;
    Some(value.is_none() && known.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_finds_the_definitions_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn job_options_are_told_from_our_own() {
        let args =
            ["zonal", "run", "--name=a", "--clock", "virtual", "--bs", "4k", "--seed=3", "x"];
        let (ours, jobs) = sort::<RunArgs>(args.iter().map(OsString::from).collect());
        assert_eq!(ours, ["zonal", "run", "--clock", "virtual", "--seed=3"]);
        assert_eq!(jobs, ["--name=a", "--bs", "4k", "x"]);
    }
}
