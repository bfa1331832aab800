//! The null device below a queue: data, order, latency, faults.
use std::sync::Arc;
use zonal_blk::{
    Bio, Buf, Bytes, Channel, Completion, Device, Nanos, Op, Queue, QueueOptions, Sector, Status,
    Wake, ZoneCondition, ZoneNo, ZoneWrite,
};
use zonal_device::{NullConfig, NullDevice};

const ZONE: u64 = 2048;

fn small() -> NullConfig {
    NullConfig { zones: 8, zone_size: Bytes(ZONE * 512), ..NullConfig::default() }
}

fn device(config: &NullConfig) -> Arc<NullDevice> {
    Arc::new(NullDevice::new(config).unwrap())
}

fn channel(device: Arc<NullDevice>, zone_write: ZoneWrite) -> Channel {
    let options =
        QueueOptions { zone_write: Some(zone_write), merge: false, ..QueueOptions::default() };
    Queue::attach(device, options).unwrap().channel().unwrap()
}

/// Runs bios one after the other, each to its end.
struct Runner(Channel);

impl Runner {
    fn new(config: &NullConfig) -> Self {
        Runner(channel(device(config), ZoneWrite::Plug))
    }

    fn run(&mut self, bio: Bio) -> Completion {
        self.0.submit(Nanos(0), bio);
        let mut completions = Vec::new();
        while self.0.outstanding() > 0 {
            self.0.poll(Nanos(0), &mut completions);
        }
        assert_eq!(completions.len(), 1);
        completions.remove(0)
    }

    fn op(&mut self, op: Op, sector: u64, nr_sectors: u32) -> Status {
        self.run(Bio::new(op, Sector(sector), nr_sectors, 0)).status
    }

    fn write(&mut self, sector: u64, data: &[u8]) -> Status {
        self.run(Bio::write(Sector(sector), Buf::from(data), 0)).status
    }

    fn read(&mut self, sector: u64, nr_sectors: u32) -> Vec<u8> {
        let mut bio = Bio::read(Sector(sector), nr_sectors, 0);
        bio.buf.as_mut().unwrap().fill(0xee);
        let completion = self.run(bio);
        assert_eq!(completion.status, Status::Ok);
        completion.buf.unwrap().to_vec()
    }
}

fn pattern(sectors: usize, seed: usize) -> Vec<u8> {
    (0..sectors * 512).map(|i| ((i / 7 + seed) % 255 + 1) as u8).collect()
}

#[test]
fn reads_give_what_was_written_and_zeroes_beyond_the_write_pointer() {
    let mut io = Runner::new(&NullConfig { memory: true, ..small() });
    let (first, second) = (pattern(24, 1), pattern(300, 2));
    assert_eq!(io.write(ZONE, &first), Status::Ok);
    assert_eq!(io.write(ZONE + 24, &second), Status::Ok);
    let data = io.read(ZONE, 400);
    assert_eq!(data[..24 * 512], first);
    assert_eq!(data[24 * 512..324 * 512], second);
    assert!(data[324 * 512..].iter().all(|&b| b == 0));
}

#[test]
fn merged_writes_keep_the_data_of_each() {
    let device = device(&NullConfig { memory: true, ..small() });
    let queue = Queue::attach(device, QueueOptions::default()).unwrap();
    let mut channel = queue.channel().unwrap();
    for i in 0..4u32 {
        let data = pattern(8, i as usize);
        let bio = Bio::write(Sector(u64::from(i) * 8), Buf::from(&data[..]), 0);
        channel.submit(Nanos(0), bio);
    }
    let mut completions = Vec::new();
    while channel.outstanding() > 0 {
        channel.poll(Nanos(0), &mut completions);
    }
    assert!(completions.iter().all(|c| c.status == Status::Ok));
    let data = Runner(channel).read(0, 32);
    for i in 0..4 {
        assert_eq!(data[i * 4096..][..4096], pattern(8, i), "write {i}");
    }
}

