//! What a device may hold after a kill or a loss of power, by what its host was told.
//!
//! ```text
//!  Model      an image: its namespaces, versions of data, commands in flight
//!  Place      a sector that can be overwritten: the version last known to be durable, those written since
//!  SeqZone    a sequential zone: how far it was written, answered and made durable; resets and finishes
//! ```
//!
//! Each write has a version of its own, and each of its sectors says seed, namespace, sector and version, so that
//! data of another time or place, and torn ones, are seen.
use zonal_blk::{Zone, ZoneCondition};
use zonal_device::rng::mix;

/// Bytes of a sector.
pub const SECTOR: usize = 512;
/// The version of a sector that was never written: zeroes.
const ZEROES: u64 = 0;

/// A namespace: sectors that can be overwritten, then sequential zones.
#[derive(Clone, Debug)]
pub struct Shape {
    pub places: u64,
    pub zones: u64,
    /// Sectors of a zone, and of those the writable ones.
    pub zone_len: u64,
    pub zone_capacity: u64,
}

/// What a command does. Sectors are those of its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Write { sector: u64, len: u64, version: u64, fua: bool },
    Flush,
    Reset { sector: u64 },
    Finish { sector: u64 },
}

/// A command of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    pub namespace: usize,
    pub work: Work,
}

/// What was answered when a command was submitted.
#[derive(Clone, Debug)]
pub struct Answered(Vec<AnsweredIn>);

/// The same of a namespace: the version of each place; the generation and the end of each zone.
type AnsweredIn = (Vec<u64>, Vec<(u64, usize)>);

/// How a server came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survives {
    /// A kill: the kernel has what the server had written.
    Answered,
    /// A loss of power.
    Durable,
}

#[derive(Clone, Debug, Default)]
struct Place {
    /// Durable, as far as the host knows.
    durable: u64,
    /// Submitted since, the oldest first: each may be there after a loss of power.
    later: Vec<u64>,
    /// Answered last.
    answered: u64,
    /// Submitted since then and not answered, or failed: may be there.
    unsure: Option<u64>,
    /// A write is in flight.
    busy: bool,
}

impl Place {
    /// The version is durable; what was there before it is gone for good.
    fn keep(&mut self, version: u64) {
        if let Some(at) = self.later.iter().position(|&later| later == version) {
            self.durable = version;
            self.later.drain(..=at);
        }
    }
}

/// Whether a zone was finished, or written to its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    No,
    Maybe,
    Yes,
}

#[derive(Clone, Debug)]
struct SeqZone {
    start: u64,
    capacity: usize,
    /// Counts resets.
    generation: u64,
    /// Versions of the sectors from the start, as far as writes were submitted.
    versions: Vec<u64>,
    /// Sectors from the start that were answered, and of those the durable ones.
    answered: usize,
    durable: usize,
    full: Full,
    /// A reset is in flight or has failed.
    resetting: bool,
    /// A command has failed: where the write pointer is, is known after the next start.
    failed: bool,
    in_flight: usize,
}

impl SeqZone {
    fn empty(&mut self) {
        self.generation += 1;
        self.versions.clear();
        (self.answered, self.durable) = (0, 0);
        (self.full, self.resetting) = (Full::No, false);
    }
}

struct Namespace {
    shape: Shape,
    places: Vec<Place>,
    zones: Vec<SeqZone>,
}

/// An image.
pub struct Model {
    seed: u64,
    versions: u64,
    namespaces: Vec<Namespace>,
    /// Writes that were answered and not yet looked for.
    unchecked: u64,
}

/// What is in a sector.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Version(u64),
    /// What it is instead.
    Foreign(String),
}

/// The data of a sector.
fn stamp(seed: u64, namespace: usize, sector: u64, version: u64) -> [u8; SECTOR] {
    let place = (namespace as u64) << 48 | sector;
    let key = mix(seed ^ mix(place ^ mix(version)));
    let word = |at: usize| match at {
        0 => seed,
        1 => place,
        2 => version,
        _ => key.wrapping_mul(2 * at as u64 + 1),
    };
    let mut bytes = [0; SECTOR];
    for (at, part) in bytes.chunks_exact_mut(8).enumerate() {
        part.copy_from_slice(&word(at).to_le_bytes());
    }
    bytes
}

