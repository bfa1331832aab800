//! The ZNS drive's facts as a kind of device.
use super::{ZnsConfig, ZnsDevice};
use crate::config::{ConfigError, DeviceConfig, ZoneStates};
use crate::control::DeviceControl;
use crate::quantity::{format_size, format_time};
use std::sync::Arc;
use zonal_blk::Bytes;

impl DeviceConfig for ZnsConfig {
    fn is_zoned(&self) -> bool {
        true
    }

    fn zone_capacity(&self) -> Bytes {
        self.zone_capacity
    }

    fn program_unit(&self) -> Option<Bytes> {
        Some(self.unit())
    }

    fn log_interval(&self) -> Bytes {
        self.log_interval
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

    fn timing(
        &self,
        state: &ZoneStates<'_>,
    ) -> Result<Option<Arc<dyn DeviceControl>>, ConfigError> {
        Ok(Some(Arc::new(ZnsDevice::timing(self, state)?)))
    }
}
