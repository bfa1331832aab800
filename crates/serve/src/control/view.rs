//! A device at one moment, as `zonal top` shows it: zones, plugs, settings, and counters whose
//! differences are rates.
use super::attributes;
use super::managed::ManagedDevice;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use zonal_blk::{PlugInfo, Status, Zone, ZoneCondition, ZoneNo};
use zonal_device::control::DeviceControl;

/// Most cells of a map.
pub const MAX_CELLS: usize = 16 << 10;
/// Most plugs that are listed; all are counted.
const MAX_PLUGS: usize = 64;
/// Zones of a report: so few stay in a processor's cache.
const REPORTED: usize = 4096;

/// The part of the zones that a client wants to see: `cells` cells of `per_cell` zones each, from `first`
/// on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRange {
    /// The first zone.
    pub first: u32,
    /// Zones in a cell; the last one may have fewer.
    pub per_cell: u32,
    /// Cells, at most [`MAX_CELLS`].
    pub cells: usize,
}

/// A device at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// When this was read, from when the server started.
    pub at: Duration,
    /// The device's name on the command line.
    pub device: String,
    /// All attributes of the queue with their values.
    pub attributes: Vec<(String, String)>,
    /// The zones.
    pub zones: ZoneMap,
    /// The requests that the device has completed: see [`IoStat`](zonal_blk::IoStat).
    pub requests: Vec<(String, u64)>,
    /// Plugs in use.
    pub live_plugs: u32,
    /// Plugs with the most waiting writes, and those of the lowest zones among equals; none without any.
    pub plugs: Vec<Plug>,
    /// Counters of the device itself.
    pub counts: Vec<(String, u64)>,
    /// Time that parts of the device were busy, in ns.
    pub busy: Vec<(String, u64)>,
    /// Reads and writes by the range of the time that the device took: see
    /// [`IoHistograms`](zonal_blk::IoHistograms).
    pub latency: Vec<(u8, u64)>,
    /// Requests with the device.
    pub in_flight: u64,
    /// How full or busy parts of the device are: name, value, and what there is.
    pub levels: Vec<(String, u64, u64)>,
    /// The head of a rotating disk: its radius, from 0 at the outer edge to 1, and how far it has
    /// moved, where 1 is from edge to edge.
    pub head: Option<(f64, f64)>,
    /// Devices that can be seen.
    pub devices: usize,
    /// Fault rules.
    pub faults: usize,
}

/// A zone write plug.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plug {
    /// Its zone.
    pub zone: u32,
    /// Writes that wait.
    pub waiting: u32,
    /// Writes that were merged into another.
    pub merges: u32,
}

/// The zones of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ZoneMap {
    /// Zones of the device.
    pub zones: u32,
    /// The most zones that may be open; 0 for no limit.
    pub max_open: u32,
    /// The most zones that may be active; 0 for no limit.
    pub max_active: u32,
    /// Open zones.
    pub open: u32,
    /// Active zones.
    pub active: u32,
    /// Full zones.
    pub full: u32,
    /// The cells: a condition each, as [`Cell::CONDITIONS`] says.
    pub conditions: String,
    /// How much of each cell's capacity is written, in percent.
    pub filled: Vec<u8>,
    /// Why the device did not report its zones.
    pub error: Option<String>,
}

/// One or several zones in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    condition: char,
    filled: u8,
}

#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "the page uses them"))]
impl Cell {
    /// The conditions of a cell with their names. Of several zones, the condition that comes first
    /// here counts.
    pub const CONDITIONS: [(char, &str); 9] = [
        ('x', ZoneCondition::Offline.long()),
        ('r', ZoneCondition::ReadOnly.long()),
        ('O', ZoneCondition::ExplicitOpen.long()),
        ('o', ZoneCondition::ImplicitOpen.long()),
        ('c', ZoneCondition::Closed.long()),
        ('+', "full and empty"),
        ('#', ZoneCondition::Full.long()),
        ('.', ZoneCondition::Empty.long()),
        ('-', "conventional"),
    ];