fn place_number(number: u64) -> usize {
    usize::try_from(number).expect("a small device")
}

impl Model {
    /// A new image: zeroes, and empty zones.
    pub fn new(seed: u64, shapes: &[Shape]) -> Self {
        let namespaces = shapes.iter().map(|shape| Namespace {
            shape: shape.clone(),
            places: vec![Place::default(); place_number(shape.places)],
            zones: (0..shape.zones)
                .map(|zone| SeqZone {
                    start: shape.places + zone * shape.zone_len,
                    capacity: place_number(shape.zone_capacity),
                    generation: 0,
                    versions: Vec::new(),
                    answered: 0,
                    durable: 0,
                    full: Full::No,
                    resetting: false,
                    failed: false,
                    in_flight: 0,
                })
                .collect(),
        });
        Model { seed, versions: ZEROES, namespaces: namespaces.collect(), unchecked: 0 }
    }

    pub fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.namespaces.iter().map(|namespace| &namespace.shape)
    }

    /// Writes that were answered since the last call.
    pub fn take_unchecked(&mut self) -> u64 {
        std::mem::take(&mut self.unchecked)
    }

    /// The version of the next write.
    pub fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    /// The data of a write.
    pub fn data(&self, namespace: usize, sector: u64, len: u64, version: u64) -> Vec<u8> {
        let sectors = sector..sector + len;
        sectors.flat_map(|sector| stamp(self.seed, namespace, sector, version)).collect()
    }

    /// Whether sectors can be overwritten and no write to them is in flight.
    pub fn is_free(&self, namespace: usize, sector: u64, len: u64) -> bool {
        let range = place_number(sector)..place_number(sector + len);
        self.namespaces[namespace].places[range].iter().all(|place| !place.busy)
    }

    /// Where the next write to a zone goes, and how many sectors are left. `None` if it cannot be written.
    pub fn next_write(&self, namespace: usize, zone: u64) -> Option<(u64, u64)> {
        let zone = &self.namespaces[namespace].zones[place_number(zone)];
        let writable = zone.full == Full::No && !zone.resetting && !zone.failed;
        let at = zone.versions.len();
        (writable && at < zone.capacity)
            .then(|| (zone.start + at as u64, (zone.capacity - at) as u64))
    }

    /// The start of a zone that nothing is in flight to.
    pub fn idle_zone(&self, namespace: usize, zone: u64) -> Option<u64> {
        let zone = &self.namespaces[namespace].zones[place_number(zone)];
        (zone.in_flight == 0 && !zone.failed).then_some(zone.start)
    }

    /// Whether commands to a zone are in flight.
    pub fn is_zone_busy(&self, namespace: usize, zone: u64) -> bool {
        self.namespaces[namespace].zones[place_number(zone)].in_flight > 0
    }

    fn zone_at(&mut self, namespace: usize, sector: u64) -> Option<&mut SeqZone> {
        let Namespace { shape, zones, .. } = &mut self.namespaces[namespace];
        let behind = sector.checked_sub(shape.places)?;
        Some(&mut zones[place_number(behind / shape.zone_len)])
    }

    fn places(&mut self, namespace: usize, sector: u64, len: u64) -> &mut [Place] {
        let range = place_number(sector)..place_number(sector + len);
        &mut self.namespaces[namespace].places[range]
    }

    /// A command goes to the device.
    pub fn submitted(&mut self, command: &Command) {
        let namespace = command.namespace;
        match command.work {
            Work::Flush => {}
            Work::Write { sector, len, version, .. } => match self.zone_at(namespace, sector) {
                Some(zone) => {
                    zone.in_flight += 1;
                    zone.versions.resize(zone.versions.len() + place_number(len), version);
                    if zone.versions.len() == zone.capacity {
                        zone.full = Full::Maybe;
                    }
                }
                None => {
                    for place in self.places(namespace, sector, len) {
                        place.later.push(version);
                        (place.unsure, place.busy) = (Some(version), true);
                    }
                }
            },
            Work::Reset { sector } | Work::Finish { sector } => {
                let zone = self.zone_at(namespace, sector).expect("a sequential zone");
                zone.in_flight += 1;
                match command.work {
                    Work::Reset { .. } => zone.resetting = true,
                    _ => zone.full = Full::Maybe,
                }
            }
        }
    }

    /// The device has answered a command.
    pub fn ended(&mut self, command: &Command, fine: bool) {
        let namespace = command.namespace;
        if fine && matches!(command.work, Work::Write { .. }) {
            self.unchecked += 1;
        }
        match command.work {
            // By `flushed`.
            Work::Flush => {}
            Work::Write { sector, len, version, fua } => match self.zone_at(namespace, sector) {
                Some(zone) => {
                    zone.in_flight -= 1;
                    if fine {
                        let end = place_number(sector + len - zone.start);
                        zone.answered = zone.answered.max(end);
                        if fua {
                            zone.durable = zone.durable.max(end);
                        }
                    }
                    zone.failed |= !fine;
                }
                None => {
                    for place in self.places(namespace, sector, len) {
                        place.busy = false;
                        if fine {
                            (place.answered, place.unsure) = (version, None);
                            if fua {
                                place.keep(version);
                            }
                        }
                    }
                }
            },
            Work::Reset { sector } | Work::Finish { sector } => {
                let zone = self.zone_at(namespace, sector).expect("a sequential zone");
                zone.in_flight -= 1;
                match command.work {
                    _ if !fine => zone.failed = true,
                    Work::Reset { .. } => zone.empty(),
                    // A finish is durable, and so are the data before it.
                    _ => (zone.full, zone.durable) = (Full::Yes, zone.answered),
                }
            }
        }
    }

    /// What was answered up to now.
    pub fn answered(&self) -> Answered {
        let of = |namespace: &Namespace| -> AnsweredIn {
            let places = namespace.places.iter().map(|place| place.answered).collect();
            let zones = namespace.zones.iter().map(|zone| (zone.generation, zone.answered));
            (places, zones.collect())
        };
        Answered(self.namespaces.iter().map(of).collect())
    }

    /// What was answered then is durable: of a namespace, or of all.
    pub fn flushed(&mut self, then: &Answered, namespace: Option<usize>) {
        let all = self.namespaces.iter_mut().zip(&then.0).enumerate();
        for (_, (now, (places, zones))) in all.filter(|(at, _)| namespace.is_none_or(|n| n == *at))
        {
            for (place, &version) in now.places.iter_mut().zip(places) {
                place.keep(version);
            }
            for (zone, &(generation, answered)) in now.zones.iter_mut().zip(zones) {
                if zone.generation == generation {
                    zone.durable = zone.durable.max(answered);
                }
            }
        }
    }

    fn identify(&self, namespace: usize, sector: u64, data: &[u8]) -> Found {
        if data.iter().all(|&byte| byte == 0) {
            return Found::Version(ZEROES);
        }
        let number = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().expect("eight"));
        let version = number(16);
        if data == stamp(self.seed, namespace, sector, version) {
            return Found::Version(version);
        }
        let (of, place) = (number(0), number(8));
        let (other, there) = (place >> 48, place & 0xffff_ffff_ffff);
        Found::Foreign(if of != self.seed {
            format!("data that nobody wrote, beginning with {of:#x}")
        } else if (other, there) == (namespace as u64, sector) {
            format!("torn data of version {version}")
        } else {
            format!("version {version} of sector {there} of namespace {other}")
        })
    }

    /// Compares a namespace with what may be there, and goes on from what is. `data` has all of its sectors
    /// that can be written, and `zones` what is reported of the sequential ones. Commands in flight have ended without an answer.
    ///
    /// # Errors
    /// What was lost.
    pub fn check(
        &mut self,
        namespace: usize,
        survives: Survives,
        data: &[u8],
        zones: &[Zone],
    ) -> Result<(), String> {
        let (places, sequential) = data.split_at(self.namespaces[namespace].places.len() * SECTOR);
        let found: Vec<Found> = (0..)
            .zip(places.chunks_exact(SECTOR))
            .map(|(sector, data)| self.identify(namespace, sector, data))
            .collect();
        let Namespace { shape, places, .. } = &mut self.namespaces[namespace];
        let zone_bytes = place_number(shape.zone_capacity) * SECTOR;
        for ((sector, place), found) in places.iter_mut().enumerate().zip(found) {
            check_place(place, survives, found)
                .map_err(|why| format!("namespace {namespace}, sector {sector}: {why}"))?;
        }
        let parts: Vec<&[u8]> = sequential.chunks(zone_bytes.max(SECTOR)).collect();
        if zones.len() != parts.len() || zones.len() != self.namespaces[namespace].zones.len() {
            return Err(format!("namespace {namespace}: a report of {} zones", zones.len()));
        }
        for (at, (reported, data)) in zones.iter().zip(parts).enumerate() {
            let start = self.namespaces[namespace].zones[at].start;
            let found: Vec<Found> = (start..)
                .zip(data.chunks_exact(SECTOR))
                .map(|(sector, data)| self.identify(namespace, sector, data))
                .collect();
            let zone = &mut self.namespaces[namespace].zones[at];
            let before = format!(
                "written {}, answered {}, durable {}, {:?}{}{}",
                zone.versions.len(),
                zone.answered,
                zone.durable,
                zone.full,
                if zone.resetting { ", reset not answered" } else { "" },
                if zone.failed { ", a command failed" } else { "" },
            );
            check_zone(zone, survives, reported, &found).map_err(|why| {
                let (cond, wp) = (reported.cond, reported.wp.0.wrapping_sub(start));
                format!("namespace {namespace}, zone at {start} ({before}): {cond:?}, {wp}: {why}")
            })?;
        }
        Ok(())
    }
}

