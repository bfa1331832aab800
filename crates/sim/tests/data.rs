//! Jobs with verification in virtual time: no errors on a correct device, and every kind of damage is
//! detected on a faulty one.
use proptest::prelude::*;
use std::sync::Arc;
use zonal_blk::{BioFlags, Bytes, Nanos, Op, Queue, QueueOptions, Sector, Status};
use zonal_device::control::FaultHooks;
use zonal_device::{NullConfig, NullDevice};
use zonal_fio::generate::ZbdTable;
use zonal_fio::job::{DataDir, Job, ZoneMode};
use zonal_fio::jobfile::{MemoryEnvironment, parse_str};
use zonal_fio::plan::{self, Task};
use zonal_fio::runner::Outcome;
use zonal_fio::trace::{Request, Trace, TraceSlice};
use zonal_sim::{BoxedRunner, CostModel};
use zonal_torture::fault::{AbortResponse, Effect, Event, FaultSpec, Log};
use zonal_torture::{FaultConfig, FaultDevice};

const BLOCK: usize = 4096;
const DEVICE: u64 = 256 << 10;

struct Rig {
    device: Arc<FaultDevice>,
    queue: Arc<Queue>,
}

impl Rig {
    /// 64 blocks of 4 KiB without zones.
    fn regular() -> Self {
        Self::new(&NullConfig { zoned: false, size: Bytes(DEVICE), ..NullConfig::default() })
    }

    /// Eight zones of 8 blocks.
    fn zoned() -> Self {
        let zone_size = Bytes(DEVICE / 8);
        Self::new(&NullConfig { zones: 8, zone_size, ..NullConfig::default() })
    }

    fn new(null: &NullConfig) -> Self {
        let null = NullConfig { memory: true, ..null.clone() };
        let inner: Arc<dyn FaultHooks> = Arc::new(NullDevice::new(&null).expect("a device"));
        let config =
            FaultConfig { latency: Nanos(9_000), jitter: Nanos(5_000), ..FaultConfig::default() };
        let device = FaultDevice::new(inner, config);
        let as_device: Arc<FaultDevice> = Arc::clone(&device);
        let queue = Queue::attach(as_device, QueueOptions::default()).expect("a queue");
        Rig { device, queue }
    }

    /// Runs the phases of a job file, one after another.
    fn run(&self, text: &str) -> Vec<Outcome> {
        let jobs: Vec<Arc<Job>> = jobs(text).into_iter().map(Arc::new).collect();
        let phases = plan::phases(&jobs).expect("a few jobs");
        phases.iter().flat_map(|tasks| self.phase(tasks)).collect()
    }

    fn phase(&self, tasks: &[Task]) -> Vec<Outcome> {
        let queue = &self.queue;
        let of_all = ZbdTable::new(&**queue.device(), 0).map(Arc::new);
        let runner = |(id, task): (u32, &Task)| {
            let table = match task.job.zonemode {
                ZoneMode::None | ZoneMode::Strided => None,
                ZoneMode::Zbd if task.job.verify.only => {
                    ZbdTable::all_empty(&**queue.device(), 0).map(Arc::new).ok()
                }
                ZoneMode::Zbd => of_all.clone().ok(),
            };
            let region = task.region(queue.limits()).expect("the job fits");
            let channel = queue.channel().expect("a channel");
            task.runner(region, channel, table, id, 0, true)
        };
        let runners: Vec<BoxedRunner> =
            (0..).zip(tasks).map(|task| Box::new(runner(task)) as BoxedRunner).collect();
        zonal_sim::run(runners, Nanos(0), CostModel::Flat(Nanos(1000))).expect("no stall").0
    }

    fn block(&self, block: u64) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK];
        self.device.medium().read_raw(Sector(block * 8), &mut bytes);
        bytes
    }

    fn set_block(&self, block: u64, bytes: &[u8]) {
        self.device.medium().write_raw(Sector(block * 8), bytes);
    }

    /// The device says that it did the next write, and does nothing.
    fn lose_write(&self, status: Status) {
        let fault = FaultSpec {
            delay: Nanos(0),
            effect: Effect::Nothing,
            status: Some(status),
            on_abort: AbortResponse::default(),
        };
        self.device.inject(true, fault);
    }
}

