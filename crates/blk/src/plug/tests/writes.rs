//! Writes wait for their turn, are checked when submitted and are issued in order (A10 to A21).
use crate::bio::{Bio, BioFlags};
use crate::buf::Buf;
use crate::op::Op;
use crate::plug::ZoneWrite;
use crate::status::Status;
use crate::testing::Setup;
use crate::units::Sector;
use crate::{Prio, PrioClass};

#[test]
fn a10_writes_write_zeroes_and_emulated_appends_go_through_the_plug() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.submit(Op::WriteZeroes, 8, 8);
    rig.append(0, 8);
    rig.write_with(BioFlags::FUA | BioFlags::PREFLUSH, 24, 8);
    assert_eq!(rig.started(), [(Op::Write, 0, 8)]);
    assert_eq!(rig.drain().len(), 4);
    let order = [(Op::WriteZeroes, 8, 8), (Op::Write, 16, 8), (Op::Write, 24, 8)];
    assert_eq!(rig.started(), order);
}

#[test]
fn a10_reads_discards_flushes_opens_and_closes_pass_by() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    let others = [Op::Read, Op::Discard, Op::Flush, Op::ZoneOpen, Op::ZoneClose];
    for op in others {
        rig.submit(op, 0, if op.has_range() { 8 } else { 0 });
    }
    let started: Vec<Op> = rig.started().into_iter().map(|(op, ..)| op).collect();
    assert_eq!(started[1..], others);
    rig.drain();
}

#[test]
fn a11_idle_zone_sends_at_once_and_a_busy_one_queues_at_the_tail() {
    let mut rig = Setup::new().options(|options| options.merge = false).build();
    let ids: Vec<u64> = (0..4).map(|i| rig.write(i * 8, 8)).collect();
    assert_eq!(rig.writes(), [(0, 8)]);
    for (i, id) in ids.into_iter().enumerate() {
        assert_eq!(rig.ok(), [(id, Status::Ok)]);
        let next = (i as u64 + 1) * 8;
        let expected = if next < 32 { vec![(next, 8)] } else { vec![] };
        assert_eq!(rig.writes(), expected);
    }
}

#[test]
fn a12_one_write_is_in_flight_per_zone_and_zones_do_not_wait_for_each_other() {
    let mut rig = Setup::new().build();
    for zone in 0..4 {
        rig.write(zone * 64, 8);
        rig.write(zone * 64 + 8, 8);
    }
    assert_eq!(rig.writes(), [(0, 8), (64, 8), (128, 8), (192, 8)]);
    rig.drain();
    assert_eq!((rig.device.most_per_zone(), rig.device.most_per_disk()), (1, 4));
}

#[test]
fn a13_write_pointer_moves_when_a_write_is_accepted() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.write(8, 8);
    assert_eq!(rig.known(0).1, 16, "nothing has completed");
    rig.drain();
    assert_eq!(rig.known(0).1, 16);
}

#[test]
fn a14_conventional_zones_are_written_anywhere_and_at_once() {
    let mut rig = Setup::new().conventional(0).build();
    for at in [40, 0, 16] {
        rig.write(at, 8);
    }
    assert_eq!(rig.writes(), [(40, 8), (0, 8), (16, 8)]);
    assert_eq!(rig.queue.live_plugs(), 0);
    let append = rig.append(0, 8);
    assert_eq!(rig.poll(), [(append, Status::IoError)]);
    assert_eq!(rig.drain().len(), 3);
}

#[test]
fn a15_bio_across_zones_is_split_and_its_parts_stay_in_order() {
    let mut rig = Setup::new().limits(|limits| limits.max_sectors = 16).build();
    rig.write(0, 32);
    rig.drain();
    rig.writes();
    let across = rig.write(32, 48);
    assert_eq!(rig.writes(), [(32, 16), (64, 16)]);
    assert_eq!(rig.drain(), [(across, Status::Ok)]);
    assert_eq!(rig.writes(), [(48, 16)]);
}

#[test]
fn a15_split_write_fails_as_a_whole_when_a_part_fails() {
    let mut rig = Setup::new().limits(|limits| limits.max_sectors = 16).build();
    let write = rig.write(0, 64);
    assert_eq!(rig.fail(), [(write, Status::IoError)]);
    assert_eq!(rig.writes(), [(0, 16)]);
}

#[test]
fn a16_write_off_the_write_pointer_fails_without_reaching_the_device() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    for at in [0, 4, 12, 56] {
        let misplaced = rig.write(at, 4);
        assert_eq!(rig.poll(), [(misplaced, Status::IoError)]);
    }
    assert_eq!(rig.writes(), [(0, 8)]);
    rig.drain();
}

