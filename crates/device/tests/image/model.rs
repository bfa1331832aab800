//! A model of what an image must hold, as far as its user can know.
use std::collections::BTreeMap;
use std::sync::Arc;
use zonal_blk::{
    Bio, BioFlags, Buf, Channel, Completion, Nanos, Op, Queue, QueueOptions, Sector, Status, Zone,
    ZoneCondition, ZoneKind, ZoneNo,
};
use zonal_device::ImageDevice;
use zonal_device::image::{ImageError, ImageGeometry, Model, Profile, Superblock, ZoneEntry};
use zonal_device::rng::Rng;

use crate::medium::Medium;

/// A sector of a write, distinguished from all others.
fn stamp(id: u64, number: u64) -> [u8; 512] {
    let word = (id << 16 | number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut sector = [0; 512];
    sector.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&word.to_le_bytes()));
    sector
}

/// Opens an image without a model of time.
pub fn open(medium: &Medium) -> Result<Arc<ImageDevice>, ImageError> {
    let none = |_: &Superblock, _: &[ZoneEntry]| Ok::<Option<Model>, ImageError>(None);
    let device = ImageDevice::open(Arc::new(medium.clone()), none)?;
    Ok(Arc::new(device.with_long_commands()))
}

/// A new image with four sequential zones of this many sectors.
pub fn new_image(zone_size: u64) -> Medium {
    let geometry = ImageGeometry::simple(4, 0, Sector(zone_size));
    let superblock = Superblock::new([1; 16], geometry, Profile::Spec("null".to_owned())).unwrap();
    let medium = Medium::new(1);
    ImageDevice::create(&medium, &superblock).unwrap();
    medium
}

/// Executes a command alone.
pub fn complete(io: &mut Channel, bio: Bio) -> Completion {
    io.submit(Nanos(0), bio);
    let mut completions = Vec::new();
    while io.outstanding() > 0 {
        io.poll(Nanos(0), &mut completions);
    }
    completions.pop().unwrap()
}

/// The same; gives its status.
pub fn run(io: &mut Channel, bio: Bio) -> Status {
    complete(io, bio).status
}

/// Attaches the block layer.
pub fn channel(device: &Arc<ImageDevice>) -> Channel {
    let queue = Queue::attach(Arc::clone(device) as _, QueueOptions::default()).unwrap();
    queue.channel().unwrap()
}

#[derive(Clone, Debug)]
struct Flight {
    op: Op,
    fua: bool,
    zone: usize,
    nr_sectors: u64,
    /// For a flush: what had ended in each zone, after how many resets.
    ended: Vec<(u64, u64)>,
    /// When it was submitted.
    begun: u64,
}

#[derive(Clone, Debug, Default)]
struct ZoneModel {
    /// Where the sectors of ended writes are: their stamps.
    sectors: BTreeMap<u64, (u64, u64)>,
    /// How much is durable for certain, in sectors from the start.
    safe: u64,
    full: bool,
    /// A reset or a finish may or may not have happened.
    maybe_empty: bool,
    maybe_full: bool,
}

/// The possible contents of a sector of a conventional zone.
#[derive(Clone, Copy, Debug)]
struct Value {
    /// The command that wrote or discarded it.
    id: u64,
    /// When its write was submitted and when it ended, in events of the user.
    begun: u64,
    ended: Option<u64>,
    /// The stamp; `None` for zeroes.
    stamp: Option<(u64, u64)>,
}

const NEVER: Value = Value { id: 0, begun: 0, ended: Some(1), stamp: None };

/// A user of an image, and what it knows.
pub struct User {
    rng: Rng,
    next_id: u64,
    zones: Vec<ZoneModel>,
    /// How often each zone was reset.
    resets: Vec<u64>,
    /// By sector.
    loose: BTreeMap<u64, Vec<Value>>,
    /// Counts events.
    clock: u64,
    flights: BTreeMap<u64, Flight>,
    descriptors: Vec<Zone>,
    /// Writes fail for want of space.
    pub is_short: bool,
    /// How often things happened, to see that the test tests.
    pub ended: u64,
    pub failed: u64,
}

