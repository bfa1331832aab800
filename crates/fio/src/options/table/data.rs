//! What becomes of the data: whether it is checked, when it is durable, and what errors mean.
use super::{ANY_U32, OptionSpec, ValueKind, narrow};
use crate::options::Draft;
use crate::options::kind::Choice;
use crate::verify::{Checksum, VerifyMethod, VerifyOptions};

/// Writes between two flushes.
const fn every(set: fn(&mut Draft, u64)) -> ValueKind {
    ValueKind::Number { min: 0, max: ANY_U32, set }
}

/// fio's least interval.
const MIN_INTERVAL: u64 = 80;
/// fio's least offset: the length of a header.
const MIN_OFFSET: u64 = 40;

fn check(draft: &mut Draft, method: VerifyMethod) {
    draft.job.verify.method = Some(method);
}

const CHECKSUMS: &str = "of checksums there are crc32c, crc32, md5 and sha256";

const METHODS: &[Choice] = &[
    ("0", Ok(|draft| draft.job.verify.method = None)),
    ("crc32c", Ok(|draft| check(draft, VerifyMethod::Checksum(Checksum::Crc32c)))),
    ("crc32c-intel", Ok(|draft| check(draft, VerifyMethod::Checksum(Checksum::Crc32c)))),
    ("crc32", Ok(|draft| check(draft, VerifyMethod::Checksum(Checksum::Crc32)))),
    ("md5", Ok(|draft| check(draft, VerifyMethod::Checksum(Checksum::Md5)))),
    ("sha256", Ok(|draft| check(draft, VerifyMethod::Checksum(Checksum::Sha256)))),
    ("meta", Ok(|draft| check(draft, VerifyMethod::Meta))),
    ("pattern", Ok(|draft| check(draft, VerifyMethod::Pattern))),
    ("null", Ok(|draft| check(draft, VerifyMethod::Null))),
    ("crc64", Err(CHECKSUMS)),
    ("crc16", Err(CHECKSUMS)),
    ("crc7", Err(CHECKSUMS)),
    ("sha1", Err(CHECKSUMS)),
    ("sha512", Err(CHECKSUMS)),
    ("sha3-224", Err(CHECKSUMS)),
    ("sha3-256", Err(CHECKSUMS)),
    ("sha3-384", Err(CHECKSUMS)),
    ("sha3-512", Err(CHECKSUMS)),
    ("xxhash", Err(CHECKSUMS)),
];

