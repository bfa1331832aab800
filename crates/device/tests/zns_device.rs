//! The ZNS drive below a queue, in virtual time: latencies and invariants.
use proptest::prelude::*;
use std::sync::Arc;
use zonal_blk::{
    Bio, BioFlags, Buf, Bytes, Channel, Completion, Device, Nanos, Op, Queue, QueueOptions, Sector,
    Status, ZoneAttributes, ZoneCondition, ZoneNo, ZoneWrite,
};
use zonal_device::control::{DeviceControl, EstimatedLoad, FaultHooks};
use zonal_device::{ZnsConfig, ZnsDevice};

/// Zones of 1 MiB with 768 KiB to write.
const ZONE: u64 = 2048;
const CAPACITY: u64 = 1536;

/// A drive whose times are easy to add up: 1 byte a nanosecond everywhere, units of 64 KiB on four
/// dies of two channels, two dies to a zone.
fn small() -> ZnsConfig {
    ZnsConfig {
        zones: 8,
        zone_size: Bytes(ZONE * 512),
        zone_capacity: Bytes(CAPACITY * 512),
        max_open: 3,
        max_active: 4,
        append_max: Bytes(128 << 10),
        max_io: Bytes(256 << 10),
        write_time: Nanos(10_000),
        append_time: Nanos(12_000),
        read_time: Nanos(5_000),
        manage_time: Nanos(2_000),
        zone_switch: Nanos(1_000),
        link_rate: Bytes(1_000_000_000),
        zone_rate: Bytes(500_000_000),
        buffer: Bytes(1 << 20),
        channels: 2,
        dies: 4,
        zone_dies: 2,
        planes: 2,
        page: Bytes(16 << 10),
        cell_pages: 2,
        block: Bytes(64 << 10),
        channel_rate: Bytes(1_000_000_000),
        page_read: Nanos(40_000),
        program: Nanos(200_000),
        erase: Nanos(1_000_000),
        suspend_time: Nanos(5_000),
        ..ZnsConfig::default()
    }
}

struct Rig {
    device: Arc<ZnsDevice>,
    channels: Vec<Channel>,
    now: Nanos,
    /// Channel, end, completion.
    ends: Vec<(usize, Nanos, Completion)>,
}

impl Rig {
    fn new(config: &ZnsConfig) -> Self {
        Rig::with(config, ZoneWrite::Plug, 1)
    }

