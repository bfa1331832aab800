//! How fast a job may be.
use super::{ANY_U32, OptionSpec, ValueKind, narrow};
use crate::options::draft::assign;

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "rate",
        ValueKind::Triple {
            min: 0,
            max: u64::MAX,
            set: |draft, values| assign(&mut draft.job.rate, values),
        },
        "",
        "Bytes per second at the most; with commas for reads, writes and trims.",
    ),
    OptionSpec::new(
        "rate_iops",
        ValueKind::Triple {
            min: 0,
            max: ANY_U32,
            set: |draft, values| assign(&mut draft.job.rate_iops, values),
        },
        "",
        "I/Os per second at the most; with commas for reads, writes and trims.",
    ),
    OptionSpec::new(
        "thinktime",
        ValueKind::Micros(|draft, time| draft.job.thinktime = time),
        "0",
        "Pause after each thinktime_blocks I/Os; microseconds without a unit.",
    ),
    OptionSpec::new(
        "thinktime_blocks",
        ValueKind::Number {
            min: 0,
            max: ANY_U32,
            set: |draft, n| draft.job.thinktime_blocks = narrow(n).max(1),
        },
        "1",
        "I/Os between pauses; 0 counts as 1.",
    ),
];