#[test]
fn reset_forgets_the_zone_and_no_other() {
    let mut io = Runner::new(&NullConfig {
        memory: true,
        // Not a multiple of what the device allocates.
        zone_size: Bytes(ZONE * 512 + 4096),
        ..small()
    });
    let size = ZONE + 8;
    for zone in 1..4 {
        assert_eq!(io.write(zone * size, &pattern(2000, zone as usize)), Status::Ok);
    }
    assert_eq!(io.op(Op::ZoneReset, 2 * size, 0), Status::Ok);
    assert_eq!(io.read(size, 2000), pattern(2000, 1));
    assert!(io.read(2 * size, 2000).iter().all(|&b| b == 0));
    assert_eq!(io.read(3 * size, 2000), pattern(2000, 3));
    assert_eq!(io.op(Op::ZoneResetAll, 0, 0), Status::Ok);
    assert!(io.read(3 * size, 2000).iter().all(|&b| b == 0));
    assert_eq!(io.write(3 * size, &pattern(8, 9)), Status::Ok);
}

#[test]
fn conventional_zones_take_random_writes_and_discards() {
    let mut io = Runner::new(&NullConfig { memory: true, conventional: 2, ..small() });
    assert_eq!(io.write(ZONE + 512, &pattern(64, 1)), Status::Ok);
    assert_eq!(io.write(ZONE + 528, &pattern(16, 2)), Status::Ok);
    assert_eq!(io.op(Op::Discard, ZONE + 512, 16), Status::Ok);
    assert_eq!(io.op(Op::WriteZeroes, ZONE + 544, 8), Status::Ok);
    let data = io.read(ZONE + 512, 48);
    assert!(data[..16 * 512].iter().all(|&b| b == 0));
    assert_eq!(data[16 * 512..32 * 512], pattern(16, 2));
    assert!(data[32 * 512..40 * 512].iter().all(|&b| b == 0));
    assert_eq!(io.op(Op::Discard, 2 * ZONE, 16), Status::NotSupported);
}

#[test]
fn regular_device_takes_writes_anywhere_and_no_zone_commands() {
    let config =
        NullConfig { zoned: false, size: Bytes(64 << 20), memory: true, ..NullConfig::default() };
    assert_eq!(device(&config).limits().nr_zones, 0);
    let mut io = Runner::new(&config);
    // Across the border of what one lock guards.
    let sector = (16 << 20) / 512 - 20;
    assert_eq!(io.write(sector, &pattern(40, 1)), Status::Ok);
    assert_eq!(io.read(sector, 40), pattern(40, 1));
    assert_eq!(io.op(Op::Discard, sector, 40), Status::Ok);
    assert!(io.read(sector, 40).iter().all(|&b| b == 0));
    assert_eq!(io.op(Op::Flush, 0, 0), Status::Ok);
    assert_eq!(io.op(Op::ZoneResetAll, 0, 0), Status::NotSupported);
}

#[test]
fn native_append_says_where_the_data_landed() {
    let mut io = Runner::new(&NullConfig { memory: true, append_max: Bytes(64 << 10), ..small() });
    for i in 0..3 {
        let data = pattern(16, i as usize);
        let bio = Bio { op: Op::ZoneAppend, ..Bio::write(Sector(ZONE), Buf::from(&data[..]), 0) };
        let completion = io.run(bio);
        assert_eq!(completion.status, Status::Ok);
        assert_eq!(completion.sector, Sector(ZONE + i * 16));
        assert_eq!(io.read(ZONE + i * 16, 16), data);
    }
}

