//! Jobs on zones do what fio does, in virtual time. The expected I/Os were recorded with fio 3.33 on a
//! sparse file of 4 MiB: `fio --zonemode=zbd --zonesize=1m --zonecapacity=768k --write_iolog=...`.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use zonal_blk::{Bytes, Nanos, Queue, QueueOptions, Status, ZoneCondition, ZoneNo};
use zonal_device::{NullConfig, NullDevice, device_spec};
use zonal_fio::generate::ZbdTable;
use zonal_fio::job::{DataDir, Job, RecordFormat, ZoneMode};
use zonal_fio::jobfile::{MemoryEnvironment, parse_str};
use zonal_fio::plan;
use zonal_fio::runner::{Flow, FlowTotals, Outcome, Recording};
use zonal_sim::{BoxedRunner, CostModel};

/// Four zones of 1 MiB with a capacity of 768 KiB.
const DEVICE: &str = "null:zones=4,zone_size=1M,zone_capacity=768k,memory=true";
const BLOCK: u64 = 64 << 10;

/// An I/O: its letter and, in blocks of 64 KiB, its offset and length.
type Seen = (char, u64, u64);

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no test panics here").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// The reads, writes and trims of an iolog; zone resets are trims there.
    fn ios(&self) -> Vec<Seen> {
        self.timed_ios().into_iter().map(|(_, io)| io).collect()
    }

    /// The same, each with the time in microseconds at which it was issued.
    fn timed_ios(&self) -> Vec<(u64, Seen)> {
        let text = String::from_utf8(self.0.lock().expect("no test panics here").clone());
        let text = text.expect("an iolog is a text");
        let io = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let blocks = |at: usize| words.get(at)?.parse().ok().map(|bytes: u64| bytes / BLOCK);
            let op = words.get(2)?.chars().next()?;
            Some((words[0].parse().ok()?, (op, blocks(3)?, blocks(4)?)))
        };
        text.lines().filter_map(io).collect()
    }
}

struct Rig {
    queue: Arc<Queue>,
    /// The I/Os of the last clone, each with its time in microseconds.
    last: Mutex<Vec<(u64, Seen)>>,
}

impl Rig {
    fn new(spec: &str) -> Self {
        let spec = device_spec::parse(spec).expect("a spec");
        let device = device_spec::build(&spec).expect("a device");
        Rig::on(Queue::attach(device, QueueOptions::default()).expect("a queue"))
    }

    fn on(queue: Arc<Queue>) -> Self {
        Rig { queue, last: Mutex::default() }
    }

    /// Runs the phases of a job file, one after another. Returns the outcome of each clone, with its
    /// I/Os.
    fn run(&self, text: &str) -> Vec<(Outcome, Vec<Seen>)> {
        let jobs = parse_str("zones.fio", text, &MemoryEnvironment::default()).expect(text).jobs;
        let jobs: Vec<Arc<Job>> = jobs.into_iter().map(Arc::new).collect();
        let phases = plan::phases(&jobs).expect("a few jobs");
        phases.into_iter().flat_map(|tasks| self.phase(tasks)).collect()
    }

    fn phase(&self, tasks: Vec<plan::Task>) -> Vec<(Outcome, Vec<Seen>)> {
        let queue = &self.queue;
        let limit = plan::max_open_zones(tasks.iter().map(|task| &*task.job));
        let table = ZbdTable::new(&**queue.device(), limit).map(Arc::new).expect("a report");
        let zone_size = queue.limits().zone_size.to_bytes().0;
        let flow: Arc<FlowTotals> = Arc::default();
        let mut runners: Vec<BoxedRunner> = Vec::new();
        let mut logs = Vec::new();
        for (id, mut task) in (0..).zip(tasks) {
            let lines = Lines::default();
            let out = Box::new(lines.clone());
            let record = Recording::new(out, RecordFormat::Iolog, "dev", "job", zone_size);
            task.recording = Some(record);
            logs.push(lines);
            let zbd = (task.job.zonemode == ZoneMode::Zbd).then(|| Arc::clone(&table));
            let region = task.region(queue.limits()).expect("the job fits");
            let channel = queue.channel().expect("a channel");
            let mut runner = task.runner(region, channel, zbd, id, 0, true);
            if task.job.flow > 0 {
                runner.set_flow(Flow::join(&flow, task.job.flow));
            }
            runners.push(Box::new(runner));
        }
        let cost = CostModel::Flat(Nanos(1000));
        let (outcomes, _) = zonal_sim::run(runners, Nanos(0), cost).expect("no stall");
        *self.last.lock().expect("no test panics here") =
            logs.last().map_or_else(Vec::new, Lines::timed_ios);
        outcomes.into_iter().zip(&logs).map(|(outcome, log)| (outcome, log.ios())).collect()
    }