    fn with(config: &ZnsConfig, zone_write: ZoneWrite, channels: usize) -> Self {
        let device = Arc::new(ZnsDevice::new(config).unwrap());
        let options =
            QueueOptions { zone_write: Some(zone_write), merge: false, ..QueueOptions::default() };
        let queue = Queue::attach(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
        let channels = (0..channels).map(|_| queue.channel().unwrap()).collect();
        Rig { device, channels, now: Nanos(0), ends: Vec::new() }
    }

    fn submit(&mut self, bio: Bio) {
        self.channels[0].submit(self.now, bio);
    }

    fn is_idle(&self) -> bool {
        self.channels.iter().all(|channel| channel.outstanding() == 0)
    }

    /// Lets time pass to the next event, or to `until` if that is earlier.
    fn step(&mut self, until: Nanos) {
        let next = self.channels.iter_mut().filter_map(|channel| channel.next_event().at()).min();
        self.now = self.now.max(next.unwrap_or(until).min(until));
        let mut completions = Vec::new();
        for (nr, channel) in self.channels.iter_mut().enumerate() {
            channel.poll(self.now, &mut completions);
            self.ends.extend(completions.drain(..).map(|c| (nr, self.now, c)));
        }
    }

    fn run(&mut self) {
        while !self.is_idle() {
            self.step(Nanos(u64::MAX));
        }
    }

    /// Runs a bio to its end; how long it took.
    fn time(&mut self, bio: Bio) -> u64 {
        let start = self.now;
        self.submit(bio);
        self.run();
        let (_, end, completion) = self.ends.pop().unwrap();
        assert_eq!(completion.status, Status::Ok);
        (end - start).0
    }

    /// Lets everything that is under way in the drive come to its end.
    fn settle(&mut self) {
        self.now += Nanos(1_000_000_000);
    }
}

fn write(zone: u64, at: u64, sectors: u32) -> Bio {
    Bio::new(Op::Write, Sector(zone * ZONE + at), sectors, 0)
}

fn of_zone(op: Op, zone: u64) -> Bio {
    Bio::new(op, Sector(zone * ZONE), 0, 0)
}

#[test]
fn write_takes_the_controllers_time_and_the_zones_way_into_the_buffer() {
    let mut rig = Rig::new(&small());
    assert_eq!(rig.time(write(0, 0, 8)), 10_000 + 2 * 4096);
    assert_eq!(rig.time(write(0, 8, 8)), 10_000 + 2 * 4096);
    assert_eq!(rig.time(write(1, 0, 8)), 11_000 + 2 * 4096, "another zone than before");
    let append = Bio::new(Op::ZoneAppend, Sector(ZONE), 8, 0);
    assert_eq!(rig.time(append), 12_000 + 2 * 4096);
}

#[test]
fn controller_is_held_by_transfers_and_zones_take_data_side_by_side() {
    let mut rig = Rig::new(&small());
    for zone in 0..3 {
        rig.submit(write(zone, 0, 128));
    }
    rig.run();
    let ends: Vec<u64> = rig.ends.iter().map(|(_, end, _)| end.0).collect();
    let taken = [10_000, 10_000 + 65_536 + 11_000, 2 * (65_536 + 11_000) + 10_000];
    assert_eq!(ends, taken.map(|at| at + 2 * 65_536));
}

#[test]
fn appends_to_one_zone_follow_one_another_at_the_zones_rate() {
    let mut rig = Rig::new(&small());
    for _ in 0..4 {
        rig.submit(Bio::new(Op::ZoneAppend, Sector(0), 128, 0));
    }
    rig.run();
    let ends: Vec<u64> = rig.ends.iter().map(|(_, end, _)| end.0).collect();
    let way = 2 * 65_536;
    assert_eq!(ends, [1, 2, 3, 4].map(|nth| 12_000 + nth * way));
    let mut landed: Vec<u64> = rig.ends.iter().map(|(_, _, c)| c.sector.0).collect();
    landed.sort_unstable();
    assert_eq!(landed, [0, 128, 256, 384]);
}

#[test]
fn append_longer_than_the_limit_is_refused() {
    let mut rig = Rig::new(&small());
    rig.submit(Bio::new(Op::ZoneAppend, Sector(0), 257 * 8, 0));
    rig.run();
    assert_eq!(rig.ends[0].2.status, Status::IoError);
}

#[test]
fn full_buffer_slows_writes_to_the_rate_of_the_zones_dies() {
    // Two dies program 64 KiB in 265.5 us each: slower than the zone's 131 us a unit.
    let config = ZnsConfig {
        zone_capacity: Bytes(ZONE * 512),
        zone_rate: Bytes(600_000_000),
        program: Nanos(210_000),
        buffer: Bytes(640 << 10),
        ..small()
    };
    let mut rig = Rig::new(&config);
    let mut ends = Vec::new();
    for zone in [0, 2, 4] {
        // Zones of one stripe.
        for at in 0..8 {
            rig.submit(write(zone, at * 256, 256));
        }
        while !rig.is_idle() {
            rig.step(Nanos(u64::MAX));
            assert!(rig.device.buffered() <= config.buffer);
        }
        ends.push(rig.now.0);
    }
    let unit = 65_536 + 210_000;
    let last = ends[2] - ends[1];
    assert!(last.abs_diff(8 * unit) < unit, "16 units by two dies: {last}");
    rig.settle();
    rig.time(Bio::read(Sector(0), 8, 0));
    assert_eq!(rig.device.buffered(), Bytes(0), "all of it was programmed");
}

#[test]
fn data_in_the_buffer_are_read_without_the_flash() {
    let mut rig = Rig::new(&small());
    let from_flash = 5_000 + 40_000 + 4096;
    rig.time(write(0, 0, 120));
    rig.settle();
    assert_eq!(rig.time(Bio::new(Op::Read, Sector(0), 8, 0)), 5_000 + 4096, "no unit is full");
    rig.time(write(0, 120, 8));
    rig.settle();
    assert_eq!(rig.time(Bio::new(Op::Read, Sector(0), 8, 0)), from_flash + 4096);
    assert_eq!(rig.time(Bio::new(Op::Read, Sector(ZONE), 8, 0)), 5_000 + 4096, "never written");
}

/// How long a read takes that meets a program just begun, and when the program is done then.
fn read_behind_a_program(suspend: bool, suspend_step: Nanos) -> (u64, Bytes) {
    let mut rig = Rig::new(&ZnsConfig { suspend, suspend_step, ..small() });
    rig.time(write(0, 0, 128));
    rig.settle();
    // One unit more on the die of the first, two on the other die.
    rig.time(write(0, 128, 384));
    // Its data have come over the bus.
    rig.now += Nanos(65_536);
    let read = rig.time(Bio::new(Op::Read, Sector(0), 8, 0));
    (read, rig.device.buffered())
}

#[test]
fn read_waits_for_the_program_on_its_die_unless_that_can_be_suspended() {
    let read = 40_000 + 4096 + 4096;
    let (waited, buffered) = read_behind_a_program(false, Nanos(0));
    assert_eq!(waited, 200_000 + read);
    assert_eq!(buffered, Bytes(64 << 10), "the other die has one more");
    let (interrupted, buffered) = read_behind_a_program(true, Nanos(0));
    assert_eq!(interrupted, 5_000 + 5_000 + read, "the controller, and the interruption");
    assert_eq!(buffered, Bytes(192 << 10), "the programs go on");
    let (stepwise, _) = read_behind_a_program(true, Nanos(100_000));
    let wait = 100_000 - (65_536 + 5_000);
    assert_eq!(stepwise, interrupted + wait, "until 100 us of the program are done");
}

#[test]
fn reset_takes_as_long_as_the_erase_of_what_was_written() {
    let mut rig = Rig::new(&small());
    assert_eq!(rig.time(of_zone(Op::ZoneReset, 0)), 2_000, "nothing to erase");
    for at in 0..6 {
        rig.time(write(0, at * 256, 256));
    }
    rig.settle();
    // Six units on each die; a block of both planes holds two.
    assert_eq!(rig.time(of_zone(Op::ZoneReset, 0)), 3 * 1_000_000 + 2_000);
    assert_eq!(rig.time(write(0, 0, 8)), 10_000 + 2 * 4096);
}

#[test]
fn reset_that_erases_later_takes_a_base_the_data_and_the_program_of_an_open_zone() {
    let config =
        ZnsConfig { reset_time: Nanos(50_000), reset_rate: Bytes(1_000_000_000), ..small() };
    let mut rig = Rig::new(&config);
    rig.time(write(0, 0, 136));
    rig.settle();
    let data = 136 * 512;
    assert_eq!(rig.time(of_zone(Op::ZoneReset, 0)), 2_000 + 50_000 + data + 250_000);
    rig.time(write(0, 0, 8));
    assert_eq!(rig.time(of_zone(Op::ZoneReset, 0)), 2_000 + 50_000 + 4096, "no unit was full");
    rig.time(write(0, 0, 136));
    rig.time(of_zone(Op::ZoneFinish, 0));
    let finished = rig.time(of_zone(Op::ZoneReset, 0));
    assert_eq!(finished, 2_000 + 50_000 + data, "padding costs nothing");

    let mut rig = Rig::new(&ZnsConfig { reset_program: 50_000, ..config });
    rig.time(write(0, 0, 136));
    rig.settle();
    let half = 100_000;
    assert_eq!(rig.time(of_zone(Op::ZoneReset, 0)), 2_000 + 50_000 + data + half);
}

#[test]
fn commands_overlap_in_their_latency() {
    let mut rig = Rig::new(&ZnsConfig { latency: Nanos(80_000), ..small() });
    for zone in 0..3 {
        rig.submit(write(zone, 0, 8));
    }
    rig.run();
    let controller = |nth: u64| (nth + 1) * (10_000 + 4096) + nth * 1_000 + 4096;
    for (_, end, completion) in &rig.ends {
        let way = end.0 - controller(completion.sector.0 / ZONE);
        assert!([70_000, 110_000].contains(&way), "{way}");
    }
    rig.settle();
    assert_eq!(rig.time(Bio::new(Op::Read, Sector(0), 8, 0)), 80_000 + 5_000 + 4096);
}

#[test]
fn one_write_in_four_takes_longer_and_the_mean_is_the_latency() {
    for (write_spread, less, more) in [(12_500, 70_000, 110_000), (50_000, 40_000, 200_000)] {
        let latency = Nanos(80_000);
        let mut rig = Rig::new(&ZnsConfig { latency, write_spread, ..small() });
        let mut ways = Vec::new();
        for at in 0..150 {
            ways.push(rig.time(write(0, at * 8, 8)) - 10_000 - 2 * 4096);
            rig.settle();
        }
        let long = ways.iter().filter(|way| **way == more).count();
        let short = ways.iter().filter(|way| **way == less).count();
        assert!(long + short == ways.len() && (20..60).contains(&long), "{long} of {ways:?}");
    }
}

#[test]
fn appends_to_one_zone_follow_one_another_with_what_they_take_longer() {
    let config = ZnsConfig {
        write_unit: Bytes(8192),
        unit_time: Nanos(3_000),
        append_time: Nanos(20_000),
        zone_rate: Bytes(0),
        zone_switch: Nanos(0),
        ..small()
    };
    let ends = |zones: [u64; 3]| {
        let mut rig = Rig::new(&config);
        for zone in zones {
            rig.submit(Bio::new(Op::ZoneAppend, Sector(zone * ZONE), 16, 0));
        }
        rig.run();
        rig.ends.iter().map(|(_, end, _)| end.0).collect::<Vec<u64>>()
    };
    let (data, longer) = (8192, 10_000);
    assert_eq!(ends([0, 0, 0]), [1, 2, 3].map(|nth| 3_000 + nth * (data + longer)));
    assert_eq!(ends([0, 1, 2]), [1, 2, 3].map(|nth| nth * (3_000 + data) + longer));
}

/// A drive of eight zones that can all be written and whose buffer is full of the first one's data.
fn full(drawn_from: Bytes) -> Rig {
    let (max_open, max_active, buffer) = (8, 8, Bytes(768 << 10));
    let program = Nanos(20_000_000);
    let mut rig = Rig::new(&ZnsConfig {
        max_open,
        max_active,
        buffer,
        program,
        drawn_from,
        zone_rate: Bytes(0),
        ..small()
    });
    for at in 0..3 {
        rig.time(write(0, at * 512, 512));
    }
    assert_eq!(rig.device.buffered(), buffer);
    rig
}

#[test]
fn writes_that_wait_for_space_have_it_in_random_order() {
    let order = |drawn_from| {
        let mut rig = full(drawn_from);
        for zone in 1..8 {
            rig.submit(write(zone, 0, 128));
        }
        rig.run();
        rig.ends.iter().map(|(_, _, c)| c.sector.0 / ZONE).collect::<Vec<u64>>()
    };
    let arrival = [1, 2, 3, 4, 5, 6, 7];
    let mut drawn = order(Bytes(256 << 10));
    assert_ne!(drawn, arrival, "not the order of arrival");
    drawn.sort_unstable();
    assert_eq!(drawn, arrival);
    assert_eq!(order(Bytes(0)), arrival);
}

#[test]
fn long_write_that_is_next_to_have_space_is_not_overtaken_by_short_ones() {
    let mut rig = full(Bytes(256 << 10));
    // Each unit that is programmed has space for one more of the short ones.
    rig.submit(write(1, 0, 512));
    for zone in 2..4 {
        rig.submit(write(zone, 0, 128));
    }
    let mut written = [128, 128];
    loop {
        rig.step(Nanos(u64::MAX));
        for (_, _, completion) in std::mem::take(&mut rig.ends) {
            assert_eq!(completion.status, Status::Ok, "there is no room left for short ones");
            let zone = completion.sector.0 / ZONE;
            if zone == 1 {
                return rig.run();
            }
            let at = &mut written[zone as usize - 2];
            rig.submit(write(zone, *at, 128));
            *at += 128;
        }
    }
}

#[test]
fn pages_that_go_to_a_die_one_after_another_free_their_space_one_after_another() {
    for (page_programs, left) in [(true, [32 << 10, 0]), (false, [64 << 10, 64 << 10])] {
        let mut rig = Rig::new(&ZnsConfig { page_programs, ..small() });
        rig.time(write(0, 0, 128));
        // Half of the unit takes 32,768 ns on the channel; all of it is programmed in 200 us.
        for (wait, left) in [(40_000, left[0]), (40_000, left[1]), (200_000, 0)] {
            rig.now += Nanos(wait);
            rig.time(Bio::read(Sector(ZONE), 8, 0));
            assert_eq!(rig.device.buffered(), Bytes(left), "{page_programs}");
        }
    }
}

#[test]
fn dies_program_a_unit_for_the_drive_after_each_interval_of_data() {
    let end = |log_interval, units| {
        let log_interval = Bytes(log_interval);
        let mut rig = Rig::new(&ZnsConfig { log_interval, power_safe: false, ..small() });
        (0..units).for_each(|unit| rig.submit(write(unit % 2, unit / 2 * 128, 128)));
        rig.run();
        rig.time(Bio::new(Op::Flush, Sector(0), 0, 0));
        rig.now
    };
    let log = Nanos(65_536 + 200_000);
    assert_eq!(end(256 << 10, 3), end(0, 3), "a unit less than the interval");
    assert!(end(256 << 10, 4) >= end(0, 4) + log);
    assert!(end(256 << 10, 8) >= end(512 << 10, 8) + Nanos(200_000), "twice");
}

#[test]
fn writes_in_small_lbas_pay_for_pages_and_blocks_written_in_part() {
    let config = ZnsConfig { lba: 512, partial_time: Nanos(100_000), ..small() };
    let mut rig = Rig::new(&config);
    let writes =
        [(0, 1, 1), (1, 7, 1), (8, 8, 1), (16, 16, 1), (32, 32, 0), (64, 40, 1), (104, 48, 2)];
    for (at, sectors, parts) in writes {
        let time = rig.time(write(0, at, sectors));
        let expected = 10_000 + parts * 100_000 + 2 * u64::from(sectors) * 512;
        assert_eq!(time, expected, "{sectors} sectors at {at}");
        rig.settle();
    }
    rig.time(write(0, 152, 1));
    let after = rig.time(write(0, 153, 7));
    assert!(after > 2 * 100_000, "the controller still writes a part of 4 KiB: {after}");
    let mut large = Rig::new(&ZnsConfig { lba: 4096, ..config });
    assert_eq!(large.time(write(0, 0, 8)), 10_000 + 2 * 4096);
}

#[test]
fn zones_that_write_parts_of_blocks_take_turns_in_random_order() {
    let config = ZnsConfig { lba: 512, partial_time: Nanos(100_000), ..small() };
    let mut rig = Rig::new(&config);
    let mut zones = Vec::new();
    let mut written = [1, 1];
    let write = |zone: u64, at| Bio::new(Op::Write, Sector(zone * ZONE + at), 1, zone);
    rig.submit(write(0, 0));
    rig.submit(write(1, 0));
    while zones.len() < 200 {
        rig.step(Nanos(u64::MAX));
        for (_, _, completion) in std::mem::take(&mut rig.ends) {
            assert_eq!(completion.status, Status::Ok);
            let zone = completion.user_data;
            zones.push(zone);
            let at = &mut written[zone as usize];
            rig.submit(write(zone, *at));
            *at += 1;
        }
    }
    rig.run();
    let again = zones.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!((30..120).contains(&again), "neither in turn nor one zone alone: {again} of 199");
    assert!(written.iter().all(|writes| *writes > 60), "{written:?}");
}

#[test]
fn page_that_was_read_last_from_its_die_is_not_sensed_again() {
    let config = ZnsConfig { transfer_time: Nanos(3_000), page_spread: 50, lba: 512, ..small() };
    let mut rig = Rig::new(&config);
    rig.time(write(0, 0, 128));
    rig.settle();
    let mut read = |sector, sectors| rig.time(Bio::read(Sector(sector), sectors, 0));
    let way = 5_000 + 3_000 + 2 * 4096;
    assert_eq!(read(0, 8), way + 40_000);
    assert_eq!(read(8, 8), way);
    assert_eq!(read(16, 1), way - 4096 + 512, "the die sends a whole codeword");
    assert_eq!(read(32, 8), way + 40_000);
    assert_eq!(read(64, 8), way + 60_000, "the second of two pages of a cell");
    assert_eq!(read(96, 8), way + 60_000, "the same in the other plane");
}

#[test]
fn stream_is_read_ahead_of_and_pages_of_a_read_overlap() {
    let stream_rate = Bytes(500_000_000);
    let send_time = Nanos(300);
    let config =
        ZnsConfig { read_ahead: true, stream_rate, send_time, cache_read: true, ..small() };
    let mut rig = Rig::new(&config);
    rig.time(write(0, 0, 256));
    rig.settle();
    let mut read = |sector, sectors| rig.time(Bio::read(Sector(sector), sectors, 0));
    assert_eq!(read(0, 128), 5_000 + 40_000 + 2 * 65_536 + 300, "two pages of both planes");
    // The dies read ahead a unit each, two pages of both planes, and share a channel two by two.
    let units = 2 * (40_000 + 2 * 32_768);
    assert_eq!(read(128, 8), 5_000 + (4096 * units + 1) / 65_536 + 1);
    assert_eq!(read(8, 8), 5_000 + 40_000 + 2 * 4096 + 300, "another stream");
    rig.submit(Bio::read(Sector(ZONE), 8, 0));
    let continued = rig.time(Bio::read(Sector(16), 8, 0));
    assert_eq!(continued, 2 * 5_000 + 4096 + 300 + 4096, "beside a read of another zone");
    rig.settle();
    rig.submit(Bio::read(Sector(ZONE + 8), 8, 0));
    let page = rig.time(Bio::read(Sector(24), 32, 0));
    assert_eq!(page, 2 * 5_000 + 40_000 + 3 * 16_384, "a whole page, at the rate of streams");
}

#[test]
fn reads_beyond_those_that_the_drive_works_on_wait() {
    let mut rig = Rig::new(&ZnsConfig { reads: 2, read_time: Nanos(0), ..small() });
    for zone in 0..2 {
        rig.time(write(zone, 0, 128));
    }
    rig.settle();
    let start = rig.now;
    for (zone, sector) in [(0, 0), (1, 0), (0, 32)] {
        rig.submit(Bio::read(Sector(zone * ZONE + sector), 8, 0));
    }
    rig.run();
    let way = 40_000 + 2 * 4096;
    let ends: Vec<u64> = rig.ends.iter().map(|(_, end, _)| (*end - start).0).collect();
    assert_eq!(ends, [way, way + 4096, way + way]);
}

#[test]
fn finish_programs_padding_up_to_the_capacity() {
    let mut rig = Rig::new(&small());
    rig.time(write(0, 0, 8));
    let unit = 65_536 + 200_000;
    assert_eq!(rig.time(of_zone(Op::ZoneFinish, 0)), 6 * unit + 12_000);
    assert_eq!(rig.device.buffered(), Bytes(0), "the unit in part was programmed too");
    assert_eq!(rig.time(of_zone(Op::ZoneFinish, 0)), 2_000, "it is full");
    assert_eq!(rig.time(of_zone(Op::ZoneFinish, 1)), 12_000, "an empty zone has nothing to pad");
    // Only the last unit is left, of which a part is in the buffer.
    let blocks = CAPACITY / 8;
    for block in 0..blocks - 1 {
        rig.time(write(2, block * 8, 8));
    }
    rig.settle();
    assert_eq!(rig.time(of_zone(Op::ZoneFinish, 2)), unit + 12_000);
}

#[test]
fn appends_of_whole_units_hold_the_controller_no_longer_than_writes() {
    let config = ZnsConfig { write_unit: Bytes(8192), unit_time: Nanos(3_000), ..small() };
    let mut rig = Rig::new(&config);
    for zone in 1..3 {
        rig.submit(Bio::new(Op::ZoneAppend, Sector(zone * ZONE), 16, 0));
    }
    rig.run();
    let ends: Vec<u64> = rig.ends.iter().map(|(_, end, _)| end.0).collect();
    let way = 3_000 + 2 * 8192 + 2_000;
    assert_eq!(ends, [way, 3_000 + 8192 + 1_000 + way], "the second waits for a write's time");
}

#[test]
fn writes_of_whole_units_take_their_own_time_and_appends_are_longer_by_the_same() {
    let config = ZnsConfig { write_unit: Bytes(8192), unit_time: Nanos(3_000), ..small() };
    let mut rig = Rig::new(&config);
    let append = |sectors| Bio::new(Op::ZoneAppend, Sector(ZONE), sectors, 0);
    for (sectors, [write_time, append_time]) in
        [(8, [10_000, 12_000]), (16, [3_000, 5_000]), (24, [10_000, 12_000]), (32, [3_000, 5_000])]
    {
        let data = 2 * u64::from(sectors) * 512;
        let mut time = |bio: Bio| {
            rig.settle();
            rig.time(bio)
        };
        assert_eq!(time(append(sectors)), append_time + data, "{sectors} sectors");
        let mut other = Rig::new(&config);
        assert_eq!(other.time(write(0, 0, sectors)), write_time + data, "{sectors} sectors");
    }
}

/// A drive whose resets hold back programs for this share of their time.
fn with_hold(percent: u32) -> ZnsConfig {
    let (reset_time, reset_rate) = (Nanos(1_000_000), Bytes(1_000_000_000));
    ZnsConfig { reset_time, reset_rate, reset_hold: percent, ..small() }
}

#[test]
fn no_program_begins_while_a_reset_holds_them_back() {
    for (percent, buffered) in [(100, 64 << 10), (10, 0)] {
        let mut rig = Rig::new(&with_hold(percent));
        rig.time(write(0, 0, 8));
        rig.submit(of_zone(Op::ZoneReset, 0));
        rig.submit(write(1, 0, 128));
        rig.run();
        assert_eq!(rig.device.buffered(), Bytes(buffered), "{percent} percent");
    }
}

#[test]
fn reset_waits_for_queued_units_of_writes_and_for_no_more_of_appends_than_have_begun() {
    let (program, zone_rate) = (Nanos(2_000_000), Bytes(0));
    let config = ZnsConfig { program, zone_rate, ..with_hold(100) };
    let reset = |unit: fn(u64) -> Bio| {
        let mut rig = Rig::new(&config);
        rig.time(write(0, 0, 8));
        // Two units for each of the zone's dies.
        for nr in 0..4 {
            rig.time(unit(nr));
        }
        rig.time(of_zone(Op::ZoneReset, 0))
    };
    let written = reset(|nr| write(1, nr * 128, 128));
    let appended = reset(|_| Bio::new(Op::ZoneAppend, Sector(ZONE), 128, 0));
    assert!((1_900_000..2_200_000).contains(&(written - appended)), "{written}, {appended}");
}

#[test]
fn resets_follow_one_another_each_after_the_erase_of_the_one_before() {
    // Two units are a block of a die, and a zone has two dies.
    for (units, blocks) in [(1, 1), (5, 2)] {
        let mut rig = Rig::new(&with_hold(50));
        let written = [1, units, 1];
        for (zone, units) in written.into_iter().enumerate() {
            rig.time(write(zone as u64, 0, units * 128));
        }
        rig.settle();
        (0..3).for_each(|zone| rig.submit(of_zone(Op::ZoneReset, zone)));
        let start = rig.now;
        rig.run();
        let ends: Vec<u64> = rig.ends.iter().map(|(_, end, _)| (*end - start).0).collect();
        let time = written.map(|units| 1_000_000 + u64::from(units) * 65_536 + 250_000);
        let first = 2_000 + time[0];
        let second = first + 1_000_000 + time[1];
        assert_eq!(ends, [first, second, second + blocks * 1_000_000 + time[2]], "{units} units");
    }
}

#[test]
fn estimate_of_random_reads_is_what_a_read_takes() {
    for read_link_rate in [0, 200_000_000].map(Bytes) {
        let mut rig = Rig::new(&ZnsConfig { read_link_rate, ..small() });
        rig.time(write(0, 0, 128));
        rig.settle();
        let read = rig.time(Bio::read(Sector(0), 8, 0));
        let estimates = rig.device.estimates();
        let reads = estimates.iter().find(|estimate| estimate.load == EstimatedLoad::RandomReads);
        let expected = 1e9 / reads.expect("it has one").value;
        assert!((read as f64 - expected).abs() < 1.0, "{read} {expected}");
    }
}

#[test]
fn estimate_of_writes_leaves_out_what_the_drive_writes_for_itself() {
    let rate = |log_interval| {
        let config = ZnsConfig { zone_rate: Bytes(0), log_interval, ..small() };
        let estimates = Rig::new(&config).device.estimates();
        let write = estimates.iter().find(|it| it.load == EstimatedLoad::SequentialAtStart);
        write.expect("it has one").value
    };
    // The zone's two dies program a unit of 64 KiB each for 384 KiB of data.
    let share = rate(Bytes(384 << 10)) / rate(Bytes(0));
    assert!((share - 0.75).abs() < 1e-6, "{share}");
}

#[test]
fn reset_waits_for_what_other_zones_have_to_program() {
    let mut rig = Rig::new(&with_hold(50));
    rig.time(write(0, 0, 8));
    rig.settle();
    let alone = Rig::new(&with_hold(50)).time(of_zone(Op::ZoneReset, 0));
    rig.time(write(1, 0, 128));
    let beside = rig.time(of_zone(Op::ZoneReset, 0));
    assert!(beside > alone + 200_000, "{beside} after a program, {alone} without");
}

#[test]
fn flush_costs_nothing_with_a_safe_buffer_and_waits_for_programs_without() {
    let flush = || Bio::new(Op::Flush, Sector(0), 0, 0);
    let mut safe = Rig::new(&small());
    safe.time(write(0, 0, 136));
    assert_eq!(safe.time(flush()), 2_000);

    let config = ZnsConfig { power_safe: false, ..small() };
    let mut rig = Rig::new(&config);
    rig.time(write(0, 0, 136));
    let first = rig.time(flush());
    assert!(first >= 65_536 + 200_000, "a unit and the copy of one in part: {first}");
    assert_eq!(rig.device.buffered(), Bytes(4096), "the copy does not make room");
    assert_eq!(rig.time(flush()), 2_000, "nothing new");
    let mut bio = write(0, 136, 8);
    bio.flags = BioFlags::FUA;
    assert!(rig.time(bio) >= 65_536 + 200_000, "a write that must be safe");
}

#[test]
fn zone_beyond_the_active_limit_cannot_be_written_until_another_is_full() {
    let mut rig = Rig::new(&small());
    for zone in 0..4 {
        rig.time(write(zone, 0, 8));
    }
    let in_use = rig.device.zones().unwrap().in_use();
    assert_eq!((in_use.open(), in_use.active()), (3, 4));
    rig.submit(write(4, 0, 8));
    rig.run();
    assert_eq!(rig.ends.pop().unwrap().2.status, Status::ZoneActiveResource);
    rig.time(of_zone(Op::ZoneFinish, 1));
    rig.time(write(4, 0, 8));
}

#[test]
fn zones_are_written_at_the_write_pointer_only() {
    let mut rig = Rig::with(&small(), ZoneWrite::Off, 1);
    rig.submit(write(0, 8, 8));
    rig.run();
    assert_eq!(rig.ends[0].2.status, Status::IoError);
}

/// Areas of 64 KiB that move by 16 KiB.
fn with_areas() -> ZnsConfig {
    ZnsConfig {
        zrwa: Bytes(64 << 10),
        zrwa_granularity: Bytes(16 << 10),
        max_zrwa: 1,
        memory: true,
        ..small()
    }
}

#[test]
fn random_write_area_takes_writes_in_any_order_and_moves_the_write_pointer() {
    for policy in [ZoneWrite::Plug, ZoneWrite::Off] {
        let mut rig = Rig::with(&with_areas(), policy, 1);
        let wp = |rig: &Rig| rig.device.zones().unwrap().write_pointer(ZoneNo(0)).0;
        let data = |tag: u8| Buf::from(&[tag; 4096][..]);
        rig.time(of_zone(Op::ZoneOpenZrwa, 0));
        for (at, tag) in [(120, 1), (0, 2), (64, 3), (0, 4)] {
            rig.time(Bio::write(Sector(at), data(tag), 0));
            assert_eq!(wp(&rig), 0, "in the area");
        }
        rig.time(Bio::write(Sector(128), data(5), 0));
        assert_eq!(wp(&rig), 32, "a granule, for 4 KiB after the area");
        let mut refused = |bio: Bio, status: Status| {
            let what = format!("{:?} at {}", bio.op, bio.sector);
            rig.submit(bio);
            rig.run();
            assert_eq!(rig.ends.pop().unwrap().2.status, status, "{what}");
        };
        refused(Bio::write(Sector(0), data(9), 0), Status::IoError);
        refused(Bio::write(Sector(32 + 256), data(9), 0), Status::IoError);
        refused(flush_to(0, 40), Status::Invalid);
        refused(flush_to(0, 32 + 160), Status::Invalid);
        refused(flush_to(1, 32), Status::IoError);
        refused(of_zone(Op::ZoneOpenZrwa, 1), Status::NoSpace);
        refused(Bio::new(Op::ZoneAppend, Sector(0), 8, 0), Status::IoError);
        assert!(rig.time(flush_to(0, 160)) >= 2_000, "a command, besides");
        assert_eq!(wp(&rig), 160);
        assert_eq!(rig.device.buffered(), Bytes(80 << 10));
        for (at, tag) in [(0, 4), (64, 3), (120, 1), (128, 5), (72, 0)] {
            rig.submit(Bio::read(Sector(at), 8, 0));
            rig.run();
            let buf = rig.ends.pop().unwrap().2.buf.unwrap();
            assert!(buf.iter().all(|&byte| byte == tag), "at {at}");
        }
        rig.time(Bio::new(Op::ZoneAppend, Sector(ZONE), 8, 0));
        rig.time(of_zone(Op::ZoneFinish, 0));
        rig.time(of_zone(Op::ZoneOpenZrwa, 2));
    }
}

/// A second.
const S: u64 = 1_000_000_000;

/// A drive that recommends to finish zones after two seconds, finishes them after five, and recommends
/// to reset full ones after ten.
fn aging() -> ZnsConfig {
    ZnsConfig {
        finish_recommended: Nanos(2 * S),
        finish_after: Nanos(5 * S),
        reset_recommended: Nanos(10 * S),
        ..small()
    }
}

impl Rig {
    /// The zones that have changed on their own by a time, and when one does next, in nanoseconds.
    fn changed(&mut self, at: Nanos) -> (Vec<u32>, Option<Nanos>) {
        let mut changed = Vec::new();
        let next = self.device.zone_aging().expect("it ages").age(at, &mut changed);
        (changed.iter().map(|zone| zone.0).collect(), next)
    }

