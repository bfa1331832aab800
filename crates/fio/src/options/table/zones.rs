//! Zoned devices.
use super::{OptionSpec, ValueKind, narrow};
use crate::job::ZoneMode;

/// fio's limit for the options that count open zones.
const MAX_OPEN_ZONES: u64 = 4096;

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "zonemode",
        ValueKind::Word(&[
            ("none", Ok(|draft| draft.job.zonemode = ZoneMode::None)),
            ("zbd", Ok(|draft| draft.job.zonemode = ZoneMode::Zbd)),
            ("strided", Err("use zonemode=none or zonemode=zbd")),
        ]),
        "none",
        "zbd writes at write pointers and resets full zones; none ignores zones.",
    ),
    OptionSpec::new(
        "max_open_zones",
        ValueKind::Number {
            min: 0,
            max: MAX_OPEN_ZONES,
            set: |draft, n| draft.job.max_open_zones = narrow(n),
        },
        "0",
        "Zones written at the same time by all jobs; 0 for the device's limit.",
    ),
    OptionSpec::new(
        "job_max_open_zones",
        ValueKind::Number {
            min: 0,
            max: MAX_OPEN_ZONES,
            set: |draft, n| draft.job.job_max_open_zones = narrow(n),
        },
        "0",
        "Zones written at the same time by each clone; 0 for no limit.",
    ),
    OptionSpec::new(
        "zonesize",
        ValueKind::Size(|draft, bytes| draft.job.zonesize = (bytes > 0).then_some(bytes)),
        "the device's",
        "Zone size with zonemode=zbd: checked against a zoned device's.",
    ),
    OptionSpec::new(
        "zonerange",
        ValueKind::Size(|draft, bytes| draft.job.zonerange = (bytes > 0).then_some(bytes)),
        "",
        "Has no effect without zonemode=strided, as in fio.",
    ),
];