    /// The zones' conditions.
    fn conditions(&self) -> Vec<ZoneCondition> {
        let mut zones = Vec::new();
        self.queue.report_zones(ZoneNo(0), 1 << 16, &mut zones).expect("a report");
        zones.iter().map(|zone| zone.cond).collect()
    }
}

/// The I/Os of a job of one clone on an empty device, which does not fail.
#[track_caller]
fn ios(options: &str) -> Vec<Seen> {
    ios_on(DEVICE, options)
}

#[track_caller]
fn ios_on(spec: &str, options: &str) -> Vec<Seen> {
    let mut clones = Rig::new(spec).run(&format!("[a]\nzonemode=zbd\nbs=64k\n{options}\n"));
    let (outcome, ios) = clones.remove(0);
    assert_eq!((outcome.error, &outcome.reason), (None, &None), "{options}");
    ios
}

/// Writes of whole zones from a zone on.
fn zones_of_writes(zones: std::ops::Range<u64>) -> Vec<Seen> {
    zones.flat_map(|zone| (0..12).map(move |block| ('w', zone * 16 + block, 1))).collect()
}

fn count(ios: &[Seen], op: char) -> usize {
    ios.iter().filter(|io| io.0 == op).count()
}

#[test]
fn a_sequential_writer_ends_at_the_end_of_its_region_not_after_its_size() {
    assert_eq!(ios("rw=write"), zones_of_writes(0..4));
    assert_eq!(ios("rw=write\niodepth=8"), zones_of_writes(0..4));
    assert_eq!(ios("rw=write\nsize=2z\noffset=1z"), zones_of_writes(1..3));
}

#[test]
fn loops_and_io_size_begin_again_at_the_start_of_the_region() {
    for (options, writes) in [("loops=2", 96), ("io_size=8m", 128), ("io_size=8m\nloops=2", 144)] {
        let ios = ios(&format!("rw=write\n{options}"));
        assert_eq!(count(&ios, 'w'), writes, "{options}");
        let second: Vec<Seen> =
            ios[48..].iter().copied().filter(|io| io.0 == 'w').take(48).collect();
        assert_eq!(second, zones_of_writes(0..4), "{options}");
    }
}

#[test]
fn random_writes_have_the_random_map_and_runs_of_it() {
    let all = ios("rw=randwrite");
    assert_eq!(count(&all, 'w'), 64);
    // Each zone comes 16 times, and holds 12 blocks: each is reset once.
    assert_eq!(count(&all, 't'), 4);
    let full = "null:zones=4,zone_size=1M,memory=true";
    assert_eq!(count(&ios_on(full, "rw=randwrite"), 't'), 0, "no zone is written beyond its end");
    let runs = ios("rw=randwrite:8");
    let writes: Vec<u64> = runs.iter().filter(|io| io.0 == 'w').map(|io| io.1).collect();
    let follow = writes.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
    assert!(writes.len() == 64 && follow >= 64 * 3 / 4, "{writes:?}");
}

#[test]
fn sequential_reads_go_through_the_written_part_once() {
    let half = "null:zones=4,zone_size=1M,zone_capacity=768k,memory=true,written=50%";
    let blocks = (0..2).flat_map(|zone| (0..12).map(move |block| ('r', zone * 16 + block, 1)));
    assert!(ios_on(half, "rw=read").into_iter().eq(blocks));
    let rig = Rig::new(DEVICE);
    rig.run("[a]\nzonemode=zbd\nrw=write\nbs=64k\nsize=1z\nio_size=320k\n");
    let mut read = rig.run("[a]\nzonemode=zbd\nrw=read\nbs=64k\n");
    assert!(read.remove(0).1.into_iter().eq((0..5).map(|block| ('r', block, 1))));
}

#[test]
fn random_reads_visit_each_block_of_full_zones_once() {
    let full = "null:zones=4,zone_size=1M,memory=true,written=100%";
    for options in ["rw=randread", "rw=randread\niodepth=16", "rw=randread\nbs=64k,64k"] {
        let mut blocks: Vec<u64> = ios_on(full, options).iter().map(|io| io.1).collect();
        blocks.sort_unstable();
        assert!(blocks.into_iter().eq(0..64), "{options}");
    }
}

#[test]
fn a_trim_resets_its_zone_and_does_not_finish_it() {
    let full = "null:zones=4,zone_size=1M,zone_capacity=768k,memory=true,written=100%";
    for rw in ["trim", "randtrim"] {
        let rig = Rig::new(full);
        let mut clones = rig.run(&format!("[a]\nzonemode=zbd\nrw={rw}\nbs=1m\niodepth=2\n"));
        let (outcome, mut ios) = clones.remove(0);
        ios.sort_unstable();
        assert!(ios.into_iter().eq((0..4).map(|zone| ('t', zone * 16, 16))), "{rw}");
        assert_eq!(outcome.stats.ios(DataDir::Trim), 4);
        assert_eq!(rig.conditions(), [ZoneCondition::Empty; 4], "{rw}");
    }
}

