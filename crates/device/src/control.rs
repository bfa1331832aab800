//! The interface of devices beyond I/O: a description and statistics for management, and access
//! past the hardware queues for a fault simulator.
use crate::flash::FlashTraceSink;
use crate::hdd::{HeadState, HeadTraceSink};
use crate::image::Superblock;
use std::sync::Weak;
use zonal_blk::{Bytes, Device, Nanos, Request, Sector, Status, ZoneCondition, ZoneNo};

/// A device that describes itself and counts what it does.
///
/// Reading any of this has no effect on the device.
pub trait DeviceControl: Device {
    /// The device inside, of a wrapper: it answers every question that the wrapper does not answer
    /// itself. The device that [`Device::inner`] names.
    fn inner_control(&self) -> Option<&dyn DeviceControl> {
        None
    }

    /// Properties that [`Limits`](zonal_blk::Limits) does not have: names, and values with units.
    fn characteristics(&self) -> Vec<(&'static str, String)> {
        self.inner_control().map_or_else(Vec::new, |inner| inner.characteristics())
    }

    /// Performance by plain arithmetic from the parameters, to compare simulations with.
    fn estimates(&self) -> Vec<Estimate> {
        self.inner_control().map_or_else(Vec::new, |inner| inner.estimates())
    }

    /// The device's counts since it was created.
    fn stats(&self) -> DeviceStats {
        self.inner_control().map_or_else(DeviceStats::default, |inner| inner.stats())
    }

    /// Statistics of the translation layer since the first command; `None` for a device without one.
    fn translation(&self) -> Option<TranslationStats> {
        self.inner_control()?.translation()
    }

    /// How full or busy parts of the device are now.
    fn levels(&self) -> Vec<Level> {
        self.inner_control().map_or_else(Vec::new, |inner| inner.levels())
    }

    /// Sends the activities of a rotating disk's head to `sink`, too, from now on. Returns false if the
    /// device has no head.
    fn trace_head(&self, sink: HeadTraceSink) -> bool {
        self.inner_control().is_some_and(|inner| inner.trace_head(sink))
    }

    /// Sends what the dies of a flash drive do to `sink` from now on, instead of to the sink before.
    /// Returns false if the device has no dies.
    fn trace_flash(&self, sink: FlashTraceSink) -> bool {
        self.inner_control().is_some_and(|inner| inner.trace_flash(sink))
    }

    /// Where a rotating disk's head is; `None` if the device has none.
    fn head(&self) -> Option<HeadState> {
        self.inner_control()?.head()
    }

    /// How often the model was polled too late; `None` if it models no times.
    fn lateness(&self) -> Option<Lateness> {
        self.inner_control()?.lateness()
    }

    /// The number of heads, of a disk each zone of which lies on the surface of one; else 0.
    fn heads(&self) -> u32 {
        self.inner_control().map_or(0, DeviceControl::heads)
    }

    /// The zones on the surface of a head, counted from 0; none if there is no such head.
    fn zones_of_head(&self, head: u32) -> Vec<ZoneNo> {
        self.inner_control().map_or_else(Vec::new, |inner| inner.zones_of_head(head))
    }

    /// Formats a disk without one of its heads, when the commands in flight have completed: it has fewer zones from
    /// now on ([`Device::nr_zones`]), all of them empty, and the heads after this one have other numbers. Returns the
    /// number of zones. The layer learns of it by [`Queue::revalidate`](zonal_blk::Queue::revalidate).
    ///
    /// # Errors
    /// [`Status::NotSupported`] if the device cannot do this; [`Status::Invalid`] if there is no such head,
    /// or no sequential zone would be left. Nothing has changed then.
    fn format_without_head(&self, head: u32) -> Result<u32, Status> {
        self.inner_control()
            .map_or(Err(Status::NotSupported), |inner| inner.format_without_head(head))
    }

