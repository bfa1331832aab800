//! What is read and written, and at which offsets.
use super::{OptionSpec, ValueKind};
use crate::options::draft::assign;
use crate::options::value::pattern::RwPattern;

/// Percents of a mixed job. Reads and writes set each other: the last one given counts.
const fn percent(set: fn(&mut crate::options::Draft, u64)) -> ValueKind {
    ValueKind::Number { min: 0, max: 100, set }
}

fn percent_u8(value: u64) -> u8 {
    u8::try_from(value).expect("the table limits percents to 100")
}

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "rw",
        ValueKind::Pattern(|draft, RwPattern { rw, random, modifier }| {
            draft.job.rw = rw;
            draft.job.random = random;
            draft.job.rw_modifier = modifier;
        }),
        "read",
        "read, write, trim, rw, randread, randwrite, randtrim or randrw. With a colon and a number: \
         I/Os from one random offset on, or bytes skipped after each sequential I/O.",
    )
    .or(&["readwrite"]),
    OptionSpec::new(
        "bs",
        ValueKind::Triple {
            min: 1,
            max: u64::MAX,
            set: |draft, values| assign(&mut draft.job.bs, values),
        },
        "4k",
        "Block size; with commas for reads, writes and trims.",
    )
    .or(&["blocksize"]),
    OptionSpec::new(
        "rwmixread",
        percent(|draft, n| draft.job.rwmixread = percent_u8(n)),
        "50",
        "Percent of mixed I/O that are reads.",
    ),
    OptionSpec::new(
        "rwmixwrite",
        percent(|draft, n| draft.job.rwmixread = 100 - percent_u8(n)),
        "50",
        "Percent of mixed I/O that are writes; of this and rwmixread the last one counts.",
    ),
    OptionSpec::new(
        "norandommap",
        ValueKind::Flag(|draft, on| draft.job.norandommap = on),
        "0",
        "Let random offsets repeat before all blocks were visited.",
    ),
    OptionSpec::new(
        "randseed",
        ValueKind::Number { min: 0, max: u64::MAX, set: |draft, n| draft.randseed = Some(n) },
        "0x89",
        "Seed of the random numbers.",
    ),
    OptionSpec::new(
        "randrepeat",
        ValueKind::Bool(|draft, on| draft.randrepeat = on),
        "1",
        "Use the same random numbers each time; 0 draws a new seed unless randseed gives one.",
    ),
    OptionSpec::new(
        "allrandrepeat",
        ValueKind::Bool(|draft, on| draft.allrandrepeat = on),
        "0",
        "As randrepeat, for all that is random.",
    ),
    OptionSpec::new(
        "direct",
        ValueKind::Bool(|draft, on| draft.job.direct = on),
        "0",
        "I/O goes past the cache of the file system; kept for the report without one.",
    ),
    OptionSpec::new(
        "buffered",
        ValueKind::Bool(|draft, on| draft.job.direct = !on),
        "1",
        "The opposite of direct.",
    ),
];
