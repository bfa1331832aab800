//! Files of jobs on a device, where fio would lay them out in a directory.
use crate::devices::{DeviceOptions, Devices};
use anyhow::Result;
use std::collections::BTreeMap;
use std::sync::Arc;
use zonal_blk::{Bytes, Limits};
use zonal_fio::generate::Region;
use zonal_fio::job::{Job, ZoneMode};
use zonal_fio::placement::{has_files, place_files, share_files};
use zonal_fio::plan::Task;

/// The jobs, each with as many files as it names.
pub fn jobs(jobs: &[Arc<Job>], have_files: bool) -> Vec<Arc<Job>> {
    let with_files = |job: &Arc<Job>| {
        let mut job = Arc::clone(job);
        if have_files && job.fs.names.len() > 1 {
            let names = u32::try_from(job.fs.names.len()).expect("names fit in memory");
            Arc::make_mut(&mut job).fs.nrfiles = Some(names);
        }
        job
    };
    jobs.iter().map(with_files).collect()
}

/// Gives jobs that name no device one that is as large as their files, and says so. Nothing happens if
/// there are none, or if one has no size.
pub fn without_device(phases: &mut [Vec<Task>], options: &DeviceOptions) -> Result<Option<String>> {
    let is_unnamed = |task: &&mut Task| {
        options.device.is_none() && task.device().is_none() && has_files(&task.job)
    };
    let any_size = Limits::regular(Bytes(1 << 62).to_sectors());
    let unnamed = phases.iter_mut().flatten().filter(is_unnamed);
    let Ok(end) = place_files(unnamed, &any_size) else { return Ok(None) };
    if end == 0 {
        return Ok(None);
    }
    let mut unnamed: Vec<_> = phases.iter_mut().flatten().filter(is_unnamed).collect();
    let keeps_data = unnamed.iter().any(|task| task.job.verify.needs_data());
    let memory = if keeps_data { ",memory=true" } else { "" };
    let device = format!("null:zoned=false,size={}M{memory}", end.div_ceil(1 << 20));
    unnamed.iter_mut().for_each(|task| task.device = Some(device.clone()));
    Ok(Some(format!("no device is named: the files of the jobs are on {device}")))
}

/// Gives the files of all jobs their places on their devices.
pub fn place(phases: &mut [Vec<Task>], devices: &Devices) -> Result<()> {
    let mut of_device: BTreeMap<String, Vec<&mut Task>> = BTreeMap::new();
    for task in phases.iter_mut().flatten() {
        of_device.entry(devices.of(task).name.clone()).or_default().push(task);
    }
    for tasks in of_device.into_values() {
        let limits = devices.of(tasks[0]).queue.limits().clone();
        place_files(tasks.into_iter(), &limits)?;
    }
    Ok(())
}

/// The line about jobs that would have files of their own in fio, and have parts of a device in common, or
/// about a job of several files. Those with `zonemode=zbd` would have a device there, too.
pub fn shared(phases: &[Vec<Task>], devices: &Devices) -> Option<String> {
    let names_device = |task: &Task| {
        let device = &devices.of(task).name;
        task.job.filename.as_ref() == Some(device)
    };
    for phase in phases {
        let mut of_device: BTreeMap<&str, Vec<(&Task, Region)>> = BTreeMap::new();
        for task in phase.iter().filter(|task| has_files(&task.job) && !names_device(task)) {
            let device = devices.of(task);
            let is_file = task.job.zonemode != ZoneMode::Zbd && task.file.is_none();
            if let Ok(region) = task.region(device.queue.limits())
                && is_file
            {
                of_device.entry(&device.name).or_default().push((task, region));
            }
        }
        if let Some((device, tasks)) = of_device.iter().find(|(_, tasks)| share_files(tasks)) {
            let job = &tasks[0].0.job.name;
            return Some(format!(
                "job {job}: jobs and clones share one region of {device}, as files of that name do; \
                 --files gives each file a region of its own"
            ));
        }
        for (device, tasks) in of_device {
            let several = tasks.iter().find(|(task, _)| task.job.fs.names.len() > 1);
            if let Some((task, _)) = several {
                let (job, files) = (&task.job.name, task.job.fs.names.len());
                return Some(format!(
                    "job {job}: the {files} files of filename are one region of {device}; --files gives each file \
                     a region of its own"
                ));
            }
        }
    }
    None
}
