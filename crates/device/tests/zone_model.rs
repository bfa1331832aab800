//! The zone state machine against a simple model: one thread, no locks, and every query a scan of all
//! zones.
use ZoneCondition::*;
use proptest::prelude::*;
use zonal_blk::{Sector, Status, Zone, ZoneCondition, ZoneNo, ZrwaLimits};
use zonal_device::{ZoneLayout, Zones};

const SIZE: u64 = 10;
const CAPACITY: u64 = 7;

#[derive(Clone, Debug)]
enum Command {
    /// Write at this distance from the write pointer.
    Write(i64, u32),
    Append(u32),
    Open,
    OpenZrwa,
    /// Commit up to this distance from the write pointer.
    Commit(u64),
    Close,
    Finish,
    Reset,
    ResetAll,
    Set(ZoneCondition),
}

struct Model {
    layout: ZoneLayout,
    zones: Vec<(ZoneCondition, u64)>,
    /// Zones that were opened with a random write area; they have it as long as they are active.
    opened_zrwa: Vec<bool>,
    next_victim: usize,
}

impl Model {
    fn new(layout: ZoneLayout) -> Self {
        let cond = |zone| {
            if zone < layout.conventional { NotWritePointer } else { Empty }
        };
        let zones = (0..layout.nr_zones).map(|zone| (cond(zone), 0)).collect();
        let opened_zrwa = vec![false; layout.nr_zones as usize];
        Model { layout, zones, opened_zrwa, next_victim: 0 }
    }

    fn count(&self, what: impl Fn(ZoneCondition) -> bool) -> u32 {
        self.zones.iter().filter(|(cond, _)| what(*cond)).count() as u32
    }

    fn limit(&self, limit: u32) -> u32 {
        let sequential = self.layout.nr_zones - self.layout.conventional;
        if limit == 0 || limit >= sequential { u32::MAX } else { limit }
    }

    fn make_room(&mut self, zone: usize) -> Result<(), Status> {
        let may_activate =
            self.count(ZoneCondition::is_active) < self.limit(self.layout.max_active);
        if self.zones[zone].0 == Empty && !may_activate {
            return Err(Status::ZoneActiveResource);
        }
        if self.count(ZoneCondition::is_open) < self.limit(self.layout.max_open) {
            return Ok(());
        }
        let nr_zones = self.zones.len();
        for i in 0..nr_zones {
            let victim = (self.next_victim + i) % nr_zones;
            if may_activate && self.zones[victim].0 == ImplicitOpen {
                self.zones[victim].0 = Closed;
                self.next_victim = victim + 1;
                return Ok(());
            }
        }
        Err(Status::ZoneOpenResource)
    }

    fn has_zrwa(&self, zone: usize) -> bool {
        self.opened_zrwa[zone] && self.zones[zone].0.is_active()
    }

    fn write_zrwa(&mut self, zone: usize, at: u64, len: u32) -> Result<(), Status> {
        let (_, wp) = self.zones[zone];
        let (size, end) = (u64::from(self.layout.zrwa.size), at + u64::from(len));
        if at < wp || end > CAPACITY || end > wp + 2 * size {
            return Err(Status::IoError);
        }
        let mut to = wp;
        while end > to + size {
            to = (to + u64::from(self.layout.zrwa.granularity)).min(CAPACITY);
        }
        self.move_to(zone, to)
    }

    fn move_to(&mut self, zone: usize, to: u64) -> Result<(), Status> {
        if matches!(self.zones[zone].0, Closed) {
            self.make_room(zone)?;
            self.zones[zone].0 = ImplicitOpen;
        }
        self.zones[zone].1 = to;
        if to == CAPACITY {
            self.zones[zone].0 = Full;
        }
        Ok(())
    }

    fn open_zrwa(&mut self, zone: usize) -> Result<(), Status> {
        if self.zones[zone].0 != Empty {
            return Err(Status::IoError);
        }
        let with_area = (0..self.zones.len()).filter(|&zone| self.has_zrwa(zone)).count();
        if with_area as u32 == self.layout.zrwa.max {
            return Err(Status::NoSpace);
        }
        self.make_room(zone)?;
        self.zones[zone].0 = ExplicitOpen;
        self.opened_zrwa[zone] = true;
        Ok(())
    }

