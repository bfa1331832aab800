//! What an image of a drive keeps beside the data: the translation layer, with the handles' superblocks and
//! the erase counts, the counts since the first command that there ever was, and which events of data
//! placement are recorded.
//!
//! A drive that goes on from such a state is one that has lost its power: what it was collecting has been
//! collected, and what was being erased is. The buffer outlives a loss of power, so the pages in it do. Of a
//! map that is on the flash the layer of its pages is kept, and nothing is in memory afterwards.
use super::SsdDevice;
use super::drive::Drive;
use super::placement_events::{Events, Setting};
use super::translation::bytes::Input;
use super::translation::{Counts, STEP_BYTES, Shape, Step, Translation};
use crate::control::KeptState;
use crate::storage::Stored;

/// Bytes of the counts.
const COUNTS: u64 = 5 * 8;
/// Of a change, the byte that says what it is one of: the layer of the data, that of the map, or which
/// events are recorded.
const PART: usize = 1;
const DATA: u8 = 0;
const MAP: u8 = 1;
const EVENTS: u8 = 2;

/// A layer, and its counts before the first command.
struct Saved {
    layer: Translation,
    before: Counts,
}

impl Saved {
    /// Appends a layer to `to`.
    fn put(layer: &Translation, before: &Counts, to: &mut Vec<u8>) {
        before.save(to);
        layer.save(to);
    }

    /// Reads it.
    fn take(shape: &Shape, from: &mut Input<'_>) -> Option<Self> {
        let before = Counts::restore(from)?;
        Some(Saved { layer: Translation::restore(shape.clone(), from)?, before })
    }

    /// Appends changes of the layer of a part.
    fn put_changes(steps: &[Step], part: u8, to: &mut Vec<u8>) {
        for step in steps {
            let at = to.len();
            step.encode(to);
            to[at + PART] = part;
        }
    }
}

/// The state that an image keeps.
struct State {
    data: Saved,
    map: Option<Saved>,
    settings: Vec<Setting>,
    handles: u16,
}

impl State {
    /// Makes a change again. Returns false if it is none of this state.
    fn redo(&mut self, change: &[u8]) -> bool {
        let Ok(mut change) = <[u8; STEP_BYTES]>::try_from(change) else { return false };
        let layer = match (std::mem::take(&mut change[PART]), &mut self.map) {
            (DATA, _) => &mut self.data.layer,
            (MAP, Some(map)) => &mut map.layer,
            (EVENTS, _) => return self.set(&change),
            _ => return false,
        };
        Step::decode(&change).is_some_and(|step| layer.redo(&step))
    }

    fn set(&mut self, change: &[u8; STEP_BYTES]) -> bool {
        let [.., a, b, c, d] = *change;
        let setting = Setting::of(u32::from_le_bytes([a, b, c, d]), self.handles);
        self.settings.extend(setting);
        setting.is_some()
    }

    /// Completes what had begun, as a drive does that has lost its power meanwhile. Returns whether there was
    /// anything to do.
    fn settle(&mut self) -> bool {
        let data = self.data.layer.settle();
        self.map.as_mut().is_some_and(|map| map.layer.settle()) || data
    }
}

impl Drive {
    /// What an image keeps.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        Saved::put(&self.media.translation, &self.before(), &mut bytes);
        if let Some(map) = &self.media.map {
            Saved::put(&map.layer, &map.before(), &mut bytes);
        }
        self.media.placement_events.save_settings(&mut bytes);
        bytes
    }

    /// The state that was saved.
    fn state_of(&self, mut saved: Input<'_>) -> Option<State> {
        let data = Saved::take(self.media.translation.shape(), &mut saved)?;
        let map = match &self.media.map {
            None => None,
            Some(map) => Some(Saved::take(map.layer.shape(), &mut saved)?),
        };
        let handles = self.handles();
        let settings = Events::restore_settings(&mut saved, handles)?;
        saved.0.is_empty().then_some(State { data, map, settings, handles })
    }

    fn record(&mut self) {
        self.media.placement_events.note_settings();
        self.media.translation.record();
        if let Some(map) = &mut self.media.map {
            map.layer.record();
        }
    }
}

impl KeptState for SsdDevice {
    fn most_bytes(&self) -> u64 {
        let most = |layer: &Translation| COUNTS + Translation::saved_bytes(layer.shape());
        self.port.with(|drive| {
            let settings = Events::most_bytes(drive.handles());
            let map = drive.media.map.as_ref().map_or(0, |map| most(&map.layer));
            most(&drive.media.translation) + map + settings
        })
    }

    fn resume(&self, saved: &[u8], changes: &[u8]) -> Option<bool> {
        self.port.with(|drive| {
            if saved.is_empty() && changes.is_empty() {
                drive.record();
                return Some(false);
            }
            let new = if saved.is_empty() { drive.to_bytes() } else { Vec::new() };
            let saved = if saved.is_empty() { &new } else { saved };
            let mut state = drive.state_of(Input(saved))?;
            if !changes.chunks(STEP_BYTES).all(|change| state.redo(change)) {
                return None;
            }
            let settled = state.settle();
            let State { data, map, settings, .. } = state;
            drive.resume((data.layer, data.before), map.map(|map| (map.layer, map.before)));
            drive.media.placement_events.resume(&settings);
            drive.record();
            Some(settled || !changes.is_empty())
        })
    }

    fn take_changes(&self, to: &mut Vec<u8>) {
        self.port.with(|drive| {
            Saved::put_changes(&drive.media.translation.take_steps(), DATA, to);
            if let Some(map) = &mut drive.media.map {
                Saved::put_changes(&map.layer.take_steps(), MAP, to);
            }
            for setting in drive.media.placement_events.take_settings() {
                let mut change = [0; STEP_BYTES];
                change[PART] = EVENTS;
                change[STEP_BYTES - 4..].copy_from_slice(&setting.to_number().to_le_bytes());
                to.extend(change);
            }
        });
    }

    fn save(&self) -> Vec<u8> {
        self.port.with(|drive| {
            // The changes so far are a part of it.
            drive.media.translation.take_steps();
            if let Some(map) = &mut drive.media.map {
                map.layer.take_steps();
            }
            drive.media.placement_events.take_settings();
            drive.to_bytes()
        })
    }

    fn complete_pending(&self) {
        Stored::complete_pending(self);
    }
}