#[test]
fn resets_come_at_their_rate() {
    let null = "null:zones=64,zone_size=2G,zone_capacity=1077M,latency=1ms,written=100%";
    for spec in [null, "zn540:written=100%"] {
        let rig = Rig::new(spec);
        let text =
            "[a]\nzonemode=zbd\nrw=randtrim\nbs=2147483648\nrate_iops=10\ntime_based\nruntime=3\n";
        let (outcome, ios) = rig.run(text).remove(0);
        assert_eq!(outcome.error, None);
        assert!((29..=31).contains(&count(&ios, 't')), "{spec}: {} in 3 s", count(&ios, 't'));
        let empty = rig.conditions().into_iter().filter(|&cond| cond == ZoneCondition::Empty);
        assert_eq!(empty.count(), count(&ios, 't'), "{spec}: a reset finishes no zone");
    }
}

#[test]
fn a_write_follows_the_reset_of_its_zone_also_after_the_runtime() {
    // The 49th write, at 4.8 s, is one of a zone that is full.
    let options = "rw=write\nrate_iops=10\ntime_based\nruntime=4800500us";
    let ios = ios_on("null:zones=4,zone_size=1M,zone_capacity=768k,latency=1ms", options);
    assert_eq!(ios[48..], [('t', 0, 16), ('w', 0, 1)]);
}

#[test]
fn a_job_that_verifies_begins_to_write_when_all_its_zones_are_reset() {
    // fio 3.41 with --max_open_zones=1: the zone that the job before has left counts until it is reset.
    let rig = Rig::new(
        "null:zones=4,zone_size=1M,zone_capacity=768k,max_open=1,latency=10us,memory=true",
    );
    let before = "[before]\nzonemode=zbd\nrw=write\nbs=64k\nio_size=832k\n";
    let text = "[a]\nstonewall\nzonemode=zbd\nrw=write\nbs=64k\nsize=3z\niodepth=2\nverify=md5\n";
    let (outcome, ios) = rig.run(&format!("{before}{text}")).remove(1);
    assert_eq!((outcome.error, outcome.reason), (None, None));
    assert_eq!(ios[..2], [('t', 0, 16), ('t', 16, 16)]);
    let writes: Vec<Seen> = ios.into_iter().filter(|io| io.0 == 'w').collect();
    assert_eq!(writes, zones_of_writes(0..3));
}

#[test]
fn writes_of_trimwrite_follow_their_trims_at_any_depth() {
    for sizes in ["bsrange=64k-256k", "bssplit=64k/30:128k/30:192k/40", "bs=128k"] {
        for rw in ["trimwrite", "randtrimwrite"] {
            for depth in [1, 8] {
                let rig = Rig::new("null:zoned=false,size=4M,memory=true,latency=20us");
                let text = format!("[a]\nrw={rw}\n{sizes}\nsize=1m\niodepth={depth}\nverify=md5\n");
                let (outcome, ios) = rig.run(&text).remove(0);
                assert_eq!(outcome.error, None, "{text}: what was written is there");
                let counts = ['t', 'w', 'r'].map(|op| count(&ios, op));
                assert!(
                    counts.iter().all(|&count| count == counts[0] && count > 3),
                    "{text}{counts:?}"
                );
                assert!(ios.iter().all(|io| io.1 + io.2 <= 16), "{text}: in the region");
                let timed = rig.last.into_inner().expect("no test panics here");
                let mut trimmed = BTreeMap::new();
                for (time, (op, at, len)) in timed {
                    match op {
                        't' => _ = trimmed.insert((at, len), time),
                        // A trim takes 20 us.
                        'w' => assert!(trimmed[&(at, len)] + 20 <= time, "{text}: {at} at {time}"),
                        _ => {}
                    }
                }
            }
        }
    }
}

#[test]
fn sequential_trims_leave_out_offline_zones() {
    let config = NullConfig { zones: 4, zone_size: Bytes(1 << 20), ..NullConfig::default() };
    let device = Arc::new(NullDevice::new(&config).expect("a device"));
    let as_device: Arc<NullDevice> = Arc::clone(&device);
    let queue = Queue::attach(as_device, QueueOptions::default()).expect("a queue");
    let rig = Rig::on(queue);
    rig.run("[a]\nzonemode=zbd\nrw=write\nbs=64k\n");
    device.set_condition(ZoneNo(1), ZoneCondition::Offline).expect("a zone");
    let mut clones = rig.run("[a]\nzonemode=zbd\nrw=trim\nbs=1m\n");
    let zones = clones.remove(0).1.into_iter().map(|io| io.1 / 16);
    assert!(zones.eq([0, 2, 3]));
    // A writer finds the zones that are left, however few.
    let mut clones = rig.run("[a]\nzonemode=zbd\nrw=randwrite\nbs=64k\n");
    assert!(count(&clones.remove(0).1, 'w') == 64);
}

