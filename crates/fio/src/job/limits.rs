//! When a job begins and ends besides its amount of I/O and its runtime: by other jobs, by rates and
//! latencies that it has to keep, at a steady state.
use zonal_blk::Nanos;

/// Other jobs, rates and latencies that decide when a job begins and ends, and depths within its queue depth.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitOptions {
    /// Its order among other jobs.
    pub order: OrderOptions,
    /// The longest `startdelay`, which is drawn for each clone; 0 if it is not.
    pub startdelay_max: Nanos,
    /// `rate_min=`: bytes per second by [`DataDir`](super::DataDir); 0 for no limit.
    pub rate_min: [u64; 3],
    /// `rate_iops_min=`: I/Os per second by [`DataDir`](super::DataDir); 0 for no limit.
    pub rate_iops_min: [u64; 3],
    /// `rate_cycle=`: the time over which both are averaged.
    pub rate_cycle: Nanos,
    /// `max_latency=` by [`DataDir`](super::DataDir); 0 for no limit.
    pub max_latency: [Nanos; 3],
    /// `ramp_size=`: bytes of I/O before measurements start, if `ramp_time` does not end before; 0 for
    /// none. Clones with `group_reporting` count together.
    pub ramp_size: u64,
    /// `ramp_submitted`: latencies are those of I/Os that were submitted after the ramp.
    pub ramp_submitted: bool,
    /// The latency that governs the depth.
    pub latency: LatencyOptions,
    /// The steady state.
    pub steady: SteadyOptions,
    /// Depths as the job gives them, for [`Job::set_iodepth`](super::Job::set_iodepth).
    pub depths: GivenDepths,
}

/// Depths as a job gives them, before fio's rules bound them by `iodepth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenDepths {
    /// `iodepth_batch`; 0 stands for `iodepth`.
    pub batch: u32,
    /// `iodepth_batch_complete_min`.
    pub batch_complete_min: u32,
    /// `iodepth_batch_complete_max`; 0 if the job does not say.
    pub batch_complete_max: u32,
    /// `iodepth_low`; 0, and nothing, stand for `iodepth`.
    pub low: u32,
}

impl Default for GivenDepths {
    fn default() -> Self {
        GivenDepths { batch: 1, batch_complete_min: 1, batch_complete_max: 0, low: 0 }
    }
}

/// The latency that governs the depth (`latency_target`, ...).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyOptions {
    /// `latency_target=`; 0 for none.
    pub target: Nanos,
    /// `latency_window=`: the time for which a depth is tried.
    pub window: Nanos,
    /// `latency_percentile=`: the percentage of I/Os that must keep the target.
    pub percentile: f64,
    /// `latency_run=`: go on once the depth is found.
    pub run: bool,
}

/// The measurement that has to be steady for a job to end (`steadystate`, ...).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyOptions {
    /// `steadystate=`; `None` for no such end.
    pub criterion: Option<SteadyCriterion>,
    /// `steadystate_duration=`: for how long.
    pub duration: Nanos,
    /// `steadystate_ramp_time=`: the time before the first measurement.
    pub ramp: Nanos,
    /// `steadystate_check_interval=`: the time between measurements.
    pub interval: Nanos,
}

/// The value of `steadystate=`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyCriterion {
    /// Whether IOPS are measured, or bandwidth in bytes per second.
    pub iops: bool,
    /// Whether the slope of the regression line has to be below the limit, or the largest deviation
    /// from the mean.
    pub slope: bool,
    /// The limit.
    pub limit: f64,
    /// The limit is a percentage of the mean.
    pub percent: bool,
}

/// Which job a job waits for, and which ones it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderOptions {
    /// `wait_for=`: the name of a job before it in the file; all its clones have to end first.
    pub wait_for: Option<String>,
    /// `exitall`: the first job of the run that ends, ends others; for all jobs if one has it.
    pub exitall: bool,
    /// `exitall_on_error`: this job ends others if it fails.
    pub exitall_on_error: bool,
    /// `exit_what=`: which ones.
    pub exit_what: ExitWhat,
}

/// The jobs that a job ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExitWhat {
    /// The jobs of its reporting group.
    #[default]
    Group,
    /// Those that run; the next ones after a `stonewall` start.
    Stonewall,
    /// All of the run.
    All,
}

const SECOND: Nanos = Nanos(1_000_000_000);

impl Default for LimitOptions {
    fn default() -> Self {
        LimitOptions {
            order: OrderOptions::default(),
            rate_min: [0; 3],
            rate_iops_min: [0; 3],
            rate_cycle: SECOND,
            max_latency: [Nanos(0); 3],
            startdelay_max: Nanos(0),
            ramp_size: 0,
            ramp_submitted: false,
            latency: LatencyOptions {
                target: Nanos(0),
                window: Nanos(0),
                percentile: 100.0,
                run: false,
            },
            steady: SteadyOptions {
                criterion: None,
                duration: Nanos(0),
                ramp: Nanos(0),
                interval: SECOND,
            },
            depths: GivenDepths::default(),
        }
    }
}
