//! Flexible data placement of the ordinary flash drive: write streams, units, isolation, events.
use crate::rig::{PAGE, PAGES, Rig, small, write};
use zonal_blk::{
    Bio, Bytes, DataPlacement, Device, Op, PlacementEventType, PlacementId, Sector, Status,
};
use zonal_device::SsdConfig;
use zonal_device::control::{DeviceControl, FaultHooks};
use zonal_device::rng::Rng;
use zonal_device::ssd::Prefill;

/// Sectors of a reclaim unit, of 128 pages.
const UNIT: Sector = Sector(128 * PAGE);

/// The small drive with handles, and with more flash for them.
fn placed(handles: u32) -> SsdConfig {
    SsdConfig {
        overprovision: 50_000,
        gc_buffer: Bytes(1 << 20),
        buffer: Bytes(4 << 20),
        fdp_handles: handles,
        ..small()
    }
}

impl Rig {
    fn write(&mut self, page: u64, pages: u64, stream: u8) {
        self.time(Bio { stream, ..write(page, pages) });
    }

    fn placement(&self) -> &dyn DataPlacement {
        self.device.placement().expect("it has reclaim unit handles")
    }
}

/// A hot twentieth of the drive, overwritten at random, and the rest, written in order, with a stream each.
fn cache(rig: &mut Rig, [hot, cold]: [u8; 2]) -> f64 {
    let hot_pages = PAGES / 20;
    let mut rng = Rng::new(1);
    let mut at = hot_pages;
    let mut turns = |rig: &mut Rig, turns| {
        for _ in 0..turns {
            rig.write(at, 8, cold);
            at = if at + 16 > PAGES { hot_pages } else { at + 8 };
            for _ in 0..8 {
                rig.write(rng.below(hot_pages), 1, hot);
            }
        }
    };
    turns(rig, 2 * PAGES / 8);
    rig.amplification_of(|rig| turns(rig, 2 * PAGES / 8))
}

#[test]
fn data_of_different_lifetimes_with_handles_of_their_own_are_not_copied() {
    let config = SsdConfig { prefill: Prefill::Sequential, overprovision: 35_000, ..placed(2) };
    let mixed = cache(&mut Rig::new(&config), [1, 1]);
    let apart = cache(&mut Rig::new(&config), [1, 2]);
    assert!(apart < 1.03 && mixed > 1.2, "{apart:.3} with two handles, {mixed:.3} with one");
}

#[test]
fn writes_without_a_stream_go_to_the_first_handle() {
    let mut rig = Rig::new(&placed(2));
    rig.write(0, 3, 0);
    rig.write(3, 2, 1);
    rig.write(5, 1, 2);
    let available = |stream| rig.placement().available(stream);
    assert_eq!([1, 2].map(available), [5, 1].map(|pages| UNIT - Sector(pages * PAGE)));
}

#[test]
fn handle_that_is_updated_goes_on_in_an_empty_unit_and_the_rest_of_the_old_one_is_padded() {
    let mut rig = Rig::new(&placed(2));
    rig.placement().record(0, PlacementEventType::UnitNotFull, true);
    rig.write(0, 20, 1);
    rig.write(20, 1, 2);
    let now = rig.now;
    rig.placement().update(now, 1);
    rig.placement().update(now, 2);
    rig.placement().update(now, 1);
    assert_eq!([1, 2].map(|stream| rig.placement().available(stream)), [UNIT; 2]);
    let events = rig.placement().events();
    let id = PlacementId { handle: 0, group: 0, unit_handle: 0 };
    assert_eq!(events.len(), 1, "handle 1 is not recorded, and an empty unit is no loss");
    assert_eq!((events[0].kind, events[0].id), (PlacementEventType::UnitNotFull, Some(id)));
    let stats = rig.placement().stats();
    assert_eq!((stats.host, stats.media), (Bytes(21 * 4096), Bytes(48 * 4096)));
    rig.device.drain();
    assert_eq!(rig.device.levels()[0].value, 0, "all of it has been programmed");
    rig.write(0, 64, 1);
    assert_eq!(rig.placement().available(1), UNIT - Sector(64 * PAGE));
}

#[test]
fn updates_cost_free_units_which_the_collection_reclaims() {
    let mut rig = Rig::new(&SsdConfig { prefill: Prefill::Sequential, ..placed(4) });
    for turn in 0..400 {
        let stream = u8::try_from(turn % 4 + 1).unwrap();
        rig.write(turn * 7 % PAGES, 1, stream);
        rig.device.drain();
        let now = rig.now;
        rig.placement().update(now, stream);
    }
    let stats = rig.placement().stats();
    assert!(stats.erased > Bytes(100 * (512 << 10)), "{} erased", stats.erased.0);
    rig.write(0, 64, 1);
}

#[test]
fn groups_have_units_of_their_own() {
    let config =
        SsdConfig { superblock_dies: 2, fdp_groups: 2, overprovision: 100_000, ..placed(2) };
    let mut rig = Rig::new(&config);
    let layout = rig.placement().layout().clone();
    let unit = layout.unit.to_sectors();
    assert_eq!((layout.groups, layout.handles(), layout.ids.len()), (2, 2, 4));
    assert_eq!(layout.stream(1, 0), Some(3));
    rig.write(0, 5, 3);
    rig.write(5, 2, 4);
    let available = [1, 2, 3, 4].map(|stream| (unit - rig.placement().available(stream)).0 / PAGE);
    assert_eq!(available, [0, 0, 5, 2]);
    // More than a group holds: the rest goes to the other one.
    (0..PAGES).step_by(32).for_each(|page| rig.write(page, 32, 1));
    (0..PAGES).step_by(32).for_each(|page| rig.write(page, 32, 1));
    rig.device.drain();
    assert_eq!(rig.device.translation().unwrap().host, Bytes((2 * PAGES + 7) * 4096));
}

#[test]
fn data_that_are_moved_are_an_event_of_their_handle() {
    let config = SsdConfig { prefill: Prefill::Random(1), ..placed(2) };
    let mut rig = Rig::new(&config);
    rig.placement().record(0, PlacementEventType::Reallocated, true);
    let mut rng = Rng::new(3);
    (0..4 * PAGES).for_each(|_| rig.write(rng.below(PAGES), 1, 1));
    let events = rig.placement().events();
    assert_eq!(events.len(), 63, "the last ones are kept");
    assert!(events.iter().all(|event| event.kind == PlacementEventType::Reallocated));
    assert!(events.iter().all(|event| event.moved > Sector(0) && event.moved < UNIT));
    assert!(events.is_sorted_by_key(|event| event.at));
}

#[test]
fn stream_beyond_the_placement_identifiers_fails() {
    let mut rig = Rig::new(&placed(3));
    let bio = |stream| Bio { stream, ..Bio::new(Op::Write, Sector(0), 8, 0) };
    assert_eq!(rig.status(bio(3)), Status::Ok);
    assert_eq!(rig.status(bio(4)), Status::Invalid);
    let mut ordinary = Rig::new(&placed(0));
    assert!(ordinary.device.placement().is_none());
    assert_eq!(ordinary.status(bio(4)), Status::Ok, "a drive without data placement ignores it");
}
