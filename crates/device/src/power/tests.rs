//! Losses of a device with a volatile cache, and how it goes on.
use super::*;
use crate::device_spec;
use std::sync::mpsc::channel;
use zonal_blk::{Bio, Buf, Channel, Queue, QueueOptions};

const ZONE: u64 = 128;
const LBA: u64 = 8;

/// A device of 4 zones of 16 blocks, the first of them conventional, whose commands take 10 us.
struct Rig {
    device: Arc<PowerDevice>,
    channel: Channel,
    now: u64,
}

impl Rig {
    fn new(cache_sectors: u64) -> Self {
        let spec = "null:zones=4,zone_size=64K,lba=4K,conventional=1,memory=true,latency=10us";
        let spec = device_spec::parse(spec).expect("a spec");
        let inner = device_spec::build(&spec).expect("a device");
        let device = Arc::new(PowerDevice::new(inner, cache_sectors).expect("it has a medium"));
        let queue = Queue::attach(Arc::clone(&device) as _, QueueOptions::default());
        let channel = queue.expect("a queue").channel().expect("a channel");
        Rig { device, channel, now: 0 }
    }

    fn submit(&mut self, bio: Bio) {
        self.channel.submit(Nanos(self.now), bio);
    }

    /// Polls until all is answered.
    fn finish(&mut self) -> Vec<(Status, Option<Buf>)> {
        let mut done = Vec::new();
        while self.channel.outstanding() > 0 {
            self.now += 10_000;
            self.channel.poll(Nanos(self.now), &mut done);
        }
        done.into_iter().map(|done| (done.status, done.buf)).collect()
    }

    fn run(&mut self, bio: Bio) -> Status {
        self.submit(bio);
        self.finish()[0].0
    }

    fn write(&mut self, sector: u64, blocks: usize, value: u8) {
        let bio = Bio::write(Sector(sector), Buf::from(&vec![value; blocks * 4096][..]), 0);
        assert_eq!(self.run(bio), Status::Ok);
    }

    fn flush(&mut self) {
        assert_eq!(self.run(Bio::new(Op::Flush, Sector(0), 0, 0)), Status::Ok);
    }

    /// The first byte of each block.
    fn read(&mut self, sector: u64, blocks: u32) -> Vec<u8> {
        self.submit(Bio::read(Sector(sector), blocks * 8, 0));
        let buf = self.finish().pop().and_then(|done| done.1).expect("data");
        buf.chunks(4096).map(|block| block[0]).collect()
    }

    /// Blocks up to the write pointer, and the condition.
    fn zone(&self, zone: u32) -> (u64, ZoneCondition) {
        let mut zones = Vec::new();
        self.channel.queue().report_zones(ZoneNo(zone), 1, &mut zones).expect("a report");
        ((zones[0].wp - zones[0].start).0 / LBA, zones[0].cond)
    }

    fn cut(&mut self, when: When, keep: Keep, seed: u64) -> CutReport {
        let (sender, report) = channel();
        self.device.cut(CutPlan::new(when, keep, seed), Some(sender)).expect("it is on");
        report.recv().expect("nothing is in flight")
    }
}

#[test]
fn what_was_not_flushed_is_lost_and_the_rest_is_there() {
    let mut rig = Rig::new(1 << 20);
    rig.write(0, 2, 1);
    rig.write(ZONE, 2, 2);
    rig.write(2 * ZONE, 1, 3);
    rig.flush();
    rig.write(LBA, 2, 4);
    rig.write(ZONE + 2 * LBA, 3, 5);
    rig.write(3 * ZONE, 1, 6);
    let report = rig.cut(When::Now, Keep::None, 0);
    assert_eq!(
        report.fates,
        [
            "zone 1: kept 2 blocks of 5, of which 2 were durable",
            "zone 3: kept 0 blocks of 1, of which 0 were durable",
            "write at sector 8: lost"
        ]
    );
    assert_eq!(rig.read(0, 3), [1, 1, 0]);
    assert_eq!(rig.zone(1), (2, ZoneCondition::Closed));
    assert_eq!(rig.zone(2), (1, ZoneCondition::Closed));
    assert_eq!(rig.zone(3), (0, ZoneCondition::Empty));
    // It goes on from there, and what is left is durable.
    rig.write(ZONE + 2 * LBA, 1, 7);
    rig.cut(When::Now, Keep::None, 0);
    assert_eq!(rig.read(ZONE, 2), [2, 2]);
    assert_eq!(rig.zone(1).0, 2);
}

