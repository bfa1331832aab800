//! The state of plugs for reports, and the operations on them that are not I/O.
use super::zone_plug::{ZonePlug, ZoneState};
use super::{ZoneCounters, ZonePlugs};
use crate::status::Status;
use crate::sync::Ordering;
use crate::units::{Nanos, Sector, ZoneNo};
use crate::zone::Zone;
use std::fmt;

/// Flags of a plug, as the kernel's debugfs shows them (A1, A45).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlugFlags {
    /// A write is in flight or waits.
    pub plugged: bool,
    /// The write pointer is not known.
    pub need_wp_update: bool,
    /// Native appends were used; the device knows the write pointer.
    pub append_used: bool,
    /// In the disk's list of plugs with something to write (QD=1).
    pub listed: bool,
}

/// A zone's condition as the layer knows it. Whether an active zone is open or closed, only the device
/// knows (A47).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZonePhase {
    /// No write pointer.
    Conventional,
    /// Nothing written.
    Empty,
    /// Partially written.
    Active,
    /// Nothing more can be written.
    Full,
    /// Can only be read.
    ReadOnly,
    /// Cannot be used.
    Offline,
    /// Unknown until it is read from the device.
    Unknown,
}

/// A plug as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlugInfo {
    /// The zone.
    pub zone: ZoneNo,
    /// Flags.
    pub flags: PlugFlags,
    /// References to the plug.
    pub references: u32,
    /// The zone's condition as the layer knows it.
    pub phase: ZonePhase,
    /// Where the next write must begin, from the zone's start.
    pub wp_offset: Sector,
    /// Writes that wait.
    pub waiting: u32,
    /// Since when the first of them waits.
    pub waiting_since: Option<Nanos>,
    /// Counters of its I/O.
    pub counters: ZoneCounters,
}

impl fmt::Display for PlugFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (self.plugged, "PLUGGED"),
            (self.need_wp_update, "NEED_WP_UPDATE"),
            (self.append_used, "APPEND_USED"),
            (self.listed, "LISTED"),
        ];
        let set: Vec<&str> = names.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
        f.write_str(if set.is_empty() { "-" } else { "" })?;
        f.write_str(&set.join("|"))
    }
}

impl fmt::Display for PlugInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlugInfo { zone, flags, references, phase, wp_offset, waiting, counters, .. } = self;
        let ZoneCounters { writes, appends, merges, parked_ns } = counters;
        write!(
            f,
            "zone {zone}: flags {flags}, ref {references}, cond {phase:?}, wp ofst {wp_offset}, \
             pending {waiting}, writes {writes}, appends {appends}, merges {merges}, \
             parked {parked_ns} ns"
        )
    }
}

impl ZonePlugs {
    /// The number of plugs that live.
    pub(crate) fn alive(&self) -> u32 {
        self.alive.load(Ordering::Relaxed)
    }

    /// The plugs in use and, with `all`, those that something has gone through or holds.
    pub(crate) fn dump(&self, all: bool) -> Vec<PlugInfo> {
        let mut plugs = Vec::new();
        if !all && self.alive() == 0 {
            return plugs;
        }
        self.for_each_used(|zone, plug| {
            let used = plug.counters() != ZoneCounters::default() || plug.references() > 0;
            let used = all && used;
            if plug.is_alive() || used {
                plugs.push(plug.info(zone, self.capacity(zone)));
            }
        });
        plugs
    }

    /// Reports zones from the device and, where a plug does not know its write pointer or its zone could
    /// not be written, tells it (A31).
    pub(crate) fn report(
        &self,
        first: ZoneNo,
        max: usize,
        zones: &mut Vec<Zone>,
    ) -> Result<(), Status> {
        let before = zones.len();
        let max = max.min(self.nr_zones().saturating_sub(first.0) as usize);
        self.device.report_zones(first, max, zones)?;
        for (zone_no, zone) in (first.0..).map(ZoneNo).zip(&zones[before..]) {
            if zone.has_zrwa() {
                drop(self.lock(zone_no));
            }
            let Some(mut plug) = self.lock_used(zone_no) else { continue };
            let stale = match plug.state() {
                ZoneState::NeedWpUpdate => true,
                // Its random write area was not allocated through the layer.
                ZoneState::Sequential => zone.has_zrwa(),
                // The zone may have recovered.
                ZoneState::ReadOnly | ZoneState::Offline => true,
                _ => false,
            };
            if stale && plug.is_idle() {
                plug.sync(Some(zone));
                self.update_alive(zone_no, &mut plug);
            }
        }
        Ok(())
    }

    /// A zone's condition and write pointer as the layer knows them. The device is asked only if the write
    /// pointer is not known (A47).
    pub(crate) fn cached(&self, zone: ZoneNo) -> (ZonePhase, Sector) {
        let Some(mut plug) = self.lock_used(zone) else { return (ZonePhase::Empty, Sector(0)) };
        let stale =
            matches!(plug.state(), ZoneState::NeedWpUpdate | ZoneState::Appended | ZoneState::Zrwa);
        if stale && plug.is_idle() {
            plug.sync(self.report_zone(zone).as_ref());
            self.update_alive(zone, &mut plug);
        }
        (plug.phase(self.capacity(zone)), plug.wp())
    }
}

impl ZonePlug {
    fn phase(&self, capacity: Sector) -> ZonePhase {
        match self.state() {
            ZoneState::Conventional => ZonePhase::Conventional,
            ZoneState::ReadOnly => ZonePhase::ReadOnly,
            ZoneState::Offline => ZonePhase::Offline,
            ZoneState::NeedWpUpdate | ZoneState::Appended => ZonePhase::Unknown,
            ZoneState::Zrwa => ZonePhase::Active,
            ZoneState::Sequential if self.wp() == Sector(0) => ZonePhase::Empty,
            ZoneState::Sequential if self.wp() >= capacity => ZonePhase::Full,
            ZoneState::Sequential => ZonePhase::Active,
        }
    }

    fn info(&mut self, zone: ZoneNo, capacity: Sector) -> PlugInfo {
        PlugInfo {
            zone,
            flags: PlugFlags {
                plugged: self.in_flight() || self.nr_parked() > 0,
                need_wp_update: self.state() == ZoneState::NeedWpUpdate,
                append_used: self.state() == ZoneState::Appended,
                listed: self.is_listed(),
            },
            references: self.references(),
            phase: self.phase(capacity),
            wp_offset: self.wp(),
            waiting: self.nr_parked(),
            waiting_since: self.waiting_since(),
            counters: self.counters(),
        }
    }
}
