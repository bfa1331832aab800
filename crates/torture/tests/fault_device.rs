//! Injected faults, seen through the block layer.
use std::collections::BTreeSet;
use std::sync::Arc;
use zonal_blk::{
    Bio, BioFlags, Buf, Bytes, Channel, Completion, Device, Nanos, Op, Queue, QueueOptions, Sector,
    Status, ZoneCondition, ZoneNo,
};
use zonal_device::control::FaultHooks;
use zonal_device::device_spec::parse;
use zonal_device::{
    HddConfig, HddDevice, NullConfig, NullDevice, SsdConfig, SsdDevice, ZnsConfig, ZnsDevice,
};
use zonal_torture::fault::{AbortResponse, Effect, FaultSpec};
use zonal_torture::{FaultConfig, FaultDevice};

const ZONE: u64 = 64;

struct Rig {
    device: Arc<FaultDevice>,
    queue: Arc<Queue>,
    channel: Channel,
    now: Nanos,
}

impl Rig {
    fn new(config: FaultConfig) -> Self {
        let null = NullConfig {
            zones: 4,
            zone_size: Bytes(ZONE * 512),
            conventional: 1,
            memory: true,
            ..NullConfig::default()
        };
        Rig::over(Arc::new(NullDevice::new(&null).unwrap()), config)
    }

    fn over(inner: Arc<dyn FaultHooks>, config: FaultConfig) -> Self {
        let device = FaultDevice::new(inner, config);
        let as_device: Arc<FaultDevice> = Arc::clone(&device);
        let queue = Queue::attach(as_device, QueueOptions::default()).unwrap();
        let channel = queue.channel().unwrap();
        Rig { device, queue, channel, now: Nanos(0) }
    }

    fn cached() -> Self {
        Rig::new(FaultConfig { volatile_cache: true, ..FaultConfig::default() })
    }

    /// The completion of a bio; nothing else is in flight.
    fn complete(&mut self, bio: Bio) -> Completion {
        self.channel.submit(self.now, bio);
        let mut done = Vec::new();
        while done.is_empty() {
            self.channel.poll(self.now, &mut done);
            if let Some(at) = self.channel.next_event().at() {
                self.now = self.now.max(at);
            }
        }
        done.pop().unwrap()
    }

    fn write(&mut self, sector: u64, byte: u8, sectors: usize, flags: BioFlags) -> Status {
        let data = vec![byte; sectors * 512];
        let bio = Bio::write(Sector(sector), Buf::from(&data[..]), 0);
        self.complete(Bio { flags, ..bio }).status
    }

    /// The first byte of each sector.
    fn read(&mut self, sector: u64, sectors: u32) -> Vec<u8> {
        let buf = self.complete(Bio::read(Sector(sector), sectors, 0)).buf.unwrap();
        buf.chunks(512).map(|sector| sector[0]).collect()
    }

    fn wp(&self, zone: u32) -> u64 {
        let mut zones = Vec::new();
        self.queue.report_zones(ZoneNo(zone), 1, &mut zones).unwrap();
        (zones[0].wp - zones[0].start).0
    }

    fn inject(&self, effect: Effect, status: Option<Status>) {
        self.device.inject(
            true,
            FaultSpec { delay: Nanos(0), effect, status, on_abort: AbortResponse::NotExecuted },
        );
    }
}

#[test]
fn torn_write_leaves_its_start_and_moves_the_write_pointer() {
    let mut rig = Rig::new(FaultConfig::default());
    rig.inject(Effect::Part(3), None);
    assert_eq!(rig.write(ZONE, 7, 8, BioFlags::NONE), Status::IoError);
    assert_eq!((rig.wp(1), rig.read(ZONE, 5)), (3, vec![7, 7, 7, 0, 0]));
    assert_eq!(rig.write(ZONE + 3, 8, 1, BioFlags::NONE), Status::Ok);
}

#[test]
fn fault_decides_what_is_executed_and_what_is_reported() {
    let mut rig = Rig::new(FaultConfig::default());
    rig.inject(Effect::All, Some(Status::Timeout));
    rig.inject(Effect::Nothing, Some(Status::IoError));
    assert_eq!(rig.write(ZONE, 7, 2, BioFlags::NONE), Status::Timeout);
    assert_eq!(rig.write(ZONE + 2, 8, 2, BioFlags::NONE), Status::IoError);
    assert_eq!((rig.wp(1), rig.read(ZONE, 3)), (2, vec![7, 7, 0]));
}

