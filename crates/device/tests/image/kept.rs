//! Images of a flash drive without zones: its translation layer, beside the data.
use crate::medium::Medium;
use crate::model::{channel, complete};
use std::collections::BTreeMap;
use std::sync::Arc;
use zonal_blk::{
    Bio, Buf, Bytes, Channel, Device, Nanos, Op, PlacementEventType, Sector, Status, ZoneCondition,
    ZoneNo,
};
use zonal_device::ImageDevice;
use zonal_device::control::{DeviceControl, TranslationStats};
use zonal_device::device_spec;
use zonal_device::image::{
    Finding, ImageError, ImageGeometry, Model, Profile, Superblock, ZoneEntry, check, check_data,
};
use zonal_device::rng::Rng;

/// 1024 pages in superblocks of 96, with two reclaim unit handles.
const SPEC: &str =
    "ssd:size=4M,overprovision=60%,dies=2,channels=2,block=96K,buffer=16M,fdp_handles=2";
/// The same with a map on the flash, of which a page is in memory.
const MAPPED: &str = "ssd:size=4M,overprovision=120%,dies=2,channels=2,block=96K,buffer=16M,fdp_handles=2,\
                      map_cache=4K";
const PAGES: u64 = 1024;

pub fn new_image(seed: u64) -> Medium {
    new_image_of(SPEC, seed)
}

fn new_image_of(spec: &str, seed: u64) -> Medium {
    let model = device_spec::build(&device_spec::parse(spec).unwrap()).unwrap();
    let geometry = ImageGeometry::of(model.limits(), &[]).unwrap();
    let superblock = Superblock::new([9; 16], geometry, Profile::Spec(spec.to_owned())).unwrap();
    let state = model.kept().expect("it has a map").most_bytes();
    let medium = Medium::new(seed);
    ImageDevice::create(&medium, &superblock.with_state(state).unwrap()).unwrap();
    medium
}

fn open_with(medium: &Medium, paced: bool) -> Result<Arc<ImageDevice>, ImageError> {
    let model = |superblock: &Superblock, _: &[ZoneEntry]| {
        let Profile::Spec(spec) = &superblock.profile else { panic!("it was created from one") };
        let spec = device_spec::parse(spec).unwrap();
        let device = device_spec::timing(&spec, |_| (Bytes(0), ZoneCondition::NotWritePointer));
        Ok(Some(Model { device: device.unwrap().expect("it takes time"), paced }))
    };
    ImageDevice::open(Arc::new(medium.clone()), model).map(Arc::new)
}

pub fn open(medium: &Medium) -> Arc<ImageDevice> {
    open_with(medium, false).unwrap()
}

/// What a page has: its number and that of the write.
fn data(page: u64, write: u64) -> Buf {
    let word = (page << 32 | write).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    Buf::from(&word.to_le_bytes().repeat(512)[..])
}

pub fn write(page: u64, number: u64) -> Bio {
    Bio { stream: 1 + (page % 2) as u8, ..Bio::write(Sector(page * 8), data(page, number), number) }
}

fn flush(io: &mut Channel) {
    assert_eq!(complete(io, Bio::new(Op::Flush, Sector(0), 0, 0)).status, Status::Ok);
}

/// Overwrites random pages, and discards some.
fn overwrite(io: &mut Channel, writes: u64, rng: &mut Rng, pages: &mut BTreeMap<u64, u64>) {
    for _ in 0..writes {
        let (page, number) = (rng.below(PAGES), rng.below(1 << 31));
        assert_eq!(complete(io, write(page, number)).status, Status::Ok);
        pages.insert(page, number);
        if rng.below(20) == 0 {
            let page = rng.below(PAGES);
            let discard = Bio::new(Op::Discard, Sector(page * 8), 8, 0);
            assert_eq!(complete(io, discard).status, Status::Ok);
            pages.remove(&page);
        }
    }
}

fn assert_data(io: &mut Channel, pages: &BTreeMap<u64, u64>) {
    for page in 0..PAGES {
        let read = complete(io, Bio::read(Sector(page * 8), 8, 0));
        assert_eq!(read.status, Status::Ok);
        let expected = pages.get(&page).map_or(Buf::zeroed(4096), |&number| data(page, number));
        assert!(read.buf.unwrap()[..] == expected[..], "page {page}");
    }
}

pub fn stats(device: &ImageDevice) -> TranslationStats {
    device.translation().expect("it has a translation layer")
}

fn available(device: &ImageDevice) -> [Sector; 2] {
    let placement = device.placement().expect("it has reclaim unit handles");
    [1, 2].map(|stream| placement.available(stream))
}

