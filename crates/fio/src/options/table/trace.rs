//! Traces, and the I/O patterns of other benchmarks.
use super::{ANY_U32, OptionSpec, ValueKind, number};
use crate::job::{BlkparseAction, PatternProgram, RecordFormat};
use crate::trace::Raidtest;

options! {
    pub(super) const OPTIONS;
    "read_iolog":
        ValueKind::Text(|draft, text| draft.job.replay.read_iolog = Some(text.to_owned())),
        "",
        "Replay a trace: fio's iolog (version 2 or 3) or the output of blkparse. Several traces, \
         separated by colons, go to the clones in turn.";
    "replay_no_stall": ValueKind::Bool(|draft, on| draft.job.replay.no_stall = on),
        "0", "Replay as fast as possible, in order, instead of at the times of the trace.";
    "replay_time_scale": number(1, ANY_U32, |draft, n| draft.job.replay.time_scale = n),
        "100", "Replay speed in percent: 200 is twice as fast.";
    "replay_align": ValueKind::Size(|draft, bytes| draft.job.replay.align = bytes),
        "0", "Round the trace's offsets down to multiples of this power of two; 0 for none.";
    "replay_scale": number(0, u64::MAX, |draft, n| draft.job.replay.scale = n.max(1)),
        "1", "Divide the trace's offsets by this; 0 counts as 1.";
    "replay_skip": ValueKind::Words(&[
        ("read", Ok(|draft| draft.job.replay.skip[0] = true)),
        ("write", Ok(|draft| draft.job.replay.skip[1] = true)),
        ("trim", Ok(|draft| draft.job.replay.skip[2] = true)),
        ("sync", Ok(|draft| draft.job.replay.skip[3] = true)),
    ]),
        "", "I/O of the trace that is not replayed: reads, writes, trims with resets of zones, flushes.";
    "replay_redirect":
        ValueKind::Text(|draft, text| draft.job.replay.redirect = Some(text.to_owned())),
        "", "Device to use for all files of the trace.";
    "replay_devices":
        ValueKind::Text(|draft, text| draft.job.replay.devices = Some(text.to_owned())),
        "",
        "Devices for the trace's files, separated by blanks, such as 8,0=null:zones=8 \
         8,16=disk.toml. Zonal's own.";
    "replay_action": ValueKind::Word(&[
        ("Q", Ok(|draft| draft.job.replay.action = BlkparseAction::Queue)),
        ("D", Ok(|draft| draft.job.replay.action = BlkparseAction::Issue)),
    ]),
        "Q",
        "Action of blkparse's events to replay: Q (queued to the block layer) or D (issued to \
         the driver). Zonal's own.";
    "write_iolog":
        ValueKind::Text(|draft, text| draft.job.record.write_iolog = Some(text.to_owned())),
        "", "Record the job's I/O; clones after the first add their number to the file name.";
    "write_iolog_format": ValueKind::Word(&[
        ("iolog", Ok(|draft| draft.job.record.format = RecordFormat::Iolog)),
        ("blkparse", Ok(|draft| draft.job.record.format = RecordFormat::Blkparse)),
    ]),
        "iolog",
        "Format of write_iolog: fio's iolog, version 3, or blkparse's output. Zonal's own.";
    "pattern": ValueKind::Word(&[
        ("raidtest", Ok(|draft| draft.job.pattern.program = Some(PatternProgram::Raidtest))),
        ("randomio", Ok(|draft| draft.job.pattern.program = Some(PatternProgram::Randomio))),
    ]),
        "",
        "Do the I/O of FreeBSD's raidtest, with the clones as its processes, or of randomio, \
         with the clones as its threads and bs as its size. Zonal's own.";
    "pattern_file": ValueKind::Text(|draft, text| draft.job.pattern.file = Some(text.to_owned())),
        "", "Replay a file made by `zonal-dev pattern`, divided among the clones. Zonal's own.";
    "pattern_requests":
        number(1, Raidtest::MAX_REQUESTS, |draft, n| draft.job.pattern.requests = Some(n)),
        "10000", "Number of raidtest requests, of all clones together. Zonal's own.";
    "pattern_align": ValueKind::Size(|draft, bytes| draft.job.pattern.align = Some(bytes)),
        "raidtest: the device's LBA; randomio: bs",
        "Alignment of offsets, and of raidtest's lengths. Zonal's own.";
    "pattern_max_size": ValueKind::Size(|draft, bytes| draft.job.pattern.max_size = Some(bytes)),
        "128k", "Size of raidtest's longest request. Zonal's own.";
    "pattern_writes":
        ValueKind::Fraction(|draft, fraction| draft.job.pattern.writes = Some(fraction)),
        "0.5",
        "Fraction of writes: randomio's write_fraction_of_io; for raidtest 0 is -r and 1 is -w. \
         Zonal's own.";
    "pattern_fsyncs":
        ValueKind::Fraction(|draft, fraction| draft.job.pattern.fsyncs = Some(fraction)),
        "0",
        "Fraction of writes that are followed by a flush: randomio's fsync_fraction_of_writes. \
         Zonal's own.";
}
