//! How long a job runs, and when it begins.
use super::{Kind, Spec};

pub(super) const OPTIONS: &[Spec] = &[
    Spec::new(
        "runtime",
        Kind::Seconds(|draft, time| draft.job.runtime = (time.0 > 0).then_some(time)),
        "",
        "Stop after this time; 0 for no limit.",
    )
    .or(&["timeout"]),
    Spec::new(
        "time_based",
        Kind::Flag(|draft, on| draft.job.time_based = on),
        "0",
        "Go on for the whole runtime, beginning again when all I/O is done.",
    ),
    Spec::new(
        "ramp_time",
        Kind::Seconds(|draft, time| draft.job.ramp_time = time),
        "0",
        "Time to run before measurements begin.",
    ),
    Spec::new(
        "startdelay",
        Kind::Seconds(|draft, time| draft.job.startdelay = time),
        "0",
        "Time to wait before the job begins.",
    )
    .or(&["start_delay"]),
];
