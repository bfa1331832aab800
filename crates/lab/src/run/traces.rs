//! The traces of a run: which clone replays which requests on which device, and what is recorded.
//! Everything is read and checked before anything runs.
use crate::devices::Devices;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter};
use std::sync::Arc;
use zonal_blk::{Limits, Op};
use zonal_fio::generate::Region;
use zonal_fio::job::{Fraction, Job, PatternProgram};
use zonal_fio::plan::Task;
use zonal_fio::runner::Recording;
use zonal_fio::trace::{self, Format, Raidtest, SequentialZones, Trace, TraceError, TraceSlice};

/// A trace's requests for one device; without a name, for the job's own.
type DeviceTrace = (Option<String>, Arc<Trace>);

/// Reads all traces and assigns them to their clones. A clone is replaced by one for each device of
/// its trace, unless `one` or the job names a single device.
pub fn load(phases: &mut [Vec<Task>], one: Option<&str>) -> Result<()> {
    for phase in phases {
        let mut parts: BTreeMap<(u32, String), Vec<DeviceTrace>> = BTreeMap::new();
        let mut tasks = Vec::with_capacity(phase.len());
        for task in phase.drain(..) {
            let job = Arc::clone(&task.job);
            let in_job = || format!("job {}", job.name);
            if let Some(file) = &job.pattern.file {
                let key = (task.index, file.clone());
                if !parts.contains_key(&key) {
                    parts.insert(key.clone(), pattern(file).with_context(in_job)?);
                }
                let (_, trace) = &parts[&key][0];
                let trace_slice = TraceSlice::new(Arc::clone(trace), task.clone, job.numjobs);
                tasks.push(Task { trace_slice: Some(trace_slice), ..task });
            } else if let Some(files) = &job.replay.read_iolog {
                let files: Vec<&str> = files.split(':').collect();
                let file = files[task.clone as usize % files.len()];
                let key = (task.index, file.to_owned());
                if !parts.contains_key(&key) {
                    parts.insert(key.clone(), replay(file, &job, one).with_context(in_job)?);
                }
                for (device, trace) in &parts[&key] {
                    let trace_slice = Some(TraceSlice::new(Arc::clone(trace), 0, 1));
                    tasks.push(Task { trace_slice, device: device.clone(), ..task.clone() });
                }
            } else {
                tasks.push(task);
            }
        }
        *phase = tasks;
    }
    Ok(())
}

fn read(file: &str, job: Option<&Job>) -> Result<(Format, Trace)> {
    let mut input: Box<dyn BufRead> = match file {
        "-" => Box::new(io::stdin().lock()),
        _ => Box::new(BufReader::new(File::open(file).with_context(|| file.to_owned())?)),
    };
    let action = job.map(|job| job.replay.action).unwrap_or_default();
    let (format, trace) = trace::read(file, &mut input, action)?;
    if trace.requests.is_empty() {
        bail!("{file}: found nothing to replay");
    }
    Ok((format, trace))
}

fn pattern(file: &str) -> Result<Vec<DeviceTrace>> {
    match read(file, None).context("pattern_file")? {
        (Format::Pattern, trace) => Ok(vec![(None, Arc::new(trace))]),
        (format, _) => bail!("pattern_file: {file}: found {format}, which is for read_iolog"),
    }
}

fn replay(file: &str, job: &Job, one: Option<&str>) -> Result<Vec<DeviceTrace>> {
    let (format, mut trace) = read(file, Some(job)).context("read_iolog")?;
    if format == Format::Pattern {
        bail!("read_iolog: {file}: found {format}, which is for pattern_file");
    }
    trace.transform(&job.replay);
    let all = |device: Option<&String>, trace| Ok(vec![(device.cloned(), Arc::new(trace))]);
    if let Some(device) = &job.replay.redirect {
        return all(Some(device), trace);
    }
    if one.is_some() || job.replay.devices.is_none() && job.filename.is_some() {
        return all(None, trace);
    }
    let mut devices = BTreeMap::new();
    for pair in job.replay.devices.iter().flat_map(|pairs| pairs.split_whitespace()) {
        let Some((name, device)) = pair.split_once('=') else {
            bail!("replay_devices: found {pair:?}, expected NAME=SPEC");
        };
        devices.insert(name, device);
    }
    let mut parts = Vec::new();
    for trace in trace.split() {
        let device = device_of(&trace, &devices)?;
        parts.push((Some(device), Arc::new(trace)));
    }
    Ok(parts)
}