fn check_place(place: &mut Place, survives: Survives, found: Found) -> Result<(), String> {
    let version = match found {
        Found::Version(version) => version,
        Found::Foreign(what) => return Err(format!("found {what}")),
    };
    let Place { durable, later, answered, unsure, .. } = &*place;
    let allowed = match survives {
        Survives::Answered => version == *answered || Some(version) == *unsure,
        Survives::Durable => version == *durable || later.contains(&version),
    };
    if !allowed {
        return Err(format!(
            "found version {version}; durable {durable}, later {later:?}, answered {answered}, not answered \
             {unsure:?}"
        ));
    }
    if survives == Survives::Durable {
        place.durable = version;
        place.later.clear();
    }
    (place.answered, place.unsure, place.busy) = (version, None, false);
    Ok(())
}

fn check_zone(
    zone: &mut SeqZone,
    survives: Survives,
    reported: &Zone,
    found: &[Found],
) -> Result<(), String> {
    let is_zeroes = |found: &Found| *found == Found::Version(ZEROES);
    let is_full = reported.cond == ZoneCondition::Full;
    let end = found.iter().take_while(|found| !is_zeroes(found)).count();
    if zone.resetting && end == 0 && reported.cond == ZoneCondition::Empty {
        zone.empty();
    }
    let wrong = found
        .iter()
        .zip(&zone.versions)
        .take(end)
        .position(|(found, version)| *found != Found::Version(*version));
    if let Some(at) = wrong {
        return Err(format!("{:?} at {at}, expected version {}", found[at], zone.versions[at]));
    }
    if end > zone.versions.len() || !found[end..].iter().all(is_zeroes) {
        return Err(format!("data behind the end of what was written, or a hole at {end}"));
    }
    let least = if survives == Survives::Answered { zone.answered } else { zone.durable };
    if end < least {
        return Err(format!("{end} sectors of data, expected {least} at least"));
    }
    let wp = place_number(reported.wp.0.saturating_sub(zone.start));
    if !is_full && wp != end {
        return Err(format!("{end} sectors of data, the write pointer is elsewhere"));
    }
    if is_full && zone.full == Full::No || !is_full && zone.full == Full::Yes {
        return Err("it is full, or not, against what was answered".to_owned());
    }
    zone.versions.truncate(end);
    zone.answered = end;
    if survives == Survives::Durable {
        zone.durable = end;
    }
    zone.full = match (is_full, survives) {
        (false, _) => Full::No,
        (true, Survives::Answered) if zone.full == Full::Maybe => Full::Maybe,
        (true, _) => Full::Yes,
    };
    (zone.resetting, zone.failed, zone.in_flight) = (false, false, 0);
    Ok(())
}