#[test]
fn random_writes_find_the_only_zone_that_is_not_offline() {
    for norandommap in [0, 1] {
        let config = NullConfig { zones: 1000, zone_size: Bytes(1 << 20), ..NullConfig::default() };
        let device = NullDevice::new(&config).expect("a device");
        for zone in (0..1000).filter(|&zone| zone != 617) {
            device.set_condition(ZoneNo(zone), ZoneCondition::Offline).expect("a zone");
        }
        let queue = Queue::attach(Arc::new(device), QueueOptions::default()).expect("a queue");
        let job = format!(
            "[a]\nzonemode=zbd\nrw=randwrite\nbs=64k\nio_size=4m\nnorandommap={norandommap}\n"
        );
        let (outcome, ios) = Rig::on(queue).run(&job).remove(0);
        assert_eq!((outcome.error, count(&ios, 'w')), (None, 64));
        assert!(ios.iter().all(|io| io.1 / 16 == 617));
    }
}

#[test]
fn trims_count_against_no_limit_of_open_zones() {
    let rig = Rig::new("null:zones=8,zone_size=1M,max_open=2,memory=true,written=50%");
    let text = "[global]\nzonemode=zbd\n[w]\nrw=randwrite\nbs=64k\nio_size=16m\n\
                [t]\nrw=randtrim\nbs=1m\nio_size=8m\nrate_iops=5000\n";
    let clones = rig.run(text);
    let errors: Vec<_> = clones.iter().map(|clone| clone.0.error).collect();
    assert_eq!(errors, [None; 2]);
    assert!(count(&clones[1].1, 't') >= 4, "{:?}", clones[1].1);
}

#[test]
fn no_more_zones_are_open_than_a_clone_may_have() {
    for (limit, depth) in [(1, 1), (1, 8), (3, 8)] {
        let options = format!(
            "rw=randwrite\njob_max_open_zones={limit}\niodepth={depth}\nmax_open_zones=16\n"
        );
        let spec = "null:zones=64,zone_size=1M,max_open=32,memory=true";
        let mut fill = BTreeMap::new();
        for (op, at, _) in ios_on(spec, &format!("{options}io_size=32m")) {
            let zone = fill.entry(at / 16).or_insert(0);
            *zone = if op == 'w' { *zone + 1 } else { 0 };
            let open = fill.values().filter(|&&blocks| blocks > 0 && blocks < 16).count();
            assert!(open <= limit, "{open} zones are open at a limit of {limit}");
        }
        assert!(fill.len() > 16, "full zones make room for others");
    }
}

#[test]
fn a_clone_that_ends_leaves_its_open_zones_to_the_others() {
    let spec = "null:zones=64,zone_size=1M,max_open=8,max_active=8,memory=true";
    for options in ["", "iodepth=8\n", "numjobs=9\n"] {
        let rig = Rig::new(spec);
        let job = format!(
            "[a]\nzonemode=zbd\nrw=randwrite\nbs=64k\nnumjobs=4\nsize=48z\nio_size=1m\n{options}\
             [b]\nzonemode=zbd\nrw=randwrite\nbs=64k\nio_size=20m\n"
        );
        let errors: Vec<_> = rig.run(&job).iter().map(|clone| clone.0.error).collect();
        assert!(errors.iter().all(Option::is_none), "{options}{errors:?}");
    }
}

#[test]
fn a_job_that_can_open_no_zone_says_so() {
    let rig = Rig::new("null:zones=8,zone_size=1M,max_open=2,max_active=2,memory=true");
    rig.run("[a]\nzonemode=zbd\nrw=randwrite\nbs=64k\nsize=2z\nnumber_ios=4\n");
    let clones = rig.run("[b]\nzonemode=zbd\nrw=write\nbs=64k\noffset=4z\n");
    let (outcome, ios) = &clones[0];
    assert_eq!((outcome.error, ios.len()), (Some(Status::Again), 0));
    let reason = outcome.reason.as_deref().expect("a reason");
    assert!(reason.starts_with("waits to open a zone: "), "{reason}");
    // Its neighbour reads what is open: that counts against the device's limit, but not max_open_zones.
    let clones = rig.run(
        "[a]\nzonemode=zbd\nrw=randread\nbs=64k\nsize=2z\n[b]\nzonemode=zbd\n\
                          rw=write\nbs=64k\n",
    );
    assert_eq!([clones[0].0.error, clones[1].0.error], [None; 2]);
}