#[test]
fn failed_zones_refuse_commands_and_repaired_zones_are_empty() {
    let null = device(&NullConfig { memory: true, conventional: 1, ..small() });
    let mut io = Runner(channel(null.clone(), ZoneWrite::Off));
    assert_eq!(io.write(ZONE, &pattern(8, 1)), Status::Ok);
    let set = |zone, cond| null.set_condition(ZoneNo(zone), cond);

    set(1, ZoneCondition::ReadOnly).unwrap();
    assert_eq!(io.write(ZONE + 8, &pattern(8, 1)), Status::IoError);
    assert_eq!(io.read(ZONE, 8), pattern(8, 1));
    set(1, ZoneCondition::Offline).unwrap();
    assert_eq!(io.op(Op::Write, ZONE + 8, 8), Status::Offline);
    assert_eq!(io.op(Op::Read, ZONE, 8), Status::Offline);
    set(0, ZoneCondition::Offline).unwrap();
    assert_eq!(io.op(Op::Write, 0, 8), Status::Offline);
    set(0, ZoneCondition::NotWritePointer).unwrap();
    assert_eq!(io.op(Op::Write, 0, 8), Status::Ok);

    set(1, ZoneCondition::Empty).unwrap();
    assert!(io.read(ZONE, 8).iter().all(|&b| b == 0));
    assert_eq!(io.op(Op::Write, ZONE, 8), Status::Ok);
    assert_eq!(set(1, ZoneCondition::Closed), Err(Status::Invalid));
    assert_eq!(set(8, ZoneCondition::Offline), Err(Status::Invalid));
}

/// The user data and status of completions at `now`.
fn poll(channel: &mut Channel, now: u64) -> Vec<(u64, Status)> {
    let mut completions = Vec::new();
    channel.poll(Nanos(now), &mut completions);
    completions.iter().map(|c| (c.user_data, c.status)).collect()
}

fn submit_three_writes(channel: &mut Channel) {
    for i in 0..3 {
        channel.submit(Nanos(0), Bio::new(Op::Write, Sector(i * 8), 8, i));
    }
}

#[test]
fn host_that_relies_on_order_fails_at_once() {
    let mut unordered = channel(device(&small()), ZoneWrite::Off);
    submit_three_writes(&mut unordered);
    let newest_first = [(2, Status::IoError), (1, Status::IoError), (0, Status::Ok)];
    assert_eq!(poll(&mut unordered, 0), newest_first);

    let mut plugged = channel(device(&small()), ZoneWrite::Plug);
    submit_three_writes(&mut plugged);
    let in_order = [(0, Status::Ok), (1, Status::Ok), (2, Status::Ok)];
    assert_eq!(poll(&mut plugged, 0), in_order);
}

#[test]
fn commands_take_their_latency_and_end_newest_first() {
    let mut channel =
        channel(device(&NullConfig { latency: Nanos(100), ..small() }), ZoneWrite::Plug);
    for (now, user_data) in [(0, 0), (0, 1), (50, 2), (60, 3), (60, 4)] {
        channel.submit(Nanos(now), Bio::new(Op::Read, Sector(0), 8, user_data));
    }
    let ended = |list: &[u64]| list.iter().map(|&i| (i, Status::Ok)).collect::<Vec<_>>();
    assert_eq!(channel.next_event(), Wake::At(Nanos(100)));
    assert_eq!(poll(&mut channel, 99), []);
    assert_eq!(poll(&mut channel, 100), ended(&[1, 0]));
    assert_eq!(channel.next_event(), Wake::At(Nanos(150)));
    assert_eq!(poll(&mut channel, 1000), ended(&[2, 4, 3]));
    assert_eq!(channel.next_event(), Wake::Idle);
}

/// When each of 64 reads, started together, ends.
fn ends_with_jitter(seed: u64) -> Vec<(u64, u64)> {
    let config = NullConfig { latency: Nanos(1000), jitter: Nanos(500), seed, ..small() };
    let mut channel = channel(device(&config), ZoneWrite::Plug);
    for user_data in 0..64 {
        channel.submit(Nanos(0), Bio::new(Op::Read, Sector(0), 8, user_data));
    }
    let mut ends = Vec::new();
    while let Wake::At(now) = channel.next_event() {
        ends.extend(poll(&mut channel, now.0).iter().map(|(i, _)| (now.0, *i)));
    }
    ends
}

#[test]
fn jitter_is_the_same_for_a_seed_and_within_its_bounds() {
    let ends = ends_with_jitter(1);
    assert_eq!(ends.len(), 64);
    assert!(ends.iter().all(|(now, _)| (1000..1500).contains(now)));
    assert!(ends.iter().any(|(now, _)| *now != ends[0].0));
    assert_eq!(ends, ends_with_jitter(1));
    assert_ne!(ends, ends_with_jitter(2));
}