fn jobs(text: &str) -> Vec<Job> {
    parse_str("data.fio", text, &MemoryEnvironment::default()).expect("a job file").jobs
}

/// Reads and writes that ended well.
fn ios(outcome: &Outcome) -> [u64; 2] {
    [DataDir::Read, DataDir::Write].map(|dir| outcome.stats.ios(dir))
}

fn texts(outcome: &Outcome) -> Vec<String> {
    outcome.findings.kept().iter().map(|finding| finding.text("dev")).collect()
}

const WRITE: &str = "[a]\nrw=randwrite\nbs=4k\niodepth=8\nverify=crc32c\ndo_verify=0\n";
const CHECK: &str =
    "[a]\nrw=randwrite\nbs=4k\niodepth=8\nverify=crc32c\nverify_only\ncontinue_on_error=verify\n";

/// Writes all blocks `loops` times, does `damage`, and checks; what is told begins so.
#[track_caller]
fn found(loops: u32, damage: impl FnOnce(&Rig), told: &[&str]) {
    let rig = Rig::regular();
    rig.run(&format!("{WRITE}loops={loops}\n"));
    damage(&rig);
    let outcomes = rig.run(&format!("{CHECK}loops={loops}\n"));
    let texts = texts(&outcomes[0]);
    assert_eq!(texts.len(), told.len(), "{texts:?}");
    for (text, begin) in texts.iter().zip(told) {
        assert!(text.starts_with(begin), "{text}");
    }
    let expected = (!told.is_empty()).then_some(Status::Protection);
    assert_eq!(outcomes[0].error, expected);
    assert_eq!(ios(&outcomes[0]), [64 - told.len() as u64, 0]);
}

#[test]
fn undamaged_blocks_are_valid() {
    found(1, |_| {}, &[]);
    found(2, |_| {}, &[]);
}

#[test]
fn corrupted_block_is_detected() {
    let damage = |rig: &Rig| {
        let mut bytes = rig.block(5);
        bytes[2000] ^= 4;
        rig.set_block(5, &bytes);
    };
    found(1, damage, &["crc32c: verify failed at file dev offset 20480, length 4096"]);
}

#[test]
fn zeroed_block_is_detected() {
    let damage = |rig: &Rig| rig.set_block(3, &[0; BLOCK]);
    found(1, damage, &["verify: bad magic header 0, wanted acca at file dev offset 12288"]);
}

#[test]
fn misplaced_block_is_detected() {
    let damage = |rig: &Rig| rig.set_block(3, &rig.block(7));
    found(1, damage, &["verify: bad header offset 28672, wanted 12288 at file dev offset 12288"]);
}

#[test]
fn stale_block_is_detected() {
    let first = Rig::regular();
    first.run(WRITE);
    let damage = |rig: &Rig| rig.set_block(9, &first.block(9));
    found(2, damage, &["verify: bad header rand_seed"]);
}

#[test]
fn lost_write_is_detected_in_the_same_run() {
    for (rig, mode) in [(Rig::regular(), "none"), (Rig::zoned(), "zbd")] {
        rig.lose_write(Status::Ok);
        // One write for the zone: the device would refuse all after one that is missing.
        let job = format!("[a]\nrw=write\nzonemode={mode}\nbs=32k\nsize=32k\nverify=crc32c\n");
        let outcomes = rig.run(&job);
        let texts = texts(&outcomes[0]);
        assert!(texts[0].starts_with("verify: bad magic header 0"), "{mode}: {texts:?}");
        assert_eq!((ios(&outcomes[0]), outcomes[0].error), ([0, 1], Some(Status::Protection)));
    }
}

