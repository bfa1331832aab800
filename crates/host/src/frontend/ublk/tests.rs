//! Queues over a driver that is none: the tags' states as the kernel's driver keeps them, and the
//! data of their requests.
mod lending;

use super::abi::{IoDesc, io};
use super::queue::{Command, Driver, Queue, Wait};
use super::{testing, worker};
use crate::RealClock;
use crate::blk_zone::BlkZone;
use lending::Lending;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use zerocopy::FromBytes;
use zonal_blk::{Buf, ExternalBuf, Nanos, QueueOptions, Status};

/// Sectors of the longest request.
const LONGEST: u32 = 16;

/// A tag as the driver has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Turn {
    #[default]
    Idle,
    /// A command waits.
    Active,
    /// A command has ended, so the server has the request.
    Owned,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    turn: Turn,
    desc: IoDesc,
    /// What the request writes, or has read.
    data: Vec<u8>,
    ended: Option<(i32, u64)>,
    commits: u32,
}

/// The driver's side: tags, ends of commands that are still to come, by round, and what it lends, if
/// it does.
struct Fake(Vec<Slot>, VecDeque<Vec<(u64, i32)>>, Option<Arc<Lending>>);

impl Fake {
    fn slot(&mut self, tag: u16) -> &mut Slot {
        &mut self.0[usize::from(tag)]
    }

    /// A request comes on an active tag.
    fn ask(&mut self, tag: u16, desc: IoDesc, data: Vec<u8>) {
        let slot = self.slot(tag);
        assert_eq!(slot.turn, Turn::Active);
        *slot = Slot { turn: Turn::Owned, desc, data, ended: None, commits: slot.commits };
        let Fake(slots, _, lending) = self;
        if let Some(lending) = lending {
            lending.lay(tag, std::mem::take(&mut slots[usize::from(tag)].data));
        }
    }
}

impl Driver for Fake {
    fn descriptor(&self, tag: u16) -> IoDesc {
        let slot = &self.0[usize::from(tag)];
        assert_eq!(slot.turn, Turn::Owned, "a descriptor is read while the server has the request");
        slot.desc
    }

    fn copy_from_request(&mut self, tag: u16, data: &mut [u8]) -> Result<(), Status> {
        let Fake(slots, _, lending) = self;
        let slot = &mut slots[usize::from(tag)];
        assert_eq!(slot.turn, Turn::Owned, "data are copied before the commit");
        if let Some(lending) = lending {
            return lending.copy_from_request(tag.into(), 0, data);
        }
        let from = slot.data.get(..data.len()).ok_or(Status::IoError)?;
        data.copy_from_slice(from);
        Ok(())
    }

    fn copy_to_request(&mut self, tag: u16, offset: usize, data: &[u8]) -> Result<(), Status> {
        let Fake(slots, _, lending) = self;
        let slot = &mut slots[usize::from(tag)];
        assert_eq!(slot.turn, Turn::Owned, "data are copied before the commit");
        if let Some(lending) = lending {
            return lending.copy_to_request(tag.into(), offset, data);
        }
        let to = slot.data.get_mut(offset..offset + data.len()).ok_or(Status::IoError)?;
        to.copy_from_slice(data);
        Ok(())
    }

    fn external_buf(&self, tag: u16, len: usize) -> Option<Buf> {
        let lending = Arc::clone(self.2.as_ref()?);
        lending.external_buf();
        Some(Buf::external(ExternalBuf::new(lending, tag.into()), len))
    }

    fn send(&mut self, command: Command) {
        match command {
            Command::Fetch { tag } => {
                assert_eq!(self.slot(tag).turn, Turn::Idle, "tag {tag} is fetched once");
                self.slot(tag).turn = Turn::Active;
            }
            Command::Commit { tag, result, sector } => {
                let slot = self.slot(tag);
                assert_eq!(slot.turn, Turn::Owned, "tag {tag} is committed once");
                slot.turn = Turn::Active;
                slot.ended = Some((result, sector));
                slot.commits += 1;
                if let Fake(slots, _, Some(lending)) = self {
                    slots[usize::from(tag)].data = lending.back(tag);
                }
            }
        }
    }

    fn enter(&mut self, wait: Wait) -> std::io::Result<()> {
        assert!(wait != Wait::Forever || !self.1.is_empty(), "nothing would ever come");
        Ok(())
    }

    fn ends(&mut self, ends: &mut Vec<(u64, i32)>) {
        ends.extend(self.1.pop_front().into_iter().flatten());
        for (tag, _) in ends.iter().filter(|(_, result)| *result == io::RES_OK) {
            self.0[usize::try_from(*tag).expect("a tag")].turn = Turn::Owned;
        }
    }
}

/// A queue, its driver and its device.
struct Rig {
    device: Arc<zonal_blk::Queue>,
    queue: Queue,
    driver: Fake,
    now: Nanos,
}

impl Rig {
    fn new(device: &str, depth: u16) -> Self {
        Rig::over(testing::queue(device, QueueOptions::default()), depth, None)
    }