    /// Makes a zone read-only or offline, or repairs it: see [`Zones::set_condition`]. A sequential
    /// zone loses its data when it is repaired. A device that can make one zone read-only or offline can do so
    /// with each.
    ///
    /// [`Zones::set_condition`]: crate::Zones::set_condition
    ///
    /// # Errors
    /// [`Status::NotSupported`] if the device cannot do this or has no zones; [`Status::Invalid`]
    /// for a zone that does not exist or a condition that cannot be set.
    fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        self.inner_control()
            .map_or(Err(Status::NotSupported), |inner| inner.set_condition(zone, to))
    }

    /// Reads a piece of the stored data, the first from sector `from` on, and compares it with its
    /// checksums. Waits for the storage.
    ///
    /// # Errors
    /// [`Status::NotSupported`] if the device has no checksums.
    fn scrub(&self, from: Sector) -> Result<ScrubStep, Status> {
        self.inner_control().map_or(Err(Status::NotSupported), |inner| inner.scrub(from))
    }

    /// The superblock, of a device that is in an image.
    fn superblock(&self) -> Option<&Superblock> {
        self.inner_control()?.superblock()
    }

    /// How the device was switched on and off; `None` if that is not kept.
    fn power_history(&self) -> Option<PowerHistory> {
        self.inner_control()?.power_history()
    }

    /// The state beside the data that an image of the device keeps; `None` if there is none.
    fn kept(&self) -> Option<&dyn KeptState> {
        self.inner_control()?.kept()
    }

    /// The medium, of a device that can take back what was written.
    fn medium(&self) -> Option<&dyn MediumAccess> {
        self.inner_control()?.medium()
    }
}

/// The state of a model, such as the map of a translation layer, that an image keeps beside the data: as
/// a whole from time to time, and the changes since.
pub trait KeptState: Send + Sync {
    /// Bytes that the whole state takes, at most.
    fn most_bytes(&self) -> u64;

    /// Has the model, which is new and has no queue, go on from a state that was saved, empty for that of a
    /// new model, and the changes recorded since. Records changes from then on. Returns whether the state
    /// has changed by that, so that it is to be saved; `None` if the model cannot have been in that state:
    /// then it is as before, and records nothing.
    fn resume(&self, saved: &[u8], changes: &[u8]) -> Option<bool>;

    /// Appends the changes since the last call, or since the state was saved, to `to`.
    fn take_changes(&self, to: &mut Vec<u8>);

    /// The whole state.
    fn save(&self) -> Vec<u8>;

    /// Completes all commands of the model immediately.
    fn complete_pending(&self);
}

/// The stored data, past the hardware queues, while no command is in flight: for a loss of power.
pub trait MediumAccess {
    /// Reads stored data, whatever the state of the zone.
    ///
    /// # Errors
    /// The errors of the storage.
    fn peek(&self, sector: Sector, to: &mut [u8]) -> Result<(), Status>;

    /// Changes stored data outside sequential zones.
    ///
    /// # Errors
    /// The errors of the storage.
    fn poke(&self, sector: Sector, from: &[u8]) -> Result<(), Status>;

    /// Moves a sequential zone's write pointer back to `wp`, an offset in the zone. Leaves the zone
    /// closed or empty.
    ///
    /// # Errors
    /// The status that the device gives a reset or a write of the zone.
    fn shorten(&self, zone: ZoneNo, wp: Sector) -> Result<(), Status>;

    /// Closes all open zones.
    fn close_zones(&self);

    /// Makes what is stored durable.
    ///
    /// # Errors
    /// The errors of the storage.
    fn settle(&self) -> Result<(), Status> {
        Ok(())
    }
}

impl<D: FaultHooks> MediumAccess for D {
    fn peek(&self, sector: Sector, to: &mut [u8]) -> Result<(), Status> {
        self.read_raw(sector, to);
        Ok(())
    }

