//! Queues over a fake driver, which has the tags' states as the kernel's driver keeps them, and the
//! data of their requests.
#[path = "../../tests/held_reads/mod.rs"]
mod held_reads;
mod lending;
#[path = "../../tests/data_buffers/pages.rs"]
#[allow(dead_code)]
mod pages;

use super::abi::{IoDesc, io};
use super::queue::{Command, Driver, Queue};
use held_reads::HeldReads;
use lending::Lending;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use zerocopy::FromBytes;
use zonal_blk::{Buf, ExternalBuf, Nanos, QueueOptions, Status, ZoneNo};
use zonal_device::device_spec;
use zonal_device::inject::InjectDevice;
use zonal_device::power::{CutPlan, Keep, PowerDevice, When};
use zonal_os::RealClock;
use zonal_os::blk_zone::BlkZone;
use zonal_os::poll::{Frontend, Poller, WaitPolicy, serve};

/// The block layer over the device of a spec.
pub fn attach(device: &str, options: QueueOptions) -> Arc<zonal_blk::Queue> {
    let spec = device_spec::load(device, |path| std::fs::read_to_string(path)).expect("a spec");
    let device = device_spec::build(&spec).expect("a device");
    let options = QueueOptions { share_queues: true, ..options };
    zonal_blk::Queue::attach(device, options).expect("a queue")
}

/// Sectors of the longest request.
const LONGEST: u32 = 16;

/// A tag as the driver has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum TagState {
    #[default]
    Idle,
    /// A command is in flight.
    Active,
    /// The command has completed: the server has the request.
    Owned,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    state: TagState,
    desc: IoDesc,
    /// The data that the request writes or has read.
    data: Vec<u8>,
    ended: Option<(i32, u64)>,
    commits: u32,
}

/// The fake driver.
#[derive(Default)]
struct Fake {
    slots: Vec<Slot>,
    /// Completions that are still to come, by round.
    rounds: VecDeque<Vec<(u64, i32)>>,
    /// When each request was committed once: aborts that follow, the last one first.
    aborts: Vec<(u64, i32)>,
    /// Called with each commit.
    commits: Option<mpsc::Sender<u16>>,
    /// The external buffers, if it has any.
    lending: Option<Arc<Lending>>,
}

impl Fake {
    fn slot(&mut self, tag: u16) -> &mut Slot {
        &mut self.slots[usize::from(tag)]
    }

    /// A request arrives on an active tag.
    fn request(&mut self, tag: u16, desc: IoDesc, data: Vec<u8>) {
        let slot = self.slot(tag);
        assert_eq!(slot.state, TagState::Active);
        *slot = Slot { state: TagState::Owned, desc, data, ended: None, commits: slot.commits };
        if let Some(lending) = &self.lending {
            lending.lay(tag, std::mem::take(&mut self.slots[usize::from(tag)].data));
        }
    }
}

impl Driver for Fake {
    fn descriptor(&self, tag: u16) -> IoDesc {
        let slot = &self.slots[usize::from(tag)];
        assert_eq!(
            slot.state,
            TagState::Owned,
            "a descriptor is read while the server has the request"
        );
        slot.desc
    }

    fn copy_from_request(&mut self, tag: u16, data: &mut [u8]) -> Result<(), Status> {
        let Fake { slots, lending, .. } = self;
        let slot = &mut slots[usize::from(tag)];
        assert_eq!(slot.state, TagState::Owned, "data are copied before the commit");
        if let Some(lending) = lending {
            return lending.copy_from_request(tag.into(), 0, data);
        }
        let from = slot.data.get(..data.len()).ok_or(Status::IoError)?;
        data.copy_from_slice(from);
        Ok(())
    }

    fn copy_to_request(&mut self, tag: u16, offset: usize, data: &[u8]) -> Result<(), Status> {
        let Fake { slots, lending, .. } = self;
        let slot = &mut slots[usize::from(tag)];
        assert_eq!(slot.state, TagState::Owned, "data are copied before the commit");
        if let Some(lending) = lending {
            return lending.copy_to_request(tag.into(), offset, data);
        }
        let to = slot.data.get_mut(offset..offset + data.len()).ok_or(Status::IoError)?;
        to.copy_from_slice(data);
        Ok(())
    }

