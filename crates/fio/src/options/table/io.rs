//! The I/O of a job: directions and offsets, how much, how many at a time, how fast, and on zones.
use super::{ANY_U32, OptionSpec, ValueKind, number, to_u8, to_u32, triple};
use crate::job::{Extent, RateProcess, ZoneMode};
use crate::options::RwPattern;
use crate::options::draft::assign;
use zonal_blk::Nanos;

options! {
    pub(super) const PATTERN;
    "rw" or "readwrite": ValueKind::Pattern(|draft, RwPattern { rw, random, modifier }| {
        draft.job.rw = rw;
        draft.job.random = random;
        draft.job.rw_modifier = modifier;
    }),
        "read",
        "read, write, trim, rw, trimwrite (each block is trimmed, then written), or these with \
         rand before. A number after a colon is the I/Os per random offset, or the bytes to skip \
         after each sequential I/O.";
    "rw_sequencer": ValueKind::Word(&[
        ("sequential", Ok(|draft| draft.job.address.identical = false)),
        ("identical", Ok(|draft| draft.job.address.identical = true)),
    ]),
        "sequential", "Whether the I/Os per random offset of rw follow or repeat it.";
    "bs" or "blocksize": triple(1, u64::MAX, |draft, values| assign(&mut draft.job.bs, values)),
        "4k", "Block size; with commas for reads, writes and trims.";
    "bsrange" or "blocksize_range": ValueKind::Ranges(|draft, values| {
        assign(&mut draft.bsrange, values.map(|value| value.map(Some)));
    }),
        "bs", "Smallest and largest block size; the sizes are multiples of the smallest.";
    "bs_unaligned" or "blocksize_unaligned":
        ValueKind::Flag(|draft, on| draft.job.address.unaligned = on),
        "0",
        "The sizes of bsrange are any numbers of logical blocks of the device, not multiples of the \
         smallest.";
    "bs_is_seq_rand": ValueKind::Bool(|draft, on| draft.job.address.seq_rand = on),
        "0", "The block sizes are not those of reads and writes, but of sequential and random I/O.";
    "bssplit": ValueKind::Splits(|draft, values| assign(&mut draft.bssplit, values)),
        "bs", "Block sizes, each with its percentage of the I/Os; those without one share the rest.";
    "blockalign" or "ba": triple(1, u64::MAX, |draft, values| {
        let align = &mut draft.job.address.align;
        assign(align, values.map(|value| value.map(Some)));
    }),
        "the smallest block size", "Alignment of random offsets.";
    "random_distribution": ValueKind::Distribution(|draft, values| {
        assign(&mut draft.job.address.distribution, values);
    }),
        "random",
        "Distribution of random offsets: uniform, zipf:THETA, pareto:H or normal:DEVIATION, with \
         :CENTER for where the most likely block is (0 to 1), or percentages of the I/O with \
         those of the region, zoned:60/10:40/90, or with sizes, zoned_abs:60/1g:40/9g, or up to 64 \
         blocks in the order given, again and again, sequence:2,0,1. Blocks repeat unless it is uniform.";
    "random_sequence_stride": ValueKind::Bool(|draft, on| draft.job.address.sequence_stride = on),
        "0",
        "Each repetition of the blocks of a sequence begins after the last block of the one before; \
         after the end of the region it goes on at its start.";
    "percentage_random": triple(0, 100, |draft, values| {
        let percentages = values.map(|value| value.map(to_u8));
        assign(&mut draft.job.address.percentage_random, percentages);
    }),
        "100", "Percentage of a random job's I/Os that are random; the others follow the last one.";
    "rwmixread": number(0, 100, |draft, n| draft.job.rwmixread = to_u8(n)),
        "50", "Percentage of reads in mixed I/O.";
    "rwmixwrite": number(0, 100, |draft, n| draft.job.rwmixread = 100 - to_u8(n)),
        "50", "Percentage of writes in mixed I/O; the last one of rwmixread and rwmixwrite counts.";
    "norandommap": ValueKind::Flag(|draft, on| draft.job.norandommap = on),
        "0", "Allow random offsets to repeat before all blocks have been visited.";
    "random_generator": ValueKind::Word(&[
        ("tausworthe", Ok(|draft| draft.job.address.lfsr = false)),
        ("lfsr", Ok(|draft| draft.job.address.lfsr = true)),
        ("tausworthe64", Ok(|draft| draft.job.address.lfsr = false)),
    ]),
        "tausworthe",
        "lfsr visits each block before any is visited again, also with norandommap; the others \
         change nothing here.";
    "randseed": number(0, u64::MAX, |draft, n| draft.randseed = Some(n)),
        "0x89", "Seed of the random number generator.";
    "randrepeat": ValueKind::Bool(|draft, on| draft.randrepeat = on),
        "1", "Use the same seed for every run; 0 draws a new one unless randseed is set.";
    "allrandrepeat": ValueKind::Bool(|draft, on| draft.allrandrepeat = on),
        "0", "Use the same seed for all random numbers; overrides randrepeat=0.";
    "direct": ValueKind::Bool(|draft, on| draft.job.direct = on),
        "0", "Bypass the cache of the file system; without one, only reported.";
    "buffered": ValueKind::Bool(|draft, on| draft.job.direct = !on),
        "1", "The opposite of direct.";
}

