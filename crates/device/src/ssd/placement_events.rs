//! Events of flexible data placement: which are recorded, and the last ones. Which are recorded outlives a
//! loss of power, as the specification has it (NVMe Base 2.1, feature 1Eh).
use super::translation::bytes::{Input, put_list32};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use zonal_blk::{PlacementEvent, PlacementEventType};

/// Events that are kept, of the host and of the device each: as many as the log page has.
const MAX_EVENTS: usize = 63;

/// A type of events that are recorded for a placement handle from now on, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    handle: u16,
    kind: PlacementEventType,
    on: bool,
}

impl Setting {
    /// It as a number: the handle, the type, and whether they are recorded.
    pub(super) fn to_number(self) -> u32 {
        u32::from(self.handle) << 16 | u32::from(code(self.kind)) << 8 | u32::from(self.on)
    }

    /// The setting of a number; `None` if it is none of `handles` placement handles.
    pub(super) fn of(number: u32, handles: u16) -> Option<Self> {
        let [on, kind, ..] = number.to_le_bytes();
        let handle = u16::try_from(number >> 16).ok().filter(|handle| *handle < handles)?;
        let kind = PlacementEventType::ALL.into_iter().find(|it| code(*it) == kind)?;
        (on < 2).then_some(Setting { handle, kind, on: on == 1 })
    }
}

/// The number of a type in an image.
fn code(kind: PlacementEventType) -> u8 {
    match kind {
        PlacementEventType::UnitNotFull => 0,
        PlacementEventType::InvalidId => 1,
        PlacementEventType::Reallocated => 2,
    }
}

/// The last events, and which are recorded.
#[derive(Debug, Default)]
pub(super) struct Events {
    log: VecDeque<PlacementEvent>,
    /// By type, all that happened, recorded or not.
    counts: BTreeMap<PlacementEventType, u64>,
    /// Types by placement handle.
    recorded: BTreeSet<(u16, PlacementEventType)>,
    /// The settings since they were last taken, if they are noted.
    changes: Option<Vec<Setting>>,
}

impl Events {
    pub(super) fn records(&self, handle: u16, kind: PlacementEventType) -> bool {
        self.recorded.contains(&(handle, kind))
    }

    pub(super) fn record(&mut self, handle: u16, kind: PlacementEventType, on: bool) {
        match on {
            true => self.recorded.insert((handle, kind)),
            false => self.recorded.remove(&(handle, kind)),
        };
        if let Some(changes) = &mut self.changes {
            changes.push(Setting { handle, kind, on });
        }
    }

    /// Notes all settings from now on.
    pub(super) fn note_settings(&mut self) {
        self.changes = Some(Vec::new());
    }

    /// The settings since the last call, or since they are noted.
    pub(super) fn take_settings(&mut self) -> Vec<Setting> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Appends what is recorded to `to`.
    pub(super) fn save_settings(&self, to: &mut Vec<u8>) {
        let settings =
            self.recorded.iter().map(|&(handle, kind)| Setting { handle, kind, on: true });
        put_list32(to, settings.map(Setting::to_number));
    }

    /// Bytes that it takes at most.
    pub(super) fn most_bytes(handles: u16) -> u64 {
        4 + 4 * u64::from(handles) * PlacementEventType::ALL.len() as u64
    }

    /// Reads it. Nothing is recorded if there is nothing.
    pub(super) fn restore_settings(from: &mut Input<'_>, handles: u16) -> Option<Vec<Setting>> {
        if from.0.is_empty() {
            return Some(Vec::new());
        }
        from.list32()?.into_iter().map(|number| Setting::of(number, handles)).collect()
    }

    /// Goes on with other settings.
    pub(super) fn resume(&mut self, settings: &[Setting]) {
        self.recorded.clear();
        settings.iter().for_each(|&Setting { handle, kind, on }| self.record(handle, kind, on));
    }

    /// How many events of a type there were, recorded or not.
    pub(super) fn count(&self, kind: PlacementEventType) -> u64 {
        self.counts.get(&kind).copied().unwrap_or(0)
    }

    /// An event, which is recorded if that is wanted.
    pub(super) fn add(&mut self, event: PlacementEvent) {
        *self.counts.entry(event.kind).or_default() += 1;
        if !self.records(event.handle, event.kind) {
            return;
        }
        let alike = |other: &PlacementEvent| other.kind.is_of_host() == event.kind.is_of_host();
        if self.log.iter().filter(|other| alike(other)).count() == MAX_EVENTS {
            let oldest = self.log.iter().position(alike).expect("there are some");
            self.log.remove(oldest);
        }
        self.log.push_back(event);
    }

    pub(super) fn all(&self) -> Vec<PlacementEvent> {
        self.log.iter().copied().collect()
    }
}
