//! Rules between options that several kinds of device have.
use super::error::{ConfigError, rule};
use crate::quantity::format_size;
use zonal_blk::Bytes;

/// Largest device that keeps data: 512 MiB of locks before anything is written.
const MAX_MEMORY: Bytes = Bytes(256 << 40);

/// Rules of a device with logical blocks of this many bytes.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub lba: u32,
}

impl Rules {
    /// Whether a length is a non-zero multiple of the logical block size.
    pub fn is_lbas(self, length: Bytes) -> bool {
        length.0 > 0 && length.0.is_multiple_of(self.lba.into())
    }

    /// That in words.
    pub fn lbas(self) -> String {
        format!("a non-zero multiple of lba={}", self.lba)
    }

    /// `lba` itself, and `max_io`, which is `most` or less.
    pub fn commands(self, max_io: Bytes, most: Bytes) -> Result<(), ConfigError> {
        rule("lba", matches!(self.lba, 512 | 4096), self.lba, || "512 or 4096".to_owned())?;
        let max_io_ok = self.is_lbas(max_io) && max_io <= most;
        rule("max_io", max_io_ok, format_size(max_io.0), || {
            format!("{} up to {}", self.lbas(), format_size(most.0))
        })
    }

    /// `zone_size` and `zone_capacity`.
    pub fn zones(self, zone_size: Bytes, zone_capacity: Bytes) -> Result<(), ConfigError> {
        let size = |bytes: Bytes| format_size(bytes.0);
        rule("zone_size", self.is_lbas(zone_size), size(zone_size), || self.lbas())?;
        let capacity_ok = self.is_lbas(zone_capacity) && zone_capacity <= zone_size;
        rule("zone_capacity", capacity_ok, size(zone_capacity), || {
            format!("{} up to zone_size={}", self.lbas(), size(zone_size))
        })
    }

    /// `append_max`.
    pub fn append(self, append_max: Bytes, max_io: Bytes) -> Result<(), ConfigError> {
        let append_ok = append_max.0.is_multiple_of(self.lba.into()) && append_max <= max_io;
        rule("append_max", append_ok, format_size(append_max.0), || {
            format!("a multiple of lba={} up to max_io={}", self.lba, format_size(max_io.0))
        })
    }

    /// `memory`, of a device of this size.
    pub fn memory(memory: bool, capacity: Bytes) -> Result<(), ConfigError> {
        let capacity_ok = !memory || capacity <= MAX_MEMORY;
        rule("memory", capacity_ok, format!("true for {}", format_size(capacity.0)), || {
            format!("a device of at most {}", format_size(MAX_MEMORY.0))
        })
    }

    /// The size of a device of this many zones.
    pub fn capacity(zones: u32, zone_size: Bytes) -> Result<Bytes, ConfigError> {
        let capacity = u64::from(zones).checked_mul(zone_size.0);
        let error = || ConfigError::CapacityOverflow { zones, zone_size: format_size(zone_size.0) };
        capacity.map(Bytes).ok_or_else(error)
    }
}