    /// The condition of the zone that matters most, as a letter.
    pub(crate) fn condition(self) -> char {
        self.condition
    }

    /// How much of the capacity is written, in percent.
    pub(crate) fn filled(self) -> u8 {
        self.filled
    }

    pub(crate) fn of(zones: &[Zone]) -> Self {
        let mut sum = CellSum::EMPTY;
        zones.iter().for_each(|zone| sum.add(zone));
        sum.cell()
    }
}

/// The zones of a cell so far.
struct CellSum {
    zones: u32,
    /// The first of their conditions in [`Cell::CONDITIONS`].
    first: usize,
    has_empty: bool,
    capacity: u64,
    filled: u64,
}

impl CellSum {
    const EMPTY: CellSum = CellSum {
        zones: 0,
        first: Cell::CONDITIONS.len() - 1,
        has_empty: false,
        capacity: 0,
        filled: 0,
    };

    fn add(&mut self, zone: &Zone) {
        self.zones += 1;
        self.first = self.first.min(rank(zone.cond));
        self.has_empty |= zone.cond == ZoneCondition::Empty;
        self.capacity += zone.capacity.0;
        self.filled += written(zone);
    }

    fn cell(&self) -> Cell {
        let condition = match Cell::CONDITIONS[self.first].0 {
            '#' if self.has_empty => '+',
            condition => condition,
        };
        let percent = u128::from(self.filled) * 100 / u128::from(self.capacity.max(1));
        Cell { condition, filled: percent as u8 }
    }
}

/// The place of a condition in [`Cell::CONDITIONS`].
fn rank(condition: ZoneCondition) -> usize {
    match condition {
        ZoneCondition::Offline => 0,
        ZoneCondition::ReadOnly => 1,
        ZoneCondition::ExplicitOpen => 2,
        ZoneCondition::ImplicitOpen => 3,
        ZoneCondition::Closed => 4,
        ZoneCondition::Full => 6,
        ZoneCondition::Empty => 7,
        ZoneCondition::NotWritePointer => 8,
    }
}

/// Sectors of a zone below its write pointer.
pub(crate) fn written(zone: &Zone) -> u64 {
    match zone.cond {
        ZoneCondition::Full => zone.capacity.0,
        condition if condition.is_active() => (zone.wp - zone.start).0.min(zone.capacity.0),
        _ => 0,
    }
}

impl ZoneMap {
    /// A map of all zones of a device, of which `report` appends some from a number on: up to
    /// [`REPORTED`] at a time.
    fn of(
        zones: u32,
        range: MapRange,
        mut report: impl FnMut(ZoneNo, usize, &mut Vec<Zone>) -> Result<(), Status>,
    ) -> Self {
        let mut map = ZoneMap { zones, ..ZoneMap::default() };
        if zones == 0 {
            map.error = Some(Status::NotSupported.to_string());
        }
        let (mut some, mut cell) = (Vec::with_capacity(REPORTED), CellSum::EMPTY);
        let mut next = 0;
        while next < zones {
            some.clear();
            let count = REPORTED.min((zones - next) as usize);
            let reported = report(ZoneNo(next), count, &mut some);
            if let Err(status) = reported.and(some.first().map(|_| ()).ok_or(Status::IoError)) {
                map.error = Some(status.to_string());
                break;
            }
            for (number, zone) in (next..).zip(&some) {
                map.add(zone, number >= range.first, range, &mut cell);
            }
            next += some.len() as u32;
        }
        if cell.zones > 0 {
            map.push(&cell, range);
        }
        map
    }

    /// Adds the next zone, and the cell that is full with it.
    fn add(&mut self, zone: &Zone, is_shown: bool, range: MapRange, cell: &mut CellSum) {
        self.open += u32::from(zone.cond.is_open());
        self.active += u32::from(zone.cond.is_active());
        self.full += u32::from(zone.cond == ZoneCondition::Full);
        if is_shown {
            cell.add(zone);
            if cell.zones >= range.per_cell.max(1) {
                self.push(&std::mem::replace(cell, CellSum::EMPTY), range);
            }
        }
    }

