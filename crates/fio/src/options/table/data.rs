//! Verification, durability and error handling.
use super::{ANY_U32, OptionSpec, ValueKind, number, to_u8, to_u32};
use crate::job::{Checksum, StreamSelect, VerifyMethod, VerifyOptions};
use crate::options::Draft;
use crate::options::kind::Choice;

/// fio's lowest interval.
const MIN_INTERVAL: u64 = 80;
/// fio's lowest offset: the length of a header.
const MIN_OFFSET: u64 = 40;

fn set_method(draft: &mut Draft, method: VerifyMethod) {
    draft.job.verify.method = Some(method);
}

fn set_checksum(draft: &mut Draft, sum: Checksum) {
    set_method(draft, VerifyMethod::Checksum(sum));
}

const METHODS: &[Choice] = &[
    ("0", Ok(|draft| draft.job.verify.method = None)),
    ("crc32c", Ok(|draft| set_checksum(draft, Checksum::Crc32c))),
    ("crc32c-intel", Ok(|draft| set_checksum(draft, Checksum::Crc32c))),
    ("crc32", Ok(|draft| set_checksum(draft, Checksum::Crc32))),
    ("crc64", Ok(|draft| set_checksum(draft, Checksum::Crc64))),
    ("crc16", Ok(|draft| set_checksum(draft, Checksum::Crc16))),
    ("crc7", Ok(|draft| set_checksum(draft, Checksum::Crc7))),
    ("md5", Ok(|draft| set_checksum(draft, Checksum::Md5))),
    ("sha1", Ok(|draft| set_checksum(draft, Checksum::Sha1))),
    ("sha256", Ok(|draft| set_checksum(draft, Checksum::Sha256))),
    ("sha512", Ok(|draft| set_checksum(draft, Checksum::Sha512))),
    ("sha3-224", Ok(|draft| set_checksum(draft, Checksum::Sha3_224))),
    ("sha3-256", Ok(|draft| set_checksum(draft, Checksum::Sha3_256))),
    ("sha3-384", Ok(|draft| set_checksum(draft, Checksum::Sha3_384))),
    ("sha3-512", Ok(|draft| set_checksum(draft, Checksum::Sha3_512))),
    ("xxhash", Ok(|draft| set_checksum(draft, Checksum::Xxhash))),
    ("meta", Ok(|draft| set_method(draft, VerifyMethod::Meta))),
    ("pattern", Ok(|draft| set_method(draft, VerifyMethod::Pattern))),
    ("null", Ok(|draft| set_method(draft, VerifyMethod::Null))),
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

options! {
    pub(super) const OPTIONS;
    "fdp": ValueKind::Bool(|draft, on| draft.job.address.streams.fdp = on),
        "0", "The same as dataplacement=fdp.";
    "dataplacement" or "data_placement": ValueKind::Word(&[
        ("none", Ok(|draft| draft.job.address.streams.fdp = false)),
        ("fdp", Ok(|draft| draft.job.address.streams.fdp = true)),
        ("streams", Err("no device here has the streams directive")),
    ]),
        "none",
        "Whether writes name placement identifiers of the device, which needs some: ssd with fdp_handles.";
    "plid_select" or "fdp_pli_select": ValueKind::Word(&[
        ("random", Ok(|draft| draft.job.address.streams.select = StreamSelect::Random)),
        ("roundrobin", Ok(|draft| draft.job.address.streams.select = StreamSelect::RoundRobin)),
        ("scheme", Ok(|draft| draft.job.address.streams.select = StreamSelect::Scheme)),
    ]),
        "roundrobin",
        "Which of its placement identifiers each write of a job has: any of them, the next one, or that \
         of dp_scheme.";
    "plids" or "fdp_pli": ValueKind::Indices(|draft, list| draft.job.address.streams.indices = list),
        "",
        "Indices of the placement identifiers of the job, in the order of the device's, such as 0,2-3; \
         all if not given.";
    "dp_scheme": ValueKind::Text(|draft, text| draft.job.address.streams.scheme = Some(text.to_owned())),
        "",
        "File with lines such as 0,1048576,2: start and end in bytes, and the index of the placement \
         identifier of writes that begin there. Writes elsewhere have none; the first line counts.";
    "verify": ValueKind::Word(METHODS),
        "0",
        "Verify what was written: a checksum stores a header with it in each block, meta the \
         header alone, pattern compares with verify_pattern, null reads without verifying.";
    "do_verify": ValueKind::Bool(|draft, on| draft.job.verify.do_verify = on),
        "1", "Read back and verify what was written, after each loop.";
    "verify_only": ValueKind::Flag(|draft, on| draft.job.verify.only = on),
        "0", "Write nothing: verify what the job wrote in an earlier run.";
    "verify_state_save": ValueKind::Bool(|draft, on| draft.job.verify.state_save = on),
        "0",
        "At the end write which writes completed, and which are durable, to local-JOB-N-verify.state; N \
         counts clones from 0. fio saves states by default.";
    "verify_state_load": ValueKind::Bool(|draft, on| draft.job.verify.state_load = on),
        "0", "With verify_only: verify what that file says.";
    "verify_policy": ValueKind::Word(&[
        ("all", Ok(|draft| draft.job.verify.fsynced = false)),
        ("fsynced", Ok(|draft| draft.job.verify.fsynced = true)),
    ]),
        "all",
        "With verify_state_load: whether all writes that completed have to be there, or those that a \
         flush or FUA made durable, as after a loss of power.";
    "verify_interval":
        number(MIN_INTERVAL, ANY_U32, |draft, n| draft.job.verify.interval = Some(to_u32(n))),
        "bs", "Bytes per header; with writes of several sizes by default the smallest, or what divides all.";
    "verify_offset": number(MIN_OFFSET, ANY_U32, |draft, n| draft.job.verify.offset = to_u32(n)),
        "the start", "Offset of the header in each interval.";
    "verify_pattern": ValueKind::FillPattern(|draft, pattern| {
        let VerifyOptions { pattern: to, .. } = &mut draft.job.verify;
        *to = Some(pattern);
    }),
        "random bytes",
        "Pattern to fill blocks with: numbers, quoted strings, and %o for the offset of the I/O.";
    "verify_pattern_interval":
        number(0, ANY_U32, |draft, n| draft.job.verify.pattern_interval = to_u32(n)),
        "0",
        "Start verify_pattern anew after this many bytes, with the offset there for %o; 0 for once in \
         each I/O.";
    "verify_backlog": number(0, ANY_U32, |draft, n| draft.job.verify.backlog = to_u32(n)),
        "0", "Verify after this many writes; 0 for at the end only.";
    "verify_backlog_batch":
        number(0, ANY_U32, |draft, n| draft.job.verify.backlog_batch = to_u32(n)),
        "verify_backlog", "Blocks to verify each time.";
    "verify_fatal": ValueKind::Bool(|draft, on| draft.job.verify.fatal = on),
        "0", "The first verification error ends the job, whatever continue_on_error says.";
    "verify_dump": ValueKind::Bool(|draft, on| draft.job.verify.dump = on),
        "0", "Dump received and expected data to the files JOB.OFFSET.received and .expected.";
    "verify_write_sequence":
        ValueKind::Bool(|draft, on| draft.job.verify.write_sequence = Some(on)),
        "1", "Check that a header has the number of the write.";
    "verify_header_seed": ValueKind::Bool(|draft, on| draft.job.verify.header_seed = Some(on)),
        "1", "Check that a header has the seed of the write.";
    "trim_percentage":
        number(0, 100, |draft, n| draft.job.verify.trim.percentage = to_u8(n)),
        "0", "Percentage of written blocks to trim before they are verified; with verify.";
    "trim_backlog": number(0, ANY_U32, |draft, n| draft.job.verify.trim.backlog = to_u32(n)),
        "0", "Trim after this many writes; 0 for never.";
    "trim_backlog_batch": number(0, ANY_U32, |draft, n| draft.job.verify.trim.batch = to_u32(n)),
        "trim_backlog", "Blocks to trim each time.";
    "trim_verify_zero": ValueKind::Bool(|draft, on| draft.job.verify.trim.zero = on),
        "1", "Verify that trimmed blocks are read as zeros.";
    "zero_buffers": ValueKind::Flag(|draft, on| draft.job.contents.zeroes = on),
        "0", "Write zeroes, on a device that keeps data.";
    "buffer_pattern": ValueKind::FillPattern(|draft, pattern| {
        draft.job.contents.pattern = Some(pattern);
    }),
        "", "Pattern to write, as in verify_pattern.";
    "refill_buffers": ValueKind::Flag(|draft, on| draft.job.contents.refill = on),
        "0", "Write other bytes each time, instead of the same ones.";
    "scramble_buffers": ValueKind::Bool(|draft, on| draft.job.contents.refill = on),
        "0", "The same; in fio the default is 1.";
    "buffer_compress_percentage":
        number(0, 100, |draft, n| draft.job.contents.compressible = Some(to_u8(n))),
        "", "Percentage of each chunk that is buffer_pattern or zeroes; the rest is random.";
    "buffer_compress_chunk": number(0, ANY_U32, |draft, n| draft.job.contents.chunk = to_u32(n)),
        "512", "Bytes of a chunk; 0 for the whole block.";
    "dedupe_percentage": number(0, 100, |draft, n| draft.job.contents.repeated = to_u8(n)),
        "0", "Percentage of writes with the contents of an earlier one.";
    "dedupe_mode": ValueKind::Word(&[
        ("repeat", Ok(|draft| draft.dedupes_set = false)),
        ("working_set", Ok(|draft| draft.dedupes_set = true)),
    ]),
        "repeat",
        "Whether those repeat the last write that did not, or one of the working set.";
    "dedupe_global": ValueKind::Bool(|draft, on| draft.job.contents.shared = on),
        "0", "Clones have the same working set.";
    "dedupe_working_set_percentage":
        number(1, 100, |draft, n| draft.dedupe_set = to_u8(n)),
        "5", "The first contents that were written, as a percentage of the region.";
    "fsync": number(0, ANY_U32, |draft, n| draft.job.sync.fsync = to_u32(n)),
        "0", "Flush the device after this many writes, as one of the I/Os in flight; 0 for never.";
    "fdatasync": number(0, ANY_U32, |draft, n| draft.job.sync.fdatasync = to_u32(n)),
        "0", "Same as fsync.";
    "end_fsync": ValueKind::Bool(|draft, on| draft.job.sync.end_fsync = on),
        "0", "Flush the device when all writes have completed.";
    "fsync_on_close": ValueKind::Bool(|draft, on| draft.job.sync.on_close = on),
        "0", "Same as end_fsync: the device is closed then.";
    "end_syncfs": ValueKind::Bool(|draft, on| draft.job.sync.end_syncfs = on),
        "0", "Same as end_fsync: there is one device.";
    "sync": ValueKind::Word(&[
        ("none", Ok(|draft| draft.job.sync.sync = false)),
        ("sync", Ok(|draft| draft.job.sync.sync = true)),
        ("dsync", Ok(|draft| draft.job.sync.sync = true)),
        ("0", Ok(|draft| draft.job.sync.sync = false)),
        ("1", Ok(|draft| draft.job.sync.sync = true)),
    ]),
        "none", "Issue writes with FUA, so that they are durable when they complete.";
    "writefua": ValueKind::Bool(|draft, on| draft.job.sync.fua = on),
        "0", "Issue writes with FUA, as with sync.";
    "write_barrier": number(0, ANY_U32, |draft, n| draft.job.sync.barrier = to_u32(n)),
        "0", "Issue every Nth write with PREFLUSH and FUA; 0 for none.";
    "continue_on_error": ValueKind::Word(CONTINUE_ON_ERROR),
        "none",
        "Errors that do not end the job, if they are EIO or EILSEQ; io means read and write.";
    "ignore_error": ValueKind::Errors(|draft, lists| draft.job.errors.ignored = lists),
        "",
        "Errors that do not end the job: names or numbers separated by colons; with commas for \
         reads, writes and verification.";
    "error_dump": ValueKind::Bool(|draft, on| draft.job.errors.dump = on),
        "0", "Print each failed I/O, up to a hundred per clone.";
}
