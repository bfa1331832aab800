//! Progress of long work, for a caller that wants to show it.
use std::sync::Arc;
use zonal_blk::Nanos;
use zonal_fio::runner::Progress;

/// Work in steps whose number is known, such as the cells of a table. `()` shows nothing.
pub trait StepProgress: Sync {
    /// `total` steps begin. `title` names the work.
    fn start(&self, title: &str, total: u64);
    /// Shows the present work.
    fn message(&self, text: &str);
    /// `steps` more are done.
    fn advance(&self, steps: u64);
    /// The work is over, successfully or not.
    fn finish(&self);
}

impl StepProgress for () {
    fn start(&self, _title: &str, _total: u64) {}
    fn message(&self, _text: &str) {}
    fn advance(&self, _steps: u64) {}
    fn finish(&self) {}
}

/// The jobs of a phase.
pub struct PhaseProgress {
    /// The clock of the jobs when the phase begins.
    pub begin: Nanos,
    /// The progress of each job.
    pub jobs: Vec<Arc<Progress>>,
    /// Bytes that all jobs will transfer; `None` if only time limits them.
    pub total: Option<u64>,
    /// The longest time limit of a job.
    pub time_limit: Option<Nanos>,
}

/// Phases of jobs. `()` shows nothing.
pub trait JobProgress {
    /// A phase begins.
    fn start(&mut self, phase: PhaseProgress);
    /// Called now and then while the jobs run, with the time of their clock since the phase began.
    fn update(&mut self, elapsed: Nanos);
    /// The phase is over.
    fn finish(&mut self);
    /// Whether an update looks at devices: in virtual time all have to be at the time that it gets.
    fn has_one_clock(&self) -> bool {
        false
    }
    /// Steps of the threads of jobs in virtual time between two updates.
    fn steps(&self) -> u64 {
        zonal_sim::STEPS_PER_WATCH
    }
}

impl JobProgress for () {
    fn start(&mut self, _phase: PhaseProgress) {}
    fn update(&mut self, _elapsed: Nanos) {}
    fn finish(&mut self) {}
}