#[test]
fn job_ends_at_the_first_mismatch_unless_it_is_non_fatal() {
    for (options, read) in [
        ("", 2),
        ("continue_on_error=io\n", 2),
        ("continue_on_error=verify\n", 62),
        ("continue_on_error=all\n", 62),
        ("ignore_error=,,EILSEQ\n", 62),
        ("continue_on_error=all\nverify_fatal=1\n", 2),
    ] {
        let rig = Rig::regular();
        rig.run("[a]\nrw=write\nbs=4k\nverify=crc32c\ndo_verify=0\n");
        rig.set_block(2, &[0; BLOCK]);
        rig.set_block(40, &[0; BLOCK]);
        let read_all = rig.run(&format!("[a]\nrw=read\nbs=4k\nverify=crc32c\n{options}"));
        assert_eq!(ios(&read_all[0]), [read, 0], "{options}");
        assert_eq!(read_all[0].error, Some(Status::Protection), "{options}");
    }
}

#[test]
fn failed_writes_are_not_verified() {
    let rig = Rig::regular();
    (0..3).for_each(|_| rig.lose_write(Status::IoError));
    let job = "[a]\nrw=write\nbs=4k\nverify=crc32c\ncontinue_on_error=write\nerror_dump=1\n";
    let outcomes = rig.run(job);
    assert_eq!(ios(&outcomes[0]), [61, 61]);
    let texts = texts(&outcomes[0]);
    let first = "io_u error on file dev: I/O error: write offset=0, buflen=4096";
    assert_eq!((texts.len(), texts[0].as_str()), (3, first));
}

#[test]
fn with_recovery_writes_go_on_at_the_device_s_write_pointer_after_one_has_failed() {
    let written = |options: &str| {
        let rig = Rig::zoned();
        rig.lose_write(Status::IoError);
        let job = "[a]\nrw=write\nbs=4k\nzonemode=zbd\ncontinue_on_error=write\n";
        ios(&rig.run(&format!("{job}{options}\n"))[0])[1]
    };
    assert_eq!(written(""), 56, "the other seven of the zone fail as well");
    assert_eq!(written("recover_zbd_write_error=1"), 63);
    let deep = written("iodepth=4\nrecover_zbd_write_error=1");
    assert!((60..64).contains(&deep), "what was in flight fails as well: {deep}");
}

#[test]
fn blocks_are_verified_as_often_as_by_fio() {
    // What fio 3.33 does to a file of 64 blocks.
    for (options, expected) in [
        ("rw=write", [64, 64]),
        ("rw=randwrite", [64, 64]),
        ("rw=write\ndo_verify=0", [0, 64]),
        ("rw=write\nloops=3", [192, 192]),
        ("rw=randwrite\nloops=3", [192, 192]),
        ("rw=write\nverify_backlog=4", [64, 64]),
        ("rw=write\nverify_backlog=4\nverify_backlog_batch=2", [64, 64]),
        ("rw=write\nverify_backlog=4\nverify_backlog_batch=8", [64, 64]),
        ("rw=write\nverify_backlog=5\ndo_verify=0", [0, 64]),
        ("rw=write\nnumber_ios=5", [5, 5]),
    ] {
        let outcomes = Rig::regular().run(&format!("[a]\nbs=4k\nverify=meta\n{options}\n"));
        assert_eq!((ios(&outcomes[0]), outcomes[0].error), (expected, None), "{options}");
    }
}

#[test]
fn nothing_is_verified_after_the_end_of_the_runtime() {
    // As in fio 3.41 a job of depth 1 without zones goes on writing, others verify after each pass. 64
    // writes take 0.8 ms, and checks as long.
    for (options, runtime, passes) in [
        ("", "500us", 0),
        ("", "1700us", 0),
        ("zonemode=zbd", "500us", 0),
        ("zonemode=zbd", "1700us", 1),
        ("iodepth=2", "900us", 1),
    ] {
        let job = format!(
            "[a]\nrw=write\nbs=4k\nverify=meta\ntime_based\nruntime={runtime}\n{options}\n"
        );
        let rig = if options.contains("zbd") { Rig::zoned() } else { Rig::regular() };
        let [read, written] = ios(&rig.run(&job)[0]);
        assert_eq!(read, 64 * passes, "{options} {runtime}");
        assert!(written > 64 * passes, "{options} {runtime}: {written}");
    }
}

