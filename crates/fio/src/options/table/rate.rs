//! How fast a job may be.
use super::{ANY_U32, Kind, Spec, narrow};
use crate::options::draft::assign;

pub(super) const OPTIONS: &[Spec] = &[
    Spec::new(
        "rate",
        Kind::Triple {
            min: 0,
            max: u64::MAX,
            set: |draft, values| assign(&mut draft.job.rate, values),
        },
        "",
        "Bytes per second at the most; with commas for reads, writes and trims.",
    ),
    Spec::new(
        "rate_iops",
        Kind::Triple {
            min: 0,
            max: ANY_U32,
            set: |draft, values| assign(&mut draft.job.rate_iops, values),
        },
        "",
        "I/Os per second at the most; with commas for reads, writes and trims.",
    ),
    Spec::new(
        "thinktime",
        Kind::Micros(|draft, time| draft.job.thinktime = time),
        "0",
        "Pause after each thinktime_blocks I/Os; microseconds without a unit.",
    ),
    Spec::new(
        "thinktime_blocks",
        Kind::Number {
            min: 0,
            max: ANY_U32,
            set: |draft, n| draft.job.thinktime_blocks = narrow(n).max(1),
        },
        "1",
        "I/Os between pauses; 0 counts as 1.",
    ),
];