#[test]
fn readers_open_no_zones() {
    let rig = Rig::new("null:zones=8,zone_size=1M,max_open=2,memory=true");
    rig.run("[a]\nzonemode=zbd\nrw=randwrite\nbs=64k\nsize=2z\nnumber_ios=4\n");
    let text = "[global]\nzonemode=zbd\nmax_open_zones=1\nbs=64k\n[r]\nrw=randread\nsize=2z\n\
                [w]\nrw=write\noffset=4z\nsize=2z\n";
    let clones = rig.run(text);
    assert_eq!([clones[0].0.error, clones[1].0.error], [None; 2]);
    assert_eq!(count(&clones[1].1, 'w'), 32);
}

#[test]
fn a_block_longer_than_a_zone_is_an_error() {
    let conventional = "null:zones=4,zone_size=1M,conventional=1,memory=true";
    for (spec, rw) in [
        (DEVICE, "write"),
        (DEVICE, "randwrite"),
        (conventional, "write"),
        (conventional, "randwrite"),
    ] {
        let text = format!("[a]\nzonemode=zbd\nrw={rw}\nbs=2m\n");
        let (outcome, ios) = Rig::new(spec).run(&text).remove(0);
        assert_eq!((outcome.error, ios.len()), (Some(Status::Invalid), 0), "{spec} {rw}");
        let reason = outcome.reason.expect("a reason");
        assert!(
            reason.starts_with("bs: a block of 2097152 bytes is longer than zone "),
            "{reason}"
        );
    }
}

#[test]
fn writes_go_on_from_one_conventional_zone_to_the_next() {
    let spec = "null:zones=4,zone_size=1M,conventional=2,memory=true";
    let writes = ios_on(spec, "rw=write\nbs=2m\nsize=2z");
    assert_eq!(writes, [('w', 0, 32)]);
    // But not into a sequential one.
    let writes = ios_on(spec, "rw=write\nbsrange=64k-768k\nsize=4z");
    assert!(writes.iter().all(|io| io.1 >= 32 || io.1 + io.2 <= 32), "{writes:?}");
}

#[test]
fn a_job_that_verifies_resets_its_region_first_and_nothing_after() {
    let used = "null:zones=4,zone_size=1M,memory=true,written=50%";
    for rw in ["write", "randwrite"] {
        for options in ["", "io_size=8m", "loops=3", "iodepth=8\nverify_backlog=5"] {
            let ios = ios_on(used, &format!("rw={rw}\nverify=crc32c\n{options}"));
            let (writes, reads) = (count(&ios, 'w'), count(&ios, 'r'));
            assert_eq!(writes, reads, "{rw} {options}: each write is verified");
            assert_eq!(ios[..2], [('t', 0, 16), ('t', 16, 16)], "{rw} {options}");
            let passes = if options == "loops=3" { 3 } else { 1 };
            assert_eq!(writes, passes * 64, "{rw} {options}");
        }
        // As in fio, io_size counts what is read for verification.
        let ios = ios_on(used, &format!("rw={rw}\nverify=crc32c\nio_size=32m"));
        assert_eq!((count(&ios, 'w'), count(&ios, 'r')), (256, 256), "{rw}");
    }
    // A later job that verifies finds nothing else.
    let rig = Rig::new("null:zones=4,zone_size=1M,memory=true,written=50%");
    let errors = rig.run(
        "[global]\nzonemode=zbd\nbs=64k\nverify=md5\n[w]\nrw=randwrite\n[r]\nstonewall\n\
                          rw=read\n",
    );
    assert!(errors.iter().all(|clone| clone.0.error.is_none()));
}

#[test]
fn what_is_left_of_a_zone_is_finished_or_written() {
    let blocks =
        |ios: &[Seen]| ios.iter().filter(|io| io.0 == 'w').map(|io| (io.1, io.2)).collect();
    let finished: Vec<_> = blocks(&ios("rw=write\nbs=512k"));
    assert_eq!(finished, [0, 16, 32, 48].map(|at| (at, 8)));
    let written: Vec<_> = blocks(&ios("rw=write\nbs=512k\nwrite_zone_remainder=1"));
    assert!(
        written.into_iter().eq([0, 16, 32, 48].into_iter().flat_map(|at| [(at, 8), (at + 8, 4)]))
    );
}

#[test]
fn finishing_zones_is_work_with_latencies_of_its_own() {
    for depth in [1, 4] {
        let rig = Rig::new("null:zones=8,zone_size=1M,memory=true,latency=20us");
        let text = format!(
            "[a]\nzonemode=zbd\nrw=write\nbs=64k\nzone_finish=1\nio_size=512k\niodepth={depth}\n"
        );
        let (outcome, ios) = rig.run(&text).remove(0);
        let writes = ios.iter().filter(|io| io.0 == 'w').map(|io| io.1);
        assert!(writes.eq((0..8).map(|zone| zone * 16)), "a block of each zone");
        assert_eq!(outcome.error, None);
        assert_eq!([DataDir::Write, DataDir::Trim].map(|dir| outcome.stats.ios(dir)), [8, 8]);
        assert_eq!(rig.conditions(), [ZoneCondition::Full; 8]);
    }
}

