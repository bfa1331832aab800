//! Asynchronous events: changed namespaces, zones and ANA states, the temperature.
//!
//! An event is not repeated until the host has read its log page (Base section 5.2, masking). The
//! changes kept for log pages are bounded; the pages have a value for more.
use crate::wire::admin::{event, notice};
use crate::wire::log::ChangedNamespaces;
use crate::wire::zone::ChangedZoneList;
use std::collections::{BTreeMap, BTreeSet};

/// Entries of the Changed Namespace List (Base section 5.16.1.5).
const MAX_NAMESPACES: usize = 1024;
/// Entries of the Changed Zone List (ZNS section 4.1.4).
const MAX_ZONES: usize = 511;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventType {
    /// A doorbell of no queue was written.
    InvalidDoorbell,
    /// A doorbell got a value that its queue does not have.
    DoorbellValue,
    Namespaces,
    /// Zones of a namespace.
    Zones(u32),
    Discovery,
    /// The ANA state at the port of the controller.
    Ana,
    /// The temperature is beyond a threshold.
    Temperature,
}

impl EventType {
    /// The bit of the Asynchronous Event Configuration that enables events of this type; `None` for
    /// errors, which always are.
    fn enabled_by(self) -> Option<u32> {
        Some(match self {
            EventType::InvalidDoorbell | EventType::DoorbellValue => return None,
            EventType::Namespaces => notice::NAMESPACE_ATTRIBUTE,
            EventType::Zones(_) => notice::ZONE_DESCRIPTOR,
            EventType::Discovery => notice::DISCOVERY_LOG,
            EventType::Ana => notice::ANA_CHANGE,
            EventType::Temperature => notice::TEMPERATURE,
        })
    }

    /// The result of the Asynchronous Event Request. Dword 1 is the namespace (ZNS section 3.1.1.1).
    pub fn result(self) -> u64 {
        match self {
            EventType::InvalidDoorbell => event::INVALID_DOORBELL.into(),
            EventType::DoorbellValue => event::DOORBELL_VALUE.into(),
            EventType::Namespaces => event::NAMESPACE_ATTRIBUTE.into(),
            EventType::Zones(nsid) => u64::from(nsid) << 32 | u64::from(event::ZONE_DESCRIPTOR),
            EventType::Discovery => event::DISCOVERY_LOG.into(),
            EventType::Ana => event::ANA_CHANGE.into(),
            EventType::Temperature => event::TEMPERATURE.into(),
        }
    }
}

/// The events of a controller, and the changes for their log pages.
#[derive(Debug, Default)]
pub(super) struct AsyncEvents {
    namespaces: BTreeSet<u32>,
    /// First LBAs of zones, by namespace.
    zones: BTreeMap<u32, BTreeSet<u64>>,
    /// Types to report to the host.
    due: BTreeSet<EventType>,
    /// Types reported whose log page the host has not read.
    masked: BTreeSet<EventType>,
}

impl AsyncEvents {
    pub fn namespace_changed(&mut self, nsid: u32) {
        if self.namespaces.len() <= MAX_NAMESPACES {
            self.namespaces.insert(nsid);
        }
        self.due.insert(EventType::Namespaces);
    }

    pub fn zone_changed(&mut self, nsid: u32, slba: u64) {
        let zones = self.zones.entry(nsid).or_default();
        if zones.len() <= MAX_ZONES {
            zones.insert(slba);
        }
        self.due.insert(EventType::Zones(nsid));
    }

    pub fn discovery_changed(&mut self) {
        self.due.insert(EventType::Discovery);
    }

    pub fn ana_changed(&mut self) {
        self.due.insert(EventType::Ana);
    }

    /// A host has written a doorbell wrongly: `event` says how.
    pub fn doorbell_error(&mut self, event: EventType) {
        self.due.insert(event);
    }

    pub fn temperature_warning(&mut self) {
        self.due.insert(EventType::Temperature);
    }

    /// The next event that is enabled by `enabled`, the Asynchronous Event Configuration.
    pub fn next(&mut self, enabled: u32) -> Option<EventType> {
        let open = |event: &&EventType| {
            let enabled = event.enabled_by().is_none_or(|bit| bit & enabled != 0);
            enabled && !self.masked.contains(event)
        };
        let event = *self.due.iter().find(open)?;
        self.due.remove(&event);
        self.masked.insert(event);
        Some(event)
    }