/// As in fio, a size of zero counts as not given.
fn unless_zero(extent: Extent) -> Option<Extent> {
    let zero = matches!(extent, Extent::Bytes(0) | Extent::Percent(0) | Extent::Zones(0));
    (!zero).then_some(extent)
}

options! {
    pub(super) const AMOUNT;
    "size": ValueKind::Extent(|draft, extent| draft.job.size = unless_zero(extent)),
        "the rest of the device",
        "Size of the region: bytes, a percentage of the device or, with zonemode=zbd, zones.";
    "io_size" or "io_limit":
        ValueKind::Extent(|draft, extent| draft.job.io_size = unless_zero(extent)),
        "size", "Amount of I/O to do in the region.";
    "offset" or "fileoffset": ValueKind::Extent(|draft, extent| draft.job.offset = extent),
        "0", "Start of the region.";
    "offset_increment": ValueKind::Extent(|draft, extent| draft.job.offset_increment = extent),
        "0", "Added to offset for each clone after the first.";
    "offset_align": ValueKind::Size(|draft, bytes| draft.job.address.offset_align = bytes),
        "the smallest block size", "Alignment of an offset in percent, upwards.";
    "fill_device" or "fill_fs": ValueKind::Bool(|draft, on| draft.fill_device = on),
        "0", "Without size, use the device up to its end, whatever io_size says.";
    "number_ios": number(0, u64::MAX, |draft, n| draft.job.number_ios = (n > 0).then_some(n)),
        "", "Stop after this many I/Os; 0 for no limit.";
}

/// The state of this many I/Os in flight still fits in memory.
const MAX_DEPTH: u64 = 1 << 20;

options! {
    pub(super) const DEPTH;
    "iodepth": number(1, MAX_DEPTH, |draft, n| draft.job.iodepth = to_u32(n)),
        "1", "I/Os in flight per clone.";
    "iodepth_batch" or "iodepth_batch_submit":
        number(0, ANY_U32, |draft, n| draft.job.iodepth_batch = to_u32(n)),
        "1", "I/Os to submit at a time; 0 or more than iodepth counts as iodepth.";
    "iodepth_batch_complete_min" or "iodepth_batch_complete":
        number(0, ANY_U32, |draft, n| draft.job.iodepth_batch_complete_min = to_u32(n)),
        "1", "Completions to wait for at a time; 0 polls.";
    "iodepth_batch_complete_max":
        number(0, ANY_U32, |draft, n| draft.job.iodepth_batch_complete_max = to_u32(n)),
        "iodepth (fio: iodepth_batch_complete_min)",
        "Most completions to reap at a time; in jobs that verify or pause the default is that of fio.";
    "iodepth_low": number(0, ANY_U32, |draft, n| draft.job.iodepth_low = to_u32(n)),
        "iodepth", "Depth to drain to before the queue is refilled.";
    "io_submit_mode": ValueKind::Word(&[
        ("inline", Ok(|draft| draft.offload = false)),
        ("offload", Ok(|draft| draft.offload = true)),
    ]),
        "inline",
        "With offload, iodepth holds for engines that do one I/O at a time, too. Submission never \
         waits for the device here.";
    "serialize_overlap": ValueKind::Bool(|draft, on| draft.job.serialize_overlap = on),
        "0", "Submit an I/O only when none in flight of the same clone overlaps it.";
}

