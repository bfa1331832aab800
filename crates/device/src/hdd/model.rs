//! What a rotating disk tells of itself.
use super::{Counters, HddConfig, HddDevice, Recording, SeekCurve};
use crate::control::{DeviceControl, DeviceStats, Estimate, EstimatedLoad};
use crate::quantity::{format_rate, format_size, format_time};
use zonal_blk::{Bytes, Status, ZoneCondition, ZoneNo};

impl DeviceControl for HddDevice {
    fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        self.store.device()?.set_condition(zone, to)
    }

    fn characteristics(&self) -> Vec<(&'static str, String)> {
        let config = &self.config;
        let seek = SeekCurve::new(config);
        let millis = |nanos: u64| format!("{:.2} ms", nanos as f64 / 1e6);
        let track = |bytes: Bytes| format_size(bytes.0);
        let rings = u64::from(config.rings);
        let average = (config.track_outer.0 + config.track_inner.0) / 2;
        vec![
            (
                "recording",
                if config.recording == Recording::Smr { "shingled" } else { "conventional" }
                    .to_owned(),
            ),
            (
                "rotation",
                format!("{} a minute, {} a turn", config.rpm, millis(config.revolution().0)),
            ),
            ("heads", config.heads.to_string()),
            (
                "tracks",
                format!(
                    "{} a surface in {rings} rings, of {} to {}",
                    config.capacity().0 / average / u64::from(config.heads),
                    track(config.track_outer),
                    track(config.track_inner)
                ),
            ),
            ("head or track switch", millis(config.skew.0)),
            (
                "seek",
                format!(
                    "settle {}, average {}, full {}",
                    millis(seek.time(0.0)),
                    millis(config.seek_average.0),
                    millis(seek.time(1.0))
                ),
            ),
            (
                "link",
                format!(
                    "{}, {} a command",
                    format_rate(config.link_rate),
                    format_time(config.command.0)
                ),
            ),
            ("commands at once", config.queue_depth().to_string()),
            (
                "write buffer",
                if config.write_cache { format_size(config.cache.0) } else { "off".to_owned() },
            ),
            (
                "read ahead",
                format!("{} in {} segments", format_size(config.read_ahead.0), config.segments),
            ),
        ]
    }

    fn estimates(&self) -> Vec<Estimate> {
        let config = &self.config;
        let rate = |load, track: Bytes, which: &str| {
            let time = (config.revolution() + config.skew).0 as f64 / 1e9;
            let from = format!("the {which} track in a turn and a head switch");
            Estimate { load, value: track.0 as f64 / time, from }
        };
        vec![
            rate(EstimatedLoad::SequentialAtStart, config.track_outer, "outermost"),
            rate(EstimatedLoad::SequentialAtEnd, config.track_inner, "innermost"),
            random_reads(config),
        ]
    }

    fn stats(&self) -> DeviceStats {
        let Counters {
            seeks,
            seek_time,
            rotate_time,
            transfer_time,
            idle_time,
            cache_hits,
            full_waits,
            retries,
        } = self.counters();
        DeviceStats {
            counts: vec![
                ("seeks", seeks),
                ("reads without an access", cache_hits),
                ("writes that found the buffer full", full_waits),
                ("turns to try again", retries),
            ],
            times: vec![
                ("seeks", seek_time),
                ("rotation", rotate_time),
                ("transfer", transfer_time),
                ("idle", idle_time),
            ],
        }
    }
}

fn random_reads(config: &HddConfig) -> Estimate {
    let nanos = config.command.0 + config.seek_average.0 + config.revolution().0 / 2;
    Estimate {
        load: EstimatedLoad::RandomReads,
        value: 1e9 / nanos as f64,
        from: "command, average seek and half a turn".to_owned(),
    }
}