#[test]
fn directions_keep_their_own_rates() {
    let rig = Rig::new("null:zoned=false,size=64M");
    let text = "[a]\nrw=randrw\nbs=4k\nrate_iops=90,10\nrwmixread=50\ntime_based\nruntime=10\n";
    let (outcome, _) = rig.run(text).remove(0);
    let [reads, writes] = [DataDir::Read, DataDir::Write].map(|dir| outcome.stats.ios(dir));
    assert!((895..=905).contains(&reads) && (95..=105).contains(&writes), "{reads} and {writes}");
}

#[test]
fn a_flow_goes_on_when_one_of_its_jobs_has_ended() {
    let rig = Rig::new("null:zoned=false,size=64M");
    let text = "[global]\nrw=randwrite\nbs=64k\n[a]\nflow=1\nio_size=1m\n[b]\nflow=3\nio_size=16m\n\
                [c]\nflow=1\nio_size=16m\n";
    let clones = rig.run(text);
    let counts: Vec<_> = clones.iter().map(|clone| (clone.0.error, count(&clone.1, 'w'))).collect();
    assert_eq!(counts, [(None, 16), (None, 256), (None, 256)]);
}

#[test]
fn offsets_that_are_skipped_end_with_the_region() {
    // fio 3.33: `--rw=write:64k --size=1m`, and where the region is all of the file.
    let spec = "null:zoned=false,size=4M";
    let plain = |options: &str| {
        let text = format!("[a]\nbs=64k\n{options}\n");
        Rig::new(spec).run(&text).remove(0).1.iter().map(|io| io.1).collect::<Vec<_>>()
    };
    assert!(plain("rw=write:64k\nsize=1m").into_iter().eq((0..16).step_by(2)));
    let pass = || (0..64).step_by(2);
    assert!(plain("rw=write:64k").into_iter().eq(pass().chain(pass())));
    for (options, ios) in [
        ("loops=2\nio_size=8m", 128),
        ("loops=3\nio_size=8m", 192),
        ("loops=2\nio_size=10m", 192),
        ("loops=3\nio_size=2m", 96),
        ("io_size=10m", 160),
        // The last block may be more than what is left, but for it the job does not begin again.
        ("size=1m\nio_size=100k", 2),
        ("size=1m\nio_size=2100k", 32),
        ("size=1m\nio_size=4m\nnumber_ios=20", 20),
    ] {
        for rw in ["read", "randread"] {
            assert_eq!(plain(&format!("rw={rw}\n{options}")).len(), ios, "{rw} {options}");
        }
    }
    assert!(
        plain("rw=read\nsize=1m\nfilesize=2m\nio_size=3m").into_iter().eq((0..32).chain(0..16))
    );
    // fio 3.41 with blocks of 4 KiB of 40, 44 and 48 KiB, and what is said there of the size and the offset.
    let skipping = |device: &str, options: &str| {
        let rig = Rig::new(&format!("null:zoned=false,size={device}"));
        let ios = rig.run(&format!("[a]\nbs=64k\n{options}\n")).remove(0).1;
        ios.iter().map(|io| io.1).collect::<Vec<_>>()
    };
    assert_eq!(skipping("704k", "rw=read:64k"), [0, 2, 4, 6, 8, 10], "nothing is left");
    let again = [0, 3, 6, 9, 0, 3, 6, 9, 0, 3, 6];
    assert_eq!(skipping("704k", "rw=read:128k"), again, "less is left than is skipped");
    assert_eq!(skipping("704k", "rw=read:64k\nsize=576k"), [0, 2, 4, 6, 8]);
    assert_eq!(skipping("640k", "rw=read:64k\nsize=576k"), [0, 2, 4, 6, 8, 0, 2, 4, 6]);
    let shifted = [1, 4, 7, 10, 2, 5, 8, 11];
    assert_eq!(skipping("768k", "rw=read:128k\noffset=64k"), shifted, "the offset counts twice");
    let without_map = plain("rw=randread\nsize=1m\nio_size=2m\nloops=2\nnorandommap");
    assert_eq!(without_map.len(), 64, "no map says when a loop ends");
    let random = plain("rw=randread\nsize=1m\nfilesize=2m");
    assert!(random.len() == 16 && random.iter().any(|&at| at >= 16), "{random:?}");
}