#[test]
fn delayed_command_completes_when_it_is_due() {
    let mut rig = Rig::new(FaultConfig { latency: Nanos(100), ..FaultConfig::default() });
    rig.device.inject(
        true,
        FaultSpec {
            delay: Nanos(900),
            effect: Effect::All,
            status: None,
            on_abort: AbortResponse::NotExecuted,
        },
    );
    assert_eq!(rig.write(ZONE, 7, 2, BioFlags::NONE), Status::Ok);
    assert_eq!(rig.now, Nanos(1000));
}

#[test]
fn removed_device_fails_everything_until_it_is_back() {
    let mut rig = Rig::new(FaultConfig { latency: Nanos(100), ..FaultConfig::default() });
    rig.channel.submit(rig.now, Bio::new(Op::Write, Sector(ZONE), 1, 1));
    rig.device.remove();
    assert!(rig.queue.report_zones(ZoneNo(0), 1, &mut Vec::new()).is_err());
    rig.device.reattach();
    let mut done = Vec::new();
    rig.channel.poll(rig.now, &mut done);
    assert_eq!(done[0].status, Status::Offline, "commands in flight are lost");
    assert_eq!(rig.wp(1), 0);
    assert_eq!(rig.write(ZONE, 7, 2, BioFlags::NONE), Status::Ok);
}

#[test]
fn power_loss_loses_only_unflushed_data() {
    for draw in 0..64 {
        let mut rig = Rig::cached();
        // A sequential zone, one with FUA, and two overlapping writes to a conventional one.
        rig.write(ZONE, 1, 4, BioFlags::NONE);
        rig.write(0, 1, 4, BioFlags::NONE);
        assert_eq!(rig.complete(Bio::new(Op::Flush, Sector(0), 0, 0)).status, Status::Ok);
        rig.write(ZONE + 4, 2, 4, BioFlags::NONE);
        rig.write(2 * ZONE, 3, 4, BioFlags::FUA);
        rig.write(0, 4, 2, BioFlags::NONE);
        rig.write(1, 5, 2, BioFlags::NONE);
        rig.device.lose_power(draw);
        let wp = rig.wp(1);
        assert!((4..=8).contains(&wp), "{wp}");
        let zone = rig.read(ZONE, 8);
        let expected: Vec<u8> =
            (0..8).map(|at| [1, 2][at / 4] * u8::from(at < wp as usize)).collect();
        assert_eq!(zone, expected, "the data ends at the write pointer");
        assert_eq!((rig.wp(2), rig.read(2 * ZONE, 4)), (4, vec![3; 4]));
        let conventional = rig.read(0, 4);
        let possible = [&[1, 4][..], &[1, 4, 5], &[1, 5], &[1]];
        let each = conventional.iter().zip(possible);
        assert!(each.into_iter().all(|(it, possible)| possible.contains(it)), "{conventional:?}");
    }
}

#[test]
fn power_loss_of_a_drive_without_zones_loses_writes_in_any_order_and_tears_them_at_its_blocks() {
    let spec = "ssd:size=16M,overprovision=60%,dies=4,channels=2,block=96K,buffer=16M,memory=true";
    let mut left = BTreeSet::new();
    for draw in 0..64 {
        let config: SsdConfig = parse(spec).unwrap().config_of().cloned().unwrap();
        let drive = Arc::new(SsdDevice::new(&config).unwrap());
        let cached = FaultConfig { volatile_cache: true, ..FaultConfig::default() };
        let mut rig = Rig::over(drive, cached);
        assert_eq!(rig.write(0, 1, 8, BioFlags::FUA), Status::Ok);
        assert_eq!(rig.write(8, 2, 16, BioFlags::NONE), Status::Ok);
        assert_eq!(rig.write(64, 3, 8, BioFlags::NONE), Status::Ok);
        rig.device.lose_power(draw);
        let sectors = [rig.read(0, 24), rig.read(64, 8)].concat();
        let blocks: Vec<u8> = sectors.chunks(8).map(|block| block[0]).collect();
        assert!(sectors.chunks(8).all(|it| it.iter().all(|byte| *byte == it[0])), "{sectors:?}");
        left.insert(blocks);
    }
    let all = [[0, 0], [2, 0], [0, 2], [2, 2]];
    let all = all.iter().flat_map(|&[a, b]| [vec![1, a, b, 0], vec![1, a, b, 3]]);
    assert_eq!(left, all.collect());
}