    fn commit(&mut self, zone: usize, len: u64) -> Result<(), Status> {
        if !self.has_zrwa(zone) {
            return Err(Status::IoError);
        }
        let ZrwaLimits { size, granularity, .. } = self.layout.zrwa;
        let to = self.zones[zone].1 + len;
        let whole = len.is_multiple_of(granularity.into()) || to == CAPACITY;
        if to > CAPACITY || len > size.into() || !whole {
            return Err(Status::Invalid);
        }
        self.move_to(zone, to)
    }

    fn check(&self, zone: usize) -> Result<(), Status> {
        match self.zones[zone].0 {
            Offline => Err(Status::Offline),
            ReadOnly | Full => Err(Status::IoError),
            _ => Ok(()),
        }
    }

    fn write(&mut self, zone: usize, at: u64, len: u32) -> Result<(), Status> {
        self.check(zone)?;
        let (cond, wp) = self.zones[zone];
        if cond == NotWritePointer {
            return Ok(());
        }
        if self.has_zrwa(zone) {
            return self.write_zrwa(zone, at, len);
        }
        let end = at + u64::from(len);
        if at != wp || end > CAPACITY {
            return Err(Status::IoError);
        }
        if matches!(cond, Empty | Closed) {
            self.make_room(zone)?;
            self.zones[zone].0 = ImplicitOpen;
        }
        self.zones[zone].1 = end;
        if end == CAPACITY {
            self.zones[zone].0 = Full;
        }
        Ok(())
    }

    fn run(&mut self, zone: usize, command: &Command) -> Result<(), Status> {
        let (cond, wp) = self.zones[zone];
        let conventional = (zone as u32) < self.layout.conventional;
        match *command {
            Command::Write(offset, len) => self.write(zone, at(wp, offset), len),
            Command::Set(to) => {
                match (to, conventional) {
                    (ReadOnly | Offline, _) | (NotWritePointer, true) => self.zones[zone].0 = to,
                    (Empty, false) => self.zones[zone] = (Empty, 0),
                    _ => return Err(Status::Invalid),
                }
                Ok(())
            }
            Command::ResetAll => {
                for zone in self.layout.conventional as usize..self.zones.len() {
                    if !matches!(self.zones[zone].0, ReadOnly | Offline) {
                        self.zones[zone] = (Empty, 0);
                    }
                }
                Ok(())
            }
            _ if cond == Offline => Err(Status::Offline),
            _ if conventional || cond == ReadOnly => Err(Status::IoError),
            Command::Append(_) if self.has_zrwa(zone) => Err(Status::IoError),
            Command::Append(len) => self.write(zone, wp, len),
            Command::Open => {
                self.check(zone)?;
                if matches!(cond, Empty | Closed) {
                    self.make_room(zone)?;
                }
                self.zones[zone].0 = ExplicitOpen;
                Ok(())
            }
            Command::OpenZrwa => self.open_zrwa(zone),
            Command::Commit(len) => self.commit(zone, len),
            Command::Close => {
                match cond {
                    Closed => {}
                    ImplicitOpen | ExplicitOpen if wp == 0 && !self.has_zrwa(zone) => {
                        self.zones[zone].0 = Empty
                    }
                    ImplicitOpen | ExplicitOpen => self.zones[zone].0 = Closed,
                    _ => return Err(Status::IoError),
                }
                Ok(())
            }
            Command::Finish => {
                if matches!(cond, Empty | Closed) {
                    self.make_room(zone)?;
                }
                self.zones[zone] = (Full, CAPACITY);
                Ok(())
            }
            Command::Reset => {
                self.zones[zone] = (Empty, 0);
                Ok(())
            }
        }
    }
}

fn at(wp: u64, offset: i64) -> u64 {
    wp.saturating_add_signed(offset)
}