#[test]
fn passes_for_io_size_count_trims_and_verification() {
    // fio 3.41, as above, on a file without zones.
    let count = |options: &str| {
        let text = format!("[a]\nbs=64k\nsize=1m\n{options}\n");
        Rig::new("null:zoned=false,size=4M,memory=true").run(&text).remove(0).1.len()
    };
    for (number_ios, writes) in [(20, 16), (32, 16), (33, 17), (40, 24), (70, 38)] {
        let options = format!("rw=randwrite\nio_size=16m\nverify=md5\nnumber_ios={number_ios}");
        assert_eq!(count(&options), 2 * writes, "{options}");
    }
    for (size, options, trims) in [
        ("640k", "number_ios=4\nio_size=1600k", 4),
        ("640k", "number_ios=12", 10),
        ("640k", "number_ios=14\nio_size=1600k", 20),
        ("640k", "number_ios=6\nloops=2", 20),
    ] {
        for rw in ["trimwrite", "randtrimwrite"] {
            let text = format!("rw={rw}\nsize={size}\n{options}");
            assert_eq!(count(&text), 2 * trims, "number_ios is that of each pass: {text}");
        }
    }
    for (options, writes) in [
        ("io_size=384k\nloops=3", 18),
        ("io_size=384k\nloops=2", 12),
        ("io_size=384k\nloops=3\nnumber_ios=5", 10),
        ("io_size=384k\nloops=3\nnumber_ios=9", 17),
    ] {
        for rw in ["write", "randwrite"] {
            let text = format!("rw={rw}\nsize=640k\nverify=crc32c\n{options}");
            assert_eq!(count(&text), 2 * writes, "{text}");
        }
    }
    for (io_size, trims) in [("512k", 8), ("1800k", 16), ("2100k", 16), ("4m", 32), ("5000k", 48)] {
        for rw in ["trimwrite", "randtrimwrite"] {
            let options = format!("rw={rw}\nio_size={io_size}");
            assert_eq!(count(&options), 2 * trims, "{options}");
        }
    }
}

