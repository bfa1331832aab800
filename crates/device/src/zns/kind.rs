//! The ZNS drive as a kind of device.
use super::{ZnsConfig, ZnsDevice};
use crate::config::{ConfigError, DeviceConfig, Kind, ZoneStates};
use crate::control::DeviceControl;
use crate::quantity::{format_size, format_time};
use crate::storage::with_written;
use std::sync::Arc;
use zonal_blk::{Bytes, Limits};

pub(crate) static KIND: Kind = Kind {
    name: "zns",
    options: ZnsConfig::OPTIONS,
    profiles: &[
        ("zns-1t", include_str!("../../profiles/zns-1t.toml")),
        ("zn540", include_str!("../../profiles/zn540.toml")),
    ],
    scopes: ["", ""],
    default: || Box::new(ZnsConfig::default()),
};

impl DeviceConfig for ZnsConfig {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn is_zoned(&self) -> bool {
        true
    }

    fn zone_capacity(&self) -> Bytes {
        self.zone_capacity
    }

    fn program_unit(&self) -> Option<Bytes> {
        Some(self.unit())
    }

    fn validate(&self) -> Result<(), ConfigError> {
        self.validate()
    }

    fn limits(&self) -> Result<Limits, ConfigError> {
        self.limits()
    }

    fn describe(&self) -> Vec<String> {
        let size = |bytes: Bytes| format_size(bytes.0);
        let layout = self.layout();
        let mut parts = vec![format!("{} zones of {}", self.zones, size(self.zone_size))];
        if self.zone_capacity != self.zone_size {
            parts.push(format!("zone capacity {}", size(self.zone_capacity)));
        }
        for (count, what) in [(layout.open_limit(), "open"), (layout.active_limit(), "active")] {
            if count > 0 {
                parts.push(format!("{count} {what} at most"));
            }
        }
        if self.append_max.0 > 0 {
            parts.push(format!("appends up to {}", size(self.append_max)));
        }
        if self.zrwa.0 > 0 {
            parts.push(format!("random write areas of {}", size(self.zrwa)));
        }
        parts.push(format!("{}B blocks", self.lba));
        parts.push(format!(
            "{} dies on {} channels, {} to a zone, {} programmed in {}",
            self.dies,
            self.channels,
            self.zone_dies,
            size(self.unit()),
            format_time(self.program.0)
        ));
        parts.push(format!("buffer {}", size(self.buffer)));
        parts
    }

    fn build(&self) -> Result<Arc<dyn DeviceControl>, ConfigError> {
        Ok(with_written(ZnsDevice::new(self)?, &self.written))
    }

    fn timing(
        &self,
        state: &ZoneStates<'_>,
    ) -> Result<Option<Arc<dyn DeviceControl>>, ConfigError> {
        Ok(Some(Arc::new(ZnsDevice::timing(self, state)?)))
    }
}