#[test]
fn resets_finishes_and_fua_writes_are_durable() {
    let mut rig = Rig::new(1 << 20);
    rig.write(ZONE, 3, 1);
    rig.flush();
    assert_eq!(rig.run(Bio::new(Op::ZoneReset, Sector(ZONE), 0, 0)), Status::Ok);
    rig.write(2 * ZONE, 3, 2);
    assert_eq!(rig.run(Bio::new(Op::ZoneFinish, Sector(2 * ZONE), 0, 0)), Status::Ok);
    rig.write(3 * ZONE, 1, 3);
    let data = Buf::from(&[4; 4096][..]);
    let fua = Bio { flags: BioFlags::FUA, ..Bio::write(Sector(3 * ZONE + LBA), data, 0) };
    assert_eq!(rig.run(fua), Status::Ok);
    assert_eq!(rig.cut(When::Now, Keep::None, 0).fates, [""; 0]);
    assert_eq!(rig.zone(1), (0, ZoneCondition::Empty));
    assert_eq!(rig.zone(2).1, ZoneCondition::Full);
    assert_eq!(rig.read(2 * ZONE, 3), [2, 2, 2]);
    assert_eq!(rig.zone(3).0, 2);
}

#[test]
fn cache_of_a_size_loses_no_more_than_it_holds() {
    let mut rig = Rig::new(2 * LBA);
    for block in 0..4 {
        rig.write(ZONE + block * LBA, 1, 1);
        rig.write(block * LBA, 1, 1);
    }
    rig.cut(When::Now, Keep::None, 0);
    assert_eq!(rig.zone(1).0, 3);
    assert_eq!(rig.read(0, 4), [1, 1, 1, 0]);
}

#[test]
fn commands_in_flight_are_not_answered_with_success() {
    let mut rig = Rig::new(1 << 20);
    rig.submit(Bio::write(Sector(ZONE), Buf::zeroed(4096), 0));
    rig.submit(Bio::read(Sector(0), 8, 0));
    let (sender, report) = channel();
    let plan = CutPlan { stay_off: true, ..CutPlan::new(When::Now, Keep::None, 0) };
    rig.device.cut(plan.clone(), Some(sender)).expect("it is on");
    assert!(report.try_recv().is_err(), "two commands are in flight");
    assert_eq!(rig.device.cut(plan, None), Err(PowerError::AlreadyOff));
    rig.submit(Bio::read(Sector(8), 8, 0));
    let mut done = Vec::new();
    for _ in 0..100 {
        rig.now += 10_000;
        rig.channel.poll(Nanos(rig.now), &mut done);
    }
    assert_eq!(done.len(), 0, "nothing is answered while the power is off");
    assert_eq!(report.try_recv().expect("it is off").in_flight, 2);
    let mut zones = Vec::new();
    assert_eq!(rig.device.report_zones(ZoneNo(0), 1, &mut zones), Err(Status::Offline));
    assert!(rig.channel.next_event().at().is_some(), "it looks whether the power is back");
    rig.device.restore();
    let ends = rig.finish();
    assert_eq!(ends.len(), 3);
    assert!(ends.iter().all(|(status, _)| *status == Status::Transport), "{ends:?}");
    assert_eq!(rig.zone(1), (0, ZoneCondition::Empty));
}

