//! The null device's facts as a kind of device.
use super::{NullConfig, NullDevice};
use crate::config::{ConfigError, DeviceConfig, ZoneStates};
use crate::control::DeviceControl;
use crate::quantity::{format_size, format_time};
use std::sync::Arc;
use zonal_blk::{Bytes, Nanos};

impl DeviceConfig for NullConfig {
    fn is_zoned(&self) -> bool {
        self.zoned
    }

    fn zone_capacity(&self) -> Bytes {
        self.effective_zone_capacity()
    }

    fn describe(&self) -> Vec<String> {
        let size = |bytes: Bytes| format_size(bytes.0);
        let mut parts = Vec::new();
        if self.zoned {
            let layout = self.layout();
            parts.push(format!("{} zones of {}", self.zones, size(self.zone_size)));
            if layout.zone_capacity != layout.zone_size {
                parts.push(format!("zone capacity {}", size(self.effective_zone_capacity())));
            }
            let (open, active) = (layout.open_limit(), layout.active_limit());
            for (count, what) in [
                (self.conventional, "conventional"),
                (open, "open at most"),
                (active, "active at most"),
            ] {
                if count > 0 {
                    parts.push(format!("{count} {what}"));
                }
            }
            if self.append_max.0 > 0 {
                parts.push(format!("appends up to {}", size(self.append_max)));
            }
            if self.zrwa.0 > 0 {
                parts.push(format!("random write areas of {}", size(self.zrwa)));
            }
        } else {
            parts.push(format!("{} without zones", size(self.size)));
        }
        parts.push(format!("{}B blocks", self.lba));
        if self.latency.0 > 0 {
            parts.push(format!("latency {}", format_time(self.latency.0)));
        }
        if self.jitter.0 > 0 {
            let jitter = format_time(self.jitter.0);
            parts.push(format!("jitter {jitter} from seed {}", self.seed));
        }
        parts
    }

    fn timing(
        &self,
        _state: &ZoneStates<'_>,
    ) -> Result<Option<Arc<dyn DeviceControl>>, ConfigError> {
        if (self.latency, self.jitter) == (Nanos(0), Nanos(0)) {
            return Ok(None);
        }
        // A regular device: it has no zones whose state could differ.
        let config = NullConfig { zoned: false, memory: false, ..self.clone() };
        Ok(Some(Arc::new(NullDevice::new(&config)?)))
    }
}