    fn zone(&self, zone: u32) -> zonal_blk::Zone {
        let mut zones = Vec::new();
        self.device.report_zones(ZoneNo(zone), 1, &mut zones).unwrap();
        zones[0]
    }
}

#[test]
fn zones_age_in_the_drives_time() {
    let mut rig = Rig::new(&aging());
    assert_eq!(rig.changed(Nanos(0)), (vec![], None), "nothing is active");
    let begun = rig.now;
    rig.time(of_zone(Op::ZoneOpen, 0));
    rig.time(write(1, 0, 8));
    rig.time(of_zone(Op::ZoneClose, 1));
    let (changed, next) = rig.changed(rig.now);
    assert_eq!((changed, next), (vec![], Some(begun + Nanos(2 * S))));
    assert_eq!(rig.changed(begun + Nanos(3 * S)).0, [0, 1]);
    assert_eq!(rig.zone(0).attributes, ZoneAttributes::FINISH_RECOMMENDED);
    assert_eq!(rig.zone(1).attributes, ZoneAttributes::FINISH_RECOMMENDED);
    assert_eq!(rig.changed(begun + Nanos(3 * S)).0, [0u32; 0], "once");
    rig.now = begun + Nanos(4 * S);
    rig.time(of_zone(Op::ZoneReset, 0));
    assert_eq!(rig.zone(0).attributes, ZoneAttributes::NONE, "what it recommended is past");
    // Zone 1 has been active for five seconds; it is full and the drive's counts agree.
    let finished = begun + Nanos(6 * S);
    assert_eq!(rig.changed(finished).0, [1]);
    let zone = rig.zone(1);
    assert_eq!(
        (zone.cond, zone.attributes),
        (ZoneCondition::Full, ZoneAttributes::FINISHED_BY_DEVICE)
    );
    rig.device.zones().unwrap().in_use();
    assert_eq!(rig.changed(finished + Nanos(9 * S)).0, [0u32; 0]);
    assert_eq!(rig.changed(finished + Nanos(10 * S)).0, [1]);
    let both = ZoneAttributes::FINISHED_BY_DEVICE | ZoneAttributes::RESET_RECOMMENDED;
    assert_eq!(rig.zone(1).attributes, both);
    assert_eq!(rig.changed(finished + Nanos(1000 * S)), (vec![], None));
    rig.now = finished + Nanos(1000 * S);
    rig.time(of_zone(Op::ZoneReset, 1));
    assert_eq!(rig.zone(1).attributes, ZoneAttributes::NONE);
    rig.time(write(1, 0, 8));
}

#[test]
fn block_layer_finds_that_the_drive_has_finished_a_zone() {
    let mut rig = Rig::new(&aging());
    rig.time(write(0, 0, 8));
    rig.now = Nanos(6 * S);
    // The first reaches the drive, which refuses it; those after it cannot be written either.
    for at in [8, 16, 24] {
        rig.submit(write(0, at, 8));
    }
    rig.run();
    let ends: Vec<Status> = rig.ends.drain(..).map(|(_, _, end)| end.status).collect();
    assert_eq!(ends, [Status::IoError; 3]);
    let known = rig.channels[0].queue().cached_zone(ZoneNo(0));
    assert_eq!(known.map(|(phase, _)| phase), Some(zonal_blk::ZonePhase::Full));
    rig.time(of_zone(Op::ZoneReset, 0));
    rig.time(write(0, 0, 8));
    assert_eq!(rig.channels[0].queue().live_plugs(), 1);
}

#[test]
fn zone_with_data_in_flight_is_finished_with_them() {
    let config = ZnsConfig { finish_recommended: Nanos(0), finish_after: Nanos(50_000), ..aging() };
    let mut rig = Rig::new(&config);
    rig.submit(write(0, 0, 512));
    rig.run();
    assert_eq!(rig.ends.pop().unwrap().2.status, Status::Ok);
    assert_eq!(rig.zone(0).cond, ZoneCondition::Full);
    rig.settle();
    rig.step(rig.now);
    assert_eq!(rig.device.buffered(), Bytes(0), "nothing is left of it in the write buffer");
    rig.time(of_zone(Op::ZoneReset, 0));
}

/// A flush of the random write area of a zone up to an offset.
fn flush_to(zone: u64, to: u32) -> Bio {
    Bio::new(Op::ZrwaFlush, Sector(zone * ZONE), to, 0)
}

#[test]
fn flush_of_a_random_write_area_waits_for_space_in_the_write_buffer() {
    // The dies take a second for each unit, so nothing that is buffered leaves.
    let config = ZnsConfig {
        program: Nanos(1_000_000_000),
        zone_rate: Bytes(0),
        buffer: Bytes((4 * 64 + 256 + 64) << 10),
        ..with_areas()
    };
    let mut rig = Rig::with(&config, ZoneWrite::Plug, 1);
    rig.time(of_zone(Op::ZoneOpenZrwa, 0));
    rig.time(write(0, 0, 128));
    for at in [0, 512] {
        rig.time(write(1, at, 512));
    }
    rig.time(write(1, 1024, 16));
    let buffered = rig.device.buffered();
    let took = rig.time(flush_to(0, 128));
    assert!(took > 100_000_000, "{took} ns with {buffered} bytes in the buffer");
}

/// The next action of one channel.
#[derive(Clone, Debug)]
struct Act {
    channel: usize,
    zone: u64,
    kind: u8,
    sectors: u32,
    wait: u64,
}

fn act() -> impl Strategy<Value = Act> {
    let sectors = prop_oneof![Just(8u32), Just(32), Just(128), Just(256)];
    (0..3usize, 0..6u64, 0..16u8, sectors, 0..400_000u64)
        .prop_map(|(channel, zone, kind, sectors, wait)| Act { channel, zone, kind, sectors, wait })
}

fn drives() -> impl Strategy<Value = ZnsConfig> {
    (any::<bool>(), any::<bool>(), prop_oneof![Just(512u64 << 10), Just(1 << 20)]).prop_map(
        |(power_safe, suspend, buffer)| ZnsConfig {
            power_safe,
            suspend,
            buffer: Bytes(buffer),
            memory: true,
            ..small()
        },
    )
}

/// Runs the acts; gives each end: channel, time, what, status, where. Checks as it goes.
fn run(config: &ZnsConfig, acts: &[Act]) -> Vec<(usize, u64, u64, Status, u64)> {
    let mut rig = Rig::with(config, ZoneWrite::Plug, 3);
    let mut model = vec![0u8; (ZONE * 8 * 512) as usize];
    let mut wp = [0u64; 8];
    let mut submitted = 0;
    for (nr, act) in acts.iter().enumerate() {
        let tag = (nr % 255 + 1) as u8;
        let (zone, start) = (act.zone as usize, act.zone * ZONE);
        let fits = wp[zone] + u64::from(act.sectors) <= CAPACITY;
        let data = || Buf::from(&vec![tag; act.sectors as usize * 512][..]);
        let mut bio = match act.kind {
            0 => Bio::new(Op::Flush, Sector(0), 0, 0),
            1 => of_zone(Op::ZoneReset, act.zone),
            2 => of_zone(Op::ZoneFinish, act.zone),
            3 => of_zone(Op::ZoneClose, act.zone),
            4..=7 => Bio::read(Sector(start), act.sectors, 0),
            8..=9 if fits && act.sectors <= 256 => {
                Bio { buf: Some(data()), ..Bio::new(Op::ZoneAppend, Sector(start), act.sectors, 0) }
            }
            _ if fits => Bio::write(Sector(start + wp[zone]), data(), 0),
            _ => of_zone(Op::ZoneReset, act.zone),
        };
        bio.user_data = nr as u64;
        // What the model says must hold once the drive has come to it: one at a time in a zone.
        let alone = !matches!(bio.op, Op::Read | Op::Flush);
        if alone {
            while !rig.is_idle() {
                rig.step(Nanos(u64::MAX));
                check(&rig, config);
            }
        }
        let op = bio.op;
        rig.channels[act.channel].submit(rig.now, bio);
        submitted += 1;
        if alone {
            while !rig.is_idle() {
                rig.step(Nanos(u64::MAX));
                check(&rig, config);
            }
            let (_, _, completion) = rig.ends.last().unwrap();
            if completion.status == Status::Ok {
                match op {
                    Op::ZoneReset => {
                        wp[zone] = 0;
                        model[(start * 512) as usize..][..(ZONE * 512) as usize].fill(0);
                    }
                    Op::ZoneFinish => wp[zone] = CAPACITY,
                    Op::Write | Op::ZoneAppend => {
                        assert_eq!(completion.sector.0, start + wp[zone]);
                        let at = ((start + wp[zone]) * 512) as usize;
                        model[at..][..act.sectors as usize * 512].fill(tag);
                        wp[zone] += u64::from(act.sectors);
                    }
                    _ => {}
                }
            }
        }
        let until = rig.now + Nanos(act.wait);
        while rig.now < until {
            rig.step(until);
            check(&rig, config);
        }
    }
    rig.run();
    assert_eq!(rig.ends.len(), submitted, "every bio completes once");
    for zone in 0..8 {
        rig.channels[0].submit(rig.now, Bio::read(Sector(zone * ZONE), CAPACITY as u32, 0));
        rig.run();
        let read = rig.ends.pop().unwrap().2.buf.unwrap();
        let written = &model[(zone * ZONE * 512) as usize..][..(CAPACITY * 512) as usize];
        assert!(read[..] == *written, "zone {zone} reads as written");
    }
    let end = |(channel, at, c): &(usize, Nanos, Completion)| {
        (*channel, at.0, c.user_data, c.status, c.sector.0)
    };
    rig.ends.iter().map(end).collect()
}

fn check(rig: &Rig, config: &ZnsConfig) {
    assert!(rig.device.buffered() <= config.buffer, "the buffer is never above its size");
    let in_use = rig.device.zones().unwrap().in_use();
    assert!(in_use.open() <= config.max_open && in_use.active() <= config.max_active);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_lost_limits_hold_data_are_kept_and_runs_repeat_themselves(
        config in drives(),
        acts in prop::collection::vec(act(), 1..60),
    ) {
        let once = run(&config, &acts);
        prop_assert_eq!(once, run(&config, &acts));
    }
}

#[test]
fn zone_that_is_emptied_behind_a_finish_can_be_filled_again() {
    let mut rig = Rig::with(&small(), ZoneWrite::Off, 1);
    rig.time(write(0, 0, 8));
    rig.submit(of_zone(Op::ZoneFinish, 0));
    // The drive has taken the command up and not yet done what it means for the buffer.
    rig.step(rig.now);
    rig.device.rewind(ZoneNo(0), Sector(0)).unwrap();
    rig.run();
    rig.time(write(0, 0, 128));
    rig.settle();
    rig.time(of_zone(Op::ZoneOpen, 1));
    assert_eq!(rig.device.buffered(), Bytes(0), "whole units go to the flash");
}

/// A zone that can no longer be written is not active, so its unit in part must leave room for that
/// of another.
#[test]
fn zone_that_becomes_read_only_keeps_no_room_in_the_buffer() {
    let one = ZnsConfig { max_open: 1, max_active: 1, ..small() };
    let config = ZnsConfig { buffer: one.min_buffer(), ..one };
    let mut rig = Rig::with(&config, ZoneWrite::Off, 1);
    rig.time(write(0, 0, 8));
    assert_eq!(rig.device.buffered(), Sector(8).to_bytes());
    rig.device.set_condition(ZoneNo(0), ZoneCondition::ReadOnly).unwrap();
    assert_eq!(rig.device.buffered(), Bytes(0));
    for at in (0..CAPACITY as u32).step_by(256) {
        rig.time(write(1, at.into(), 256));
    }
    rig.settle();
    rig.time(of_zone(Op::ZoneOpen, 2));
    assert_eq!(rig.device.buffered(), Bytes(0), "whole units go to the flash");
}

#[test]
fn append_of_a_part_of_a_page_holds_the_controller_no_longer_than_a_write() {
    let config = ZnsConfig {
        lba: 512,
        partial_time: Nanos(30_000),
        zone_rate: Bytes(0),
        zone_switch: Nanos(0),
        ..small()
    };
    let append = || Bio::new(Op::ZoneAppend, Sector(0), 8, 0);
    let one = |bio: Bio| Rig::new(&config).time(bio);
    let extra = 2_000;
    assert_eq!(one(append()), one(write(0, 0, 8)) + extra, "one by one");
    let last = |bios: Vec<Bio>| {
        let mut rig = Rig::with(&config, ZoneWrite::Off, 1);
        bios.into_iter().for_each(|bio| rig.submit(bio));
        rig.run();
        rig.ends.last().expect("they have ended").1.0
    };
    let appends = last((0..4).map(|_| append()).collect());
    let writes = last((0..4).map(|at| write(0, at * 8, 8)).collect());
    assert_eq!(appends, writes + extra, "together");
}
