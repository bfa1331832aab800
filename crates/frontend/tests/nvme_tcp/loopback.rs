//! Data, zones and errors of a device over the loopback.
use crate::support::{Host, Served, ZONE, ZONED, patient, pattern, report};
use std::sync::Arc;
use std::thread;
use zonal_blk::{
    Bio, BioFlags, Buf, Device, Op, QueueOptions, Sector, Status, ZoneCondition, ZoneWrite,
};
use zonal_frontend::nvme_tcp::ServerConfig;
use zonal_os::poll::WaitPolicy;

/// Writes of one zone in flight together, of lengths that fit in capsules and of others.
fn round_trip(served: &Served, options: &str) {
    let mut host = served.host(options);
    let lens = [8_u32, 24, 40, 256, 8, 8, 32, 1160];
    let mut sector = 0;
    for (user_data, len) in (0..).zip(lens) {
        let data = pattern(len as usize * 512, sector);
        host.submit(Bio::write(Sector(sector), Buf::from(&data[..]), user_data));
        sector += u64::from(len);
    }
    assert_eq!(sector, 1536, "the capacity");
    assert!(host.finish().iter().all(|done| done.status == Status::Ok));
    let mut sector = 0;
    for (user_data, len) in (0..).zip(lens) {
        host.submit(Bio::read(Sector(sector), len, user_data));
        sector += u64::from(len);
    }
    let mut sector = 0;
    for (done, len) in host.finish().into_iter().zip(lens) {
        assert_eq!(done.status, Status::Ok);
        assert_eq!(done.buf.as_deref(), Some(&pattern(len as usize * 512, sector)[..]));
        sector += u64::from(len);
    }
}

#[test]
fn data_are_read_as_written() {
    let served = Served::new(ZONED);
    round_trip(&served, "");
    // A device of its own for each: the zone is full.
    round_trip(&Served::new(ZONED), "hdgst&ddgst");
    let waiting = WaitPolicy::Yield;
    round_trip(&Served::with(ZONED, ServerConfig { waiting, ..patient() }), "ddgst");
}

#[test]
fn limits_and_zones_are_those_of_the_device() {
    let served = Served::new(ZONED);
    let mut host = served.host("");
    let (here, there) = (host.device.limits().clone(), served.device.limits().clone());
    assert_eq!(here.capacity, there.capacity);
    assert_eq!((here.zone_size, here.nr_zones), (there.zone_size, there.nr_zones));
    assert_eq!((here.max_open_zones, here.lba_size), (4, 4096));
    assert_eq!((here.max_sectors, here.queue_depth, here.rotational), (2048, 128, false));
    assert!(here.append_max_sectors >= 8);
    let data = pattern(8192, 1);
    host.write(0, &data);
    host.manage(Op::ZoneOpen, ZONE);
    host.write(2 * ZONE, &data);
    host.manage(Op::ZoneClose, 2 * ZONE);
    host.manage(Op::ZoneFinish, 3 * ZONE);
    let zones = report(&*host.device);
    assert_eq!(zones, report(&*served.device));
    let conditions: Vec<_> = zones[..5].iter().map(|zone| zone.cond).collect();
    use ZoneCondition::{Closed, Empty, ExplicitOpen, Full, ImplicitOpen};
    assert_eq!(conditions, [ImplicitOpen, ExplicitOpen, Closed, Full, Empty]);
    assert_eq!(host.manage(Op::ZoneReset, 0).status, Status::Ok);
    assert_eq!(host.read(0, 8).buf.as_deref(), Some(&[0; 4096][..]));
    assert_eq!(host.manage(Op::ZoneResetAll, 0).status, Status::Ok);
    assert!(report(&*host.device).iter().all(|zone| zone.cond == Empty));
}

#[test]
fn random_write_area_is_written_in_any_order_and_flushed_over_one_path() {
    let served = Served::new("null:zones=4,zone_size=64K,lba=4096,zrwa=16K,zrwa_granularity=8K");
    let mut host = served.host("");
    assert_eq!(host.manage(Op::ZoneOpenZrwa, 0).status, Status::Ok);
    for at in [16, 0, 24] {
        host.write(at, &pattern(4096, at));
    }
    let zone = report(&*host.device)[0];
    assert_eq!((zone.has_zrwa(), zone.wp), (true, Sector(0)));
    host.write(32, &pattern(4096, 1));
    assert_eq!(report(&*host.device)[0].wp, Sector(16), "a granule");
    assert_eq!(host.manage(Op::ZoneFinish, 0).status, Status::Ok);
    assert!(!report(&*host.device)[0].has_zrwa());
}

#[test]
fn long_zone_report_takes_several_commands() {
    let served = Served::new("null:zones=10000,zone_size=64K,lba=4096");
    let device = served.connect("").unwrap();
    assert_eq!(report(&device), report(&*served.device));
    let mut zones = Vec::new();
    device.report_zones(zonal_blk::ZoneNo(9998), 5, &mut zones).unwrap();
    assert_eq!(zones.len(), 2);
}