options! {
    pub(super) const RATE;
    "rate": triple(0, u64::MAX, |draft, values| assign(&mut draft.job.rate, values)),
        "", "Limit in bytes per second; with commas for reads, writes and trims.";
    "rate_iops": triple(0, ANY_U32, |draft, values| assign(&mut draft.job.rate_iops, values)),
        "", "Limit in I/Os of the smallest block size per second; with commas for reads, writes and trims.";
    "rate_min" or "ratemin":
        triple(0, u64::MAX, |draft, values| assign(&mut draft.job.limits.rate_min, values)),
        "", "The job fails if it does fewer bytes per second; with commas for reads, writes and trims.";
    "rate_iops_min":
        triple(0, ANY_U32, |draft, values| assign(&mut draft.job.limits.rate_iops_min, values)),
        "", "The job fails if it does fewer I/Os per second; with commas for reads, writes and trims.";
    "rate_cycle" or "ratecycle":
        number(1, ANY_U32, |draft, n| draft.job.limits.rate_cycle = Nanos(n * 1_000_000)),
        "1000", "Milliseconds over which rate_min and rate_iops_min are averaged.";
    "rate_process": ValueKind::Word(&[
        ("linear", Ok(|draft| draft.job.rate_process = RateProcess::Linear)),
        ("poisson", Ok(|draft| draft.job.rate_process = RateProcess::Poisson)),
    ]),
        "linear",
        "Whether the I/Os of a rate are evenly spaced, or come at random, as in a Poisson process.";
    "rate_ignore_thinktime": ValueKind::Bool(|draft, on| draft.job.think.outside_rate = on),
        "0", "Pauses do not count as time of the rate: it does not catch up after them.";
    "thinktime": ValueKind::Micros(|draft, time| draft.job.think.time = time),
        "0",
        "Pause after each thinktime_blocks I/Os, when those in flight have completed; microseconds \
         without a unit.";
    "thinktime_blocks":
        number(0, ANY_U32, |draft, n| draft.job.think.blocks = Some(to_u32(n).max(1))),
        "1, none with thinktime_iotime", "I/Os between pauses; 0 counts as 1.";
    "thinktime_blocks_type": ValueKind::Word(&[
        ("complete", Ok(|draft| draft.job.think.on_issue = false)),
        ("issue", Ok(|draft| draft.job.think.on_issue = true)),
    ]),
        "complete", "Whether thinktime_blocks counts I/Os that complete or that are submitted.";
    "thinktime_iotime": ValueKind::Seconds(|draft, time| draft.job.think.io_time = time),
        "0", "Pause after this time of I/O, or after thinktime_blocks I/Os if that is given too.";
    "thinkcycles": number(0, ANY_U32, |draft, n| draft.job.think.cycles = n),
        "0", "Cycles of the processor that pass after each I/O before the next; needs cycles_per_usec.";
    "cycles_per_usec": number(1, 100_000, |draft, n| draft.job.think.cycles_per_usec = n),
        "",
        "Cycles in a microsecond, such as 3000 for a processor of 3 GHz: virtual time has none. \
         Zonal's own.";
    "max_latency": ValueKind::MicrosTriple(|draft, values| {
        assign(&mut draft.job.limits.max_latency, values);
    }),
        "0",
        "The job fails if an I/O takes longer; with commas for reads, writes and trims; \
         microseconds without a unit.";
    "latency_target": ValueKind::Micros(|draft, time| draft.job.limits.latency.target = time),
        "0",
        "Find the largest depth at which latencies are at most this, and report what was done at \
         that depth; microseconds without a unit.";
    "latency_window": ValueKind::Micros(|draft, time| draft.job.limits.latency.window = time),
        "0", "Time for which latency_target tries a depth.";
    "latency_percentile":
        ValueKind::Percentage(|draft, percent| draft.job.limits.latency.percentile = percent),
        "100", "Percentage of I/Os that have to keep the latency_target.";
    "latency_run": ValueKind::Bool(|draft, on| draft.job.limits.latency.run = on),
        "0", "Go on when latency_target has found the depth, and keep adjusting it.";
}

const NO_SUCH_WRITES: &str = "jobs read, write and discard, and append to zones";
/// fio's limit for the options that count open zones.
const MAX_OPEN_ZONES: u64 = 4096;

