//! Revalidation: a device has lost zones, or was formatted, while its queue is attached.
//!
//! Commands that are in flight meanwhile fail as the device says, and the writes that wait after them are
//! aborted as after any failed write. So nothing waits when the queue has drained, and its zones are read
//! anew with nothing inside: until it is unfrozen, no bio sees an old zone or a new capacity.
use super::{Queue, SwitchError};
use crate::probe::{mark, mutant};
use crate::units::{Sector, ZoneNo};

impl Queue {
    /// The number of zones that bios can go to: those of the device when its zones were last read.
    pub fn nr_zones(&self) -> u32 {
        self.settings().nr_zones
    }

    /// The sectors that bios can go to.
    pub fn capacity(&self) -> Sector {
        match self.nr_zones() {
            zones if zones < self.limits.nr_zones => self.limits.zone_start(ZoneNo(zones)),
            _ => self.limits.capacity,
        }
    }

    /// Reads the zones of a frozen, quiescent queue anew, as the kernel does when a disk has changed:
    /// the device may have fewer zones than before, or more again up to those that it was attached with
    /// ([`Device::nr_zones`](crate::Device::nr_zones)), and their write pointers and conditions may be
    /// others. Plugs of zones that are gone go, too, and bios for them are [`Status::Invalid`] from now
    /// on. Returns the number of zones.
    ///
    /// Revalidations and other changes of the queue by several threads come one after the other.
    ///
    /// [`Status::Invalid`]: crate::Status::Invalid
    ///
    /// # Errors
    /// [`SwitchError`] says what is wrong; the queue is then as it was.
    pub fn revalidate(&self) -> Result<u32, SwitchError> {
        let Some(plugs) = &self.plugs else {
            return Err(SwitchError::Unsuitable("a device without zones has none to read anew"));
        };
        let _alone = self.lock_changes();
        self.require_quiescent()?;
        let zones = self.device.nr_zones();
        if !(1..=self.limits.nr_zones).contains(&zones) {
            return Err(SwitchError::Unsuitable(
                "the zones are 1 up to those that the device was attached with",
            ));
        }
        let limits = self.limits.with_zones(zones);
        let found = plugs.read_anew(&limits)?;
        self.rebuild_scheduler(self.zone_write(), |settings| {
            mark!(ZonesLost if zones < settings.nr_zones);
            mark!(ZonesRestored if zones > settings.nr_zones);
            if !mutant!(CapacityKept) {
                settings.nr_zones = zones;
            }
        })?;
        plugs.replace_zones(&found);
        Ok(zones)
    }
}
