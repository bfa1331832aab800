//! A ZNS drive as one without zones, in virtual time.
use proptest::prelude::*;
use std::sync::Arc;
use zonal_blk::{Bio, Bytes, Channel, Device, Nanos, Op, Queue, Sector, Status};
use zonal_device::control::{DeviceControl, TranslationStats};
use zonal_device::inject::InjectDevice;
use zonal_device::mapped::{MapOptions, MappedDevice};
use zonal_device::rng::Rng;
use zonal_device::ssd::closed_forms::greedy;
use zonal_device::ssd::translation::Policy;
use zonal_device::{ZnsConfig, ZnsDevice};

const PAGE: u64 = 8;
/// Pages of the device, and of a zone.
const PAGES: u64 = 8192;
const ZONE_PAGES: u64 = 32;
/// Empty zones with which the collection ends.
const FREE: u32 = 2;

/// 28 % more flash than pages, besides the zones that stay free.
fn zns() -> ZnsConfig {
    let zone = Bytes(ZONE_PAGES * 4096);
    ZnsConfig {
        zones: u32::try_from(PAGES * 128 / 100 / ZONE_PAGES).unwrap() + FREE,
        zone_size: zone,
        zone_capacity: zone,
        channels: 2,
        dies: 4,
        zone_dies: 4,
        planes: 1,
        page: Bytes(16 << 10),
        cell_pages: 1,
        block: Bytes(32 << 10),
        zone_rate: Bytes(0),
        ..ZnsConfig::default()
    }
}

fn options() -> MapOptions {
    let size = Bytes(PAGES * 4096);
    MapOptions { size, policy: Policy::Greedy, watermarks: (FREE, FREE) }
}

struct Rig {
    device: Arc<MappedDevice>,
    channel: Channel,
    now: Nanos,
}

impl Rig {
    fn of(inner: Arc<dyn DeviceControl>) -> Self {
        let device = Arc::new(MappedDevice::new(inner, options()).unwrap());
        let queue = Queue::attach(Arc::clone(&device) as Arc<dyn Device>, Default::default());
        let channel = queue.unwrap().channel().unwrap();
        Rig { device, channel, now: Nanos(0) }
    }

    fn new() -> Self {
        Rig::of(Arc::new(ZnsDevice::new(&zns()).unwrap()))
    }

    /// Runs bios, `depth` at a time. Returns their statuses and when each completed.
    fn run(&mut self, depth: usize, bios: impl IntoIterator<Item = Bio>) -> Vec<(Status, Nanos)> {
        let mut bios = bios.into_iter().peekable();
        let (mut ends, mut completions) = (Vec::new(), Vec::new());
        while bios.peek().is_some() || self.channel.outstanding() > 0 {
            while self.channel.outstanding() < depth
                && let Some(bio) = bios.next()
            {
                self.channel.submit(self.now, bio);
            }
            let next = self.channel.next_event().at().expect("something is under way");
            self.now = self.now.max(next);
            self.channel.poll(self.now, &mut completions);
            ends.extend(completions.drain(..).map(|done| (done.status, self.now)));
        }
        ends
    }

    fn stats(&self) -> TranslationStats {
        self.device.translation().unwrap()
    }
}

fn write(page: u64, pages: u64) -> Bio {
    Bio::new(Op::Write, Sector(page * PAGE), u32::try_from(pages * PAGE).unwrap(), 0)
}

fn fill() -> impl Iterator<Item = Bio> {
    (0..PAGES).step_by(16).map(|page| write(page, 16))
}

fn overwrites(writes: u64, rng: &mut Rng) -> impl Iterator<Item = Bio> {
    (0..writes).map(|_| write(rng.below(PAGES), 1))
}