    fn external_buf(&self, tag: u16, len: usize) -> Option<Buf> {
        let lending = Arc::clone(self.lending.as_ref()?);
        lending.external_buf();
        Some(Buf::external(ExternalBuf::new(lending, tag.into()), len))
    }

    fn send(&mut self, command: Command) {
        match command {
            Command::Fetch { tag } => {
                assert_eq!(self.slot(tag).state, TagState::Idle, "tag {tag} is fetched once");
                self.slot(tag).state = TagState::Active;
            }
            Command::Commit { tag, result, sector } => {
                let slot = self.slot(tag);
                assert_eq!(slot.state, TagState::Owned, "tag {tag} is committed once");
                slot.state = TagState::Active;
                slot.ended = Some((result, sector));
                slot.commits += 1;
                if let Some(lending) = &self.lending {
                    self.slots[usize::from(tag)].data = lending.back(tag);
                }
                if let Some(commits) = &self.commits {
                    commits.send(tag).expect("the test waits for it");
                }
            }
        }
    }

    fn submit(&mut self) -> std::io::Result<()> {
        if self.slots.iter().all(|slot| slot.commits == 1) {
            self.rounds.extend(self.aborts.pop().map(|abort| vec![abort]));
        }
        Ok(())
    }

    fn completions(&mut self, completions: &mut Vec<(u64, i32)>) {
        completions.extend(self.rounds.pop_front().into_iter().flatten());
        for (tag, _) in completions.iter().filter(|(_, result)| *result == io::RES_OK) {
            self.slots[usize::try_from(*tag).expect("a tag")].state = TagState::Owned;
        }
    }

    /// None: what is still to come arrives while the queue is polled.
    fn fd(&self) -> RawFd {
        -1
    }
}

/// A queue and its device.
struct Rig {
    device: Arc<zonal_blk::Queue>,
    queue: Queue<Fake>,
    now: Nanos,
}

impl Rig {
    fn new(device: &str, depth: u16) -> Self {
        Rig::over(attach(device, QueueOptions::default()), depth, None)
    }

    fn over(device: Arc<zonal_blk::Queue>, depth: u16, lending: Option<Arc<Lending>>) -> Self {
        let slots = vec![Slot::default(); usize::from(depth)];
        let driver = Fake { slots, lending, ..Fake::default() };
        let mut queue = Queue::new(driver, device.channel().expect("a channel"), depth, LONGEST);
        queue.fetch_all();
        Rig { device, queue, now: Nanos(0) }
    }

    fn request(&mut self, tag: u16, op_flags: u32, start_sector: u64, count: u32, data: Vec<u8>) {
        let desc = IoDesc { op_flags, count, start_sector, addr: 0 };
        self.queue.driver.request(tag, desc, data);
        self.queue.on_completion(tag.into(), io::RES_OK).expect("a sound driver");
    }

    fn step(&mut self) {
        self.queue.advance(self.now);
        self.pass_time();
    }

    fn pass_time(&mut self) {
        let next = self.queue.next_event(self.now).at();
        self.now = next.map_or(self.now, |at| at.max(self.now));
    }

