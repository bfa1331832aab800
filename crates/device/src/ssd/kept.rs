//! What an image of a drive keeps beside the data: the translation layer, with the handles' superblocks and
//! the erase counts, and the counts since the first command that there ever was.
//!
//! A drive that goes on from such a state is one that has lost its power: what it was collecting has been
//! collected, and what was being erased is. The buffer outlives a loss of power, so the pages in it do.
use super::SsdDevice;
use super::drive::Drive;
use super::translation::bytes::Input;
use super::translation::{Counts, STEP_BYTES, Step, Translation};
use crate::control::KeptState;
use crate::storage::Stored;

/// Bytes of the counts.
const COUNTS: u64 = 5 * 8;

impl Drive {
    /// What an image keeps.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.before().save(&mut bytes);
        self.translation.save(&mut bytes);
        bytes
    }

    /// The layer, and the counts before the first command.
    fn layer_of(&self, mut saved: Input<'_>) -> Option<(Translation, Counts)> {
        let before = Counts::restore(&mut saved)?;
        let layer = Translation::restore(self.translation.shape().clone(), &mut saved)?;
        saved.0.is_empty().then_some((layer, before))
    }
}

impl KeptState for SsdDevice {
    fn most_bytes(&self) -> u64 {
        COUNTS + self.port.with(|drive| Translation::saved_bytes(drive.translation.shape()))
    }

    fn resume(&self, saved: &[u8], changes: &[u8]) -> Option<bool> {
        self.port.with(|drive| {
            if saved.is_empty() && changes.is_empty() {
                drive.translation.record();
                return Some(false);
            }
            let new = if saved.is_empty() { drive.to_bytes() } else { Vec::new() };
            let saved = if saved.is_empty() { &new } else { saved };
            let (mut layer, before) = drive.layer_of(Input(saved))?;
            let is_redone = |bytes: &[u8]| {
                let whole = bytes.len() == STEP_BYTES;
                whole && Step::decode(bytes).is_some_and(|step| layer.redo(&step))
            };
            if !changes.chunks(STEP_BYTES).all(is_redone) {
                return None;
            }
            let settled = layer.settle();
            drive.resume(layer, before);
            drive.translation.record();
            Some(settled || !changes.is_empty())
        })
    }

    fn take_changes(&self, to: &mut Vec<u8>) {
        let steps = self.port.with(|drive| drive.translation.take_steps());
        steps.iter().for_each(|step| step.encode(to));
    }

    fn save(&self) -> Vec<u8> {
        self.port.with(|drive| {
            // The changes so far are a part of it.
            drive.translation.take_steps();
            drive.to_bytes()
        })
    }

    fn complete_pending(&self) {
        Stored::complete_pending(self);
    }
}