/// Each power loss advanced the drive's clock beyond all commands that it had received, so later
/// commands took seconds (seed 51639378).
#[test]
fn power_loss_does_not_advance_the_clock() {
    let inner: [Arc<dyn FaultHooks>; 2] = [
        Arc::new(HddDevice::new(&HddConfig::default()).unwrap()),
        Arc::new(ZnsDevice::new(&ZnsConfig::default()).unwrap()),
    ];
    for inner in inner {
        let mut rig = Rig::over(inner, FaultConfig::default());
        let mut done = Vec::new();
        for round in 0..1000 {
            let at = Sector(round * 1024);
            rig.channel.submit(rig.now, Bio::new(Op::Write, at, 1024, 0));
            rig.channel.poll(rig.now, &mut done);
            rig.device.lose_power(round);
            while rig.channel.outstanding() > 0 {
                rig.channel.poll(rig.now, &mut done);
            }
        }
        rig.complete(Bio::read(Sector(4096), 8, 0));
        assert!(rig.now < Nanos(50_000_000), "{:?}", rig.now);
    }
}

/// A drive without write zeroes got one that its write buffer had no room for, and waited forever
/// (seed 41354116).
#[test]
fn limit_of_write_zeroes_never_exceeds_that_of_the_device() {
    let longest = |inner: Arc<dyn FaultHooks>| {
        let config = FaultConfig { max_write_zeroes: Some(24), ..FaultConfig::default() };
        FaultDevice::new(inner, config).limits().max_write_zeroes_sectors
    };
    let drive = ZnsDevice::new(&ZnsConfig::default()).unwrap();
    assert_eq!(longest(Arc::new(drive)), 0);
    assert_eq!(longest(Arc::new(NullDevice::new(&NullConfig::default()).unwrap())), 24);
}

#[test]
fn short_last_zone_is_reported_and_becomes_full() {
    let mut rig = Rig::new(FaultConfig { last_zone: Some(Sector(8)), ..FaultConfig::default() });
    assert_eq!(rig.queue.limits().capacity, Sector(3 * ZONE + 8));
    assert_eq!(rig.write(3 * ZONE, 7, 8, BioFlags::NONE), Status::Ok);
    let mut zones = Vec::new();
    rig.queue.report_zones(ZoneNo(3), 1, &mut zones).unwrap();
    assert_eq!((zones[0].cond, zones[0].len), (ZoneCondition::Full, Sector(8)));
    assert_eq!(rig.queue.live_plugs(), 0);
}

#[test]
fn formatted_device_is_empty_and_fails_what_lies_beyond_its_end() {
    let mut rig = Rig::new(FaultConfig::default());
    assert_eq!(rig.write(ZONE, 7, 4, BioFlags::NONE), Status::Ok);
    assert_eq!(rig.device.format(3), [1, 2, 3].map(ZoneNo), "zone 0 is conventional");
    assert_eq!(rig.write(3 * ZONE, 7, 4, BioFlags::NONE), Status::IoError);
    rig.queue.freeze();
    assert_eq!(rig.queue.revalidate(), Ok(3));
    rig.queue.unfreeze();
    assert_eq!(rig.write(3 * ZONE, 7, 4, BioFlags::NONE), Status::Invalid);
    assert_eq!(rig.write(ZONE, 8, 1, BioFlags::NONE), Status::Ok, "from the start of the zone");
    assert_eq!(rig.read(ZONE, 4), [8, 0, 0, 0]);
}

#[test]
fn write_is_torn_between_units_of_the_write_granularity() {
    let config = FaultConfig { write_granularity: 4096, ..FaultConfig::default() };
    let mut rig = Rig::new(config);
    rig.inject(Effect::Part(11), None);
    assert_eq!(rig.write(ZONE, 7, 24, BioFlags::NONE), Status::IoError);
    assert_eq!(rig.wp(1), 8);
    assert_eq!(rig.write(ZONE + 8, 8, 1, BioFlags::NONE), Status::Invalid);
}