    fn push(&mut self, cell: &CellSum, range: MapRange) {
        if self.filled.len() < range.cells.min(MAX_CELLS) {
            let Cell { condition, filled } = cell.cell();
            self.conditions.push(condition);
            self.filled.push(filled);
        }
    }
}

impl View {
    /// The view of a device now. Waits for the device's report of its zones.
    pub(super) fn of(managed: &ManagedDevice, range: MapRange, started: Instant) -> Self {
        let ManagedDevice { name, queue, device, .. } = managed;
        let limits = queue.limits();
        // Past the block layer, whose view of the zones stays as it is.
        let report =
            |first, max, zones: &mut Vec<Zone>| queue.device().report_zones(first, max, zones);
        let map = ZoneMap::of(limits.nr_zones, range, report);
        let zones =
            ZoneMap { max_open: limits.max_open_zones, max_active: limits.max_active_zones, ..map };
        let stats = device.stats();
        let named = |(name, value): (&str, u64)| (name.to_owned(), value);
        let histograms = queue.histograms().unwrap_or_default();
        let both =
            histograms.reads.iter().zip(&histograms.writes).map(|(read, write)| read + write);
        View {
            at: started.elapsed(),
            device: name.clone(),
            attributes: attributes::all(queue),
            zones,
            requests: queue.iostat().unwrap_or_default().entries().map(named).to_vec(),
            live_plugs: queue.live_plugs(),
            plugs: longest(queue.dump_plugs(false)),
            counts: stats.counts.into_iter().map(named).collect(),
            busy: stats.times.into_iter().map(|(part, time)| named((part, time.0))).collect(),
            faults: device.rules().len(),
            latency: (0..).zip(both).filter(|&(_, count)| count > 0).collect(),
            in_flight: histograms.in_flight,
            levels: device.levels().iter().map(|l| (l.name.to_owned(), l.value, l.of)).collect(),
            head: device.head().map(|head| (head.radius, head.travel)),
            devices: 1,
        }
    }
}