    /// Clears a type of event: the host has read, or is about to be given, its log page.
    pub fn read(&mut self, event: EventType) {
        self.due.remove(&event);
        self.masked.remove(&event);
    }

    /// The Changed Namespace List log page; empty afterwards, unless `retain`.
    pub fn namespaces(&mut self, retain: bool) -> ChangedNamespaces {
        let mut log = ChangedNamespaces::zeroed();
        if self.namespaces.len() > MAX_NAMESPACES {
            log.nsids[0] = u32::MAX.into();
        } else {
            for (entry, nsid) in log.nsids.iter_mut().zip(&self.namespaces) {
                *entry = (*nsid).into();
            }
        }
        if !retain {
            self.namespaces.clear();
            self.read(EventType::Namespaces);
        }
        log
    }

    /// The Changed Zone List log page of a namespace; empty afterwards, unless `retain`.
    pub fn zones(&mut self, nsid: u32, retain: bool) -> ChangedZoneList {
        let mut log = ChangedZoneList::zeroed();
        let zones = self.zones.get(&nsid);
        let len = zones.map_or(0, BTreeSet::len);
        if len > MAX_ZONES {
            log.count = u16::MAX.into();
        } else if let Some(zones) = zones {
            log.count = u16::try_from(len).expect("at most 511").into();
            for (entry, slba) in log.zones.iter_mut().zip(zones) {
                *entry = (*slba).into();
            }
        }
        if !retain {
            self.zones.remove(&nsid);
            self.read(EventType::Zones(nsid));
        }
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u32 = u32::MAX;

    #[test]
    fn event_is_reported_once_until_its_log_is_read() {
        let mut async_events = AsyncEvents::default();
        async_events.namespace_changed(3);
        assert_eq!(async_events.next(notice::ZONE_DESCRIPTOR), None, "not enabled");
        assert_eq!(async_events.next(ALL), Some(EventType::Namespaces));
        async_events.namespace_changed(2);
        assert_eq!(async_events.next(ALL), None, "masked");
        assert_eq!(async_events.namespaces(true).nsids[0].get(), 2);
        assert_eq!(async_events.next(ALL), None, "the log was read with RAE");
        assert_eq!(async_events.namespaces(false).nsids[1].get(), 3);
        assert_eq!(async_events.next(ALL), None, "the log had it all");
        assert_eq!(async_events.namespaces(false).nsids[0].get(), 0);
        async_events.namespace_changed(2);
        assert_eq!(async_events.next(ALL), Some(EventType::Namespaces));
    }

    #[test]
    fn zones_are_reported_by_namespace() {
        let mut async_events = AsyncEvents::default();
        async_events.zone_changed(1, 64);
        async_events.zone_changed(2, 0);
        assert_eq!(async_events.next(ALL).map(EventType::result), Some(0x1_00bf_ef02));
        assert_eq!(async_events.next(ALL).map(EventType::result), Some(0x2_00bf_ef02));
        let log = async_events.zones(1, false);
        assert_eq!((log.count.get(), log.zones[0].get()), (1, 64));
        assert_eq!(async_events.zones(1, false).count.get(), 0);
    }

    #[test]
    fn overflow_is_reported_and_costs_no_memory() {
        let mut async_events = AsyncEvents::default();
        (0..511).for_each(|zone| async_events.zone_changed(1, zone));
        assert_eq!(async_events.zones(1, true).count.get(), 511);
        (511..100_000).for_each(|zone| async_events.zone_changed(1, zone));
        let log = async_events.zones(1, true);
        assert_eq!((log.count.get(), log.zones[0].get()), (0xffff, 0));
        assert_eq!(async_events.zones[&1].len(), 512);
        (1..=1024).for_each(|nsid| async_events.namespace_changed(nsid));
        assert_eq!(async_events.namespaces(true).nsids[1023].get(), 1024);
        (1025..5000).for_each(|nsid| async_events.namespace_changed(nsid));
        let log = async_events.namespaces(true);
        assert_eq!((log.nsids[0].get(), log.nsids[1].get()), (u32::MAX, 0));
    }
}
