//! Runs cases in fio, on files of the devices' sizes, and in Zonal, in virtual time.
use crate::case::Case;
use crate::jobs::{device, disk, for_fio, for_zonal};
use crate::observe::{End, Observation};
use crate::results::{of_fio, of_zonal, text};
use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How long a program may take for a case, in seconds. Jobs take less than one.
const SECONDS: u32 = 20;
/// What `timeout` exits with at the limit.
const TIMED_OUT: i32 = 124;
/// The same if the program had to be killed.
const KILLED: i32 = 137;

/// The programs to compare.
#[derive(Clone, Debug)]
pub struct Programs {
    /// fio.
    pub fio: PathBuf,
    /// Zonal.
    pub zonal: PathBuf,
    /// The mistake that is switched on in Zonal, which has to be built with `--cfg torture`.
    pub mistake: Option<String>,
}

impl Programs {
    /// fio's version.
    ///
    /// # Errors
    /// It does not run.
    pub fn fio_version(&self) -> Result<String> {
        let output = Command::new(&self.fio).arg("--version").output();
        let output = output.with_context(|| format!("cannot run {}", self.fio.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Runs a case in fio, whose random numbers are determined by `seed`.
    ///
    /// # Errors
    /// It cannot be run at all.
    pub fn run_fio(&self, case: &Case, seed: u64) -> Result<Observation> {
        Ok(self.run_fio_once(&[(case, seed)])?.swap_remove(0))
    }

    /// The same for several cases, in one run if all succeed, as fio takes longer to start than a case does.
    ///
    /// # Errors
    /// It cannot be run at all.
    pub fn run_fio_all(&self, cases: &[(&Case, u64)]) -> Result<Vec<Observation>> {
        let seen = self.run_fio_once(cases)?;
        if cases.len() == 1 || seen.iter().all(|seen| seen.end == End::Code(0)) {
            return Ok(seen);
        }
        let (before, from) = cases.split_at(cases.len() / 2);
        Ok([self.run_fio_all(before)?, self.run_fio_all(from)?].concat())
    }

    fn run_fio_once(&self, cases: &[(&Case, u64)]) -> Result<Vec<Observation>> {
        let place = scratch()?;
        for (number, (case, _)) in cases.iter().enumerate() {
            File::create(place.path().join(disk(number)))?.set_len(case.geometry.size)?;
        }
        fs::write(place.path().join("job"), for_fio(cases, place.path()))?;
        let count = u32::try_from(cases.len()).expect("few cases");
        let mut command = timed(&self.fio, SECONDS * count);
        command.args(["--output-format=json", "--output=report", "--eta=never", "job"]);
        let end = match run(command, place.path())? {
            End::Code(_) if has_crashed(place.path()) => End::Code(-1),
            end => end,
        };
        let cases: Vec<&Case> = cases.iter().map(|(case, _)| *case).collect();
        Ok(of_fio(place.path(), &cases, end))
    }

    /// Runs a case in Zonal with this seed.
    ///
    /// # Errors
    /// It cannot be run at all.
    pub fn run_zonal(&self, case: &Case, seed: u64) -> Result<Observation> {
        let place = scratch()?;
        fs::write(place.path().join("job"), for_zonal(case))?;
        let mut command = timed(&self.zonal, SECONDS);
        command.args(["run", "--clock=virtual", "--output-format=json", "--output=report"]);
        command.arg(format!("--seed={seed}")).arg("--device").arg(device(case)).arg("job");
        // As in fio's file, writes to a zone complete in the order of all.
        command.arg("--zone-write=off");
        if let Some(mistake) = &self.mistake {
            command.env("ZONAL_MISTAKE", mistake);
        }
        let end = run(command, place.path())?;
        Ok(of_zonal(place.path(), case, end))
    }
}

/// Whether a process of fio's jobs has ended by a signal; its exit code may be 0 all the same.
fn has_crashed(place: &Path) -> bool {
    ["report", "errors"].iter().any(|name| text(place, name).contains("got signal="))
}

/// A directory in memory, if the machine has one.
fn scratch() -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new()
        .prefix("fio-diff")
        .tempdir_in(place)
        .context("cannot create a directory")
}

/// A command that is ended after this many seconds, also if this program has ended meanwhile: that of fio's
/// jobs, which do not get its signal, by a limit of CPU time.
fn timed(program: &Path, seconds: u32) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=2", &seconds.to_string(), "prlimit", &format!("--cpu={seconds}")]);
    command.arg(program);
    command
}

/// Runs a [`timed`] command in a directory.
fn run(mut command: Command, place: &Path) -> Result<End> {
    let errors = File::create(place.join("errors"))?;
    command.current_dir(place).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let status = command.status().context("cannot run `timeout`")?;
    ensure!(status.code() != Some(127), "cannot run {:?}", command.get_args().nth(4));
    end_all_in(place)?;
    Ok(match status.code() {
        Some(TIMED_OUT | KILLED) => End::Hung,
        code => End::Code(code.unwrap_or(-1)),
    })
}

/// Ends the processes that still have this directory: those of fio's jobs have sessions of their own, and so
/// outlive a signal to fio and its group.
fn end_all_in(place: &Path) -> Result<()> {
    let place = place.canonicalize()?;
    for process in fs::read_dir("/proc")?.flatten() {
        let number = process.file_name().to_str().and_then(|name| name.parse().ok());
        let is_here = fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == place);
        let Some(pid) = number.and_then(Pid::from_raw).filter(|_| is_here) else { continue };
        match kill_process(pid, Signal::KILL) {
            // It may have ended meanwhile.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(error).context("cannot end what a program left behind"),
        }
    }
    Ok(())
}

/// The program beside this one.
///
/// # Errors
/// The name of this program is unknown.
pub fn beside_this(name: &str) -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_leaves_behind_ends_with_it() {
        let place = tempfile::tempdir().expect("a directory");
        let ends = |script: &str| {
            let mut command = timed(Path::new("sh"), 1);
            command.args(["-c", script]);
            run(command, place.path()).expect("it runs")
        };
        let background =
            "setsid sh -c 'echo $$ >pid; exec sleep 100' & while ! [ -s pid ]; do :; done;";
        for (script, end) in [("exit 0", End::Code(0)), ("sleep 100", End::Hung)] {
            assert_eq!(ends(&format!("rm -f pid; {background} {script}")), end);
            let pid = text(place.path(), "pid");
            let is_there = || {
                let stat = text(Path::new("/proc"), &format!("{}/stat", pid.trim()));
                !stat.is_empty() && !stat.contains(") Z ")
            };
            // A signal takes a moment.
            let ended = (0..100).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                !is_there()
            });
            assert!(ended, "{script}: {pid}");
        }
    }
}