#[test]
fn a16_write_beyond_the_capacity_fails_without_reaching_the_device() {
    let mut rig = Setup::new()
        .zones(|zones| zones.iter_mut().for_each(|zone| zone.capacity = Sector(48)))
        .build();
    let beyond = rig.write(0, 56);
    assert_eq!(rig.poll(), [(beyond, Status::IoError)]);
    assert_eq!(rig.started(), []);
}

#[test]
fn a17_misplaced_write_leaves_all_other_io_of_the_zone_alone() {
    let mut rig = Setup::new().build();
    let first = rig.write(0, 8);
    let waits = rig.write(8, 8);
    let misplaced = rig.write(40, 8);
    assert_eq!(rig.poll(), [(misplaced, Status::IoError)]);
    assert!(!rig.plug(0).unwrap().flags.need_wp_update);
    let last = rig.write(16, 8);
    assert_eq!(rig.drain(), [(first, Status::Ok), (waits, Status::Ok), (last, Status::Ok)]);
}

#[test]
fn a17_misplaced_write_of_a_batch_leaves_the_others_alone() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.drain();
    rig.writes();
    let batch = rig.write_batch(&[(0, 8), (8, 8), (16, 8), (200, 8), (24, 8)]);
    let statuses = [Status::IoError, Status::Ok, Status::Ok, Status::IoError, Status::Ok];
    let expected: Vec<_> = batch.into_iter().zip(statuses).collect();
    assert_eq!(rig.drain(), expected);
    assert_eq!(rig.writes(), [(8, 8), (16, 16)]);
}

#[test]
fn a17_write_of_a_batch_that_fits_is_done_though_the_next_does_not() {
    let mut rig = Setup::new()
        .zones(|zones| zones.iter_mut().for_each(|zone| zone.capacity = Sector(48)))
        .build();
    let batch = rig.write_batch(&[(0, 40), (40, 8), (48, 8)]);
    let [a, b, c] = batch[..] else { panic!("three bios") };
    assert_eq!(rig.drain(), [(a, Status::Ok), (b, Status::Ok), (c, Status::IoError)]);
}

#[test]
fn a20_batch_goes_as_one_command() {
    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
        let mut rig = Setup::new().policy(policy).build();
        let batch = rig.write_batch(&[(0, 8), (8, 8), (16, 8), (64, 8)]);
        assert_eq!(rig.drain().len(), batch.len());
        assert_eq!(rig.writes(), [(0, 24), (64, 8)]);
    }
}

#[test]
fn a20_waiting_writes_that_follow_one_another_leave_as_one() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    let waiting: Vec<u64> = (1..4).map(|i| rig.write(i * 8, 8)).collect();
    rig.ok();
    assert_eq!(rig.writes(), [(0, 8), (8, 24)]);
    assert_eq!(rig.ok(), [1, 2, 3].map(|i| (waiting[i - 1], Status::Ok)));
    assert_eq!(rig.plug(0).unwrap().counters.merges, 2);
}

#[test]
fn a20_writes_that_came_while_others_were_leaving_are_merged_too() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.write_with(BioFlags::FUA, 8, 8);
    rig.write(16, 8);
    rig.write(24, 8);
    rig.ok();
    rig.write(32, 8);
    rig.drain();
    assert_eq!(rig.writes(), [(0, 8), (8, 8), (16, 24)]);
}

#[test]
fn a20_merging_ends_at_the_longest_command() {
    let mut rig = Setup::new().limits(|limits| limits.max_sectors = 16).build();
    (0..6).for_each(|i| _ = rig.write(i * 8, 8));
    rig.drain();
    assert_eq!(rig.writes(), [(0, 8), (8, 16), (24, 16), (40, 8)]);
}

#[test]
fn a20_merging_can_be_switched_off() {
    let mut rig = Setup::new().options(|options| options.merge = false).build();
    (0..3).for_each(|i| _ = rig.write(i * 8, 8));
    rig.drain();
    assert_eq!(rig.writes(), [(0, 8), (8, 8), (16, 8)]);
}

#[test]
fn a20_writes_that_flush_are_not_merged_with_those_that_flush_too() {
    for flags in [BioFlags::FUA, BioFlags::PREFLUSH] {
        let mut rig = Setup::new().build();
        (0..3).for_each(|i| _ = rig.write_with(flags, i * 8, 8));
        rig.drain();
        assert_eq!(rig.writes(), [(0, 8), (8, 8), (16, 8)], "as in the kernel");
    }
}

#[test]
fn a20_different_writes_are_not_merged() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.write(8, 4);
    rig.write_with(BioFlags::FUA, 12, 4);
    rig.submit(Op::WriteZeroes, 16, 4);
    rig.submit(Op::WriteZeroes, 20, 4);
    rig.append(0, 4);
    rig.append(0, 4);
    rig.write(32, 4);
    let prio = Prio::new(PrioClass::Idle, 0);
    rig.submit_bio(0, Bio { prio, ..Bio::new(Op::Write, Sector(36), 4, 0) });
    rig.drain();
    let lengths: Vec<u32> = rig.started().into_iter().map(|(.., len)| len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 4, 4, 4, 4, 4]);
}