impl User {
    pub fn new(seed: u64, device: &ImageDevice) -> Self {
        let mut descriptors = Vec::new();
        device.zones().report(ZoneNo(0), usize::MAX, &mut descriptors).unwrap();
        User {
            rng: Rng::new(seed),
            next_id: 1,
            zones: vec![ZoneModel::default(); descriptors.len()],
            resets: vec![0; descriptors.len()],
            loose: BTreeMap::new(),
            clock: 1,
            is_short: false,
            flights: BTreeMap::new(),
            descriptors,
            ended: 0,
            failed: 0,
        }
    }

    fn is_conventional(&self, zone: usize) -> bool {
        self.descriptors[zone].kind == ZoneKind::Conventional
    }

    /// Whether the device has no zones: it is a single one, which is conventional.
    fn is_regular(&self) -> bool {
        self.zones.len() == 1
    }

    /// Submits a random command.
    pub fn submit(&mut self, channel: &mut Channel, lba: u64) {
        if self.flights.values().any(|flight| flight.op == Op::ZoneResetAll) {
            // What is under way together with it would be before or after it, zone by zone.
            return;
        }
        let nr_zones = self.zones.len() as u64;
        let zone = usize::try_from(self.rng.below(nr_zones)).unwrap();
        let conventional = self.is_conventional(zone);
        let op = match self.rng.below(20) {
            0..=10 => Op::Write,
            11..=13 if !conventional => Op::ZoneAppend,
            14..=16 => Op::Flush,
            17 if !conventional => Op::ZoneReset,
            18 if !conventional && self.rng.below(3) == 0 => Op::ZoneFinish,
            17 => Op::Discard,
            19 if self.flights.is_empty() && !self.is_regular() => Op::ZoneResetAll,
            _ => Op::Write,
        };
        self.submit_op(channel, op, zone, lba);
    }

    pub fn nr_zones(&self) -> u64 {
        self.zones.len() as u64
    }

    /// Submits a command of a given kind to a zone, unless there is no room for it.
    pub fn submit_op(&mut self, channel: &mut Channel, op: Op, zone: usize, lba: u64) {
        let descriptor = self.descriptors[zone];
        let conventional = self.is_conventional(zone);
        let id = self.next_id;
        self.next_id += 1;
        self.clock += 1;
        let (mut sector, mut nr_sectors) = (descriptor.start.0, 0);
        if op.is_write() || op == Op::Discard {
            nr_sectors = (1 + self.rng.below(16 / lba.min(16) + 1)) * lba;
            if conventional {
                let room = descriptor.len.0 / lba - nr_sectors / lba;
                sector += self.rng.below(room + 1) * lba;
            } else if op == Op::Write {
                let (_, wp) = channel.queue().cached_zone(ZoneNo(zone as u32)).unwrap();
                if wp.0 + nr_sectors > descriptor.capacity.0 {
                    return;
                }
                sector += wp.0;
            }
        }
        let fua = op.is_write() && self.rng.below(6) == 0;
        let mut bio = Bio::new(op, Sector(sector), u32::try_from(nr_sectors).unwrap(), id);
        if op == Op::Flush || op == Op::ZoneResetAll {
            bio.sector = Sector(0);
        }
        if op.is_write() {
            let data: Vec<_> = (0..nr_sectors).map(|number| stamp(id, number)).collect();
            bio.buf = Some(Buf::from(data.as_flattened()));
        }
        if fua {
            bio.flags = BioFlags::FUA;
        }
        if conventional && matches!(op, Op::Write | Op::Discard) {
            for number in 0..nr_sectors {
                let values = self.loose.entry(sector + number).or_insert(vec![NEVER]);
                let stamp = (op == Op::Write).then_some((id, number));
                values.push(Value { id, begun: self.clock, ended: None, stamp });
            }
        }
        let ended = |zone| (self.resets[zone], self.data_end(zone));
        let ended = (0..self.zones.len()).map(ended).collect();
        let flight = Flight { op, fua, zone, nr_sectors, ended, begun: self.clock };
        self.flights.insert(id, flight);
        channel.submit(Nanos(0), bio);
    }

    /// How many sectors of a zone's start have ended, without a hole.
    fn data_end(&self, zone: usize) -> u64 {
        let start = self.descriptors[zone].start.0;
        let sectors = &self.zones[zone].sectors;
        (0..).take_while(|at| sectors.contains_key(&(start + at))).count() as u64
    }