#[test]
fn map_counts_and_handles_are_there_when_the_image_is_opened_again() {
    for spec in [SPEC, MAPPED] {
        goes_on(&new_image_of(spec, 1));
    }
}

fn goes_on(medium: &Medium) {
    let (mut rng, mut pages) = (Rng::new(1), BTreeMap::new());
    for turn in 0..4 {
        let device = open(medium);
        assert_eq!(device.limits().nr_zones, 0);
        assert_eq!(device.report_zones(ZoneNo(0), 1, &mut Vec::new()), Err(Status::NotSupported));
        let mut io = channel(&device);
        overwrite(&mut io, 6000, &mut rng, &mut pages);
        if turn % 2 == 0 {
            flush(&mut io);
        }
        let before = (stats(&device), available(&device));
        drop((io, device));
        // What was being collected has been then.
        let device = open(medium);
        let after = stats(&device);
        assert_eq!((after.host, after.discarded), (before.0.host, before.0.discarded));
        assert!(after.media >= before.0.media);
        assert_eq!(available(&device), before.1, "turn {turn}");
        drop(device);
        assert_eq!(stats(&open(medium)), after);
    }
    let device = open(medium);
    let counts = stats(&device);
    assert_eq!(counts.host, Bytes(24_000 * 4096));
    assert!(counts.write_amplification() > 1.3, "{counts:?}");
    let named = device.stats().counts;
    assert!(named.contains(&("bytes written by the host", counts.host.0)), "{named:?}");
    assert_data(&mut channel(&device), &pages);
}

#[test]
fn reads_of_an_image_with_latencies_go_where_the_pages_are_after_it_was_opened_again() {
    let medium = new_image(2);
    let read_time = |device: &Arc<ImageDevice>, begin: Nanos, page: u64| {
        let mut io = channel(device);
        io.submit(begin, Bio::read(Sector(page * 8), 8, 0));
        let (mut now, mut done) = (begin, Vec::new());
        while done.is_empty() {
            now = io.next_event().at().map_or(now, |at| at.max(now));
            io.poll(now, &mut done);
        }
        now - begin
    };
    let device = open(&medium);
    let mut io = channel(&device);
    // A whole number of units of each handle: nothing is left in the buffer.
    for page in 0..384 {
        assert_eq!(complete(&mut io, write(page, 1)).status, Status::Ok);
    }
    drop((io, device));
    let device = open_with(&medium, true).unwrap();
    let (there, not_there) =
        (read_time(&device, Nanos(0), 7), read_time(&device, Nanos(1_000_000), 1000));
    assert!(there > not_there + Nanos(60_000), "{there:?} with flash, {not_there:?} without");
}

/// Commands until the power goes, some of them at the same time. Returns the pages that were written by a
/// command that a flush covers, and how many were submitted.
fn until_the_power_goes(medium: &Medium, io: &mut Channel, rng: &mut Rng) -> (u64, u64) {
    let (mut submitted, mut ended, mut flushed, mut covered) = (0, 0, 0, 0);
    let mut done = Vec::new();
    medium.set_fuse(20 + rng.below(600));
    while !medium.is_off() {
        for _ in 0..1 + rng.below(8) {
            submitted += 1;
            io.submit(Nanos(0), write(rng.below(PAGES), submitted));
        }
        if rng.below(3) == 0 && covered == 0 {
            covered = ended;
            io.submit(Nanos(0), Bio::new(Op::Flush, Sector(0), 0, 0));
        }
        io.poll(Nanos(0), &mut done);
        for completion in done.drain(..) {
            let (is_flush, ok) = (completion.user_data == 0, completion.status == Status::Ok);
            if is_flush {
                flushed = if ok { flushed.max(covered) } else { flushed };
                covered = 0;
            } else {
                ended += u64::from(ok);
            }
        }
    }
    while io.outstanding() > 0 {
        io.poll(Nanos(0), &mut done);
    }
    (flushed, submitted)
}