#[test]
fn a20_fate_of_a_merged_write_is_that_of_all_its_bios() {
    let mut rig = Setup::new().channels(2).build();
    rig.write(0, 8);
    let (a, b) = (rig.write_on(1, 8, 8), rig.write_on(0, 16, 8));
    rig.ok();
    assert_eq!(rig.fail(), [(b, Status::IoError)]);
    assert_eq!(rig.poll_on(1), [(a, Status::IoError)]);
}

#[test]
fn a21_zeroes_that_the_device_cannot_write_go_as_data_before_the_write_pointer_is_taken() {
    let mut rig = Setup::new()
        .limits(|limits| (limits.max_write_zeroes_sectors, limits.max_sectors) = (0, 24))
        .build();
    let zeroes = rig.submit(Op::WriteZeroes, 0, 40);
    let behind = rig.write(40, 8);
    assert_eq!(rig.started(), [(Op::Write, 0, 24)]);
    assert_eq!(rig.drain(), [(zeroes, Status::Ok), (behind, Status::Ok)]);
    assert_eq!(rig.started(), [(Op::Write, 24, 24)]);
    assert_eq!((rig.known(0).1, rig.reports()), (48, 0));
}

#[test]
fn a21_zeroes_that_the_device_writes_are_cut_at_its_limit() {
    let mut rig = Setup::new().limits(|limits| limits.max_write_zeroes_sectors = 32).build();
    let zeroes = rig.submit(Op::WriteZeroes, 0, 64);
    assert_eq!(rig.drain(), [(zeroes, Status::Ok)]);
    assert_eq!(rig.started(), [(Op::WriteZeroes, 0, 32), (Op::WriteZeroes, 32, 32)]);
}

#[test]
fn bad_bios_end_with_the_status_of_their_fault_and_leave_the_zone_alone() {
    let mut rig = Setup::new()
        .limits(|limits| limits.lba_size = 4096)
        .zone(1, |zone| zone.cond = crate::zone::ZoneCondition::ReadOnly)
        .zone(2, |zone| zone.cond = crate::zone::ZoneCondition::Offline)
        .build();
    let good = rig.write(0, 8);
    let bad = [
        (rig.write(8, 4), Status::Invalid),
        (rig.write(12, 8), Status::Invalid),
        (rig.write(8, 0), Status::Invalid),
        (rig.write(256, 8), Status::Invalid),
        (rig.write(252, 8), Status::Invalid),
        (rig.write(16, 8), Status::IoError),
        (rig.write(64, 8), Status::IoError),
        (rig.write(128, 8), Status::Offline),
    ];
    assert_eq!(rig.poll(), bad);
    assert_eq!(rig.started(), [(Op::Write, 0, 8)]);
    let next = rig.write(8, 8);
    assert_eq!(rig.drain(), [(good, Status::Ok), (next, Status::Ok)]);
}

#[test]
fn buffers_come_back_with_their_bios() {
    let mut rig = Setup::new().limits(|limits| limits.max_sectors = 8).build();
    rig.submit_bio(0, Bio::write(Sector(0), Buf::from(&[7; 16 * 512][..]), 0));
    rig.submit_bio(0, Bio::write(Sector(16), Buf::from(&[9; 512][..]), 0));
    rig.device.end(0, Status::Ok);
    let mut done = rig.completions_on(0);
    rig.device.end(0, Status::Ok);
    done.extend(rig.completions_on(0));
    rig.device.end(0, Status::Ok);
    done.extend(rig.completions_on(0));
    let lengths: Vec<usize> = done.iter().map(|c| c.buf.as_ref().unwrap().len()).collect();
    assert_eq!(lengths, [16 * 512, 512]);
    assert!(done[0].buf.as_ref().unwrap().iter().all(|&byte| byte == 7));
}

#[test]
fn without_plugs_writes_go_as_they_come_and_the_device_judges() {
    let mut rig = Setup::new().policy(ZoneWrite::Off).build();
    for at in [0, 16, 8] {
        rig.write(at, 8);
    }
    assert_eq!(rig.writes(), [(0, 8), (16, 8), (8, 8)]);
    let append = rig.append(0, 8);
    assert_eq!(rig.poll(), [(append, Status::NotSupported)]);
    assert_eq!(rig.drain(), [(0, Status::Ok), (1, Status::IoError), (2, Status::Ok)]);
    assert!(rig.queue.dump_plugs(true).is_empty());
    assert_eq!(rig.queue.cached_zone(crate::ZoneNo(0)), None);
}
