//! The rotating disk's facts as a kind of device.
use super::{HddConfig, HddDevice, HostInterface, Recording};
use crate::config::{ConfigError, DeviceConfig, ZoneStates};
use crate::control::DeviceControl;
use crate::quantity::{format_rate, format_size};
use std::sync::Arc;
use zonal_blk::Bytes;

impl DeviceConfig for HddConfig {
    fn is_zoned(&self) -> bool {
        self.recording == Recording::Smr
    }

    fn zone_capacity(&self) -> Bytes {
        self.zone_size
    }

    fn implied(&self, option: &str) -> Option<[(&'static str, &'static str); 2]> {
        (option == "hba").then(|| self.hba.limits()).flatten()
    }

    fn profile_of_this_size(&self) -> Option<String> {
        // A smaller disk may well have the tracks of the default.
        const LARGE: u64 = 4_000_000_000_000;
        let capacity = self.capacity().0;
        (self.is_zoned() && capacity >= LARGE)
            .then(|| format!("smr-{}t", (capacity as f64 / 1e12).round()))
    }

    fn describe(&self) -> Vec<String> {
        let size = |bytes: Bytes| format_size(bytes.0);
        let mut parts = Vec::new();
        match self.recording {
            Recording::Smr => {
                parts.push(format!("shingled, {} zones of {}", self.zones, size(self.zone_size)));
                for (count, what) in
                    [(self.conventional, "conventional"), (self.max_open, "open at most")]
                {
                    if count > 0 {
                        parts.push(format!("{count} {what}"));
                    }
                }
            }
            Recording::Cmr => parts.push(format!("{} without zones", size(self.size))),
        }
        parts.push(format!(
            "{} rpm, {} at the rim",
            self.rpm,
            format_rate(self.outer_rate() / 1_000_000 * 1_000_000)
        ));
        parts.push(match self.host {
            HostInterface::Ata => "one command at a time".to_owned(),
            HostInterface::Ahci => {
                format!("{} commands of up to {}", self.depth, size(self.max_io))
            }
        });
        parts.push(format!("{}B blocks", self.lba));
        if self.write_granularity > self.lba {
            parts.push(format!("zones written in {}", size(Bytes(self.write_granularity.into()))));
        }
        if self.error_rate > 0 {
            parts.push(format!("{} errors in a million from seed {}", self.error_rate, self.seed));
        }
        parts
    }

    fn timing(
        &self,
        _state: &ZoneStates<'_>,
    ) -> Result<Option<Arc<dyn DeviceControl>>, ConfigError> {
        Ok(Some(Arc::new(HddDevice::timing(self)?)))
    }
}
