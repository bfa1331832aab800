//! The files of logs: created before the run, so that one that cannot be written is found early.
use crate::executor::ClockKind;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use zonal_fio::job::LogOptions;
use zonal_fio::logs::LogFile;
use zonal_fio::plan::Task;
use zonal_os::read_clock;

/// Logs by file name, with the option that asks for them.
#[derive(Default)]
pub struct Logs(BTreeMap<String, (&'static str, Arc<LogFile>)>);

impl Logs {
    /// Creates the logs of all clones. As in fio their names are `PREFIX_KIND.N.log`, where `N` counts
    /// the clones of the run from 1.
    ///
    /// # Errors
    /// A file cannot be created, or the clock of their times cannot be read.
    pub fn create(phases: &mut [Vec<Task>], clock: ClockKind) -> Result<Self> {
        let mut logs = Logs::default();
        for (number, task) in (1..).zip(phases.iter_mut().flatten()) {
            let job = Arc::clone(&task.job);
            let clock_ms = clock_ms(&job.logs, clock).with_context(|| {
                let clock = job.logs.clock;
                format!("job {}: log_alternate_epoch_clock_id: {clock}", job.name)
            })?;
            for (option, prefix, kinds) in job.logs.wanted() {
                let prefix = if prefix.is_empty() { &job.name } else { prefix };
                for &kind in kinds {
                    let name = file_name(&job.logs, prefix, kind.word(), number);
                    let file = logs.file(option, &name, clock_ms);
                    let file = file.with_context(|| format!("job {}: {option}", job.name))?;
                    task.logs[kind as usize] = Some(file);
                }
            }
        }
        Ok(logs)
    }

    /// With `per_job_logs=0` several clones share a file.
    fn file(
        &mut self,
        option: &'static str,
        name: &str,
        clock_ms: Option<u64>,
    ) -> Result<Arc<LogFile>> {
        if let Some((_, file)) = self.0.get(name) {
            return Ok(Arc::clone(file));
        }
        let file = LogFile::create(name, clock_ms).with_context(|| name.to_owned())?;
        self.0.insert(name.to_owned(), (option, Arc::clone(&file)));
        Ok(file)
    }

    /// Checks that everything was written.
    ///
    /// # Errors
    /// The first log that was not.
    pub fn check(&self) -> Result<()> {
        for (name, (option, file)) in &self.0 {
            file.result().with_context(|| format!("{option}: {name}"))?;
        }
        Ok(())
    }
}

/// The time in milliseconds of the clock that times in logs are those of, as the run begins; `None` if they
/// count from the start of the job. The clock of virtual time begins with the run.
fn clock_ms(options: &LogOptions, clock: ClockKind) -> Result<Option<u64>> {
    Ok(match clock {
        _ if !options.of_clock => None,
        ClockKind::Virtual => Some(0),
        ClockKind::Real => Some(u64::try_from(read_clock(options.clock)?.as_millis())?),
    })
}

fn file_name(options: &LogOptions, prefix: &str, kind: &str, number: u32) -> String {
    match options.per_job {
        true => format!("{prefix}_{kind}.{number}.log"),
        false => format!("{prefix}_{kind}.log"),
    }
}
