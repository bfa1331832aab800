//! How long a job runs, and when it begins.
use super::{OptionSpec, ValueKind};

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "runtime",
        ValueKind::Seconds(|draft, time| draft.job.runtime = (time.0 > 0).then_some(time)),
        "",
        "Stop after this time; 0 for no limit.",
    )
    .or(&["timeout"]),
    OptionSpec::new(
        "time_based",
        ValueKind::Flag(|draft, on| draft.job.time_based = on),
        "0",
        "Go on for the whole runtime, beginning again when all I/O is done.",
    ),
    OptionSpec::new(
        "ramp_time",
        ValueKind::Seconds(|draft, time| draft.job.ramp_time = time),
        "0",
        "Time to run before measurements begin.",
    ),
    OptionSpec::new(
        "startdelay",
        ValueKind::Seconds(|draft, time| draft.job.startdelay = time),
        "0",
        "Time to wait before the job begins.",
    )
    .or(&["start_delay"]),
];
