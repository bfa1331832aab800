//! What a ZNS drive tells of itself.
use super::{ZnsDevice, time_of};
use crate::medium::Medium;
use crate::model::{Estimate, Load, Model};
use crate::quantity::{show_rate, show_size, show_time};
use zonal_blk::{Status, ZoneCondition, ZoneNo};

/// Bytes of a random read.
const READ: u64 = 4096;

impl Model for ZnsDevice {
    fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        Medium::set_condition(self, zone, to)
    }

    fn characteristics(&self) -> Vec<(&'static str, String)> {
        let config = &self.config;
        vec![
            (
                "controller",
                format!(
                    "{} a write, {} a read, {} more for another zone",
                    show_time(config.write_time.0),
                    show_time(config.read_time.0),
                    show_time(config.zone_switch.0)
                ),
            ),
            ("link", show_rate(config.link_rate.0)),
            ("a zone's way in", show_rate(config.zone_rate.0)),
            ("write buffer", show_size(config.buffer.0)),
            (
                "flash",
                format!(
                    "{} dies on {} channels of {}, {} to a zone",
                    config.dies,
                    config.channels,
                    show_rate(config.channel_rate.0),
                    config.zone_dies
                ),
            ),
            (
                "unit",
                format!(
                    "{} programmed in {}, {} the dies of a zone, {} all",
                    show_size(config.unit().0),
                    show_time(config.program.0),
                    show_rate(config.program_rate(config.zone_dies).0),
                    show_rate(config.program_rate(config.dies).0)
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
            zone(Load::SequentialAtStart),
            zone(Load::SequentialAtEnd),
            Estimate {
                load: Load::RandomReads,
                value: 1e9 / read.0 as f64,
                from: "controller, page read and two transfers".to_owned(),
            },
        ]
    }
}
