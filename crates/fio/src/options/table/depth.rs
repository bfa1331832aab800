//! How many I/Os are in flight.
use super::{ANY_U32, OptionSpec, ValueKind, narrow};

/// What is remembered of so many I/Os in flight still fits in memory.
const MAX_DEPTH: u64 = 1 << 20;

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "iodepth",
        ValueKind::Number { min: 1, max: MAX_DEPTH, set: |draft, n| draft.job.iodepth = narrow(n) },
        "1",
        "I/Os in flight, for each clone.",
    ),
    OptionSpec::new(
        "iodepth_batch",
        ValueKind::Number {
            min: 0,
            max: ANY_U32,
            set: |draft, n| draft.job.iodepth_batch = narrow(n),
        },
        "1",
        "I/Os submitted at a time; 0 or more than iodepth counts as iodepth.",
    )
    .or(&["iodepth_batch_submit"]),
    OptionSpec::new(
        "iodepth_batch_complete_min",
        ValueKind::Number {
            min: 0,
            max: ANY_U32,
            set: |draft, n| draft.job.iodepth_batch_complete_min = narrow(n),
        },
        "1",
        "Completions to wait for at a time; 0 polls.",
    )
    .or(&["iodepth_batch_complete"]),
    OptionSpec::new(
        "iodepth_batch_complete_max",
        ValueKind::Number {
            min: 0,
            max: ANY_U32,
            set: |draft, n| draft.job.iodepth_batch_complete_max = narrow(n),
        },
        "iodepth (fio: iodepth_batch_complete_min)",
        "Completions to take at a time at the most.",
    ),
    OptionSpec::new(
        "iodepth_low",
        ValueKind::Number {
            min: 0,
            max: ANY_U32,
            set: |draft, n| draft.job.iodepth_low = narrow(n),
        },
        "iodepth",
        "Depth to drain to before the queue is filled again.",
    ),
];