    fn over(device: Arc<zonal_blk::Queue>, depth: u16, lending: Option<Arc<Lending>>) -> Self {
        let queue = Queue::new(device.channel().expect("a channel"), depth, LONGEST);
        let slots = vec![Slot::default(); usize::from(depth)];
        let driver = Fake(slots, VecDeque::new(), lending);
        let mut rig = Rig { device, queue, driver, now: Nanos(0) };
        rig.queue.begin(&mut rig.driver);
        rig
    }

    fn ask(&mut self, tag: u16, op_flags: u32, start_sector: u64, count: u32, data: Vec<u8>) {
        self.driver.ask(tag, IoDesc { op_flags, count, start_sector, addr: 0 }, data);
        self.queue.on_completion(tag.into(), io::RES_OK, &mut self.driver).expect("a sound driver");
    }

    fn step(&mut self) {
        self.queue.poll(self.now, &mut self.driver);
        self.now = self.queue.next_event().at().map_or(self.now, |at| at.max(self.now));
    }

    /// Waits for all requests.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.queue.outstanding() == 0 {
                return;
            }
            self.step();
        }
        panic!("{} requests never end", self.queue.outstanding());
    }

    /// One request, to its end.
    fn one(&mut self, op_flags: u32, sector: u64, count: u32, data: Vec<u8>) -> (i32, u64) {
        self.ask(0, op_flags, sector, count, data);
        self.settle();
        self.driver.slot(0).ended.expect("it has ended")
    }

    /// The server is killed, and another one gets the requests that were not committed.
    fn kill_and_recover(&mut self) {
        self.drain();
        let depth = u16::try_from(self.driver.0.len()).expect("it was one");
        self.queue = Queue::new(self.device.channel().expect("a channel"), depth, LONGEST);
        let unfinished: Vec<bool> = self.driver.0.iter().map(|s| s.turn == Turn::Owned).collect();
        self.driver.0.iter_mut().for_each(|slot| slot.turn = Turn::Idle);
        self.queue.begin(&mut self.driver);
        for (tag, _) in (0..depth).zip(unfinished).filter(|(_, unfinished)| *unfinished) {
            self.driver.slot(tag).turn = Turn::Owned;
            self.queue
                .on_completion(tag.into(), io::RES_OK, &mut self.driver)
                .expect("a sound driver");
        }
    }

    fn drain(&mut self) {
        for _ in 0..10_000 {
            if self.queue.drain(self.now) {
                return;
            }
            self.now = self.queue.next_event().at().map_or(self.now, |at| at.max(self.now));
        }
        panic!("the channel has I/O that never ends");
    }

    /// The device is stopped.
    fn stop(mut self) {
        self.settle();
        for tag in 0..self.driver.0.len() as u64 {
            assert!(!self.queue.all_aborted());
            self.queue.on_completion(tag, io::RES_ABORT, &mut self.driver).expect("a sound driver");
        }
        assert!(self.queue.all_aborted());
        self.drain();
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
    assert_eq!(rig.driver.slot(0).data, [block(1), block(2)].concat());
    // What is not at the write pointer: EIO.
    assert_eq!(rig.one(1, 64, 8, block(4)), (-5, 0));
    // The third zone that is opened: ETOOMANYREFS; and the fourth active one: EOVERFLOW.
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
    // What makes no sense: EINVAL, EOPNOTSUPP, EIO.
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
fn report_has_the_zones_that_there_is_room_for_and_ends_the_request_whole() {
    let mut rig = Rig::new(ZONED, 1);
    rig.one(1, 2048, 8, block(1));
    rig.one(12, 4096, 0, Vec::new());
    let whole = i32::try_from(LONGEST * 512).expect("it fits");
    for (first, most, expected) in [(0, 8, 8), (1, 2, 2), (6, 100, 2), (0, u32::MAX, 8), (3, 0, 0)]
    {
        let room = vec![0; 100 * size_of::<BlkZone>()];
        assert_eq!(rig.one(18, first * 2048, most, room), (whole, 0));
        let zones: Vec<BlkZone> = rig
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
fn device_that_is_stopped_before_a_request_came_is_over() {
    Rig::new(ZONED, 4).stop();
}

#[test]
fn thread_of_a_queue_serves_it_until_all_tags_are_gone() {
    let mut rig = Rig::new("null:zones=4,lba=4096,latency=50us", 2);
    rig.driver.0[0].data = vec![0; 4096];
    rig.driver.0[0].desc = IoDesc { op_flags: 0, count: 8, start_sector: 0, addr: 0 };
    rig.driver.0[1].desc = IoDesc { op_flags: 2, count: 0, start_sector: 0, addr: 0 };
    let gone = |tag| (tag, io::RES_ABORT);
    rig.driver.1 = [vec![(0, 0), (1, 0)], vec![], vec![]].into();
    let clock = RealClock::start();
    // The device is stopped when both are done: their commands are then out again.
    let Rig { queue, driver, .. } = &mut rig;
    let failure =
        worker::run(queue, &mut Stopping { driver, left: vec![gone(1), gone(0)] }, &clock);
    assert!(failure.is_ok(), "{failure:?}");
    assert_eq!(rig.driver.0[0].ended, Some((4096, 0)));
    assert_eq!(rig.driver.0[1].ended, Some((0, 0)));
    assert!(rig.queue.all_aborted());
}

#[test]
fn thread_of_a_queue_says_why_the_driver_stopped_it_and_leaves_no_io() {
    let mut rig = Rig::new("null:zones=4,lba=4096,latency=5ms", 2);
    rig.driver.0[0].data = vec![0; 4096];
    rig.driver.0[0].desc = IoDesc { op_flags: 0, count: 8, start_sector: 0, addr: 0 };
    rig.driver.1 = [vec![(0, 0)], vec![(1, -22)]].into();
    let clock = RealClock::start();
    let failure = worker::run(&mut rig.queue, &mut rig.driver, &clock).expect_err("EINVAL");
    assert!(failure.to_string().starts_with("tag 1: the driver refused a command"), "{failure}");
    assert!(rig.queue.drain(rig.now), "the channel can go");
}

/// A driver that gives up the tags one after another, once their requests are done.
struct Stopping<'a> {
    driver: &'a mut Fake,
    left: Vec<(u64, i32)>,
}

impl Driver for Stopping<'_> {
    fn external_buf(&self, tag: u16, len: usize) -> Option<Buf> {
        self.driver.external_buf(tag, len)
    }

    fn descriptor(&self, tag: u16) -> IoDesc {
        self.driver.descriptor(tag)
    }
    fn copy_from_request(&mut self, tag: u16, data: &mut [u8]) -> Result<(), Status> {
        self.driver.copy_from_request(tag, data)
    }
    fn copy_to_request(&mut self, tag: u16, offset: usize, data: &[u8]) -> Result<(), Status> {
        self.driver.copy_to_request(tag, offset, data)
    }
    fn send(&mut self, command: Command) {
        self.driver.send(command);
    }
    fn enter(&mut self, wait: Wait) -> std::io::Result<()> {
        if self.driver.0.iter().all(|slot| slot.commits == 1) {
            self.driver.1.extend(self.left.pop().map(|end| vec![end]));
        }
        self.driver.enter(wait)
    }
    fn ends(&mut self, ends: &mut Vec<(u64, i32)>) {
        self.driver.ends(ends);
    }
}

/// What happens next.
#[derive(Clone, Debug)]
enum Event {
    /// A request on a tag, if it has none: operation, place and fill.
    Ask(u16, u32, u64, u8),
    /// Some time passes.
    Step,
    /// The server is killed and another goes on.
    Kill,
}

fn event(depth: u16) -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (0..depth, prop::sample::select(vec![0, 1, 1 | 1 << 13, 2, 5, 77]), 0..6u64, any::<u8>())
            .prop_map(|(tag, op, at, fill)| Event::Ask(tag, op, at, fill)),
        8 => Just(Event::Step),
        1 => Just(Event::Kill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each tag has blocks of its own, so that what it reads is what it wrote, whatever the others
    /// do and however often the server is killed.
    #[test]
    fn every_request_ends_once_with_its_data_also_when_the_server_is_killed(
        events in prop::collection::vec(event(4), 1..120),
    ) {
        let device = "null:zoned=false,size=1M,lba=4096,memory=true,latency=5us,jitter=40us";
        happen(Rig::new(device, 4), events);
    }
}

/// Has it all happen, and checks each request.
fn happen(mut rig: Rig, events: Vec<Event>) {
    let mut blocks = [[0u8; 8]; 4];
    let mut asked = [0u32; 4];
    // Of the request that a tag has: operation, place, fill.
    let mut open: [Option<(u32, usize, u8)>; 4] = [None; 4];
    for event in events.into_iter().chain([Event::Step]) {
        match event {
            Event::Ask(tag, op, at, fill) => {
                let index = usize::from(tag);
                if open[index].is_some() {
                    continue;
                }
                open[index] = Some((op, at as usize, fill));
                asked[index] += 1;
                let sector = (u64::from(tag) * 8 + at) * 8;
                rig.ask(tag, op, sector, 16, vec![fill; 8192]);
            }
            Event::Step => rig.step(),
            Event::Kill => rig.kill_and_recover(),
        }
        settle_model(&mut rig, &mut open, &mut blocks);
    }
    rig.settle();
    settle_model(&mut rig, &mut open, &mut blocks);
    for (slot, asked) in rig.driver.0.iter().zip(asked) {
        assert_eq!(slot.commits, asked);
    }
    rig.stop();
}

/// Checks the requests that have ended against what the tag's blocks hold.
fn settle_model(
    rig: &mut Rig,
    open: &mut [Option<(u32, usize, u8)>; 4],
    blocks: &mut [[u8; 8]; 4],
) {
    for ((slot, open), blocks) in rig.driver.0.iter().zip(open).zip(blocks) {
        let Some((result, _)) = slot.ended.filter(|_| slot.turn == Turn::Active) else { continue };
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