fn run(zones: &Zones, zone: ZoneNo, wp: u64, command: &Command) -> Result<(), Status> {
    match *command {
        Command::Write(offset, len) => {
            let sector = Sector(u64::from(zone.0) * SIZE + at(wp, offset));
            zones.write(zone, sector, len, || {})
        }
        Command::Append(len) => zones.append(zone, len, |_| {}),
        Command::Open => zones.open(zone),
        Command::OpenZrwa => zones.open_zrwa(zone),
        Command::Commit(len) => zones.commit(zone, Sector(wp + len)).map(|_| ()),
        Command::Close => zones.close(zone),
        Command::Finish => zones.finish(zone),
        Command::Reset => zones.reset(zone, || {}),
        Command::ResetAll => {
            zones.reset_all(|_| {});
            Ok(())
        }
        Command::Set(to) => zones.set_condition(zone, to, || {}),
    }
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        12 => (1..5u32).prop_map(|len| Command::Write(0, len)),
        3 => (-2..5i64, 1..5u32).prop_map(|(offset, len)| Command::Write(offset, len)),
        2 => (1..5u32).prop_map(Command::Append),
        3 => Just(Command::Open),
        3 => Just(Command::OpenZrwa),
        2 => (0..5u64).prop_map(Command::Commit),
        2 => Just(Command::Close),
        2 => Just(Command::Finish),
        3 => Just(Command::Reset),
        1 => prop_oneof![
            Just(Command::ResetAll),
            prop::sample::select(vec![ReadOnly, Offline, Empty, Closed, NotWritePointer])
                .prop_map(Command::Set),
        ],
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn zones_do_what_the_model_does(
        (max_open, max_active) in (0..6u32, 0..7u32),
        conventional in 0..3u32,
        commands in prop::collection::vec((0..8u32, command()), 1..200),
    ) {
        let layout = ZoneLayout {
            nr_zones: 8,
            zone_size: Sector(SIZE),
            zone_capacity: Sector(CAPACITY),
            conventional,
            max_open,
            max_active,
            zrwa: ZrwaLimits { size: 4, granularity: 2, max: 2 },
            extension: 64,
        };
        let zones = Zones::new(&layout);
        prop_assert_eq!(zones.as_new(ZoneNo(conventional), 3), 3, "up to so many");
        let mut model = Model::new(layout);
        for (zone, command) in commands {
            let wp = model.zones[zone as usize].1;
            let expected = model.run(zone as usize, &command);
            let found = run(&zones, ZoneNo(zone), wp, &command);
            for zone in 0..8 {
                // A zone that loses its area does not get it back by being opened.
                model.opened_zrwa[zone] = model.has_zrwa(zone);
            }
            prop_assert_eq!(found, expected, "{:?} of zone {}", &command, zone);
            prop_assert_eq!(conditions(&zones), &model.zones[..], "{:?} of zone {}", command, zone);
            zones.in_use();
            for first in 0..8 {
                let as_new = zones.as_new(ZoneNo(first), u32::MAX) as usize;
                let mut left = model.zones.iter().skip(first as usize).take(as_new);
                prop_assert!(left.all(|&zone| zone == (Empty, 0)), "from zone {}", first);
            }
            let with_area = model.opened_zrwa.iter().filter(|has| **has).count();
            prop_assert_eq!(zones.zrwas_in_use() as usize, with_area);
        }
    }
}

/// Condition and write pointer of every zone; those without a write pointer as the model has it.
fn conditions(zones: &Zones) -> Vec<(ZoneCondition, u64)> {
    let mut report = Vec::new();
    zones.report(ZoneNo(0), usize::MAX, &mut report).unwrap();
    let wp = |zone: &Zone| match (zone.kind, zone.cond) {
        (zonal_blk::ZoneKind::Conventional, _) => 0,
        (_, Full) => CAPACITY,
        _ => (zone.wp - zone.start).0,
    };
    report.iter().map(|zone| (zone.cond, wp(zone))).collect()
}