#[test]
fn append_returns_its_sector() {
    let served = Served::new(ZONED);
    let device = Arc::new(served.connect("").unwrap());
    let append = |user_data, len| {
        let bio = Bio::write(Sector(ZONE), Buf::from(&pattern(len, user_data)[..]), user_data);
        Bio { op: Op::ZoneAppend, ..bio }
    };
    // The device's own appends, and those that this side's plug makes into writes.
    let mut expected = Vec::new();
    for emulate_append in [false, true] {
        let options = QueueOptions { emulate_append, ..QueueOptions::default() };
        let mut host = Host::new(Arc::clone(&device), options);
        for user_data in 0..4 {
            host.submit(append(user_data, 4096));
            host.submit(append(user_data + 4, 20480));
        }
        for done in host.finish() {
            assert_eq!(done.status, Status::Ok);
            let len = if done.user_data < 4 { 4096 } else { 20480 };
            expected.push((done.sector.0, pattern(len, done.user_data)));
        }
    }
    expected.sort();
    let mut host = served.host("");
    let mut end = ZONE;
    for (sector, data) in expected {
        assert_eq!(sector, end, "one after the other");
        end += data.len() as u64 / 512;
        let read = host.read(sector, (data.len() / 512) as u32);
        assert_eq!(read.buf.as_deref(), Some(&data[..]));
    }
}

#[test]
fn device_errors_reach_the_bio() {
    let served = Served::new(ZONED);
    let device = Arc::new(served.connect("").unwrap());
    let off = QueueOptions { zone_write: Some(ZoneWrite::Off), ..QueueOptions::default() };
    let mut host = Host::new(device, off);
    let data = pattern(4096, 0);
    assert_eq!(host.write(8, &data).status, Status::IoError, "not at the write pointer");
    assert_eq!(host.manage(Op::ZoneFinish, 0).status, Status::Ok);
    assert_eq!(host.write(0, &data).status, Status::IoError, "full");
    for zone in 1..=4 {
        assert_eq!(host.manage(Op::ZoneOpen, zone * ZONE).status, Status::Ok);
    }
    assert_eq!(host.manage(Op::ZoneOpen, 5 * ZONE).status, Status::ZoneOpenResource);
}

#[test]
fn device_without_zones() {
    let served = Served::new("null:zoned=false,size=16M,memory=true,lba=4096");
    let mut host = served.host("");
    assert_eq!(host.device.limits().nr_zones, 0);
    let data = pattern(64 << 10, 3);
    assert_eq!(host.write(8000, &data).status, Status::Ok);
    let zeroes = Bio::new(Op::WriteZeroes, Sector(8000), 16, 0);
    assert_eq!(host.one(zeroes).status, Status::Ok);
    let read = host.read(8000, 128).buf.unwrap();
    assert!(read[..8192].iter().all(|&byte| byte == 0));
    assert_eq!(read[8192..], data[8192..]);
    assert_eq!(host.one(Bio::new(Op::Discard, Sector(8000), 128, 0)).status, Status::Ok);
    assert_eq!(host.one(Bio::new(Op::Flush, Sector(0), 0, 0)).status, Status::Ok);
    let flushing = BioFlags::PREFLUSH | BioFlags::FUA;
    let write = Bio { flags: flushing, ..Bio::write(Sector(0), Buf::from(&data[..]), 0) };
    assert_eq!(host.one(write).status, Status::Ok);
    assert_eq!(host.read(0, 128).buf.as_deref(), Some(&data[..]));
}

#[test]
fn hosts_that_write_one_zone_together_do_not_block_each_other() {
    // Slow enough that each meets the other's writes in the plug on the other side.
    let served =
        Served::new("null:zones=16,zone_size=1M,memory=true,lba=4096,latency=200us,jitter=200us");
    thread::scope(|scope| {
        for host in 0..3_u64 {
            let served = &served;
            scope.spawn(move || {
                for round in 0..3 {
                    let mut host = Host::new(
                        Arc::new(served.connect("").unwrap()),
                        QueueOptions { zone_write: Some(ZoneWrite::Off), ..Default::default() },
                    );
                    for append in 0..8 {
                        let bio = Bio::write(Sector(0), Buf::from(&pattern(4096, append)[..]), 0);
                        host.submit(Bio { op: Op::ZoneAppend, ..bio });
                    }
                    let done = host.finish();
                    assert!(done.iter().all(|done| done.status == Status::Ok), "round {round}");
                }
                host
            });
        }
    });
    assert_eq!(report(&*served.device)[0].wp, Sector(3 * 3 * 8 * 8));
}

#[test]
fn io_fails_when_the_server_stops_and_a_new_server_is_another_device() {
    let served = Served::new(ZONED);
    let port = served.server.address().port();
    let mut host = served.host("");
    assert_eq!(host.write(0, &pattern(4096, 0)).status, Status::Ok);
    drop(served);
    // The first may find out, the second knows.
    assert_ne!(host.read(0, 8).status, Status::Ok);
    assert_eq!(host.read(0, 8).status, Status::Offline);
    assert!(host.device.report_zones(zonal_blk::ZoneNo(0), 1, &mut Vec::new()).is_err());
    let served = Served::on(port, ZONED, patient());
    assert_eq!(host.read(0, 8).status, Status::Offline, "nobody reconnects behind one's back");
    drop(host);
    assert_eq!(served.host("").read(0, 8).status, Status::Ok);
}
