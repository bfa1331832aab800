//! The plugs of a device whose zones have changed. Nothing may be in flight.
use super::{ZonePlug, ZonePlugs};
use crate::device::report_all;
use crate::limits::Limits;
use crate::probe::{mark, mutant};
use crate::queue::SwitchError;
use crate::status::Status;
use crate::sync::Ordering;
use crate::units::ZoneNo;
use crate::zone::{Zone, ZoneCondition};

impl ZonePlugs {
    /// Reads all zones anew, as many as there were.
    ///
    /// # Errors
    /// The device did not report all of them; the plugs are then as they were.
    pub(crate) fn resync_all(&self) -> Result<(), Status> {
        let zones = report_all(&*self.device, self.nr_zones())?;
        self.sync_all(&zones);
        Ok(())
    }

    /// Reads the zones of a device that now has these limits, and checks them as when it was attached.
    ///
    /// # Errors
    /// The device did not report all of them, or the rule that a zone breaks.
    pub(crate) fn read_anew(&self, limits: &Limits) -> Result<Vec<Zone>, SwitchError> {
        let zones = report_all(&*self.device, limits.nr_zones).map_err(SwitchError::Report)?;
        for (zone_no, zone) in (0..).zip(&zones) {
            let checked = self.check_zone(limits, zone_no, zone);
            checked.map_err(|rule| SwitchError::Zone { zone: zone_no, rule })?;
        }
        Ok(zones)
    }

    /// From now on the device has these zones, which [`ZonePlugs::read_anew`] has checked. Plugs of others
    /// go.
    pub(crate) fn replace_zones(&self, zones: &[Zone]) {
        let count = u32::try_from(zones.len()).expect("zones are counted in 32 bits");
        let attached = u32::try_from(self.slots.len()).expect("zones are counted in 32 bits");
        for zone_no in (count..attached).map(ZoneNo) {
            let Some(mut plug) = self.lock_used(zone_no) else { continue };
            if mutant!(PlugsBeyondEndKept) {
                continue;
            }
            assert!(plug.is_idle(), "zone {zone_no}: nothing is in flight when its zone goes");
            if plug.is_alive() {
                mark!(PlugBeyondEndDropped if true);
                self.alive.fetch_sub(1, Ordering::Relaxed);
            }
            *plug = ZonePlug::EMPTY;
        }
        self.nr_zones.store(count, Ordering::Relaxed);
        if let Some(last) = zones.last() {
            self.last_capacity.store(last.capacity.0, Ordering::Relaxed);
        }
        if !mutant!(OldPointersKept) {
            self.sync_all(zones);
        }
    }

    fn sync_all(&self, zones: &[Zone]) {
        for (zone_no, zone) in self.zone_numbers().zip(zones) {
            if zone.cond == ZoneCondition::Empty && self.lock_used(zone_no).is_none() {
                continue;
            }
            let mut plug = self.lock(zone_no);
            plug.sync(Some(zone));
            self.update_alive(zone_no, &mut plug);
        }
    }
}