    fn poke(&self, sector: Sector, from: &[u8]) -> Result<(), Status> {
        self.write_raw(sector, from);
        Ok(())
    }

    fn shorten(&self, zone: ZoneNo, wp: Sector) -> Result<(), Status> {
        self.rewind(zone, wp)
    }

    fn close_zones(&self) {
        self.close_all();
    }
}

/// A piece of stored data that was compared with its checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubStep {
    /// Where the next piece begins; `None` after the last.
    pub next: Option<Sector>,
    /// Bytes that were read.
    pub bytes: u64,
    /// The first sectors of blocks that do not match or cannot be read.
    pub damaged: Vec<Sector>,
}

/// A workload whose performance can be estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimatedLoad {
    /// Sequential transfer at the start of the device, in bytes per second.
    SequentialAtStart,
    /// Sequential transfer at the end of the device, in bytes per second.
    SequentialAtEnd,
    /// Random 4 KiB reads at queue depth 1, in I/Os per second.
    RandomReads,
}

/// The estimated performance of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The workload.
    pub load: EstimatedLoad,
    /// Its performance, in the unit of the workload.
    pub value: f64,
    /// The formula, in words.
    pub from: String,
}

/// The counts of a device since it was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Event counts.
    pub counts: Vec<(&'static str, u64)>,
    /// Busy time by activity; activities may overlap.
    pub times: Vec<(&'static str, Nanos)>,
}

/// How a device in an image was switched on and off since the image was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerHistory {
    /// How often it was opened.
    pub cycles: u64,
    /// How often it was not closed before.
    pub unsafe_shutdowns: u64,
    /// How many of those were losses of power: what was not flushed may be lost.
    pub losses: u64,
}

/// Statistics of a flash translation layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TranslationStats {
    /// Written by the host, in whole pages.
    pub host: Bytes,
    /// Written to the flash: the host's pages, pages that were collected, padding and the map.
    pub media: Bytes,
    /// Discarded by the host, of pages that had data.
    pub discarded: Bytes,
    /// Superblocks that were erased.
    pub erased_superblocks: u64,
    /// Data of the host that had to wait in the buffer for the collection.
    pub waited: Bytes,
    /// Superblocks that are erased and hold nothing.
    pub free_superblocks: u32,
    /// All superblocks.
    pub superblocks: u32,
    /// Of a map that is on the flash, with a part of it in memory.
    pub map: Option<MapStats>,
}

/// Statistics of a map that is on the flash, with a part of it in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapStats {
    /// Translation pages that were written to the flash, which the bytes written to it include.
    pub written: Bytes,
    /// Pages that were looked up or changed.
    pub lookups: u64,
    /// Translation pages that were not in memory then.
    pub misses: u64,
}

impl MapStats {
    /// The counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &MapStats) -> MapStats {
        MapStats {
            written: self.written - earlier.written,
            lookups: self.lookups - earlier.lookups,
            misses: self.misses - earlier.misses,
        }
    }
}

impl TranslationStats {
    /// The counts since `earlier`, and the superblocks as they are now.
    #[must_use]
    pub fn since(&self, earlier: &TranslationStats) -> TranslationStats {
        TranslationStats {
            host: self.host - earlier.host,
            media: self.media - earlier.media,
            discarded: self.discarded - earlier.discarded,
            erased_superblocks: self.erased_superblocks - earlier.erased_superblocks,
            waited: self.waited - earlier.waited,
            map: self.map.map(|map| map.since(&earlier.map.unwrap_or_default())),
            ..*self
        }
    }

    /// Bytes written to the flash for each that the host wrote; 1 before the first.
    pub fn write_amplification(&self) -> f64 {
        if self.host.0 == 0 { 1.0 } else { self.media.0 as f64 / self.host.0 as f64 }
    }
}

/// How full or busy a part of a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The part, with the unit.
    pub name: &'static str,
    /// The part in use.
    pub value: u64,
    /// The whole.
    pub of: u64,
}

