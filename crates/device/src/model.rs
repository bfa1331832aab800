//! What a device of this crate tells of itself: what it is made of, what it has done, and what its
//! parameters lead to by plain arithmetic.
//!
//! Takes nothing; gives lists to print. Keeps true: asking changes
//! nothing. What can be done to one is in [`Model::set_condition`].
use zonal_blk::{Device, Nanos, Status, ZoneCondition, ZoneNo};

/// A device that can be asked about itself.
pub trait Model: Device {
    /// What it is made of: names and values with units, beyond what its limits say.
    fn characteristics(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// What its parameters lead to by plain arithmetic, to compare simulations with.
    fn estimates(&self) -> Vec<Estimate> {
        Vec::new()
    }

    /// What it has done since it was made.
    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }

    /// Makes a zone read-only or offline, or mends it: see [`Zones::set_condition`]. Data of a
    /// sequential zone that is mended are gone.
    ///
    /// [`Zones::set_condition`]: crate::Zones::set_condition
    ///
    /// # Errors
    /// [`Status::NotSupported`] if the device cannot do so; [`Status::Invalid`] for a zone that it
    /// does not have or a condition that cannot be set.
    fn set_condition(&self, _zone: ZoneNo, _to: ZoneCondition) -> Result<(), Status> {
        Err(Status::NotSupported)
    }
}

/// What a load can be estimated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimatedLoad {
    /// Sequential transfer at the start of the device, in bytes a second.
    SequentialAtStart,
    /// Sequential transfer at its end, in bytes a second.
    SequentialAtEnd,
    /// Random reads of 4 KiB, one at a time, in I/Os a second.
    RandomReads,
}

/// What a load should come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The load.
    pub load: EstimatedLoad,
    /// What it should come to, in the load's unit.
    pub value: f64,
    /// The arithmetic, for people.
    pub from: String,
}

/// What a device has done since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// How often things happened.
    pub counts: Vec<(&'static str, u64)>,
    /// What its time went to; its parts may be busy side by side.
    pub times: Vec<(&'static str, Nanos)>,
}
