//! What a ZNS drive tells of itself.
use super::{ZnsDevice, time_of};
use crate::control::{DeviceControl, Estimate, EstimatedLoad};
use crate::quantity::{format_rate, format_size, format_time};
use zonal_blk::{Sector, Status, ZoneCondition, ZoneNo};

/// Bytes of a random read.
const READ: u64 = 4096;

impl DeviceControl for ZnsDevice {
    fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        if zone.0 >= self.limits.nr_zones {
            return Err(Status::Invalid);
        }
        self.medium.zones()?.set_condition(zone, to, || self.medium.forget(zone, Sector(0)))?;
        self.moved(zone);
        Ok(())
    }

    fn characteristics(&self) -> Vec<(&'static str, String)> {
        let config = &self.config;
        vec![
            (
                "controller",
                format!(
                    "{} a write, {} a read, {} more for another zone",
                    format_time(config.write_time.0),
                    format_time(config.read_time.0),
                    format_time(config.zone_switch.0)
                ),
            ),
            ("link", format_rate(config.link_rate.0)),
            ("a zone's way in", format_rate(config.zone_rate.0)),
            ("write buffer", format_size(config.buffer.0)),
            (
                "flash",
                format!(
                    "{} dies on {} channels of {}, {} to a zone",
                    config.dies,
                    config.channels,
                    format_rate(config.channel_rate.0),
                    config.zone_dies
                ),
            ),
            (
                "unit",
                format!(
                    "{} programmed in {}, {} the dies of a zone, {} all",
                    format_size(config.unit().0),
                    format_time(config.program.0),
                    format_rate(config.program_rate(config.zone_dies).0),
                    format_rate(config.program_rate(config.dies).0)
                ),
            ),
        ]
    }

    fn estimates(&self) -> Vec<Estimate> {
        let config = &self.config;
        let zone = |load| Estimate {
            load,
            value: config.zone_rate.0 as f64,
            from: "zone_rate".to_owned(),
        };
        let read = config.read_time + config.page_read + time_of(READ, config.channel_rate);
        let read = read + time_of(READ, config.link_rate);
        vec![
            zone(EstimatedLoad::SequentialAtStart),
            zone(EstimatedLoad::SequentialAtEnd),
            Estimate {
                load: EstimatedLoad::RandomReads,
                value: 1e9 / read.0 as f64,
                from: "controller, page read and two transfers".to_owned(),
            },
        ]
    }
}
