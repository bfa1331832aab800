//! The state of a device at one moment, as the page shows it, with the changes since the moment before.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use zonal_blk::{IoHistograms, TIME_RANGES, ZoneCondition};

/// Most events of a frame; later ones are counted.
pub(super) const MAX_EVENTS: usize = 64;
/// Most positions of the head in a frame.
pub(super) const MAX_HEAD: usize = 256;
/// Most plugs of a frame.
pub(super) const MAX_PLUGS: usize = 8;

/// The properties of a device that do not change while it is watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceInfo {
    /// Its name on the command line.
    pub name: String,
    /// Its description, one line.
    pub description: String,
    /// Its size.
    pub bytes: u64,
    /// Its zones; 0 for a device without.
    pub zones: u32,
    /// From the start of a zone to that of the next.
    pub zone_bytes: u64,
    /// Zones in a cell of the map; the last cell may have fewer.
    pub zones_per_cell: u32,
    /// The most zones that may be open; 0 for no limit.
    pub max_open: u32,
    /// The most zones that may be active; 0 for no limit.
    pub max_active: u32,
    /// Counters have only what happened while somebody looked.
    #[serde(default)]
    pub while_watched: bool,
}

impl DeviceInfo {
    /// Cells of the map.
    pub fn cells(&self) -> usize {
        self.zones.div_ceil(self.zones_per_cell.max(1)) as usize
    }
}

/// A device at one moment. Counters are those since the device was attached, unless they say
/// otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// The time, in ns.
    pub at: u64,
    /// The I/O scheduler.
    pub scheduler: String,
    /// The zone-write policy.
    pub zone_write: String,
    /// Fault rules.
    pub faults: u32,
    /// I/Os that the device has completed, by kind; merged ones count each.
    pub ios: Ios,
    /// Requests with the device.
    pub in_flight: u64,
    /// Zone write plugs in use.
    pub live_plugs: u32,
    /// Writes that wait in plugs.
    pub waiting: u64,
    /// The plugs with the most waiting writes: zone and writes.
    pub plugs: Vec<(u32, u32)>,
    /// Zones by condition, in the order of [`ZoneCondition::ALL`].
    pub zones: [u32; ZoneCondition::ALL.len()],
    /// The condition of each cell of the map: see [`Cell::CONDITIONS`](crate::control::Cell).
    pub conditions: String,
    /// How full each cell is: `#` for empty to `}` for full.
    pub filled: String,
    /// Sectors written since the frame before, by cell; sequential zones only.
    pub written: Vec<(u32, u64)>,
    /// Reads and writes since the frame before, by the range of the time that the device took.
    pub latency: [Vec<(u8, u64)>; 2],
    /// Where the head has been since the frame before: time in ns, and radius in 1/10000.
    pub head: Vec<(u64, u16)>,
    /// How full or busy parts of the device are: name, value, and what there is.
    pub levels: Vec<(String, u64, u64)>,
    /// Counters of the device itself.
    pub counts: Vec<(String, u64)>,
    /// Time that parts of the device were busy, in ns.
    pub busy: Vec<(String, u64)>,
    /// The events since the frame before.
    pub events: Vec<Event>,
    /// Events that are not listed.
    pub more_events: u64,
    /// Why the device did not report its zones.
    pub error: Option<String>,
}

/// I/Os that completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ios {
    /// Reads.
    pub reads: u64,
    /// Bytes of reads that succeeded.
    pub read_bytes: u64,
    /// Writes, appends and write zeroes.
    pub writes: u64,
    /// Bytes of writes that succeeded.
    pub written_bytes: u64,
    /// Discards, flushes and zone management.
    pub others: u64,
    /// Commands of any kind that failed.
    pub failures: u64,
}

/// Something that happened to a zone, or to the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// The time of the frame that saw it first, in ns.
    pub at: u64,
    /// The zone.
    pub zone: Option<u32>,
    /// The event.
    pub what: String,
}

impl Frame {
    /// Adds what happened in the frame before this one.
    pub(super) fn include(&mut self, before: Frame) {
        let mut written: BTreeMap<u32, u64> = before.written.into_iter().collect();
        self.written.iter().for_each(|&(cell, more)| *written.entry(cell).or_default() += more);
        self.written = written.into_iter().collect();
        for (own, before) in self.latency.iter_mut().zip(before.latency) {
            let mut sums: BTreeMap<u8, u64> = before.into_iter().collect();
            own.iter().for_each(|&(range, more)| *sums.entry(range).or_default() += more);
            *own = sums.into_iter().collect();
        }
        self.head.splice(0..0, before.head);
        while self.head.len() > MAX_HEAD {
            thin(&mut self.head);
        }
        self.events.splice(0..0, before.events);
        self.more_events += before.more_events + self.bound_events();
    }