#[test]
fn a_job_that_runs_for_a_time_verifies_where_the_next_block_does_not_fit() {
    // As fio 3.41 does at a depth of 1: of 62 KiB the last 6 are never written; the last block of 24 KiB is beyond the
    // device, whose end is within it; and a map that has been visited is not the end of a pass.
    for (options, reads) in [
        ("rw=write\nbsrange=8k-16k\nsize=62k", true),
        ("rw=write\nbsrange=8k-16k\nsize=64k", false),
        ("rw=write\nbs=24k", true),
        ("rw=write\nbs=24k\ndo_verify=0", false),
        ("rw=write\nbs=32k", false),
        ("rw=write\nbsrange=8k-16k\nzonemode=strided\nzonesize=16k\nzoneskip=8k\nsize=62k", true),
        ("rw=write:8k\nbs=8k\nsize=64k", true),
        ("rw=write:8k\nbs=8k\nsize=56k", false),
        ("rw=randwrite\nbs=8k\nsize=64k", false),
    ] {
        let job = format!("[a]\nverify=meta\ntime_based\nruntime=5ms\n{options}\n");
        let outcome = &Rig::regular().run(&job)[0];
        let [read, written] = ios(outcome);
        assert_eq!((read > 0, outcome.error), (reads, None), "{options}: {read} {written}");
    }
}

#[test]
fn verification_ends_with_the_runtime_but_the_last_flush_is_issued() {
    // 64 writes take less than 1 ms at this depth, and checks as long.
    let job = "[a]\nrw=write\nbs=4k\niodepth=2\nverify=meta\nend_fsync=1\nruntime=600us\n";
    let [read, written] = ios(&Rig::regular().run(job)[0]);
    assert!(written == 64 && (1..64).contains(&read), "{read}, {written}");
    let rig = Rig::regular();
    rig.run("[a]\nrw=write\nbs=4k\nend_fsync=1\ntime_based\nruntime=100us\n");
    let mut log = Log::default();
    rig.device.swap_log(&mut log);
    let last = log.events.iter().rev().find_map(|event| match event {
        Event::Started { op, .. } => Some(*op),
        _ => None,
    });
    assert_eq!(last, Some(Op::Flush));
}

#[test]
fn writes_carry_durability_flags() {
    for (option, plain, durable) in [
        ("", BioFlags::NONE, BioFlags::NONE),
        ("sync=dsync", BioFlags::FUA, BioFlags::FUA),
        ("write_barrier=2", BioFlags::NONE, BioFlags::PREFLUSH | BioFlags::FUA),
    ] {
        let rig = Rig::zoned();
        let job = format!("[a]\nrw=write\nzonemode=zbd\nbs=4k\nsize=1z\nverify=crc32c\n{option}\n");
        let outcomes = rig.run(&job);
        assert_eq!((ios(&outcomes[0]), outcomes[0].error), ([8, 8], None), "{option}");
        let mut log = Log::default();
        rig.device.swap_log(&mut log);
        let flags = log.events.iter().filter_map(|event| match event {
            Event::Started { op: Op::Write, flags, .. } => Some(*flags),
            _ => None,
        });
        let flags: Vec<BioFlags> = flags.collect();
        assert!(flags.chunks(2).all(|pair| pair == [plain, durable]), "{option}: {flags:?}");
        assert_eq!(flags.len(), 8);
    }
}

#[test]
fn flushes_follow_every_nth_write_except_the_last() {
    for (options, syncs) in [
        ("fsync=4", 15),
        ("fsync=3", 21),
        ("fdatasync=4", 15),
        ("fsync=4\nend_fsync=1", 15),
        ("end_fsync=1", 0),
        ("fsync=4\nverify=crc32c", 15),
        ("fsync=65", 0),
    ] {
        let outcomes = Rig::regular().run(&format!("[a]\nrw=write\nbs=4k\niodepth=4\n{options}\n"));
        let counted = outcomes[0].stats.syncs().map_or(0, |sync| sync.lat.count());
        assert_eq!(counted, syncs, "{options}");
    }
}

