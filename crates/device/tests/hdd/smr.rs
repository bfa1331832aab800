//! Zones of shingled disks.
use crate::rig::{Rig, SMR, config, with};
use zonal_blk::{Bio, BioFlags, Device, Op, Sector, Status, ZoneCondition, ZoneNo, ZoneWrite};
use zonal_device::control::DeviceControl;

/// Sectors of a zone of [`SMR`].
const ZONE: u64 = 16 << 11;

fn conditions(rig: &Rig, zones: usize) -> Vec<(ZoneCondition, u64)> {
    let mut report = Vec::new();
    rig.device.report_zones(ZoneNo(0), zones, &mut report).unwrap();
    report.iter().map(|zone| (zone.cond, zone.wp.0 - zone.start.0)).collect()
}

#[test]
fn disk_rotates_has_zones_and_no_native_appends() {
    let rig = Rig::new(&config(SMR));
    let limits = rig.device.limits();
    assert!(limits.rotational);
    assert_eq!((limits.nr_zones, limits.max_open_zones, limits.queue_depth), (64, 8, 32));
    assert_eq!((limits.append_max_sectors, limits.nr_queues), (0, 1));
    assert_eq!(ZoneWrite::default_for(limits), ZoneWrite::Qd1);
    let ata = Rig::new(&with(SMR, "host=ata"));
    assert_eq!(ata.device.limits().queue_depth, 1);
}

#[test]
fn write_that_is_not_at_the_write_pointer_fails_and_moves_nothing() {
    let mut rig = Rig::traced(&config(SMR), None, ZoneWrite::Off);
    for (sector, status) in [(0, Status::Ok), (16, Status::IoError), (8, Status::Ok)] {
        rig.submit(Bio::new(Op::Write, Sector(sector), 8, sector));
        rig.run();
        assert_eq!(rig.ends.last().unwrap().status, status, "at {sector}");
    }
    assert_eq!(conditions(&rig, 1), [(ZoneCondition::ImplicitOpen, 16)]);
}

#[test]
fn conventional_zones_are_written_anywhere() {
    let mut rig = Rig::new(&with(SMR, "conventional=2"));
    for sector in [800, 0, ZONE + 4096, 800] {
        rig.time(Op::Write, sector, 8);
    }
    rig.submit(Bio::new(Op::Write, Sector(2 * ZONE + 8), 8, 0));
    rig.run();
    assert_eq!(rig.ends.last().unwrap().status, Status::IoError);
}

#[test]
fn zones_of_emulated_blocks_are_written_in_4_kib_and_read_in_512_bytes() {
    for device in ["smr-20t-512e", "hdd:recording=smr,zones=64,max_open=8,write_granularity=4K"] {
        let mut rig = Rig::new(&config(device));
        let limits = rig.device.limits();
        assert_eq!((limits.lba_size, limits.zone_write_granularity()), (512, 4096), "{device}");
        for (op, sector, len, status) in [
            (Op::Write, 0, 8, Status::Ok),
            (Op::Write, 8, 4, Status::Invalid),
            (Op::Write, 8, 16, Status::Ok),
            (Op::Read, 3, 1, Status::Ok),
        ] {
            rig.submit(Bio::new(op, Sector(sector), len, 0));
            rig.run();
            assert_eq!(rig.ends.last().unwrap().status, status, "{op:?} of {len} at {sector}");
        }
        assert_eq!(conditions(&rig, 1), [(ZoneCondition::ImplicitOpen, 24)]);
    }
}

#[test]
fn each_zone_is_on_the_surface_of_one_head_and_its_neighbours_are_on_others() {
    for device in [SMR, "smr-20t"] {
        let disk = Rig::new(&config(device)).device;
        let (heads, nr_zones) = (disk.heads(), disk.limits().nr_zones);
        let mut head_of = vec![u32::MAX; nr_zones as usize];
        for head in 0..heads {
            for zone in disk.zones_of_head(head) {
                assert_eq!(head_of[zone.index()], u32::MAX, "{device}: zone {zone} has one head");
                head_of[zone.index()] = head;
            }
        }
        assert!(head_of.iter().all(|&head| head < heads), "{device}");
        assert!(head_of.windows(2).all(|pair| pair[0] != pair[1]), "{device}");
        assert!(disk.zones_of_head(heads).is_empty());
    }
    let conventional = Rig::new(&config("hdd:size=64G")).device;
    assert_eq!((conventional.heads(), conventional.zones_of_head(0).len()), (0, 0));
}

#[test]
fn disk_formatted_without_a_head_is_one_that_never_had_it() {
    let mut rig = Rig::new(&with(SMR, "heads=4,conventional=2"));
    rig.time(Op::Write, 2 * ZONE, 64);
    rig.device.set_condition(ZoneNo(5), ZoneCondition::Offline).expect("a zone");
    // What is in flight completes first.
    rig.submit(Bio::new(Op::Write, Sector(2 * ZONE + 64), 64, 1));
    assert_eq!(rig.device.format_without_head(7), Err(Status::Invalid), "no such head");
    assert_eq!(rig.device.format_without_head(1), Ok(48));
    rig.run();
    assert_eq!(rig.ends.last().expect("a write").status, Status::Ok);
    assert_eq!((rig.device.nr_zones(), rig.device.heads()), (48, 3));
    assert_eq!(conditions(&rig, 48)[2..], [(ZoneCondition::Empty, 0); 46]);
    let beyond = rig.device.report_zones(ZoneNo(48), 1, &mut Vec::new());
    assert_eq!(beyond, Err(Status::Invalid));
    let smaller = with(SMR, "heads=3,conventional=2,zones=48");
    assert_eq!(rig.device.characteristics(), Rig::new(&smaller).device.characteristics());
    rig.submit(Bio::read(Sector(48 * ZONE), 8, 2));
    rig.run();
    assert_eq!(rig.ends.last().expect("a read").status, Status::IoError, "beyond the end");
    assert_eq!(rig.device.format_without_head(0), Ok(32));
    assert_eq!(rig.device.format_without_head(0), Ok(16));
    assert_eq!(rig.device.format_without_head(0), Err(Status::Invalid), "the last head");
    let conventional = Rig::new(&config("hdd:size=64G")).device;
    assert_eq!(conventional.format_without_head(0), Err(Status::NotSupported));
}