options! {
    pub(super) const ZONES;
    "zonemode": ValueKind::Word(&[
        ("none", Ok(|draft| draft.job.zonemode = ZoneMode::None)),
        ("zbd", Ok(|draft| draft.job.zonemode = ZoneMode::Zbd)),
        ("strided", Ok(|draft| draft.job.zonemode = ZoneMode::Strided)),
    ]),
        "none",
        "zbd writes at write pointers and resets full zones; strided goes on to the next part of \
         the region after each zonesize bytes; none ignores zones.";
    "max_open_zones": number(0, MAX_OPEN_ZONES, |draft, n| draft.job.max_open_zones = to_u32(n)),
        "0", "Limit of zones being written by all jobs; 0 for the device's limit.";
    "ignore_zone_limits": ValueKind::Bool(|draft, on| draft.job.zbd.ignore_limits = on),
        "0", "Write more zones than the device allows to be open: max_open_zones alone limits them.";
    "job_max_open_zones":
        number(0, MAX_OPEN_ZONES, |draft, n| draft.job.job_max_open_zones = to_u32(n)),
        "0", "Limit of zones being written by each clone; 0 for no limit.";
    "read_beyond_wp": ValueKind::Bool(|draft, on| draft.job.zbd.read_beyond_wp = on),
        "0", "Read anywhere in a zone with zonemode=zbd, not only below its write pointer.";
    "zone_reset_threshold":
        ValueKind::Fraction(|draft, part| draft.job.zbd.reset_threshold = part),
        "0",
        "Part of the region that has to hold data before zone_reset_frequency applies; with \
         zonemode=zbd.";
    "zone_reset_frequency":
        ValueKind::Fraction(|draft, part| draft.job.zbd.reset_frequency = part),
        "0",
        "Resets per write, as garbage collection issues them: the zone about to be written is \
         reset first; with zonemode=zbd.";
    "zone_append": ValueKind::Bool(|draft, on| draft.job.zone_append = on),
        "0",
        "Write sequential zones by zone appends, native or emulated; with zonemode=zbd. Zonal's \
         own.";
    "write_mode": ValueKind::Word(&[
        ("write", Ok(|draft| draft.job.zone_append = false)),
        ("zone_append", Ok(|draft| draft.job.zone_append = true)),
        ("uncor", Err(NO_SUCH_WRITES)),
        ("zeroes", Err(NO_SUCH_WRITES)),
        ("verify", Err(NO_SUCH_WRITES)),
    ]),
        "write", "The same: zone_append writes sequential zones by zone appends.";
    "write_zone_remainder": ValueKind::Bool(|draft, on| {
        draft.job.zbd.write_remainder = on;
        draft.job.norandommap |= on;
    }),
        "0",
        "Write what is left of a zone when that is less than a block, instead of finishing the \
         zone; implies norandommap, as in fio; with zonemode=zbd.";
    "recover_zbd_write_error": ValueKind::Bool(|draft, on| draft.job.zbd.recover_errors = on),
        "0",
        "Go on at the device's write pointer after a failed write, with continue_on_error=write; otherwise \
         those that follow it in the zone fail as well; with zonemode=zbd.";
    "zone_finish": ValueKind::Bool(|draft, on| draft.job.zbd.finish = on),
        "0",
        "Finish each zone after its first write, and go on in the next one; finishes are reported \
         as trims; with zonemode=zbd. Zonal's own.";
    "zonesize": ValueKind::Size(|draft, bytes| draft.job.zonesize = (bytes > 0).then_some(bytes)),
        "the device's",
        "Zone size with zonemode=zbd, which must be that of the device; bytes to transfer in each \
         zone with zonemode=strided.";
    "zonecapacity":
        ValueKind::Size(|draft, bytes| draft.job.zbd.capacity = (bytes > 0).then_some(bytes)),
        "the device's", "Zone capacity, which must be that of the device; with zonemode=zbd.";
    "zonerange": ValueKind::Size(|draft, bytes| draft.job.address.zonerange = (bytes > 0).then_some(bytes)),
        "zonesize", "Size of a zone with zonemode=strided.";
    "zoneskip": ValueKind::Size(|draft, bytes| draft.job.address.zoneskip = bytes),
        "0", "Bytes between two zones with zonemode=strided.";
}