    /// Waits for all requests.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.queue.driver.slots.iter().all(|slot| slot.state != TagState::Owned) {
                return;
            }
            self.step();
        }
        panic!("some requests never complete");
    }

    /// One request until it is committed.
    fn one(&mut self, op_flags: u32, sector: u64, count: u32, data: Vec<u8>) -> (i32, u64) {
        self.request(0, op_flags, sector, count, data);
        self.settle();
        self.queue.driver.slot(0).ended.expect("it was committed")
    }

    /// The server is killed, and another one gets the requests that were not committed.
    fn kill_and_recover(&mut self) {
        self.drain();
        let mut driver = std::mem::take(&mut self.queue.driver);
        let depth = u16::try_from(driver.slots.len()).expect("it was one");
        let unfinished: Vec<bool> =
            driver.slots.iter().map(|slot| slot.state == TagState::Owned).collect();
        driver.slots.iter_mut().for_each(|slot| slot.state = TagState::Idle);
        let channel = self.device.channel().expect("a channel");
        self.queue = Queue::new(driver, channel, depth, LONGEST);
        self.queue.fetch_all();
        for (tag, _) in (0..depth).zip(unfinished).filter(|(_, unfinished)| *unfinished) {
            self.queue.driver.slot(tag).state = TagState::Owned;
            self.queue.on_completion(tag.into(), io::RES_OK).expect("a sound driver");
        }
    }

    fn drain(&mut self) {
        for _ in 0..10_000 {
            if self.queue.drain(self.now) {
                return;
            }
            self.pass_time();
        }
        panic!("the channel has I/O that never completes");
    }

    /// The device is stopped.
    fn stop(mut self) {
        self.settle();
        for tag in 0..self.queue.driver.slots.len() as u64 {
            assert!(!self.queue.is_done());
            self.queue.on_completion(tag, io::RES_ABORT).expect("a sound driver");
        }
        assert!(self.queue.is_done());
        self.drain();
    }
}

#[test]
fn requests_use_the_same_data_buffers_again() {
    for memory in ["true", "false"] {
        let mut rig = Rig::new(&format!("null:zoned=false,size=16M,lba=4096,memory={memory}"), 4);
        let mut round = || {
            for count in [16, 8, 16] {
                for op in [1, 0] {
                    let ended = rig.one(op, 0, count, vec![7; count as usize * 512]);
                    assert_eq!(ended, (i32::try_from(count * 512).expect("few"), 0));
                }
            }
        };
        (0..10).for_each(|_| round());
        let before = pages::data_buffers_of_thread();
        assert!(before > 0, "the first ones are allocated");
        (0..100).for_each(|_| round());
        assert_eq!(pages::data_buffers_of_thread(), before, "memory={memory}");
    }
}

const ZONED: &str = "null:zones=8,zone_size=1M,zone_capacity=768K,max_open=2,max_active=3,\
                     lba=4096,memory=true";

fn block(fill: u8) -> Vec<u8> {
    vec![fill; 4096]
}

#[test]
fn every_request_of_a_zoned_device_has_its_result() {
    let mut rig = Rig::new(ZONED, 2);
    let none = Vec::new;
    // Writes and appends: bytes, and where an append wrote.
    assert_eq!(rig.one(1, 0, 8, block(1)), (4096, 0));
    assert_eq!(rig.one(13, 0, 8, block(2)), (4096, 8));
    assert_eq!(rig.one(13 | 1 << 13, 2048, 8, block(3)), (4096, 2048));
    // Reads.
    assert_eq!(rig.one(0, 0, 16, vec![9; 8192]), (8192, 0));
    assert_eq!(rig.queue.driver.slot(0).data, [block(1), block(2)].concat());
    // Not at the write pointer: EIO.
    assert_eq!(rig.one(1, 64, 8, block(4)), (-5, 0));
    // A third open zone: ETOOMANYREFS; a fourth active one: EOVERFLOW.
    assert_eq!(rig.one(10, 0, 0, none()), (0, 0));
    assert_eq!(rig.one(10, 2048, 0, none()), (0, 0));
    assert_eq!(rig.one(1, 4096, 8, block(5)), (-109, 0));
    assert_eq!(rig.one(11, 0, 0, none()), (0, 0));
    assert_eq!(rig.one(1, 4096, 8, block(5)), (4096, 0));
    assert_eq!(rig.one(1, 6144, 8, block(6)), (-75, 0));
    // Management.
    assert_eq!(rig.one(12, 2048, 0, none()), (0, 0));
    assert_eq!(rig.one(15, 0, 0, none()), (0, 0));
    assert_eq!(rig.one(1, 0, 8, block(7)), (4096, 0), "at the start of a zone that was reset");
    assert_eq!(rig.one(2, u64::MAX, 0, none()), (0, 0), "flush");
    assert_eq!(rig.one(5, 8, 8, none()), (0, 0), "zeroes");
    assert_eq!(rig.one(14, 0, 0, none()), (0, 0), "reset of all");
    assert_eq!(rig.one(3, 0, 8, none()), (0, 0), "discard, which the device does not have");
    // Malformed: EINVAL, EOPNOTSUPP, EIO.
    assert_eq!(rig.one(0, 0, LONGEST + 8, none()), (-22, 0));
    assert_eq!(rig.one(0, u64::MAX - 3, 8, block(0)), (-22, 0));
    assert_eq!(rig.one(1, 0, 0, none()), (-22, 0));
    assert_eq!(rig.one(15, 8, 0, none()), (-22, 0));
    assert_eq!(rig.one(99, 0, 8, none()), (-95, 0));
    assert_eq!(rig.one(13, 8, 8, block(8)), (-5, 0));
    assert_eq!(rig.one(1, 0, 8, vec![0; 512]), (-5, 0), "less data than it says");
    assert_eq!(rig.one(0, 0, 8, vec![0; 512]), (-5, 0), "less room than it says");
    rig.stop();
}

