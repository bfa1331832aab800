//! The command that checks a state.
use crate::verdict::Judgement;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use wait_timeout::ChildExt;

/// The end of the output that is kept, in bytes.
const OUTPUT: u64 = 4096;
/// Exit codes of a shell that cannot run a command (POSIX.1-2017, 2.8.2).
const CANNOT_RUN: [i32; 2] = [126, 127];

/// A variable of the environment. What comes from a host is never part of the text of a command.
pub(crate) const MARK: &str = "ZONAL_MARK";

/// A command for a shell, in which `{image}`, `{marks}` and `{state}` stand for the names of an image
/// and of a file with the marks so far, one a line, and for the state.
#[derive(Clone, Debug)]
pub struct CheckProcess {
    /// The command.
    pub command: String,
    /// It fails if it takes longer.
    pub timeout: Duration,
    /// The mark that it is about, which it has as the variable `ZONAL_MARK` of its environment.
    pub mark: Option<String>,
}

/// Why the command cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// No process can be started.
    #[error("the check: {0}")]
    Io(#[from] io::Error),
    /// The shell does not find the program, or may not run it.
    #[error("the check `{command}` cannot be run: {output}")]
    CannotRun {
        /// The command.
        command: String,
        /// The output of the shell.
        output: String,
    },
}

impl CheckProcess {
    /// Whether the command uses the marks.
    pub(crate) fn uses_marks(&self) -> bool {
        self.command.contains("{marks}")
    }

    /// Runs the command in a process group of its own, of which nothing is left afterwards.
    pub(crate) fn run(
        &self,
        state: &str,
        image: &Path,
        marks: &Path,
    ) -> Result<Judgement, ProcessError> {
        let command = self.command.replace("{image}", &quoted(&image.to_string_lossy()));
        let command = command.replace("{marks}", &quoted(&marks.to_string_lossy()));
        let command = command.replace("{state}", state);
        let mut output = tempfile::tempfile()?;
        let mut child = Command::new("sh")
            .args(["-c", &command])
            .envs(self.mark.as_ref().map(|mark| (MARK, mark)))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .process_group(0)
            .spawn()
            .map_err(|error| {
                let output = format!("sh: {error}");
                ProcessError::CannotRun { command: command.clone(), output }
            })?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let status = child.wait_timeout(self.timeout)?;
        let failure = match status {
            None => Some(self.time_out(&mut child, group)?),
            Some(status) => {
                // A process group has its number until its last process is gone.
                let left = group.is_some_and(|group| kill(group).is_ok());
                let left = left.then(|| "left processes behind, which were killed".to_owned());
                failure(status).or(left)
            }
        };
        let output = end_of(&mut output)?;
        match status.and_then(|status| status.code()) {
            Some(code) if CANNOT_RUN.contains(&code) => {
                Err(ProcessError::CannotRun { command, output: output.trim().to_owned() })
            }
            _ => Ok(Judgement { failure, output }),
        }
    }

    fn time_out(&self, child: &mut Child, group: Option<Pid>) -> io::Result<String> {
        if let Some(group) = group {
            // It may have ended meanwhile.
            let _gone = kill(group);
        }
        child.wait()?;
        Ok(format!("took longer than {} s, and was killed", self.timeout.as_secs_f64()))
    }
}

fn kill(group: Pid) -> rustix::io::Result<()> {
    kill_process_group(group, Signal::KILL)
}

fn failure(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit code {code}")),
        (None, Some(signal)) => Some(format!("signal {signal}")),
        (None, None) => Some("no exit code".to_owned()),
    }
}

/// Text as a word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn end_of(output: &mut File) -> io::Result<String> {
    let len = output.metadata()?.len();
    output.seek(SeekFrom::Start(len.saturating_sub(OUTPUT)))?;
    let mut bytes = Vec::new();
    output.take(OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, seconds: f64) -> Result<Judgement, ProcessError> {
        let timeout = Duration::from_secs_f64(seconds);
        let process = CheckProcess { command: command.to_owned(), timeout, mark: None };
        process.run("7:z1=2", Path::new("it's.img"), Path::new("m"))
    }

    #[test]
    fn failures_are_those_of_the_command_with_its_output() {
        let ended = run("echo {image} {state}; exit 3", 60.0).expect("it runs");
        assert_eq!(ended.failure.as_deref(), Some("exit code 3"));
        assert_eq!(ended.output, "it's.img 7:z1=2\n");
        assert_eq!(run("true", 60.0).expect("it runs").failure, None);
        let killed = run("kill -9 $$", 60.0).expect("it runs").failure;
        assert_eq!(killed.as_deref(), Some("signal 9"));
    }

    #[test]
    fn command_that_hangs_or_leaves_processes_behind_is_killed() {
        let hangs = run("sleep 600 & sleep 600", 0.2).expect("it runs");
        assert_eq!(hangs.failure.as_deref(), Some("took longer than 0.2 s, and was killed"));
        let leaves = run("sleep 600 & exit 0", 60.0).expect("it runs");
        assert_eq!(leaves.failure.as_deref(), Some("left processes behind, which were killed"));
    }

    #[test]
    fn command_that_does_not_exist_is_no_failed_check() {
        let error = run("/no/such/program {image}", 60.0).expect_err("an error").to_string();
        assert!(
            error.starts_with("the check `/no/such/program 'it'\\''s.img'` cannot be run: "),
            "{error}"
        );
    }
}