    /// Drops the last events beyond the limit, and returns how many.
    pub(super) fn bound_events(&mut self) -> u64 {
        let more = self.events.len().saturating_sub(MAX_EVENTS);
        self.events.truncate(MAX_EVENTS);
        more as u64
    }

    /// Checks what a file may have wrong, of a frame of this device.
    ///
    /// # Errors
    /// Says what was found and what was expected.
    pub(super) fn check(&self, info: &DeviceInfo) -> Result<(), String> {
        let cells = info.cells();
        let known = |c: char| crate::control::Cell::CONDITIONS.iter().any(|&(known, _)| known == c);
        let maps = [("conditions", &self.conditions), ("filled", &self.filled)];
        for (name, map) in maps {
            let found = map.chars().count();
            if found != cells {
                return Err(format!("{name}: found {found} cells, expected {cells}"));
            }
        }
        if let Some(found) = self.conditions.chars().find(|&c| !known(c)) {
            return Err(format!("conditions: found `{}`, expected e.g. `o`", found.escape_debug()));
        }
        if let Some(found) = self.filled.chars().find(|c| !('#'..='}').contains(c)) {
            return Err(format!("filled: found `{}`, expected # to }}", found.escape_debug()));
        }
        if let Some((found, _)) = self.written.iter().find(|(cell, _)| *cell as usize >= cells) {
            return Err(format!("written: found cell {found}, expected less than {cells}"));
        }
        let ranges = self.latency.iter().flatten();
        if let Some((found, _)) =
            ranges.into_iter().find(|(range, _)| *range as usize >= TIME_RANGES)
        {
            return Err(format!("latency: found range {found}, expected less than {TIME_RANGES}"));
        }
        if let Some((_, found)) = self.head.iter().find(|(_, radius)| *radius > 10_000) {
            return Err(format!("head: found radius {found}, expected at most 10000"));
        }
        let lists = [
            ("head", self.head.len(), MAX_HEAD),
            ("events", self.events.len(), MAX_EVENTS),
            ("plugs", self.plugs.len(), MAX_PLUGS),
        ];
        match lists.into_iter().find(|(_, found, most)| found > most) {
            Some((name, found, most)) => {
                Err(format!("{name}: found {found} entries, expected at most {most}"))
            }
            None => Ok(()),
        }
    }
}

/// Drops every second pair of positions. Not every second one: a head that goes back and forth would
/// seem to stay.
pub(super) fn thin<T>(points: &mut Vec<T>) {
    let mut at = 0;
    points.retain(|_| {
        at += 1;
        (at - 1) / 2 % 2 == 0
    });
}

/// The counts between two histograms, by range.
pub(super) fn between(before: &IoHistograms, after: &IoHistograms) -> [Vec<(u8, u64)>; 2] {
    let difference = |before: &[u64], after: &[u64]| {
        let counts = before.iter().zip(after).map(|(before, after)| after.saturating_sub(*before));
        (0..).zip(counts).filter(|&(_, count)| count > 0).collect()
    };
    [difference(&before.reads, &after.reads), difference(&before.writes, &after.writes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_both_ends_of_a_way_back_and_forth() {
        let mut points: Vec<u32> = (0..1024).map(|at| at % 2).collect();
        for _ in 0..6 {
            thin(&mut points);
        }
        assert_eq!(points.len(), 16);
        assert_eq!(points.iter().filter(|&&point| point == 0).count(), 8);
    }

    #[test]
    fn a_frame_includes_what_happened_before_it() {
        let event = |at| Event { at, zone: Some(1), what: "reset".to_owned() };
        let before = Frame {
            at: 1,
            written: vec![(0, 8), (2, 8)],
            latency: [vec![(3, 1)], vec![]],
            head: vec![(1, 5); MAX_HEAD],
            events: vec![event(1); MAX_EVENTS],
            more_events: 2,
            ..Frame::default()
        };
        let mut frame = Frame {
            at: 2,
            written: vec![(2, 1), (3, 1)],
            latency: [vec![(3, 2), (4, 1)], vec![(1, 1)]],
            head: vec![(2, 6)],
            events: vec![event(2)],
            ..Frame::default()
        };
        frame.include(before);
        assert_eq!(frame.written, [(0, 8), (2, 9), (3, 1)]);
        assert_eq!(frame.latency, [vec![(3, 3), (4, 1)], vec![(1, 1)]]);
        assert!(frame.head.len() <= MAX_HEAD && frame.head[0] == (1, 5));
        assert_eq!((frame.events.len(), frame.more_events), (MAX_EVENTS, 3));
    }
}