/// The plugs with the most waiting writes, without those in which none waits.
fn longest(mut plugs: Vec<PlugInfo>) -> Vec<Plug> {
    plugs.retain(|plug| plug.waiting > 0);
    plugs.sort_by_key(|plug| (std::cmp::Reverse(plug.waiting), plug.zone.0));
    plugs.truncate(MAX_PLUGS);
    let shown = |plug: PlugInfo| Plug {
        zone: plug.zone.0,
        waiting: plug.waiting,
        merges: plug.counters.merges,
    };
    plugs.into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::{PlugFlags, Sector, ZoneAttributes, ZoneCounters, ZoneKind, ZonePhase};

    fn zone(cond: ZoneCondition, written: u64) -> Zone {
        let kind = match cond {
            ZoneCondition::NotWritePointer => ZoneKind::Conventional,
            _ => ZoneKind::SequentialRequired,
        };
        let (start, capacity) = (Sector(4096), Sector(200));
        let attributes = ZoneAttributes::NONE;
        let wp = start + Sector(written);
        Zone { start, len: Sector(256), capacity, wp, kind, cond, attributes }
    }

    #[test]
    fn a_cell_has_the_condition_that_matters_most_and_the_mean_fill() {
        let cell = |zones: &[Zone]| {
            let Cell { condition, filled } = Cell::of(zones);
            (condition, filled)
        };
        let (empty, full) = (zone(ZoneCondition::Empty, 0), zone(ZoneCondition::Full, 0));
        let open = zone(ZoneCondition::ImplicitOpen, 50);
        assert_eq!(cell(&[empty]), ('.', 0));
        assert_eq!(cell(&[full, full]), ('#', 100));
        assert_eq!(cell(&[full, empty]), ('+', 50));
        assert_eq!(cell(&[open]), ('o', 25));
        assert_eq!(cell(&[full, open]), ('o', 62));
        assert_eq!(cell(&[open, zone(ZoneCondition::Offline, 0)]), ('x', 12));
        assert_eq!(cell(&[zone(ZoneCondition::NotWritePointer, 0)]), ('-', 0));
    }

    /// A map of zones, of which the device reports a limited number at a time.
    fn map(zones: &[Zone], at_once: usize, range: MapRange) -> ZoneMap {
        ZoneMap::of(zones.len() as u32, range, |first, max, report| {
            let rest = &zones[first.index()..];
            report.extend(&rest[..rest.len().min(max).min(at_once)]);
            Ok(())
        })
    }

    #[test]
    fn plugs_in_which_nothing_waits_are_not_listed() {
        let plug = |zone, waiting| PlugInfo {
            zone: ZoneNo(zone),
            flags: PlugFlags::default(),
            references: 1,
            phase: ZonePhase::Active,
            wp_offset: Sector(8),
            waiting,
            waiting_since: None,
            counters: ZoneCounters { merges: zone, ..ZoneCounters::default() },
        };
        let listed = longest(vec![plug(1, 0), plug(2, 3), plug(3, 9), plug(4, 3)]);
        let zones: Vec<(u32, u32)> = listed.iter().map(|plug| (plug.zone, plug.waiting)).collect();
        assert_eq!(zones, [(3, 9), (2, 3), (4, 3)]);
    }

    #[test]
    fn a_map_has_the_cells_that_were_asked_for_and_counts_all_zones() {
        let mut zones = vec![zone(ZoneCondition::Empty, 0); 10];
        zones[0].cond = ZoneCondition::ExplicitOpen;
        zones[9].cond = ZoneCondition::Closed;
        let map = |first, per_cell, cells| {
            let map = map(&zones, 3, MapRange { first, per_cell, cells });
            assert_eq!((map.zones, map.open, map.active, map.full), (10, 1, 2, 0));
            assert_eq!((map.conditions.len(), map.error), (map.filled.len(), None));
            map.conditions
        };
        assert_eq!(map(0, 1, 4), "O...");
        assert_eq!(map(8, 1, 4), ".c");
        assert_eq!(map(0, 4, 9), "O.c");
        assert_eq!(map(0, 4, 2), "O.");
        assert_eq!(map(10, 1, 4), "");
        assert_eq!(map(u32::MAX, 0, usize::MAX), "");
    }

    #[test]
    fn cells_go_on_from_one_report_to_the_next() {
        let mut zones = vec![zone(ZoneCondition::Empty, 0); 2 * REPORTED + 1];
        zones[REPORTED - 1] = zone(ZoneCondition::Full, 0);
        let per_cell = REPORTED as u32 + 1;
        let map =
            map(&zones, REPORTED, MapRange { first: REPORTED as u32 - 1, per_cell, cells: 9 });
        assert_eq!((map.conditions.as_str(), map.full), ("+.", 1));
    }

    #[test]
    fn a_report_that_ends_early_or_fails_is_an_error_beside_what_is_known() {
        let zones = [zone(ZoneCondition::Full, 0); 4];
        let range = MapRange { first: 0, per_cell: 1, cells: 9 };
        let fails = |status: fn() -> Result<(), Status>| {
            let map = ZoneMap::of(9, range, |first, _, report| {
                report.extend(zones.get(first.index()..).unwrap_or_default());
                if first.0 == 0 { Ok(()) } else { status() }
            });
            (map.conditions, map.error)
        };
        let known = |status: Status| ("####".to_owned(), Some(status.to_string()));
        assert_eq!(fails(|| Ok(())), known(Status::IoError));
        assert_eq!(fails(|| Err(Status::Offline)), known(Status::Offline));
        assert_eq!(
            ZoneMap::of(0, range, |_, _, _| Ok(())).error,
            Some(Status::NotSupported.to_string())
        );
    }
}
