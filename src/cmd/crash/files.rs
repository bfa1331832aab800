//! `zonal crash generate`, `play` and `judge`: workloads of file operations for file systems on recorded devices.
use crate::terminal::stdout;
use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, Subcommand};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use zonal_crash::files::{Workload, generate, judge_all, play};
use zonal_serve::control::ControlClient;

/// The commands.
#[derive(Subcommand, Debug)]
pub enum FilesCommand {
    /// Write workloads of file operations, one a file, drawn from seeds
    Generate(GenerateArgs),
    /// Carry out workloads on a mounted file system, with a mark after each fsync
    Play(PlayArgs),
    /// Compare the files of workloads with what the marks before a loss of power promise
    Judge(JudgeArgs),
}

/// Options of `zonal crash generate`.
#[derive(Args, Debug)]
pub struct GenerateArgs {
    /// The folder for the files: a new one, or one that is empty
    #[arg(value_name = "WORKLOADS")]
    pub workloads: PathBuf,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How many workloads, each of the seed after the one before
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub count: u64,
}

/// Options of `zonal crash play`.
#[derive(Args, Debug)]
pub struct PlayArgs {
    /// The folder of the workloads, which are played in the order of their names. One in which the file system
    /// refuses an operation is written again, without that operation
    #[arg(value_name = "WORKLOADS")]
    pub workloads: PathBuf,
    /// A folder of the file system. Each workload has a new one in it
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Put marks into the recording of the server with this control socket
    #[arg(long, value_name = "SOCKET", required_unless_present = "mark", conflicts_with = "mark")]
    pub ctl: Option<PathBuf>,
    /// Put marks with this command, with sh. It gets the text in the variable ZONAL_MARK
    #[arg(long, value_name = "COMMAND")]
    pub mark: Option<String>,
}

/// Options of `zonal crash judge`.
#[derive(Args, Debug)]
pub struct JudgeArgs {
    /// The folder of the workloads that were played
    #[arg(value_name = "WORKLOADS")]
    pub workloads: PathBuf,
    /// The folder in which they were played
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// The marks that came before the loss of power, one a line, as {marks} of --check
    #[arg(long, value_name = "FILE")]
    pub marks: PathBuf,
}

/// Runs one of the commands.
///
/// # Errors
/// A workload, a folder or the marks cannot be used, or an operation fails.
pub fn run(command: &FilesCommand) -> Result<ExitCode> {
    match command {
        FilesCommand::Generate(args) => write_workloads(args),
        FilesCommand::Play(args) => play_all(args),
        FilesCommand::Judge(args) => compare(args),
    }
}

fn write_workloads(args: &GenerateArgs) -> Result<ExitCode> {
    let folder = &args.workloads;
    let named = || folder.display().to_string();
    fs::create_dir_all(folder).with_context(named)?;
    let used = fs::read_dir(folder).with_context(named)?.next().is_some();
    ensure!(!used, "{}: found files in it, expected an empty folder", folder.display());
    let last = args.seed.checked_add(args.count - 1);
    let last = last.with_context(|| format!("--seed: found {}, expected less", args.seed))?;
    for seed in args.seed..=last {
        let workload = generate(seed);
        let path = folder.join(workload.name());
        fs::write(&path, workload.to_string()).with_context(|| path.display().to_string())?;
    }
    writeln!(stdout(), "{}: {} workloads", folder.display(), args.count)?;
    Ok(ExitCode::SUCCESS)
}

/// The workloads of a folder, in the order of their names.
fn read_workloads(folder: &Path) -> Result<Vec<Workload>> {
    let named = || folder.display().to_string();
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(named)? {
        paths.push(entry.with_context(named)?.path());
    }
    paths.sort();
    ensure!(!paths.is_empty(), "{}: found no workload, expected one a file", folder.display());
    let workloads = paths.iter().map(|path| {
        let regular = path.metadata().is_ok_and(|metadata| metadata.is_file());
        ensure!(regular, "{}: expected a regular file", path.display());
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{}: its name is not UTF-8", path.display()))?;
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Workload::parse(name, &text).with_context(|| folder.display().to_string())
    });
    workloads.collect()
}

fn play_all(args: &PlayArgs) -> Result<ExitCode> {
    let workloads = read_workloads(&args.workloads)?;
    let mut mark = marker(args)?;
    for workload in &workloads {
        let played = play(workload, &args.folder, &mut mark)?;
        if played != *workload {
            let path = args.workloads.join(workload.name());
            fs::write(&path, played.to_string()).with_context(|| path.display().to_string())?;
        }
    }
    writeln!(stdout(), "{}: {} workloads played", args.folder.display(), workloads.len())?;
    Ok(ExitCode::SUCCESS)
}

/// Puts a mark with a text, or says why not.
type Marker = Box<dyn FnMut(&str) -> Result<(), String>>;

fn marker(args: &PlayArgs) -> Result<Marker> {
    if let Some(socket) = &args.ctl {
        let named = format!("--ctl: {}", socket.display());
        let mut client = ControlClient::connect(socket).with_context(|| named.clone())?;
        return Ok(Box::new(move |text| {
            let words = ["mark", text].map(str::to_owned);
            let answer = client.send(1, &words).map_err(|error| format!("{named}: {error}"))?;
            answer.map(drop).map_err(|error| format!("{named}: {error}"))
        }));
    }
    let by = args.mark.clone().expect("required without --ctl");
    Ok(Box::new(move |text| {
        let mut command = process::Command::new("sh");
        command.args(["-c", &by]).env("ZONAL_MARK", text);
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("--mark: found {status}, expected exit code 0")),
            Err(error) => Err(format!("sh: {error}")),
        }
    }))
}

fn compare(args: &JudgeArgs) -> Result<ExitCode> {
    let workloads = read_workloads(&args.workloads)?;
    let marks = read_marks(&args.marks, &workloads)?;
    Ok(match judge_all(&workloads, &args.folder, &marks) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            writeln!(stdout(), "{why}")?;
            ExitCode::FAILURE
        }
    })
}

/// For each workload the last operation that has returned.
fn read_marks(path: &Path, workloads: &[Workload]) -> Result<BTreeMap<String, usize>> {
    let text = fs::read_to_string(path).with_context(|| format!("--marks: {}", path.display()))?;
    let mut marks = BTreeMap::new();
    for (line, text) in (1..).zip(text.lines()) {
        let mark = text.split_once(' ').and_then(|(name, number)| {
            let workload = workloads.iter().find(|workload| workload.name() == name)?;
            let number = number.parse().ok().filter(|&number| number <= workload.ops().len())?;
            Some((name.to_owned(), number))
        });
        let mark = mark.ok_or_else(|| {
            let path = path.display();
            anyhow!("--marks: {path}, line {line}: found `{text}`, expected the name of a workload and the number of an operation")
        })?;
        marks.insert(mark.0, mark.1);
    }
    Ok(marks)
}