#[test]
fn appends_are_verified_where_they_landed() {
    let rig = Rig::zoned();
    let append = |at| Request {
        at: Nanos(at),
        offset: DEVICE / 8,
        len: BLOCK as u64,
        line: 1,
        file: 0,
        op: Op::ZoneAppend,
        flags: BioFlags::NONE,
    };
    let trace = Arc::new(Trace { requests: (0..8).map(append).collect(), ..Trace::default() });
    let job = Arc::new(jobs("[a]\niodepth=8\nread_iolog=-\nverify=crc32c\n").remove(0));
    let trace_slice = Some(TraceSlice::new(trace, 0, 1));
    let outcomes = rig.phase(&[Task { trace_slice, ..Task::of(&job) }]);
    let found = texts(&outcomes[0]);
    assert_eq!((ios(&outcomes[0]), outcomes[0].error), ([8, 8], None), "{found:?}");
}

#[test]
fn sequential_zone_writes_can_be_verified_by_a_later_run() {
    let rig = Rig::zoned();
    let job = "[a]\nrw=write\nzonemode=zbd\nbs=12k\niodepth=8\nverify=md5\nio_size=200k\n";
    rig.run(&format!("{job}do_verify=0\n"));
    let outcomes = rig.run(&format!("{job}verify_only\n"));
    let found = texts(&outcomes[0]);
    // Two blocks in each of eight zones.
    assert_eq!((ios(&outcomes[0]), outcomes[0].error), ([16, 0], None), "{found:?}");
}

#[test]
fn the_same_seed_writes_the_same_bytes_and_clones_differ() {
    let image = || {
        let rig = Rig::regular();
        rig.run(&format!("{WRITE}numjobs=4\nsize=64k\noffset_increment=64k\n"));
        (0..64).map(|block| rig.block(block)).collect::<Vec<_>>()
    };
    let mut blocks = image();
    assert!(blocks == image());
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), 64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a job does to a device that keeps data, nothing is found.
    #[test]
    fn every_job_over_a_correct_device_is_clean(
        rw in prop::sample::select(vec!["write", "randwrite", "rw", "randrw"]),
        zbd in any::<bool>(),
        method in prop::sample::select(vec!["crc32c", "md5", "meta", "pattern", "null"]),
        bs in prop::sample::select(vec!["4k", "8k", "4k,12k", "16k,4k"]),
        (depth, batch) in (1_u32..20, 1_u32..6),
        (loops, clones, io_percent) in (1_u32..4, 1_u32..4, 30_u32..100),
        (backlog, backlog_batch, fsync) in (0_u32..20, 0_u32..20, 0_u32..9),
        (norandommap, shared, has_interval) in (any::<bool>(), any::<bool>(), any::<bool>()),
        seed in 0_u32..1000,
    ) {
        // Clones may share zones of zonemode=zbd, which one writes at a time, and nothing else.
        let places = match (zbd, shared) {
            (true, true) => String::new(),
            (true, false) => "size=2z\noffset_increment=2z\n".to_owned(),
            // A block of 12 KiB may end beyond the region that it begins in.
            (false, _) => "size=64k\noffset_increment=72k\n".to_owned(),
        };
        let interval = if has_interval { "verify_interval=512\n" } else { "" };
        let text = format!(
            "[a]\nrw={rw}\nbs={bs}\nverify={method}\nverify_pattern=%o\niodepth={depth}\n\
             iodepth_batch={batch}\nloops={loops}\nnumjobs={clones}\nio_size={io_percent}%\n\
             verify_backlog={backlog}\nverify_backlog_batch={backlog_batch}\nfsync={fsync}\n\
             norandommap={}\nzonemode={}\nrandseed={seed}\n{interval}{places}",
            u8::from(norandommap),
            if zbd { "zbd" } else { "none" },
        );
        let rig = if zbd { Rig::zoned() } else { Rig::regular() };
        for outcome in rig.run(&text) {
            prop_assert_eq!(outcome.error, None, "{}{:?}", text, texts(&outcome));
        }
    }
}