#[test]
fn random_overwrites_of_zones_cost_what_they_cost_any_translation_layer() {
    let mut rig = Rig::new();
    let mut rng = Rng::new(1);
    rig.run(16, fill());
    rig.run(32, overwrites(6 * PAGES, &mut rng));
    let before = rig.stats();
    let ends = rig.run(32, overwrites(4 * PAGES, &mut rng));
    assert!(ends.iter().all(|(status, _)| *status == Status::Ok));
    let after = rig.stats();
    let found = (after.media.0 - before.media.0) as f64 / (after.host.0 - before.host.0) as f64;
    let theory = greedy(1.28, u32::try_from(ZONE_PAGES).unwrap());
    assert!((found / theory - 1.0).abs() < 0.03, "found {found:.3}, theory {theory:.3}");
}

#[test]
fn sequential_overwrites_and_discards_of_whole_zones_copy_nothing() {
    let mut rig = Rig::new();
    (0..4).for_each(|_| drop(rig.run(1, fill())));
    for zone in [3, 17, 40, 3, 99, 17, 5, 6, 7, 200, 201, 3] {
        let (from, sectors) = (zone * ZONE_PAGES, u32::try_from(ZONE_PAGES * PAGE).unwrap());
        rig.run(1, [Bio::new(Op::Discard, Sector(from * PAGE), sectors, 0)]);
        rig.run(1, [write(from, 16), write(from + 16, 16)]);
    }
    let stats = rig.stats();
    assert_eq!(stats.write_amplification(), 1.0);
    assert_eq!(stats.discarded, Bytes(12 * ZONE_PAGES * 4096));
}

#[test]
fn after_a_reset_that_fails_commands_fail_and_none_is_left() {
    let inner = Arc::new(ZnsDevice::new(&zns()).unwrap());
    let inner = InjectDevice::new(inner, 0);
    inner.add("fail=zone".parse().unwrap());
    let mut rig = Rig::of(Arc::new(inner));
    rig.run(16, fill());
    let ends = rig.run(8, overwrites(4 * PAGES, &mut Rng::new(2)));
    let failed = ends.iter().filter(|(status, _)| *status == Status::IoError).count() as u64;
    assert!(failed > 3 * PAGES, "{failed} of {}", ends.len());
    assert_eq!(rig.run(1, [write(0, 1)])[0].0, Status::IoError);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn every_command_completes_and_the_same_ones_at_the_same_times(
        steps in prop::collection::vec((0..4_u8, 0..PAGES - 64, 1..64_u64), 0..3000),
        depth in 1..64_usize,
    ) {
        let bio = |&(kind, page, pages): &(u8, u64, u64)| match kind {
            0 => Bio { op: Op::Read, ..write(page, pages) },
            1 => Bio { op: Op::Discard, ..write(page, pages) },
            _ => write(page, pages),
        };
        let run = || {
            let mut rig = Rig::new();
            let mut ends = rig.run(16, fill());
            ends.extend(rig.run(depth, steps.iter().map(bio)));
            ends
        };
        let ends = run();
        prop_assert!(ends.iter().all(|(status, _)| *status == Status::Ok));
        prop_assert_eq!(ends, run());
    }
}

#[test]
fn devices_that_cannot_be_mapped_are_refused_with_what_is_missing() {
    let error = |config: &ZnsConfig, options: MapOptions| {
        let inner = Arc::new(ZnsDevice::new(config).unwrap());
        MappedDevice::new(inner, options).err().unwrap().to_string()
    };
    let few = ZnsConfig { zones: 256, ..zns() };
    let found = error(&few, options());
    assert!(found.starts_with("256 superblocks of 32 pages for 8192 logical pages"), "{found}");
    let open = ZnsConfig { max_open: 3, ..zns() };
    assert_eq!(error(&open, options()), "max_open: found 3, expected 0 or at least 4");
    let regular = zonal_device::device_spec::parse("ssd:size=1G,block=192K").unwrap();
    let regular = zonal_device::device_spec::build(&regular).unwrap();
    let found = MappedDevice::new(regular, options()).err().unwrap().to_string();
    assert!(found.starts_with("found 0 zones"), "{found}");
}