    /// Polls; notes what has ended, unless the power has gone.
    pub fn poll(&mut self, channel: &mut Channel, medium: &Medium) {
        let mut completions = Vec::new();
        channel.poll(Nanos(0), &mut completions);
        for completion in completions {
            if medium.is_off() && completion.status != Status::Ok {
                // Its user went with the power.
                continue;
            }
            self.note(&completion);
        }
    }

    fn note(&mut self, completion: &Completion) {
        let id = completion.user_data;
        let flight = self.flights.remove(&id).unwrap();
        if completion.status != Status::Ok {
            self.failed += 1;
            self.note_failure(id, &flight);
            return;
        }
        self.ended += 1;
        self.clock += 1;
        match flight.op {
            Op::Write | Op::Discard if self.is_conventional(flight.zone) => {
                for value in self.loose.values_mut().flatten().filter(|value| value.id == id) {
                    value.ended = Some(self.clock);
                }
                if flight.fua {
                    // It made durable what had ended before it, if not more.
                    self.settle_loose(flight.begun);
                    self.settle_fua(id);
                }
            }
            Op::Write | Op::ZoneAppend => {
                let start = self.descriptors[flight.zone].start.0;
                let zone = &mut self.zones[flight.zone];
                for number in 0..flight.nr_sectors {
                    let before = zone.sectors.insert(completion.sector.0 + number, (id, number));
                    assert_eq!(before, None, "two writes ended at one place");
                }
                if flight.fua {
                    zone.safe = zone.safe.max(completion.sector.0 + flight.nr_sectors - start);
                }
            }
            Op::Flush => {
                for (zone, (resets, end)) in flight.ended.iter().enumerate() {
                    // A reset since has taken what was flushed.
                    if *resets == self.resets[zone] {
                        self.zones[zone].safe = self.zones[zone].safe.max(*end);
                    }
                }
                self.settle_loose(flight.begun);
            }
            Op::ZoneReset => {
                self.zones[flight.zone] = ZoneModel::default();
                self.resets[flight.zone] += 1;
            }
            Op::ZoneFinish => self.zones[flight.zone].full = true,
            Op::ZoneResetAll => {
                self.zones.fill(ZoneModel::default());
                self.resets.iter_mut().for_each(|count| *count += 1);
            }
            other => unreachable!("{other:?} was not submitted"),
        }
    }

    /// A command that failed left nothing, except in conventional zones.
    fn note_failure(&mut self, id: u64, flight: &Flight) {
        let conventional = self.is_conventional(flight.zone) && flight.op == Op::Write;
        let conventional = conventional || flight.op == Op::Discard;
        assert!(conventional || !self.loose.values().flatten().any(|value| value.id == id));
        if flight.op.is_write() {
            // One that would have filled its zone leaves it full.
            self.zones[flight.zone].maybe_full = true;
        }
    }

    /// The writes that had ended by `upto` are durable: the data that they replaced are gone. Writes that were
    /// under way together may have come in any order.
    fn settle_loose(&mut self, upto: u64) {
        for values in self.loose.values_mut() {
            let durable = values.iter().filter(|value| value.ended.is_some_and(|at| at <= upto));
            if let Some(begun) = durable.map(|value| value.begun).max() {
                values.retain(|value| value.ended.is_none_or(|at| at > begun));
            }
        }
    }

    /// The same for one write.
    fn settle_fua(&mut self, id: u64) {
        for values in self.loose.values_mut() {
            let durable = values.iter().find(|value| value.id == id);
            if let Some(begun) = durable.map(|value| value.begun) {
                values.retain(|value| value.ended.is_none_or(|at| at > begun));
            }
        }
    }

    /// Whether the flights that are left include one that may have changed zones.
    fn note_lost(&mut self) {
        let flights = std::mem::take(&mut self.flights);
        for flight in flights.values() {
            match flight.op {
                Op::ZoneReset => self.zones[flight.zone].maybe_empty = true,
                Op::ZoneFinish => self.zones[flight.zone].maybe_full = true,
                Op::ZoneResetAll => self.zones.iter_mut().for_each(|z| z.maybe_empty = true),
                // It may have failed already.
                _ if self.is_short => self.zones[flight.zone].maybe_full = true,
                _ => {}
            }
        }
        self.flights = flights;
    }