const CONTINUE_ON_ERROR: &[Choice] = &[
    ("none", Ok(|draft| draft.job.errors.continue_on_error = [false, false, false])),
    ("read", Ok(|draft| draft.job.errors.continue_on_error = [true, false, false])),
    ("write", Ok(|draft| draft.job.errors.continue_on_error = [false, true, false])),
    ("io", Ok(|draft| draft.job.errors.continue_on_error = [true, true, false])),
    ("verify", Ok(|draft| draft.job.errors.continue_on_error = [false, false, true])),
    ("all", Ok(|draft| draft.job.errors.continue_on_error = [true, true, true])),
    ("0", Ok(|draft| draft.job.errors.continue_on_error = [false, false, false])),
    ("1", Ok(|draft| draft.job.errors.continue_on_error = [true, true, true])),
];

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "verify",
        ValueKind::Word(METHODS),
        "0",
        "Check that what was written can be read: a header in each block with a checksum of the \
         rest, meta for the header alone, pattern for verify_pattern without header, null for \
         reads that nobody looks at.",
    ),
    OptionSpec::new(
        "do_verify",
        ValueKind::Bool(|draft, on| draft.job.verify.do_verify = on),
        "1",
        "Read back and check what was written, after each loop.",
    ),
    OptionSpec::new(
        "verify_only",
        ValueKind::Flag(|draft, on| draft.job.verify.only = on),
        "0",
        "Write nothing: check what the job wrote in an earlier run.",
    ),
    OptionSpec::new(
        "verify_interval",
        ValueKind::Number {
            min: MIN_INTERVAL,
            max: ANY_U32,
            set: |draft, n| draft.job.verify.interval = Some(narrow(n)),
        },
        "bs",
        "Bytes that have a header of their own.",
    ),
    OptionSpec::new(
        "verify_offset",
        ValueKind::Number {
            min: MIN_OFFSET,
            max: ANY_U32,
            set: |draft, n| draft.job.verify.offset = narrow(n),
        },
        "the start",
        "Where in them the header lies.",
    ),
    OptionSpec::new(
        "verify_pattern",
        ValueKind::FillPattern(|draft, pattern| {
            let VerifyOptions { pattern: to, .. } = &mut draft.job.verify;
            *to = Some(pattern);
        }),
        "random bytes",
        "What is written over and over: numbers, strings in quotes, and %o for the offset of the \
         I/O.",
    ),
    OptionSpec::new(
        "verify_backlog",
        every(|draft, n| draft.job.verify.backlog = narrow(n)),
        "0",
        "Writes after which blocks are checked before the end; 0 for none.",
    ),
    OptionSpec::new(
        "verify_backlog_batch",
        every(|draft, n| draft.job.verify.backlog_batch = narrow(n)),
        "verify_backlog",
        "Blocks that are checked then.",
    ),
    OptionSpec::new(
        "verify_fatal",
        ValueKind::Bool(|draft, on| draft.job.verify.fatal = on),
        "0",
        "The first block that is wrong ends the job, whatever continue_on_error says.",
    ),
    OptionSpec::new(
        "verify_dump",
        ValueKind::Bool(|draft, on| draft.job.verify.dump = on),
        "0",
        "Write what was read and what was expected to the files JOB.OFFSET.received and .expected.",
    ),
    OptionSpec::new(
        "fsync",
        every(|draft, n| draft.job.sync.fsync = narrow(n)),
        "0",
        "Writes after which the job flushes the device and waits for that; 0 for never.",
    ),
    OptionSpec::new(
        "fdatasync",
        every(|draft, n| draft.job.sync.fdatasync = narrow(n)),
        "0",
        "The same.",
    ),
    OptionSpec::new(
        "end_fsync",
        ValueKind::Bool(|draft, on| draft.job.sync.end_fsync = on),
        "0",
        "Flush the device when all is written.",
    ),
    OptionSpec::new(
        "fsync_on_close",
        ValueKind::Bool(|draft, on| draft.job.sync.on_close = on),
        "0",
        "The same: the device is closed then.",
    ),
    OptionSpec::new(
        "sync",
        ValueKind::Word(&[
            ("none", Ok(|draft| draft.job.sync.sync = false)),
            ("sync", Ok(|draft| draft.job.sync.sync = true)),
            ("dsync", Ok(|draft| draft.job.sync.sync = true)),
            ("0", Ok(|draft| draft.job.sync.sync = false)),
            ("1", Ok(|draft| draft.job.sync.sync = true)),
        ]),
        "none",
        "Whether writes are durable when they complete (FUA).",
    ),
    OptionSpec::new(
        "write_barrier",
        every(|draft, n| draft.job.sync.barrier = narrow(n)),
        "0",
        "Every so many writes one that comes after a flush and is durable (PREFLUSH and FUA); 0 \
         for none.",
    ),
    OptionSpec::new(
        "continue_on_error",
        ValueKind::Word(CONTINUE_ON_ERROR),
        "none",
        "Errors that do not end the job, if they are EIO or EILSEQ; io is read and write.",
    ),
    OptionSpec::new(
        "ignore_error",
        ValueKind::Errors(|draft, lists| draft.job.errors.ignored = lists),
        "",
        "Errors that do not end the job, by name or number between colons; with commas for reads, \
         writes and checks.",
    ),
    OptionSpec::new(
        "error_dump",
        ValueKind::Bool(|draft, on| draft.job.errors.dump = on),
        "0",
        "Tell of each I/O that fails, up to a hundred for each clone.",
    ),
];
