//! What a run says of its data: whether devices can keep it, and what was wrong with it.
use crate::devices::Devices;
use crate::machine::FinishedTask;
use anyhow::{Context, Result, bail};
use std::fs;
use zonal_fio::job::Rw;
use zonal_fio::plan::Task;
use zonal_fio::verify::Dump;

/// Finds out before anything runs whether the devices keep what is to be checked.
pub fn check(phases: &[Vec<Task>], devices: &Devices) -> Result<()> {
    for task in phases.iter().flatten() {
        let (job, device) = (&task.job, devices.of(task));
        if job.verify.needs_data() && !device.keeps_data {
            let method = job.verify.method.map_or("0", |method| method.name());
            bail!(
                "job {}: verify={method}: the device {} keeps no data, so nothing could be read \
                 back; give it memory=true",
                job.name,
                device.name
            );
        }
    }
    Ok(())
}

/// Says of jobs that will check nothing why not. As in fio, what is left of the run time is for
/// checks: nothing of a job that goes on for all of it.
pub fn warn(phases: &[Vec<Task>]) {
    for task in phases.iter().flatten().filter(|task| task.clone == 0) {
        let (job, verify) = (&task.job, &task.job.verify);
        let checks = verify.method.is_some() && verify.do_verify && verify.backlog == 0;
        if checks && job.time_based && job.rw != Rw::Read {
            eprintln!(
                "zonal: job {}: verification read phase will never start because write phase uses \
                 all of runtime",
                job.name
            );
        }
    }
}

/// Tells what was wrong; writes down what was read and expected if the job asks for it.
///
/// # Errors
/// A file that cannot be written.
pub fn report(finished: &[FinishedTask], devices: &Devices) -> Result<()> {
    for FinishedTask { task, outcome, .. } in finished {
        let (name, findings) = (&task.job.name, &outcome.findings);
        for finding in findings.kept() {
            eprintln!("{}", finding.text(&devices.of(task).name));
            let Some(Dump { received, expected }) = &finding.dump else { continue };
            let dumps = [("received", Some(received)), ("expected", expected.as_ref())];
            for (what, bytes) in dumps.into_iter().filter_map(|(what, it)| Some((what, it?))) {
                let file = format!("{}.{}.{what}", name.replace('/', "_"), finding.io.0);
                fs::write(&file, bytes).with_context(|| format!("verify_dump: {file}"))?;
            }
        }
        if findings.not_kept() > 0 {
            eprintln!("zonal: job {name}: {} more such errors", findings.not_kept());
        }
    }
    Ok(())
}
