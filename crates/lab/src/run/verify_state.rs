//! Files that say what is known of the writes of jobs (`verify_state_save`, `verify_state_load`).
use crate::executor::FinishedTask;
use anyhow::{Context, Result};
use std::io::Write;
use std::sync::Arc;
use zonal_fio::plan::Task;
use zonal_os::{output_file, text_file};

/// The file of a clone, with the name that it has in fio.
fn file_name(task: &Task) -> String {
    format!("local-{}-{}-verify.state", task.job.name, task.clone)
}

/// Reads the files of jobs with `verify_state_load`.
///
/// # Errors
/// There is none, or it holds no state.
pub fn load(phases: &mut [Vec<Task>]) -> Result<()> {
    let loads = |task: &&mut Task| task.job.verify.state_load && task.verify_state.is_none();
    for task in phases.iter_mut().flatten().filter(loads) {
        let name = file_name(task);
        let state = || Ok::<_, anyhow::Error>(text_file::read_string(name.as_ref())?.parse()?);
        let option = || format!("job {}: verify_state_load: {name}", task.job.name);
        task.verify_state = Some(Arc::new(state().with_context(option)?));
    }
    Ok(())
}

/// Writes the files of jobs with `verify_state_save`.
///
/// # Errors
/// A file cannot be written.
pub fn save(finished: &[FinishedTask]) -> Result<()> {
    for done in finished {
        let Some(state) = &done.outcome.verify_state else { continue };
        let name = file_name(&done.task);
        let written = output_file::create(&name)
            .and_then(|mut file| file.write_all(state.to_string().as_bytes()));
        written
            .with_context(|| format!("job {}: verify_state_save: {name}", done.task.job.name))?;
    }
    Ok(())
}