#[test]
fn report_has_the_zones_that_fit_and_completes_with_the_whole_length() {
    let mut rig = Rig::new(ZONED, 1);
    rig.one(1, 2048, 8, block(1));
    rig.one(12, 4096, 0, Vec::new());
    let whole = i32::try_from(LONGEST * 512).expect("it fits");
    for (first, most, expected) in [(0, 8, 8), (1, 2, 2), (6, 100, 2), (0, u32::MAX, 8), (3, 0, 0)]
    {
        let room = vec![0; 100 * size_of::<BlkZone>()];
        assert_eq!(rig.one(18, first * 2048, most, room), (whole, 0));
        let zones: Vec<BlkZone> = rig
            .queue
            .driver
            .slot(0)
            .data
            .chunks_exact(64)
            .map(|bytes| BlkZone::read_from_bytes(bytes).expect("64 bytes"))
            .take_while(|zone| zone.len > 0)
            .collect();
        assert_eq!(zones.len(), expected);
        for (zone, number) in zones.iter().zip(first..) {
            let (cond, wp) = match number {
                1 => (2, 2048 + 8),
                2 => (14, 6144),
                _ => (1, number * 2048),
            };
            assert_eq!((zone.start, zone.len, zone.capacity), (number * 2048, 2048, 1536));
            assert_eq!((zone.cond, zone.wp, zone.kind), (cond, wp, 2), "zone {number}");
        }
    }
    assert_eq!(rig.one(18, 0, 8, vec![0; 64]), (-5, 0), "less room than it says");
    assert_eq!(rig.one(18, 8 * 2048, 1, vec![0; 64]), (-22, 0));
    rig.stop();
}

#[test]
fn device_that_is_stopped_without_a_request_is_done() {
    Rig::new(ZONED, 4).stop();
}

#[test]
fn device_that_is_stopped_has_committed_what_it_answered() {
    let options = QueueOptions { iostats: true, ..QueueOptions::default() };
    let mut rig = Rig::over(attach("null:zones=4,lba=4096,latency=50us", options), 2, None);
    assert_eq!(rig.one(1, 0, 8, vec![1; 4096]), (4096, 0));
    let device = Arc::clone(&rig.device);
    let flushes = || device.iostat().expect("it is counted").flushes;
    assert_eq!(flushes(), 0);
    rig.stop();
    assert_eq!(flushes(), 1);
}

fn run(mut queue: Queue<Fake>) -> (Queue<Fake>, Result<(), super::queue::Failure>) {
    let mut poller = Poller::new(WaitPolicy::Sleep(Duration::ZERO)).expect("a descriptor");
    let served = serve(&mut queue, &RealClock::start(), &mut poller);
    (queue, served)
}

const READ: IoDesc = IoDesc { op_flags: 0, count: 8, start_sector: 0, addr: 0 };

#[test]
fn queue_is_served_until_all_tags_are_aborted() {
    let mut rig = Rig::new("null:zones=4,lba=4096,latency=50us", 2);
    let driver = &mut rig.queue.driver;
    driver.slots[0].data = vec![0; 4096];
    driver.slots[0].desc = READ;
    driver.slots[1].desc = IoDesc { op_flags: 2, count: 0, ..READ };
    driver.rounds = [vec![(0, 0), (1, 0)]].into();
    // The device is stopped when both are committed: their commands are then in flight again.
    driver.aborts = vec![(1, io::RES_ABORT), (0, io::RES_ABORT)];
    let (queue, served) = run(rig.queue);
    assert!(served.is_ok(), "{served:?}");
    assert_eq!(queue.driver.slots[0].ended, Some((4096, 0)));
    assert_eq!(queue.driver.slots[1].ended, Some((0, 0)));
}

