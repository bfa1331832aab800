//! Which region, and how much I/O.
use super::{OptionSpec, ValueKind};
use crate::job::Extent;

/// fio takes nothing of a size for no size given.
fn unless_zero(extent: Extent) -> Option<Extent> {
    let zero = matches!(extent, Extent::Bytes(0) | Extent::Percent(0) | Extent::Zones(0));
    (!zero).then_some(extent)
}

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "size",
        ValueKind::Extent(|draft, extent| draft.job.size = unless_zero(extent)),
        "the rest of the device",
        "Length of the region: bytes, percents of the device or, with zonemode=zbd, zones.",
    ),
    OptionSpec::new(
        "io_size",
        ValueKind::Extent(|draft, extent| draft.job.io_size = unless_zero(extent)),
        "size",
        "Amount of I/O to do in the region.",
    )
    .or(&["io_limit"]),
    OptionSpec::new(
        "offset",
        ValueKind::Extent(|draft, extent| draft.job.offset = extent),
        "0",
        "Where the region begins.",
    )
    .or(&["fileoffset"]),
    OptionSpec::new(
        "offset_increment",
        ValueKind::Extent(|draft, extent| draft.job.offset_increment = extent),
        "0",
        "Added to offset for each further clone.",
    ),
    OptionSpec::new(
        "number_ios",
        ValueKind::Number {
            min: 0,
            max: u64::MAX,
            set: |draft, n| draft.job.number_ios = (n > 0).then_some(n),
        },
        "",
        "Stop after so many I/Os; 0 for no limit.",
    ),
];
