//! What a fault simulator may do to a device past its hardware queues, and observe of it.
use std::sync::Weak;
use zonal_blk::{Device, Request, Sector, Status, ZoneCondition, ZoneNo};

/// What a device lets faults do to its medium, past its hardware queues.
pub trait Medium: Device {
    /// Does the first `nr_sectors` of a write, at one moment.
    ///
    /// # Errors
    /// What the device says to a write of that length.
    fn write_part(&self, request: &mut Request, nr_sectors: u32) -> Result<(), Status>;

    /// Makes a zone fail, or mends it.
    ///
    /// # Errors
    /// [`Status::Invalid`] for a condition that cannot be set, [`Status::NotSupported`] without
    /// zones.
    fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status>;

    /// Reads what the medium holds.
    fn read_raw(&self, sector: Sector, to: &mut [u8]);

    /// Changes what the medium holds, moving no write pointer.
    fn write_raw(&self, sector: Sector, from: &[u8]);

    /// Moves a zone's write pointer back to `wp`, from the zone's start, and forgets what lies
    /// behind it. No zone is open.
    ///
    /// # Errors
    /// What the device says.
    fn rewind(&self, zone: ZoneNo, wp: Sector) -> Result<(), Status>;

    /// Closes all open zones.
    fn close_all(&self);

    /// Does at once all that the device was given and has not done.
    fn drain(&self) {}

    /// Shows each command to `observer` when it is done to the medium. Whether the device will: one
    /// that does commands when it gives them back has no need to.
    fn set_observer(&self, _observer: Weak<dyn CommandObserver>) -> bool {
        false
    }
}

/// Who sees what a device does to its medium, command by command.
pub trait CommandObserver: Send + Sync {
    /// A command is about to be done.
    fn before(&self, request: &Request);

    /// A command of a hardware queue (of the latest that was opened, if the device does not tell
    /// them apart) was done, or refused with a status.
    fn after(&self, queue: Option<u16>, request: &Request, status: Status);
}