#[test]
fn queue_whose_driver_fails_is_drained() {
    let mut rig = Rig::new("null:zones=4,lba=4096,latency=5ms", 2);
    let driver = &mut rig.queue.driver;
    driver.slots[0].data = vec![0; 4096];
    driver.slots[0].desc = READ;
    driver.rounds = [vec![(0, 0)], vec![(1, -22)]].into();
    let (mut queue, served) = run(rig.queue);
    let failure = served.expect_err("EINVAL");
    assert!(failure.to_string().starts_with("tag 1: the driver refused a command"), "{failure}");
    assert!(queue.drain(rig.now), "the channel can be dropped");
}

/// Expected: the append of queue `a` is committed as soon as queue `b`, whose write it was parked
/// behind, has finished it. Buggy: its completion lies in the mailbox of `a` until the slow read of
/// `a` is done, which the test does not end before.
#[test]
fn completion_by_another_queue_does_not_wait_for_a_slow_read() {
    let spec = device_spec::parse("null:zones=4,zone_size=1M,lba=4096");
    let device = device_spec::build(&spec.expect("a spec")).expect("a device");
    let device = Arc::new(InjectDevice::new(device, 0));
    device.add("delay=write,time=50ms".parse().expect("a rule"));
    let reads = HeldReads::new(device.clone());
    let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
    let queue = zonal_blk::Queue::attach(reads.clone(), options).expect("a queue");
    let (mut a, mut b) =
        (Rig::over(Arc::clone(&queue), 2, None).queue, Rig::over(queue, 1, None).queue);
    let (commits, committed) = mpsc::channel();
    let write = IoDesc { op_flags: 1, ..READ };
    b.driver.slots[0] = Slot { desc: write, data: block(1), ..b.driver.slots[0].clone() };
    b.driver.rounds = [vec![(0, 0)]].into();
    b.driver.aborts = vec![(0, io::RES_ABORT)];
    let append = IoDesc { op_flags: 13, ..READ };
    let read = IoDesc { start_sector: 4096, ..READ };
    a.driver.slots[0] = Slot { desc: append, data: block(2), ..a.driver.slots[0].clone() };
    a.driver.slots[1] = Slot { desc: read, data: block(0), ..a.driver.slots[1].clone() };
    a.driver.rounds = [vec![(1, 0)], vec![(0, 0)]].into();
    a.driver.aborts = vec![(0, io::RES_ABORT), (1, io::RES_ABORT)];
    a.driver.commits = Some(commits);
    let b = thread::spawn(move || run(b).1);
    // The write is with the device before the append arrives.
    while device.rules()[0].1 == 0 {
        thread::yield_now();
    }
    let a = thread::spawn(move || run(a));
    // The limit is for a queue that hangs.
    assert_eq!(committed.recv_timeout(Duration::from_secs(60)), Ok(0));
    assert!(b.join().expect("no panic").is_ok());
    reads.release();
    let (a, served) = a.join().expect("no panic");
    assert!(served.is_ok(), "{served:?}");
    assert_eq!(a.driver.slots[0].ended, Some((4096, 8)));
}

/// The next event.
#[derive(Clone, Debug)]
enum Event {
    /// A request on a tag that has none: operation, block and fill.
    Request(u16, u32, u64, u8),
    /// Some time passes.
    Step,
    /// The server is killed and another one recovers the device.
    Kill,
}

fn event(depth: u16) -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (0..depth, prop::sample::select(vec![0, 1, 1 | 1 << 13, 2, 5, 77]), 0..6u64, any::<u8>())
            .prop_map(|(tag, op, at, fill)| Event::Request(tag, op, at, fill)),
        8 => Just(Event::Step),
        1 => Just(Event::Kill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each tag has blocks of its own, so it reads what it wrote, whatever the others do and however
    /// often the server is killed.
    #[test]
    fn every_request_completes_once_with_its_data_even_if_the_server_is_killed(
        events in prop::collection::vec(event(4), 1..120),
    ) {
        let device = "null:zoned=false,size=1M,lba=4096,memory=true,latency=5us,jitter=40us";
        check_events(Rig::new(device, 4), events);
    }
}