#[test]
fn what_was_flushed_of_map_and_counts_survives_every_loss_of_power() {
    let mut known = 0;
    for seed in 0..16 {
        let medium = new_image_of([SPEC, MAPPED][usize::from(seed >= 12)], seed);
        let mut rng = Rng::new(seed);
        let mut host = 0;
        for loss in 0..4 {
            let device = open(&medium);
            assert_eq!(device.state_damage(), None, "seed {seed}, loss {loss}");
            assert_eq!(stats(&device).host.0, host);
            let mut io = channel(&device);
            let (flushed, submitted) = until_the_power_goes(&medium, &mut io, &mut rng);
            drop((io, device));
            let (sector, keep) = ([512, 4096][usize::from(rng.below(2) == 1)], rng.below(5));
            medium.lose_power(sector, keep);
            for _ in 0..rng.below(3) {
                medium.set_fuse(1 + rng.below(60));
                let opened = open_with(&medium, false);
                medium.set_fuse(0);
                drop(opened);
                medium.lose_power(sector, rng.below(5));
            }
            let (superblock, recovered, _) = check(&medium).unwrap();
            let data = check_data(&medium, &superblock, &recovered, &mut |_| ()).unwrap();
            assert!(!data.iter().any(|it| matches!(it, Finding::Damage(_))), "{data:?}");
            let now = stats(&open(&medium)).host.0;
            let pages = (now - host) / 4096;
            assert!(
                (flushed..=submitted).contains(&pages),
                "seed {seed}, loss {loss}: {pages} of {flushed} to {submitted} pages"
            );
            (host, known) = (now, known + flushed);
        }
    }
    assert!(known > 200, "{known} pages were flushed");
}

#[test]
fn state_that_is_damaged_is_reported_and_the_drive_begins_anew_with_all_of_its_data() {
    let medium = new_image(3);
    let (mut rng, mut pages) = (Rng::new(3), BTreeMap::new());
    let device = open(&medium);
    let mut io = channel(&device);
    overwrite(&mut io, 500, &mut rng, &mut pages);
    drop((io, device));
    assert!(check(&medium).unwrap().2.is_empty());
    let bytes = medium.bytes();
    let maps = (0..bytes.len()).step_by(4096).filter(|&at| bytes[at..].starts_with(b"ZNLM"));
    for map in maps {
        let mut bytes = bytes.clone();
        bytes[map + 100] ^= 1;
        let damaged = Medium::of(bytes, 0);
        let findings = check(&damaged).unwrap().2;
        // The map of an earlier generation does not count.
        let Some(Finding::Damage(text)) = findings.first() else { continue };
        assert!(text.contains(&format!("at byte {map};")), "{text}");
        let device = open(&damaged);
        let why = device.state_damage().expect("it is damaged").to_owned();
        assert!(why.contains("of its map is damaged, at byte"), "{why}");
        assert_eq!(stats(&device).host, Bytes(0));
        let mut io = channel(&device);
        assert_data(&mut io, &pages);
        overwrite(&mut io, 10, &mut rng, &mut pages.clone());
        drop((io, device));
        let device = open(&damaged);
        assert_eq!((device.state_damage(), stats(&device).host), (None, Bytes(10 * 4096)));
        return;
    }
    panic!("no damage to a block of a map was found");
}

#[test]
fn copy_of_a_root_of_the_state_that_is_damaged_is_found_and_made_good() {
    let medium = new_image(6);
    let device = open(&medium);
    overwrite(&mut channel(&device), 500, &mut Rng::new(6), &mut BTreeMap::new());
    let host = stats(&device).host;
    drop(device);
    let bytes = medium.bytes();
    let roots = (0..bytes.len()).step_by(4096).filter(|&at| bytes[at..].starts_with(b"ZNLH"));
    let roots: Vec<usize> = roots.collect();
    assert_eq!(roots.len(), 4, "two of each half");
    for at in roots {
        let mut bytes = bytes.clone();
        bytes[at + 100] ^= 1;
        let damaged = Medium::of(bytes, 0);
        let findings = check(&damaged).unwrap().2;
        let [Finding::Damage(text)] = &findings[..] else { panic!("{findings:?}") };
        assert!(text.starts_with("root of the drive's state, copy "), "{text}");
        assert!(text.ends_with(&format!("at byte {at}; its twin is whole")), "{text}");
        let device = open(&damaged);
        assert_eq!((device.state_damage(), stats(&device).host), (None, host));
        drop(device);
        assert_eq!(check(&damaged).unwrap().2, []);
    }
}