#[test]
fn zones_of_a_disk_formatted_without_a_head_are_where_those_of_a_smaller_disk_are() {
    let times = |mut rig: Rig| -> Vec<u64> {
        let zones = [3, 40, 11, 47, 0];
        zones.map(|zone| rig.time(Op::Read, zone * ZONE, 2048)).into()
    };
    let formatted = Rig::new(&with(SMR, "heads=4"));
    assert_eq!(formatted.device.format_without_head(2), Ok(48));
    assert_eq!(times(formatted), times(Rig::new(&with(SMR, "heads=3,zones=48"))));
}

#[test]
fn opening_one_zone_more_than_allowed_closes_another() {
    let mut rig = Rig::new(&config(SMR));
    for zone in 0..9 {
        rig.time(Op::Write, zone * ZONE, 8);
    }
    let open = |&(cond, _): &(ZoneCondition, u64)| cond == ZoneCondition::ImplicitOpen;
    let conditions = conditions(&rig, 9);
    assert_eq!(conditions.iter().filter(|zone| open(zone)).count(), 8);
    assert_eq!(conditions[0].0, ZoneCondition::Closed);
}

#[test]
fn reset_and_finish_take_their_time() {
    let config = with(SMR, "reset=3ms,finish=5ms");
    let mut rig = Rig::new(&config);
    rig.time(Op::Write, 0, 2048);
    assert_eq!(rig.time(Op::ZoneReset, 0, 0) / 1_000_000, 3);
    rig.time(Op::Write, 0, 2048);
    assert_eq!(rig.time(Op::ZoneFinish, 0, 0) / 1_000_000, 5);
    assert_eq!(conditions(&rig, 2), [(ZoneCondition::Full, ZONE), (ZoneCondition::Empty, 0)]);
}

#[test]
fn reset_forgets_what_waits_to_be_written_and_ends_who_waits_for_it() {
    let mut rig = Rig::traced(&config(SMR), None, ZoneWrite::Off);
    for zone in 0..4 {
        for at in 0..4 {
            let sector = Sector(zone * ZONE + at * 512);
            rig.submit(Bio { flags: BioFlags::FUA, ..Bio::new(Op::Write, sector, 512, zone) });
        }
    }
    rig.submit(Bio::new(Op::ZoneResetAll, Sector(0), 0, 9));
    rig.run();
    assert_eq!(rig.ends.len(), 17);
    assert!(rig.ends.iter().all(|end| end.status == Status::Ok));
    rig.time(Op::Flush, 0, 0);
    assert_eq!(rig.device.buffered().1, 0);
}

#[test]
fn data_are_kept_if_asked_for() {
    let mut rig = Rig::new(&with(SMR, "memory=true"));
    let data: Vec<u8> = (0..4096 * 3).map(|i| (i % 251) as u8).collect();
    let mut buf = zonal_blk::Buf::zeroed(data.len());
    buf.copy_from_slice(&data);
    rig.submit(Bio::write(Sector(ZONE), buf, 1));
    rig.run();
    let mut read = Bio::read(Sector(ZONE + 8), 16, 2);
    read.buf.as_mut().unwrap().fill(1);
    rig.submit(read);
    rig.run();
    assert_eq!(rig.buffers.pop().unwrap()[..], data[4096..]);
}

#[test]
fn without_qd1_two_zones_cost_seeks() {
    // Two writers at depth 1 in zones side by side.
    let time = |policy| {
        let mut rig = Rig::traced(&with(SMR, "cache=2M"), None, policy);
        for at in 0..16 {
            for zone in 0..2 {
                rig.submit(Bio::new(Op::Write, Sector(zone * ZONE + at * 2048), 2048, 0));
            }
        }
        rig.run();
        assert!(rig.ends.iter().all(|end| end.status == Status::Ok));
        (rig.now, rig.device.counters().seeks)
    };
    let ((plug, plug_seeks), (qd1, qd1_seeks)) = (time(ZoneWrite::Plug), time(ZoneWrite::Qd1));
    assert!(plug > qd1 * 3 / 2, "{plug} {qd1}");
    assert!(plug_seeks > 16 && qd1_seeks <= 2, "{plug_seeks} {qd1_seeks}");
}

#[test]
fn head_writes_a_minimum_run_before_it_leaves_a_zone() {
    // Two writers in zones side by side, whose data wait in a full buffer.
    let seeks = |options| {
        let mut rig = Rig::traced(&with(SMR, options), None, ZoneWrite::Plug);
        for at in 0..16 {
            for zone in 0..2 {
                rig.submit(Bio::new(Op::Write, Sector(zone * ZONE + at * 2048), 2048, 0));
            }
        }
        rig.run();
        assert!(rig.ends.iter().all(|end| end.status == Status::Ok));
        rig.device.counters().seeks
    };
    let [none, long] = ["stay=0,cache=8M", "stay=0,cache=8M,min_run=4M"].map(seeks);
    // 32 MiB in runs of 4 MiB, and what is left of them.
    assert!(none > 2 * long && long <= 10, "{none} {long}");
    assert_eq!(seeks("stay=0,cache=8M,min_run=4M,order=fifo"), seeks("stay=0,cache=8M,order=fifo"));
}