/// Runs the events and checks each request.
fn check_events(mut rig: Rig, events: Vec<Event>) {
    let mut blocks = [[0u8; 8]; 4];
    let mut requested = [0u32; 4];
    // Of the request that a tag has: operation, block, fill.
    let mut open: [Option<(u32, usize, u8)>; 4] = [None; 4];
    for event in events.into_iter().chain([Event::Step]) {
        match event {
            Event::Request(tag, op, at, fill) => {
                let index = usize::from(tag);
                if open[index].is_some() {
                    continue;
                }
                open[index] = Some((op, at as usize, fill));
                requested[index] += 1;
                let sector = (u64::from(tag) * 8 + at) * 8;
                rig.request(tag, op, sector, 16, vec![fill; 8192]);
            }
            Event::Step => rig.step(),
            Event::Kill => rig.kill_and_recover(),
        }
        settle_model(&mut rig, &mut open, &mut blocks);
    }
    rig.settle();
    settle_model(&mut rig, &mut open, &mut blocks);
    for (slot, requested) in rig.queue.driver.slots.iter().zip(requested) {
        assert_eq!(slot.commits, requested);
    }
    rig.stop();
}

/// Checks the requests that have completed against what the tag's blocks hold.
fn settle_model(
    rig: &mut Rig,
    open: &mut [Option<(u32, usize, u8)>; 4],
    blocks: &mut [[u8; 8]; 4],
) {
    for ((slot, open), blocks) in rig.queue.driver.slots.iter().zip(open).zip(blocks) {
        let Some((result, _)) = slot.ended.filter(|_| slot.state == TagState::Active) else {
            continue;
        };
        let Some((op, at, fill)) = open.take() else { continue };
        match op & 0xff {
            0 => {
                let read = [slot.data[0], slot.data[4096]];
                assert_eq!((result, read), (8192, [blocks[at], blocks[at + 1]]));
                assert!(slot.data[..4096].iter().all(|byte| *byte == read[0]));
            }
            1 => {
                assert_eq!(result, 8192);
                blocks[at..at + 2].fill(fill);
            }
            2 => assert_eq!(result, 0),
            5 => {
                assert_eq!(result, 0);
                blocks[at..at + 2].fill(0);
            }
            _ => assert_eq!(result, -95),
        }
    }
}

/// The blocks of zone 0 that are left when the power fails after a write, an append and zeroes were answered.
fn left_after_loss(durable: bool) -> u64 {
    let spec = device_spec::parse("null:zones=4,zone_size=1M,lba=4096,memory=true");
    let device = spec.and_then(|spec| device_spec::build(&spec)).expect("a device");
    let device = Arc::new(PowerDevice::new(device, 1 << 20).expect("it keeps data"));
    let queue = zonal_blk::Queue::attach(Arc::clone(&device) as _, QueueOptions::default());
    let mut rig = Rig::over(queue.expect("a queue"), 1, None);
    if durable {
        rig.queue.make_writes_durable();
    }
    let (write, append, zeroes) = (1, 13, 5);
    for (op, sector, data) in [(write, 0, 4096), (append, 0, 4096), (zeroes, 16, 0)] {
        assert!(rig.one(op, sector, 8, vec![1; data]).0 >= 0, "{op}");
    }
    device.cut(CutPlan::new(When::Now, Keep::None, 0), None).expect("the power is on");
    let mut zones = Vec::new();
    rig.device.report_zones(ZoneNo(0), 1, &mut zones).expect("the power is back");
    let left = (zones[0].wp.0 - zones[0].start.0) / 8;
    rig.stop();
    left
}

#[test]
fn durable_writes_are_there_after_a_loss_of_what_was_not_flushed() {
    assert_eq!((left_after_loss(false), left_after_loss(true)), (0, 3));
}