#[test]
fn power_may_go_again_at_each_call_while_an_image_is_opened() {
    const SMALL: &str =
        "ssd:size=1M,overprovision=200%,dies=1,channels=1,block=96K,buffer=16M,fdp_handles=2";
    let medium = new_image_of(SMALL, 1);
    let mut host = Bytes(0);
    // Afterwards both halves of the state are in use, and the log of one.
    for _ in 0..3 {
        let device = open(&medium);
        let mut io = channel(&device);
        for number in 0..100 {
            assert_eq!(complete(&mut io, write(number, number)).status, Status::Ok);
        }
        flush(&mut io);
        host = stats(&device).host;
        medium.set_fuse(0);
        drop((io, device));
        medium.lose_power(512, 0);
    }
    let bytes = medium.bytes();
    let mut roots = (0..bytes.len()).step_by(4096).filter(|&at| bytes[at..].starts_with(b"ZNLH"));
    let damaged = medium.copied(0);
    damaged.turn(roots.next_back().expect("two of each half") + 100, 1);
    // Up to the first save, an opening reads; a damaged copy takes two saves.
    for (image, reads) in [(medium, 10), (damaged, 15)] {
        for (seed, keep) in (0..).zip([0, 4, 2, 2, 2, 2, 2, 2]) {
            for calls in if keep == 2 { reads } else { 1 }.. {
                let medium = image.copied(seed << 32 | calls);
                medium.set_fuse(calls);
                let opened = open_with(&medium, false);
                let was_whole = opened.as_ref().map_or(true, |it| it.state_damage().is_none());
                let is_off = medium.is_off();
                medium.set_fuse(0);
                drop(opened);
                medium.lose_power(512, keep);
                let what = format!("seed {seed}, call {calls}, {keep} of 4 sectors kept");
                assert!(was_whole, "{what}");
                let device = open(&medium);
                assert_eq!((device.state_damage(), stats(&device).host), (None, host), "{what}");
                medium.set_fuse(0);
                if !is_off {
                    assert!(calls > 2 * reads, "{calls}");
                    break;
                }
            }
        }
    }
}

#[test]
fn log_that_is_full_is_replaced_by_the_whole_state() {
    let medium = new_image(4);
    let device = open(&medium);
    let mut io = channel(&device);
    // A block of the log for each flush, more than it has.
    for number in 0..4200 {
        assert_eq!(complete(&mut io, write(number % PAGES, number)).status, Status::Ok);
        flush(&mut io);
    }
    let host = stats(&device).host;
    medium.set_fuse(0);
    drop((io, device));
    medium.lose_power(512, 0);
    assert_eq!(stats(&open(&medium)).host, host);
}

#[test]
fn state_of_another_drive_is_refused() {
    let medium = new_image(5);
    drop(open(&medium));
    let other = |spec: &str| {
        let spec = device_spec::parse(spec).unwrap();
        let state = |_| (Bytes(0), ZoneCondition::NotWritePointer);
        device_spec::timing(&spec, state).unwrap().expect("it takes time")
    };
    let saved = other(SPEC).kept().unwrap().save();
    let bigger = other(&SPEC.replace("60%", "90%"));
    assert_eq!(bigger.kept().unwrap().resume(&saved, &[]), None);
    assert_eq!(other(SPEC).kept().unwrap().resume(&saved, &[7; 12]), None);
    assert_eq!(other(SPEC).kept().unwrap().resume(&saved, &[]), Some(false));
}

#[test]
fn events_that_are_recorded_are_those_after_a_loss_of_power_right_after_they_were_chosen() {
    use PlacementEventType::{InvalidId, Reallocated, UnitNotFull};
    let medium = new_image(5);
    let recorded = |device: &ImageDevice| -> Vec<(u16, PlacementEventType)> {
        let placement = device.placement().expect("it has reclaim unit handles");
        let all = PlacementEventType::ALL;
        let each = (0..2).flat_map(|handle| all.map(|kind| (handle, kind)));
        each.filter(|&(handle, kind)| placement.records(handle, kind)).collect()
    };
    let choose = |handle, kind, on| {
        let device = open(&medium);
        device.placement().expect("it has reclaim unit handles").record(handle, kind, on);
        medium.set_fuse(0);
        drop(device);
        medium.lose_power(512, 0);
        recorded(&open(&medium))
    };
    assert_eq!(recorded(&open(&medium)), []);
    assert_eq!(choose(1, UnitNotFull, true), [(1, UnitNotFull)]);
    assert_eq!(choose(0, Reallocated, true), [(0, Reallocated), (1, UnitNotFull)]);
    assert_eq!(choose(1, InvalidId, false), [(0, Reallocated), (1, UnitNotFull)]);
    assert_eq!(choose(1, UnitNotFull, false), [(0, Reallocated)]);
    // They are a part of the whole state, too.
    let device = open(&medium);
    overwrite(&mut channel(&device), 3000, &mut Rng::new(5), &mut BTreeMap::new());
    drop(device);
    assert_eq!(recorded(&open(&medium)), [(0, Reallocated)]);
}