#[test]
fn a_write_of_several_blocks_is_torn_in_its_middle() {
    for (sector, first) in [(ZONE + LBA, ZONE), (2 * LBA, LBA)] {
        for seed in 0..8 {
            let mut rig = Rig::new(1 << 20);
            rig.write(first, 1, 1);
            rig.device.cut(CutPlan::new(When::InWrite, Keep::AllButOne, seed), None).expect("on");
            let one = Bio::write(Sector(2 * ZONE), Buf::from(&[3; 4096][..]), 0);
            assert_eq!(rig.run(one), Status::Ok, "one block is not several");
            let several = Bio::write(Sector(sector), Buf::from(&[2; 4 * 4096][..]), 0);
            assert_eq!(rig.run(several), Status::Transport);
            let blocks = rig.read(sector, 4);
            let kept = blocks.iter().filter(|&&value| value == 2).count();
            assert!((1..4).contains(&kept), "seed {seed}: {blocks:?}");
        }
    }
}

#[test]
fn moment_is_after_writes_or_at_a_mark() {
    let mut rig = Rig::new(1 << 20);
    let (lost, losses) = channel();
    rig.device.on_loss(move || lost.send(()).expect("the test wants to know"));
    let (sender, report) = channel();
    rig.device.cut(CutPlan::new(When::After(2), Keep::None, 0), Some(sender)).expect("on");
    rig.write(ZONE, 1, 1);
    rig.flush();
    rig.write(ZONE + LBA, 1, 1);
    assert_eq!(report.try_recv().expect("it has failed").fates.len(), 1);
    assert_eq!(rig.zone(1).0, 1);
    let plan = CutPlan::new(When::AtMark("now".to_owned()), Keep::None, 0);
    rig.device.cut(plan.clone(), None).expect("on");
    rig.write(2 * ZONE, 1, 1);
    rig.device.mark("not yet");
    assert_eq!(rig.zone(2).0, 1);
    rig.device.mark("now");
    assert_eq!(rig.zone(2).0, 0);
    rig.write(2 * ZONE, 1, 1);
    rig.device.mark("now");
    assert_eq!(rig.zone(2).0, 1, "a plan is for one loss of power");
    assert_eq!(losses.try_iter().count(), 2);
    rig.device.cut(plan, None).expect("on");
    assert!(rig.device.disarm() && !rig.device.disarm());
    rig.device.mark("now");
    assert_eq!(rig.zone(2).0, 1);
}

/// Each state is one that a drive may be in, and with enough seeds each such state comes.
#[test]
fn random_losses_are_all_those_that_the_rules_allow() {
    let mut tails = [false; 5];
    let mut writes = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let mut rig = Rig::new(1 << 20);
        rig.write(ZONE, 2, 1);
        rig.write(0, 1, 1);
        rig.flush();
        rig.write(ZONE + 2 * LBA, 2, 2);
        rig.write(0, 3, 2);
        rig.write(LBA, 1, 3);
        rig.cut(When::Now, Keep::Random, seed);
        let (kept, _) = rig.zone(1);
        assert!((2..=4).contains(&kept), "seed {seed}: {kept}");
        tails[usize::try_from(kept).expect("few")] = true;
        assert_eq!(rig.read(ZONE, 2), [1, 1]);
        writes.insert(rig.read(0, 3));
    }
    assert_eq!(tails[2..], [true; 3]);
    for blocks in &writes {
        assert!([1, 2].contains(&blocks[0]), "{blocks:?}");
        assert!([0, 2, 3].contains(&blocks[1]), "{blocks:?}");
        assert!([0, 2].contains(&blocks[2]), "{blocks:?}");
    }
    for expected in [[1, 0, 0], [2, 2, 2], [2, 3, 2], [1, 3, 0], [2, 0, 0], [1, 2, 2], [1, 0, 2]] {
        assert!(writes.contains(&expected[..]), "{expected:?} of {writes:?}");
    }
}

#[test]
fn all_but_one_loses_a_part_of_one_tail_or_one_write() {
    let mut lost = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let mut rig = Rig::new(1 << 20);
        rig.write(ZONE, 2, 1);
        rig.write(0, 1, 2);
        rig.write(LBA, 1, 3);
        rig.cut(When::Now, Keep::AllButOne, seed);
        lost.insert((rig.zone(1).0, rig.read(0, 2)));
    }
    let expected = [(0, [2, 3]), (1, [2, 3]), (2, [0, 3]), (2, [2, 0])];
    assert!(lost.into_iter().eq(expected.map(|(tail, writes)| (tail, writes.to_vec()))));
}