    /// Checks all of an image after a loss of power, and goes on from what is there.
    pub fn check(&mut self, device: &Arc<ImageDevice>, channel: &mut Channel, what: &str) {
        self.note_lost();
        let mut found = Vec::new();
        device.zones().report(ZoneNo(0), usize::MAX, &mut found).unwrap();
        for (zone, descriptor) in found.iter().enumerate() {
            let data = read(channel, descriptor);
            if self.is_conventional(zone) {
                self.check_loose(descriptor, &data, what);
            } else {
                self.check_zone(zone, descriptor, &data, what);
            }
        }
        self.flights.clear();
    }

    fn check_zone(&mut self, zone: usize, found: &Zone, data: &[u8], what: &str) {
        let model = &self.zones[zone];
        let in_file: Vec<&[u8]> = data.chunks(512).collect();
        let is_zero = |sector: &&[u8]| sector.iter().all(|&byte| byte == 0);
        let end = in_file.iter().position(&is_zero).unwrap_or(in_file.len());
        let what = format!("{what}: zone {zone} {found:?} with {end} sectors of data, {model:?}");
        assert!(in_file[end..].iter().all(is_zero), "data after the end: {what}");
        let (wp, end) = ((found.wp - found.start).0, end as u64);
        match found.cond {
            ZoneCondition::Empty => assert_eq!(end, 0, "{what}"),
            ZoneCondition::Closed => assert_eq!(end, wp, "the pointer is not at the end: {what}"),
            ZoneCondition::Full => {
                let may_be = model.full || model.maybe_full || end == found.capacity.0;
                assert!(may_be, "full without a reason: {what}");
            }
            other => panic!("{other:?}: {what}"),
        }
        if model.maybe_empty && found.cond == ZoneCondition::Empty {
            self.zones[zone] = ZoneModel::default();
            return;
        }
        assert!(!model.full || found.cond == ZoneCondition::Full, "no longer full: {what}");
        assert!(end >= model.safe, "what was flushed is gone: {what}");
        let mut sectors = BTreeMap::new();
        for (at, sector) in (found.start.0..).zip(&in_file[..end as usize]) {
            let ended = model.sectors.get(&at).copied();
            let of_flight = || {
                let writes = self.flights.iter().filter(|(_, flight)| flight.zone == zone);
                writes
                    .flat_map(|(&id, flight)| (0..flight.nr_sectors).map(move |n| (id, n)))
                    .find(|&(id, number)| stamp(id, number) == **sector)
            };
            let stamped = ended.or_else(of_flight);
            let Some((id, number)) = stamped else {
                panic!("sector {at} has data that nobody wrote there: {what}");
            };
            assert!(stamp(id, number) == **sector, "sector {at} has other data: {what}");
            sectors.insert(at, (id, number));
        }
        self.zones[zone] = ZoneModel {
            sectors,
            safe: end,
            full: found.cond == ZoneCondition::Full,
            ..ZoneModel::default()
        };
    }

    fn check_loose(&mut self, found: &Zone, data: &[u8], what: &str) {
        for (at, sector) in (found.start.0..).zip(data.chunks(512)) {
            let never = vec![NEVER];
            let values = self.loose.get(&at).unwrap_or(&never);
            let is_there = |value: &&Value| match value.stamp {
                None => *sector == [0; 512],
                Some((id, number)) => stamp(id, number) == *sector,
            };
            let Some(&Value { stamp, .. }) = values.iter().find(is_there) else {
                panic!("{what}: sector {at} has none of {values:?}");
            };
            self.loose.insert(at, vec![Value { stamp, ..NEVER }]);
        }
    }
}

fn read(channel: &mut Channel, zone: &Zone) -> Vec<u8> {
    let nr_sectors = u32::try_from(zone.len.0).unwrap();
    channel.submit(Nanos(0), Bio::read(zone.start, nr_sectors, 0));
    let mut completions = Vec::new();
    while channel.outstanding() > 0 {
        channel.poll(Nanos(0), &mut completions);
    }
    assert_eq!(completions[0].status, Status::Ok);
    completions[0].buf.take().unwrap().to_vec()
}

impl User {
    /// The image is about to be closed: nothing may be missing afterwards.
    pub fn all_is_safe(&mut self) {
        for zone in 0..self.zones.len() {
            self.zones[zone].safe = self.data_end(zone);
        }
        self.settle_loose(self.clock);
    }
}
