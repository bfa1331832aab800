//! Places of files on a device, where jobs have files: each clone has one of its own, as fio lays them
//! out, and jobs that name the same file share it.
use crate::generate::{FilePlace, Region, RegionError, file_bytes};
use crate::job::Job;
use crate::plan::Task;
use std::collections::BTreeMap;
use zonal_blk::Limits;

/// Files begin at multiples of this many bytes: the largest LBA.
const ALIGN: u64 = 4096;

/// Which file a clone has.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum FileName {
    /// The files that its job names.
    Named(Vec<String>),
    /// One of its own: the job and the clone.
    Own(u32, u32),
}

/// Whether a job has files: not one that replays a trace, or has a file system.
pub fn has_files(job: &Job) -> bool {
    let replays = job.replay.read_iolog.is_some() || job.pattern.file.is_some();
    !replays && job.pattern.program.is_none() && job.fs.kind.is_none()
}

/// Gives the files of the tasks their places on a device, one after another, and returns where the last
/// one ends. With zones a file begins with one.
///
/// # Errors
/// A job whose files have no size in bytes or zones.
pub fn place_files<'a>(
    tasks: impl Iterator<Item = &'a mut Task>,
    limits: &Limits,
) -> Result<u64, RegionError> {
    let mut tasks: Vec<&mut Task> = tasks.filter(|task| has_files(&task.job)).collect();
    let mut lengths: BTreeMap<FileName, u64> = BTreeMap::new();
    let mut order = Vec::new();
    for task in &tasks {
        let bytes = file_bytes(&task.job, task.clone, limits)?;
        let length = lengths.entry(file_name(task)).or_insert_with(|| {
            order.push(file_name(task));
            0
        });
        *length = bytes.max(*length);
    }
    let align = limits.zone_size.to_bytes().0.max(ALIGN);
    let mut places = BTreeMap::new();
    let mut next = 0_u64;
    for name in order {
        let len = lengths[&name].next_multiple_of(align);
        places.insert(name, FilePlace { start: next, len });
        next = next.saturating_add(len);
    }
    for task in &mut tasks {
        task.file = Some(places[&file_name(task)]);
    }
    Ok(next)
}

fn file_name(task: &Task) -> FileName {
    let fs = &task.job.fs;
    match (&fs.names[..], &fs.name_format) {
        ([], None) => FileName::Own(task.index, task.clone),
        ([], Some(format)) => FileName::Named(vec![formatted(format, task)]),
        (names, _) => FileName::Named(names.to_vec()),
    }
}

/// The name of a clone's files by `filename_format`, with `$filenum` for the number of each.
fn formatted(format: &str, task: &Task) -> String {
    // A client is one of fio's servers.
    let name = format.replace("$jobname", &task.job.name).replace("$clientuid", "");
    name.replace("$jobnum", &task.clone.to_string())
}

/// Whether two clones that run at the same time have parts of a device in common, although their jobs
/// have or may have different files.
pub fn share_files(tasks: &[(&Task, Region)]) -> bool {
    let differ = |a: &Task, b: &Task| file_name(a) != file_name(b) || a.job.fs.names.len() > 1;
    let meet = |a: &Region, b: &Region| a.start < b.end && b.start < a.end;
    tasks.iter().enumerate().any(|(at, (task, region))| {
        let mut later = tasks[at + 1..].iter();
        later.any(|(other, its)| differ(task, other) && meet(region, its))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Extent, FsOptions};
    use crate::plan::phases;
    use std::sync::Arc;
    use zonal_blk::Bytes;

    fn job(name: &str, numjobs: u32, files: &[&str]) -> Arc<Job> {
        let names = files.iter().map(|file| (*file).to_owned()).collect();
        let fs = FsOptions { names, ..FsOptions::default() };
        let size = Some(Extent::Bytes(10_000));
        Arc::new(Job { name: name.into(), numjobs, fs, size, ..Job::default() })
    }

    fn starts(jobs: &[Arc<Job>]) -> (Vec<u64>, u64) {
        let limits = Limits::regular(Bytes(1 << 20).to_sectors());
        let mut phases = phases(jobs).expect("a few jobs");
        let end = place_files(phases.iter_mut().flatten(), &limits).expect("sizes");
        (phases.iter().flatten().map(|task| task.file.expect("a file").start).collect(), end)
    }

    #[test]
    fn clones_have_files_of_their_own_and_named_files_are_shared() {
        assert_eq!(starts(&[job("a", 2, &[]), job("b", 1, &[])]), (vec![0, 12288, 24576], 36864));
        let named = [job("a", 2, &["x"]), job("b", 1, &["y"]), job("c", 1, &["x"])];
        assert_eq!(starts(&named), (vec![0, 0, 12288, 0], 24576));
    }

    #[test]
    fn clones_whose_names_by_filename_format_are_the_same_share_a_file() {
        let with = |format: &str, name: &str| {
            let mut job = (*job(name, 2, &[])).clone();
            job.fs.name_format = Some(format.to_owned());
            Arc::new(job)
        };
        let of = |format| starts(&[with(format, "a"), with(format, "b")]).0;
        assert_eq!(of("data"), [0; 4]);
        assert_eq!(of("$jobname.$filenum"), [0, 0, 12288, 12288]);
        assert_eq!(of("f.$jobnum"), [0, 12288, 0, 12288]);
        assert_eq!(of("$jobname.$jobnum.$filenum"), [0, 12288, 24576, 36864]);
    }

    #[test]
    fn clones_meet_unless_they_name_the_same_file() {
        let limits = Limits::regular(Bytes(1 << 20).to_sectors());
        let meet = |jobs: &[Arc<Job>]| {
            let phases = phases(jobs).expect("a few jobs");
            let region = |task: &Task| Region::new(&task.job, task.clone, &limits).expect("fits");
            let with_region = phases[0].iter().map(|task| (task, region(task)));
            share_files(&with_region.collect::<Vec<_>>())
        };
        assert!(meet(&[job("a", 2, &[])]) && meet(&[job("a", 1, &["x"]), job("b", 1, &["y"])]));
        assert!(!meet(&[job("a", 2, &["x"])]) && !meet(&[job("a", 1, &[])]));
    }
}
