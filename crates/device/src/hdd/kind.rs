//! The rotating disk as a kind of device.
use super::{HddConfig, HddDevice, HostInterface, Recording};
use crate::config::{ConfigError, DeviceConfig, Kind, ZoneStates};
use crate::control::DeviceControl;
use crate::quantity::{format_rate, format_size};
use crate::storage::with_written;
use std::sync::Arc;
use zonal_blk::{Bytes, Limits};

pub(crate) static KIND: Kind = Kind {
    name: "hdd",
    options: HddConfig::OPTIONS,
    profiles: &[
        ("smr-30t", include_str!("../../profiles/smr-30t.toml")),
        ("smr-30t-mpi3mr", include_str!("../../profiles/smr-30t-mpi3mr.toml")),
        ("smr-20t", include_str!("../../profiles/smr-20t.toml")),
        ("sata-2009", include_str!("../../profiles/sata-2009.toml")),
    ],
    scopes: ["recording=smr", "recording=cmr"],
    default: || Box::new(HddConfig::default()),
};

impl DeviceConfig for HddConfig {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn is_zoned(&self) -> bool {
        self.recording == Recording::Smr
    }

    fn zone_capacity(&self) -> Bytes {
        self.zone_size
    }

    fn validate(&self) -> Result<(), ConfigError> {
        self.validate()
    }

    fn limits(&self) -> Result<Limits, ConfigError> {
        self.limits()
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
        if self.error_rate > 0 {
            parts.push(format!("{} errors in a million from seed {}", self.error_rate, self.seed));
        }
        parts
    }

    fn build(&self) -> Result<Arc<dyn DeviceControl>, ConfigError> {
        Ok(with_written(HddDevice::new(self)?, &self.written))
    }

    fn timing(
        &self,
        _state: &ZoneStates<'_>,
    ) -> Result<Option<Arc<dyn DeviceControl>>, ConfigError> {
        Ok(Some(Arc::new(HddDevice::timing(self)?)))
    }
}
