//! Reports of a run that goes on (`--status-interval`). A report is shown when all clones that run
//! have published their statistics of the interval: in virtual time, after the same I/Os each time.
use super::sections::of_disk;
use crate::executor::{ClockKind, unix_ms};
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::{Nanos, Queue};
use zonal_fio::plan::Task;
use zonal_fio::report::{JobReport, Report};
use zonal_fio::runner::{StatusReports, StatusSink};
use zonal_fio::stats::IoStats;

/// Shows a report.
pub type ShowStatus = Box<dyn FnMut(&Report<'_>) + Send>;

struct Board(Mutex<State>);

struct State {
    /// The run as a whole, without jobs.
    run: Report<'static>,
    /// Devices whose counters are in the reports, with their names.
    disks: Vec<(String, Arc<Queue>)>,
    interval: Nanos,
    clones: Vec<BoardClone>,
    /// Intervals up to this one have been reported.
    reported: u64,
    show: ShowStatus,
}

struct BoardClone {
    task: Task,
    transfers: bool,
    stats: Option<IoStats>,
    /// It runs, and has published this interval.
    published: Option<u64>,
}

/// Has all clones of `phases` publish their statistics at the end of each interval, and shows them,
/// with what `run` says of the run as a whole and what `disks` did. `transfers` says of each clone
/// whether its device has a bandwidth.
pub fn show(
    phases: &mut [Vec<Task>],
    run: Report<'static>,
    disks: Vec<(String, Arc<Queue>)>,
    transfers: Vec<bool>,
    interval: Nanos,
    show: ShowStatus,
) {
    let clone = |(task, transfers): (&Task, bool)| BoardClone {
        task: task.clone(),
        transfers,
        stats: None,
        published: None,
    };
    let clones = phases.iter().flatten().zip(transfers).map(clone).collect();
    let board = State { run, disks, interval, clones, reported: 0, show };
    let sink: Arc<dyn StatusSink> = Arc::new(Board(Mutex::new(board)));
    for (clone, task) in phases.iter_mut().flatten().enumerate() {
        task.status = Some(StatusReports { sink: Arc::clone(&sink), clone, interval });
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no clone panics while it publishes")
    }
}

impl StatusSink for Board {
    fn start(&self, clone: usize) {
        let state = &mut *self.lock();
        state.clones[clone].published = Some(state.reported);
    }

    fn publish(&self, clone: usize, interval: u64, stats: IoStats) {
        let state = &mut *self.lock();
        let BoardClone { stats: last, published, .. } = &mut state.clones[clone];
        (*last, *published) = (Some(stats), Some(interval));
        state.report();
    }

    fn finish(&self, clone: usize, stats: IoStats) {
        let state = &mut *self.lock();
        let BoardClone { stats: last, published, .. } = &mut state.clones[clone];
        (*last, *published) = (Some(stats), None);
        state.report();
    }
}

impl State {
    /// Reports if all clones that run have published a new interval.
    fn report(&mut self) {
        let Some(interval) = self.clones.iter().filter_map(|clone| clone.published).min() else {
            return;
        };
        if interval <= self.reported {
            return;
        }
        self.reported = interval;
        let elapsed = Nanos(interval * self.interval.0).0.div_ceil(1_000_000_000);
        let jobs = self.clones.iter().filter_map(|clone| {
            let job = &clone.task.job;
            let end = job.runtime.map(|time| (time + job.ramp_time + job.startdelay).0);
            let eta = match clone.published {
                Some(_) => end.map_or(0, |end| end.div_ceil(1_000_000_000).saturating_sub(elapsed)),
                None => 0,
            };
            Some(JobReport {
                job,
                groupid: clone.task.group,
                pid: 0,
                transfers: clone.transfers,
                stats: clone.stats.clone()?,
                error: None,
                eta,
                elapsed,
            })
        });
        let jobs = jobs.collect();
        let timestamp_ms = if self.run.clock == ClockKind::Real.name() { unix_ms() } else { None };
        let disk_util =
            self.disks.iter().filter_map(|(name, queue)| of_disk(name, queue)).collect();
        let report = Report { jobs, timestamp_ms, disk_util, ..self.run.clone() };
        (self.show)(&report);
    }
}
