//! Traces and the patterns of other programs.
use super::{ANY_U32, OptionSpec, ValueKind};
use crate::trace::{Action, PatternProgram, Raidtest, RecordFormat};

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "read_iolog",
        ValueKind::Text(|draft, text| draft.job.replay.read_iolog = Some(text.to_owned())),
        "",
        "Do what a trace says: fio's iolog (version 2 or 3) or blkparse's text. Several between \
         colons are for the clones in turn.",
    ),
    OptionSpec::new(
        "replay_no_stall",
        ValueKind::Bool(|draft, on| draft.job.replay.no_stall = on),
        "0",
        "As fast as possible, in the trace's order, instead of at its times.",
    ),
    OptionSpec::new(
        "replay_time_scale",
        ValueKind::Number { min: 1, max: ANY_U32, set: |draft, n| draft.job.replay.time_scale = n },
        "100",
        "Speed in percent of the trace's: 200 is twice as fast.",
    ),
    OptionSpec::new(
        "replay_align",
        ValueKind::Size(|draft, bytes| draft.job.replay.align = bytes),
        "0",
        "Round the trace's offsets down to multiples of this power of two; 0 for as they are.",
    ),
    OptionSpec::new(
        "replay_scale",
        ValueKind::Number {
            min: 0,
            max: u64::MAX,
            set: |draft, n| draft.job.replay.scale = n.max(1),
        },
        "1",
        "Divide the trace's offsets by this; 0 counts as 1.",
    ),
    OptionSpec::new(
        "replay_redirect",
        ValueKind::Text(|draft, text| draft.job.replay.redirect = Some(text.to_owned())),
        "",
        "Device for all files of the trace.",
    ),
    OptionSpec::new(
        "replay_devices",
        ValueKind::Text(|draft, text| draft.job.replay.devices = Some(text.to_owned())),
        "",
        "Devices for the trace's files, as 8,0=null:zones=8 8,16=disk.toml, with blanks between. \
         Zonal's own.",
    ),
    OptionSpec::new(
        "replay_action",
        ValueKind::Word(&[
            ("Q", Ok(|draft| draft.job.replay.action = Action::Queued)),
            ("D", Ok(|draft| draft.job.replay.action = Action::Issued)),
        ]),
        "Q",
        "Lines of blkparse to replay: Q, what came into the block layer, or D, what went to the \
         driver. Zonal's own.",
    ),
    OptionSpec::new(
        "write_iolog",
        ValueKind::Text(|draft, text| draft.job.record.write_iolog = Some(text.to_owned())),
        "",
        "Write down what the job does; further clones add their number to the file's name.",
    ),
    OptionSpec::new(
        "write_iolog_format",
        ValueKind::Word(&[
            ("iolog", Ok(|draft| draft.job.record.format = RecordFormat::Iolog)),
            ("blkparse", Ok(|draft| draft.job.record.format = RecordFormat::Blkparse)),
        ]),
        "iolog",
        "As fio's iolog of version 3 or as blkparse's text. Zonal's own.",
    ),
    OptionSpec::new(
        "pattern",
        ValueKind::Word(&[
            ("raidtest", Ok(|draft| draft.job.pattern.program = Some(PatternProgram::Raidtest))),
            ("randomio", Ok(|draft| draft.job.pattern.program = Some(PatternProgram::Randomio))),
        ]),
        "",
        "Do what FreeBSD's raidtest does, the clones as its processes, or randomio, the clones as \
         its threads and bs as its size. Zonal's own.",
    ),
    OptionSpec::new(
        "pattern_file",
        ValueKind::Text(|draft, text| draft.job.pattern.file = Some(text.to_owned())),
        "",
        "Do the requests of a file that `zonal pattern` made, shared among the clones. Zonal's own.",
    ),
    OptionSpec::new(
        "pattern_requests",
        ValueKind::Number {
            min: 1,
            max: Raidtest::MAX_REQUESTS,
            set: |draft, n| draft.job.pattern.requests = Some(n),
        },
        "10000",
        "Requests of raidtest, of all clones together. Zonal's own.",
    ),
    OptionSpec::new(
        "pattern_align",
        ValueKind::Size(|draft, bytes| draft.job.pattern.align = Some(bytes)),
        "raidtest: the device's LBA; randomio: bs",
        "What offsets, and raidtest's lengths, are multiples of. Zonal's own.",
    ),
    OptionSpec::new(
        "pattern_max_size",
        ValueKind::Size(|draft, bytes| draft.job.pattern.max_size = Some(bytes)),
        "128k",
        "Longest request of raidtest. Zonal's own.",
    ),
    OptionSpec::new(
        "pattern_writes",
        ValueKind::Fraction(|draft, fraction| draft.job.pattern.writes = Some(fraction)),
        "0.5",
        "Share of writes: randomio's write_fraction_of_io; for raidtest 0 is -r and 1 is -w. \
         Zonal's own.",
    ),
    OptionSpec::new(
        "pattern_fsyncs",
        ValueKind::Fraction(|draft, fraction| draft.job.pattern.fsyncs = Some(fraction)),
        "0",
        "Share of randomio's writes that a flush follows: its fsync_fraction_of_writes. Zonal's \
         own.",
    ),
];
