//! What is read and written, and at which offsets.
use super::{Kind, Spec};
use crate::options::draft::assign;
use crate::options::value::pattern::Pattern;

/// Percents of a mixed job. Reads and writes set each other: the last one given counts.
const fn percent(set: fn(&mut crate::options::Draft, u64)) -> Kind {
    Kind::Number { min: 0, max: 100, set }
}

fn percent_u8(value: u64) -> u8 {
    u8::try_from(value).expect("the table limits percents to 100")
}

pub(super) const OPTIONS: &[Spec] = &[
    Spec::new(
        "rw",
        Kind::Pattern(|draft, Pattern { rw, random, modifier }| {
            draft.job.rw = rw;
            draft.job.random = random;
            draft.job.rw_modifier = modifier;
        }),
        "read",
        "read, write, trim, rw, randread, randwrite, randtrim or randrw. With a colon and a number: \
         I/Os from one random offset on, or bytes skipped after each sequential I/O.",
    )
    .or(&["readwrite"]),
    Spec::new(
        "bs",
        Kind::Triple {
            min: 1,
            max: u64::MAX,
            set: |draft, values| assign(&mut draft.job.bs, values),
        },
        "4k",
        "Block size; with commas for reads, writes and trims.",
    )
    .or(&["blocksize"]),
    Spec::new(
        "rwmixread",
        percent(|draft, n| draft.job.rwmixread = percent_u8(n)),
        "50",
        "Percent of mixed I/O that are reads.",
    ),
    Spec::new(
        "rwmixwrite",
        percent(|draft, n| draft.job.rwmixread = 100 - percent_u8(n)),
        "50",
        "Percent of mixed I/O that are writes; of this and rwmixread the last one counts.",
    ),
    Spec::new(
        "norandommap",
        Kind::Flag(|draft, on| draft.job.norandommap = on),
        "0",
        "Let random offsets repeat before all blocks were visited.",
    ),
    Spec::new(
        "randseed",
        Kind::Number { min: 0, max: u64::MAX, set: |draft, n| draft.randseed = Some(n) },
        "0x89",
        "Seed of the random numbers.",
    ),
    Spec::new(
        "randrepeat",
        Kind::Bool(|draft, on| draft.randrepeat = on),
        "1",
        "Use the same random numbers each time; 0 draws a new seed unless randseed gives one.",
    ),
    Spec::new(
        "allrandrepeat",
        Kind::Bool(|draft, on| draft.allrandrepeat = on),
        "0",
        "As randrepeat, for all that is random.",
    ),
    Spec::new(
        "direct",
        Kind::Bool(|draft, on| draft.job.direct = on),
        "0",
        "I/O goes past the cache of the file system; kept for the report without one.",
    ),
    Spec::new(
        "buffered",
        Kind::Bool(|draft, on| draft.job.direct = !on),
        "1",
        "The opposite of direct.",
    ),
];