/// How much later than its due time a command of a model may complete before it counts as late.
pub const LATE_AFTER: Nanos = Nanos(20_000);

/// How many commands of a model completed late: by more than [`LATE_AFTER`] after the time that the
/// model computed, since it was not polled in time. In real time, such a run shows the load of this
/// machine as well as the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Commands completed.
    pub completions: u64,
    /// Those that were late.
    pub late: u64,
    /// The sum of the times by which commands completed after they were due.
    pub total: Nanos,
    /// The largest of these times.
    pub largest: Nanos,
}

/// The loss of rate, in percent, from which on a result is that of this machine and not the model's.
const LOST: f64 = 5.0;

impl Lateness {
    /// The share of late commands in percent.
    pub fn percent(self) -> f64 {
        self.late as f64 * 100.0 / self.completions.max(1) as f64
    }

    /// The loss of rate in percent, for commands that took `in_flight` in total, if a fixed number of them
    /// is in flight.
    pub fn lost_percent(self, in_flight: Nanos) -> f64 {
        self.total.0.min(in_flight.0) as f64 * 100.0 / in_flight.0.max(1) as f64
    }

    /// Whether a result with this loss is the model's.
    pub fn is_of_model(lost_percent: f64) -> bool {
        lost_percent < LOST
    }

    /// Counts commands that were due at `due` and complete at `now`.
    #[inline]
    pub(crate) fn count(&mut self, completions: u64, due: Nanos, now: Nanos) {
        self.completions += completions;
        let by = Nanos(now.0.saturating_sub(due.0));
        if by > LATE_AFTER {
            self.late += completions;
        }
        self.total = self.total.saturating_add(Nanos(by.0.saturating_mul(completions)));
        self.largest = self.largest.max(by);
    }
}

/// Access past the hardware queues, for a fault simulator: partial writes, corruption, loss of
/// power.
pub trait FaultHooks: DeviceControl {
    /// Applies the first `nr_sectors` of a write immediately.
    ///
    /// # Errors
    /// The status that the device gives a write of that length.
    fn write_part(&self, request: &mut Request, nr_sectors: u32) -> Result<(), Status>;

    /// Reads stored data, whatever the state of the zone.
    fn read_raw(&self, sector: Sector, to: &mut [u8]);

    /// Changes stored data without moving a write pointer.
    fn write_raw(&self, sector: Sector, from: &[u8]);

    /// Moves a zone's write pointer back to `wp`, an offset in the zone, and zeroes the data from
    /// there on. Leaves the zone closed or empty.
    ///
    /// # Errors
    /// The status that the device gives a reset or a write of the zone.
    fn rewind(&self, zone: ZoneNo, wp: Sector) -> Result<(), Status>;

    /// Closes all open zones.
    fn close_all(&self);

    /// Completes all work that the device has pending, immediately.
    fn drain(&self) {}

    /// Has each command reported to `observer` when it takes effect. Returns false if the device
    /// does not report: one whose commands take effect when they complete has no need to.
    fn set_observer(&self, _observer: Weak<dyn CommandObserver>) -> bool {
        false
    }
}

/// Sees the commands of a device as they take effect.
pub trait CommandObserver: Send + Sync {
    /// A command is about to take effect.
    fn before(&self, request: &Request);

    /// A command took effect or failed, as `status` says. `queue` is its hardware queue; `None`
    /// stands for the one opened last, if the device does not distinguish them.
    fn after(&self, queue: Option<u16>, request: &Request, status: Status);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_are_centuries_late_are_counted_like_others() {
        let mut lateness = Lateness::default();
        for _ in 0..3 {
            lateness.count(1, Nanos(0), Nanos(u64::MAX / 2));
        }
        assert_eq!((lateness.late, lateness.largest), (3, Nanos(u64::MAX / 2)));
        assert_eq!(lateness.total, Nanos(u64::MAX));
    }
}
