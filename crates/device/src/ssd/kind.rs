//! The ordinary flash drive's facts as a kind of device.
use super::prefill::Prefill;
use super::{SsdConfig, SsdDevice};
use crate::config::{ConfigError, DeviceConfig, ZoneStates};
use crate::control::DeviceControl;
use crate::quantity::{format_percent, format_size, format_time};
use std::sync::Arc;
use zonal_blk::Bytes;

impl DeviceConfig for SsdConfig {
    fn is_zoned(&self) -> bool {
        false
    }

    fn zone_capacity(&self) -> Bytes {
        Bytes(0)
    }

    fn program_unit(&self) -> Option<Bytes> {
        Some(self.unit())
    }

    fn describe(&self) -> Vec<String> {
        let size = |bytes: Bytes| format_size(bytes.0);
        let mut parts = vec![
            format!("{} without zones", size(self.size)),
            format!("{} more flash", format_percent(self.overprovision.into())),
            format!("{}B blocks", self.lba),
            format!(
                "{} dies on {} channels, {} programmed in {}",
                self.dies,
                self.channels,
                size(self.unit()),
                format_time(self.program.0)
            ),
            format!("superblocks of {}", size(self.superblock())),
            format!("buffer {}", size(self.buffer)),
        ];
        parts.extend(self.map_text().map(|text| format!("map in memory: {text}")));
        parts.extend(self.placement_text());
        if self.prefill != Prefill::Empty {
            parts.push(format!("prefill {} from seed {}", self.prefill, self.seed));
        }
        parts
    }

    fn timing(
        &self,
        _state: &ZoneStates<'_>,
    ) -> Result<Option<Arc<dyn DeviceControl>>, ConfigError> {
        Ok(Some(Arc::new(SsdDevice::timing(self)?)))
    }
}