#[test]
fn a_part_of_the_size_ends_passes_of_engines_with_a_queue() {
    // fio 3.41: `--rw=write --bs=4k --size=40k --io_size=33% --loops=2`, with --iodepth=8 and without.
    let blocks = |options: &str| {
        let text = format!("[a]\nrw=write\nbs=64k\nsize=640k\nio_size=33%\nloops=2\n{options}\n");
        let ios = Rig::new("null:zoned=false,size=4M").run(&text).remove(0).1;
        ios.iter().map(|io| io.1).collect::<Vec<_>>()
    };
    assert_eq!(blocks("ioengine=psync"), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(blocks("ioengine=io_uring\niodepth=8"), [0, 1, 2, 3, 0, 1, 2]);
}

#[test]
fn nothing_is_flushed_where_verification_begins() {
    // fio 3.41: `--rw=write --bs=4k --size=256k --verify=crc32c --fsync=2 --verify_backlog=7`.
    let text = "[a]\nrw=write\nbs=64k\nsize=4m\nverify=crc32c\nfsync=2\nverify_backlog=7\n";
    let (outcome, _) = Rig::new("null:zoned=false,size=4M,memory=true").run(text).remove(0);
    assert_eq!(outcome.stats.syncs().map_or(0, |sync| sync.lat.count()), 27);
}

#[test]
fn a_rate_holds_back_no_verification_which_is_decided_on_before_the_job_waits_for_it() {
    // fio 3.41: `--rw=write --bs=64k --verify=null --verify_backlog=4 --rate_iops=100 --number_ios=20`, alone
    // and with `--ioengine=io_uring --iodepth=8`.
    let order = |depth: u32| {
        let text = format!(
            "[a]\nrw=write\nbs=64k\nverify=null\nverify_backlog=4\nrate_iops=100\nnumber_ios=20\n\
             iodepth={depth}\n"
        );
        let rig = Rig::new("null:zoned=false,size=4M,memory=true,latency=10us");
        rig.run(&text);
        let seen = rig.last.lock().expect("the last clone").clone();
        seen.into_iter().map(|(at, io)| format!("{}{}", io.0, at / 10_000)).collect::<String>()
    };
    assert_eq!(&order(1)[..32], "w0w1w2w3r3r3r3r3w4w5w6w7r7r7r7r7");
    assert_eq!(&order(8)[..32], "w0w1w2w3r3r3r3w4r4w5w6w7r7r7r7w8");
}

#[test]
fn a_job_ends_after_the_pause_that_follows_its_last_io() {
    // fio 3.41 with --thinktime=300000 --number_ios=3, and with --thinktime_blocks=2, where it is the second of
    // three that a pause follows; with --iodepth=2 the third one is reaped before the pause.
    let (read, write) = (DataDir::Read, DataDir::Write);
    for (dir, options, expected) in [
        (read, "rw=read", 900),
        (read, "rw=read\nthinktime_blocks=2", 300),
        (read, "rw=read\nthinktime_blocks=2\niodepth=2", 300),
        (read, "rw=read\nruntime=500ms", 500),
        (write, "rw=write\nverify=null", 900),
    ] {
        let text = format!("[a]\nthinktime=300000\nnumber_ios=3\n{options}\n");
        let rig = Rig::new("null:zoned=false,size=4M,memory=true,latency=10us");
        let (outcome, _) = rig.run(&text).remove(0);
        let millis = outcome.stats.runtime(dir).0 / 1_000_000;
        assert_eq!(millis, expected, "{options}");
    }
}

#[test]
fn a_job_that_waits_to_verify_sees_one_completion_at_a_time() {
    // fio 3.41: `--rw=write --bs=64k --size=4m --verify=null --verify_backlog=15 --iodepth=16`.
    let text = "[a]\nrw=write\nbs=64k\nverify=null\nverify_backlog=15\niodepth=16\nsize=4m\n";
    let rig = Rig::new("null:zoned=false,size=4M,memory=true,latency=10us");
    let (_, ios) = rig.run(text).remove(0);
    let dirs: Vec<char> = ios.iter().map(|io| io.0).collect();
    let runs: Vec<(char, usize)> =
        dirs.chunk_by(|one, next| one == next).map(|run| (run[0], run.len())).collect();
    assert_eq!(runs, [('w', 30), ('r', 30), ('w', 30), ('r', 30), ('w', 4), ('r', 4)]);
}

#[test]
fn a_read_that_waits_for_writes_in_flight_is_done_at_its_place() {
    let text =
        "[a]\nrw=rw\nrwmixread=70\nbs=64k\nzonemode=zbd\niodepth=16\nnumber_ios=24\nio_size=16m\n";
    let (_, ios) = Rig::new("null:zones=8,zone_size=1M,max_open=2,memory=true,latency=10us")
        .run(text)
        .remove(0);
    let reads: Vec<u64> = ios.iter().filter(|io| io.0 == 'r').map(|io| io.1).collect();
    assert!(reads.len() > 4, "{ios:?}");
    let is_next = |pair: &[u64]| pair[1] == pair[0] + 1 || pair[1] == 0;
    assert!(reads.windows(2).all(is_next), "none is left out but where a pass ends: {reads:?}");
}

#[test]
fn a_sequential_job_goes_on_after_the_zone_that_the_open_limit_moved_it_to() {
    // As in fio 3.41: the first job leaves the second zone open with room for two blocks.
    let text = "[global]\nrw=write\nbs=64k\nzonemode=zbd\n[a]\nnumber_ios=30\n[b]\nstartdelay=1\n";
    let outcomes = Rig::new("null:zones=2,zone_size=1M,max_open=1,memory=true").run(text);
    let (outcome, ios) = &outcomes[1];
    assert_eq!(outcome.error, None);
    let writes: Vec<u64> = ios.iter().filter(|io| io.0 == 'w').map(|io| io.1).collect();
    assert_eq!(writes, [30, 31]);
}

#[test]
fn jobs_that_verify_begin_again_until_they_have_done_their_size() {
    // fio 3.41: what is read for verification counts, and number_ios is that of all loops.
    let counts = |spec: &str, options: &str| {
        let outcomes = Rig::new(spec).run(&format!("[a]\nbs=64k\nverify=md5\n{options}\n"));
        ['r', 'w'].map(|dir| count(&outcomes[0].1, dir))
    };
    let zoned = "null:zones=8,zone_size=256k,max_open=0,memory=true";
    // The first read meets the end of what is written, and so ends each pass.
    assert_eq!(counts(zoned, "zonemode=zbd\nrw=rw\nrwmixread=99\nrwmixwrite=1"), [22, 11]);
    let plain = "null:zoned=false,size=4M,memory=true";
    let options =
        "rw=randwrite\nsize=2432k\nio_size=6400k\nnumber_ios=60\nloops=2\nverify_backlog=14";
    assert_eq!(counts(plain, options), [66, 66]);
    let options = "rw=rw\nsize=1m\nio_size=2m\nrwmixread=50";
    let [read, written] = counts(plain, options);
    assert!(read + written > 32, "the pass has 32, and more are read back: {read}, {written}");
}

/// The lock of a zone is recursive in fio: a job that holds it has its whole depth there.
#[test]
fn a_job_that_waited_for_a_zone_writes_at_its_whole_depth_again() {
    let rig = Rig::new("null:zones=4,zone_size=1M,memory=true,latency=100us");
    let text = "[a]\nzonemode=zbd\nrw=randwrite\nbs=4k\niodepth=8\nnumjobs=2\nsize=2z\n\
                norandommap=1\nio_size=16m\n";
    for (outcome, _) in rig.run(text) {
        assert_eq!(outcome.error, None);
        let counts = *outcome.stats.depth_levels().counts();
        let deep = counts[2] + counts[3];
        assert!(deep > counts.iter().sum::<u64>() * 3 / 4, "from depth 4 on: {counts:?}");
    }
}
