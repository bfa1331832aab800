//! A device's zones are read and checked when a queue is attached (A39 to A43).
use crate::device::{Device, HwQueue};
use crate::limits::Limits;
use crate::plug::ZonePhase;
use crate::queue::{AttachError, Queue, QueueOptions};
use crate::status::Status;
use crate::testing::{Setup, move_to};
use crate::units::{Sector, ZoneNo};
use crate::zone::{Zone, ZoneCondition, ZoneKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn error(setup: Setup) -> Option<AttachError> {
    Queue::attach(setup.device(), setup.queue_options()).err()
}

/// The error for a report in which zone 1 is changed.
fn lie(change: fn(&mut Zone)) -> String {
    error(Setup::new().zone(1, change)).expect("a lie").to_string()
}

#[test]
fn a39_lying_reports_are_refused_with_the_zone_and_the_rule() {
    let begins = "zone 1: the zone must begin where the one before it ends";
    assert_eq!(lie(|zone| zone.start.0 += 8), begins, "a gap");
    assert_eq!(lie(|zone| zone.start.0 -= 8), begins, "an overlap");
    assert_eq!(lie(|zone| zone.start.0 = u64::MAX), begins);
    let size = "zone 1: all zones but the last must have the device's zone size";
    assert_eq!(lie(|zone| zone.len.0 = 32), size);
    assert_eq!(lie(|zone| zone.len.0 = u64::MAX), size);
    let wp = "zone 1: the write pointer must lie in the zone, not beyond its capacity";
    let open = ZoneCondition::ImplicitOpen;
    assert_eq!(wp, lie(|zone| (zone.cond, zone.wp) = (ZoneCondition::Closed, Sector(63))));
    let beyond = |zone: &mut Zone| {
        (zone.cond, zone.wp, zone.capacity) =
            (ZoneCondition::ExplicitOpen, Sector(113), Sector(48));
    };
    assert_eq!(wp, lie(beyond));
    assert!(open.is_open());
    assert_eq!(
        lie(|zone| zone.wp.0 += 8),
        "zone 1: the write pointer of an empty zone must be at its start"
    );
    assert_eq!(lie(|zone| zone.capacity.0 = 0), "zone 1: the capacity must not be zero");
    let larger = "zone 1: the capacity must not be larger than the zone";
    assert_eq!(lie(|zone| zone.capacity.0 = 65), larger);
    assert_eq!(lie(|zone| zone.capacity.0 = u64::MAX), larger);
    assert_eq!(
        lie(|zone| zone.capacity.0 = 32),
        "zone 1: all sequential zones but the last must have the same capacity"
    );
    let condition = "zone 1: the condition must be one that the kind of zone can have";
    assert_eq!(lie(|zone| zone.cond = ZoneCondition::NotWritePointer), condition);
    assert_eq!(lie(|zone| zone.kind = ZoneKind::Conventional), condition);
    let conventional = |zone: &mut Zone| {
        (zone.kind, zone.cond) = (ZoneKind::Conventional, ZoneCondition::NotWritePointer);
        zone.capacity.0 = 32;
    };
    assert_eq!(lie(conventional), "zone 1: the capacity of a conventional zone must be its size");
}

#[test]
fn a39_report_must_cover_the_device_whole_lbas_at_a_time() {
    let short = Setup::new().device();
    short.zones.lock().unwrap().truncate(3);
    let error_of = |device| Queue::attach(device, Setup::new().queue_options()).err().unwrap();
    let said = error_of(short).to_string();
    assert_eq!(said, "zone 3: the report ends before the device does");
    let odd = Setup::new()
        .limits(|limits| limits.lba_size = 4096)
        .zones(|zones| zones.iter_mut().for_each(|zone| zone.capacity.0 = 60));
    assert_eq!(error(odd).unwrap().to_string(), "zone 0: size and capacity must be whole LBAs");
    let silent = Setup::new().device();
    silent.refuse_reports(true);
    let said = error_of(silent);
    assert_eq!(said, AttachError::Report { zone: 0, status: Status::Timeout });
}

#[test]
fn a39_last_zone_may_be_smaller() {
    let setup = || Setup::new().limits(|limits| limits.capacity = Sector(3 * 64 + 16));
    let smaller = |zone: &mut Zone| (zone.len, zone.capacity) = (Sector(16), Sector(16));
    let mut rig = setup().zone(3, smaller).build();
    let write = rig.write(192, 16);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
    assert_eq!(rig.known(3), (ZonePhase::Full, 16));
    let beyond = rig.write(208, 8);
    assert_eq!(rig.poll(), [(beyond, Status::Invalid)]);
    let said = error(setup()).unwrap().to_string();
    assert_eq!(said, "zone 3: the last zone must end where the device does");
}

#[test]
fn a39_zones_of_any_size_unless_powers_of_two_are_asked_for() {
    let setup = || Setup::new().limits(|limits| *limits = crate::testing::limits(4, 48));
    let mut rig = setup().build();
    let write = rig.write(48, 48);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
    assert_eq!(rig.known(1), (ZonePhase::Full, 48));
    let refused = error(setup().options(|options| options.power_of_two_zones = true));
    assert_eq!(refused, Some(AttachError::Limits("the zone size must be a power of two")));
    assert_eq!(error(Setup::new().options(|options| options.power_of_two_zones = true)), None);
}

#[test]
fn limits_that_make_no_sense_are_refused_with_the_rule() {
    let said = |change: fn(&mut Limits)| match error(Setup::new().limits(change)) {
        Some(AttachError::Limits(rule)) => rule,
        other => panic!("{other:?}"),
    };
    let rules = [
        said(|limits| limits.zone_size.0 = 0),
        said(|limits| limits.nr_zones = 0),
        said(|limits| limits.nr_zones = 3),
        said(|limits| limits.nr_zones = 5),
        said(|limits| limits.lba_size = 0),
        said(|limits| limits.lba_size = 1024),
        said(|limits| limits.capacity.0 = 0),
        said(|limits| (limits.lba_size, limits.capacity.0) = (4096, 255)),
        said(|limits| limits.nr_queues = 0),
        said(|limits| limits.queue_depth = 0),
        said(|limits| limits.max_sectors = 0),
        said(|limits| (limits.lba_size, limits.max_sectors) = (4096, 12)),
        said(|limits| (limits.lba_size, limits.append_max_sectors) = (4096, 12)),
        said(|limits| (limits.zone_size.0, limits.capacity.0) = (1 << 62, u64::MAX - 8)),
    ];
    let cover = "the zones must cover the capacity";
    let both = "a zoned device has zones and a zone size";
    assert_eq!(rules[..4], [both, both, cover, cover]);
    assert_eq!(rules[4..6], ["the LBA size must be 512 or 4096"; 2]);
    assert_eq!(rules[6], "the capacity must not be zero");
    assert_eq!(rules[7], "the capacity must be a multiple of the LBA size");
    assert_eq!(rules[8], "there must be a hardware queue");
    assert_eq!(rules[9], "the queue depth must not be zero");
    assert_eq!(rules[10..12], ["the largest command must be a multiple of the LBA size"; 2]);
    assert_eq!(rules[12], "the largest append must be a multiple of the LBA size");
    assert_eq!(rules[13], cover);
}

#[test]
fn a40_partially_written_zones_have_their_plug_from_the_start() {
    let small = |setup: Setup, zone| setup.zone(zone, |zone| zone.capacity = Sector(48));
    let mut rig = (0..4)
        .fold(Setup::new(), small)
        .zone(0, |zone| move_to(zone, 8))
        .zone(1, |zone| (zone.cond, zone.wp) = (ZoneCondition::ExplicitOpen, zone.start))
        .zone(2, |zone| zone.cond = ZoneCondition::Full)
        .build();
    // A zone is full at its capacity.
    assert_eq!(rig.known(2), (ZonePhase::Full, 48));
    let plugs: Vec<_> = rig.queue.dump_plugs(false);
    let seen: Vec<_> = plugs.iter().map(|p| (p.zone.0, p.wp_offset.0, p.references)).collect();
    assert_eq!(seen, [(0, 8, 1)]);
    let write = rig.write(8, 8);
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
}

#[test]
fn a42_limit_that_the_sequential_zones_cannot_reach_is_none() {
    let limits = |open, active| {
        let set = move |l: &mut Limits| (l.max_open_zones, l.max_active_zones) = (open, active);
        let rig = Setup::new().conventional(0).limits(set).build();
        (rig.queue.limits().max_open_zones, rig.queue.limits().max_active_zones)
    };
    assert_eq!(limits(2, 3), (2, 0), "three zones are sequential");
    assert_eq!(limits(0, 0), (0, 0), "no limit is made up");
    assert_eq!(limits(128, 1), (0, 1));
}

#[test]
fn a43_queue_goes_when_its_channels_have_gone_and_leaves_the_device() {
    let mut rig = Setup::new().build();
    rig.write(0, 8);
    rig.drain();
    let device = std::sync::Arc::clone(&rig.device);
    drop(rig);
    assert_eq!(std::sync::Arc::strong_count(&device), 1);
}

/// Empty zones of one size. What the device says about zones from a number on need not be true.
struct Many {
    limits: Limits,
    as_new_from: u32,
    /// Has another capacity.
    odd: Option<u32>,
    reported: AtomicUsize,
}

impl Many {
    const ZONES: u32 = 100_000;

    fn attach(as_new_from: u32, odd: Option<u32>) -> (Option<AttachError>, usize) {
        let limits = Limits::zoned(Many::ZONES, Sector(64));
        let device = Arc::new(Many { limits, as_new_from, odd, reported: AtomicUsize::new(0) });
        let error = Queue::attach(Arc::clone(&device) as _, QueueOptions::default()).err();
        (error, device.reported.load(Ordering::Relaxed))
    }
}

impl Device for Many {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        let before = zones.len();
        zones.extend(self.limits.empty_zones(first, max));
        if let Some(odd) = self.odd
            && let Some(zone) = zones[before..].get_mut(odd.wrapping_sub(first.0) as usize)
        {
            zone.capacity = Sector(32);
        }
        self.reported.fetch_add(zones.len() - before, Ordering::Relaxed);
        Ok(())
    }

    fn zones_as_new(&self, first: ZoneNo, max: u32) -> u32 {
        if first.0 >= self.as_new_from { max } else { 0 }
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        unreachable!("no channel is opened")
    }
}

#[test]
fn zones_as_new_are_not_reported_one_by_one_but_for_the_first_and_the_last() {
    assert_eq!(Many::attach(u32::MAX, None), (None, Many::ZONES as usize));
    let (error, reported) = Many::attach(0, None);
    assert!(error.is_none() && reported < 10_000, "{error:?}, {reported} zones were reported");
    let capacity = "all sequential zones but the last must have the same capacity".to_owned();
    for (as_new_from, odd) in [(u32::MAX, 50_000), (0, 8192), (60_000, 50_000)] {
        let (error, _) = Many::attach(as_new_from, Some(odd));
        let expected = format!("zone {odd}: {capacity}");
        assert_eq!(error.map(|error| error.to_string()), Some(expected));
    }
    let (error, _) = Many::attach(0, Some(Many::ZONES - 1));
    assert_eq!(error, None, "the last zone may have another capacity");
}