/// The device of a trace with one file: the one that `replay_devices` gives, or one of its name.
fn device_of(trace: &Trace, devices: &BTreeMap<&str, &str>) -> Result<String, TraceError> {
    let (file, line) = &trace.files[0];
    match devices.get(file.as_str()) {
        Some(&device) => Ok(device.to_owned()),
        None if devices.is_empty() && zonal_backend::is_device(file) => Ok(file.clone()),
        None => {
            let problem = format!(
                "file {file} has no device: give one for all with --device, filename or \
                 replay_redirect, or one for each file with replay_devices"
            );
            Err(trace.error(*line, problem))
        }
    }
}

/// Generates the patterns that depend on devices, and checks that all requests fit their devices.
/// `seed` is added to those of the jobs.
pub fn fit(phases: &mut [Vec<Task>], devices: &Devices, seed: u64) -> Result<()> {
    for phase in phases {
        let mut raidtests: BTreeMap<u32, Arc<Trace>> = BTreeMap::new();
        for task in phase {
            let in_job = || format!("job {}", task.job.name);
            let device = devices.of(task).queue.device();
            let limits = device.limits();
            if task.job.pattern.program == Some(PatternProgram::Randomio) {
                check_randomio(&task.job, limits).with_context(in_job)?;
            }
            // A file system generates its own, for a file.
            let made = task.job.pattern.program.filter(|_| task.job.fs.kind.is_none());
            if made == Some(PatternProgram::Raidtest) {
                let trace = match raidtests.get(&task.index) {
                    Some(trace) => Arc::clone(trace),
                    None => Arc::new(raidtest(&task.job, limits, seed)?),
                };
                raidtests.insert(task.index, Arc::clone(&trace));
                task.trace_slice = Some(TraceSlice::new(trace, task.clone, task.job.numjobs));
            }
            if let Some(slice) = &mut task.trace_slice {
                slice.check(limits).with_context(|| format!("job {}", task.job.name))?;
                if slice.trace.requests.iter().any(|request| request.op == Op::Discard) {
                    slice.zones = SequentialZones::of(&**device).context("zone report")?;
                }
            }
        }
    }
    Ok(())
}

fn raidtest(job: &Job, limits: &Limits, seed: u64) -> Result<Trace> {
    let (region, options) = (Region::new(job, 0, limits)?, &job.pattern);
    let pattern = Raidtest {
        start: region.start,
        size: region.len(),
        requests: options.requests.unwrap_or(Raidtest::REQUESTS),
        align: options.align.unwrap_or(u64::from(limits.lba_size)),
        max_size: options.max_size.unwrap_or(Raidtest::MAX_SIZE),
        writes: options.writes.unwrap_or(Fraction::HALF),
        seed: job.randseed.wrapping_add(seed),
    };
    let in_job = || format!("job {}: pattern=raidtest", job.name);
    let requests = pattern.generate().with_context(in_job)?;
    Ok(Trace { name: "raidtest".to_owned(), files: Vec::new(), requests })
}

fn check_randomio(job: &Job, limits: &Limits) -> Result<()> {
    let lba = u64::from(limits.lba_size);
    match job.pattern.align {
        Some(align) if align == 0 || align % lba != 0 => {
            bail!("pattern_align: found {align}, expected a multiple of the device's LBA of {lba}")
        }
        _ => Ok(()),
    }
}

/// Recordings by file name.
pub type Recordings = BTreeMap<String, Arc<Recording>>;

/// Creates the files to record to. The first clone of a job has the file that the job names, the
/// others add their number.
pub fn record(phases: &mut [Vec<Task>], devices: &Devices) -> Result<Recordings> {
    let mut recordings = Recordings::new();
    for phase in phases {
        let mut clones: BTreeMap<u32, u32> = BTreeMap::new();
        for task in phase {
            let Some(file) = &task.job.record.write_iolog else { continue };
            let clone = clones.entry(task.index).or_default();
            let name = if *clone == 0 { file.clone() } else { format!("{file}.{clone}") };
            *clone += 1;
            let job = &task.job.name;
            if recordings.contains_key(&name) {
                bail!("job {job}: write_iolog: {name}: another job writes this file");
            }
            let out = zonal_os::output_file::create(&name)
                .with_context(|| format!("job {job}: write_iolog: {name}"))?;
            let out = Box::new(BufWriter::new(out));
            let device = devices.of(task);
            let zone_size = device.queue.limits().zone_size.to_bytes().0;
            let format = task.job.record.format;
            let recording = Recording::new(out, format, &device.name, job, zone_size);
            task.recording = Some(Arc::clone(&recording));
            recordings.insert(name, recording);
        }
    }
    Ok(recordings)
}

/// Checks that everything was recorded.
pub fn check(recordings: &Recordings) -> Result<()> {
    for (name, recording) in recordings {
        recording.result().with_context(|| format!("write_iolog: {name}"))?;
    }
    Ok(())
}
