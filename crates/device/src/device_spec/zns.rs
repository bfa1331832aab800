//! The options of the ZNS drive, and its description in a line.
use super::options::{OptionInfo, Scope, U16, U32, Unit, to_u16, to_u32};
use crate::quantity::{format_size, format_time};
use crate::zns::ZnsConfig;
use zonal_blk::{Bytes, Nanos};

/// A count of 32 bits.
macro_rules! count {
    ($name:ident, $default:literal, $meaning:literal) => {
        option!($name, Unit::Count, $default, $meaning, U32, to_u32)
    };
}

macro_rules! size {
    ($name:ident, $default:literal, $meaning:literal) => {
        option!($name, Unit::Size, $default, $meaning, u64::MAX, Bytes)
    };
}

macro_rules! rate {
    ($name:ident, $default:literal, $meaning:literal) => {
        option!($name, Unit::Rate, $default, $meaning, u64::MAX, Bytes)
    };
}

macro_rules! time {
    ($name:ident, $default:literal, $meaning:literal) => {
        option!($name, Unit::Time, $default, $meaning, u64::MAX, Nanos)
    };
}

macro_rules! flag {
    ($name:ident, $default:literal, $meaning:literal) => {
        option!($name, Unit::Flag, $default, $meaning, 1, is_set)
    };
}

/// An option that sets the field of its name.
macro_rules! option {
    ($name:ident, $unit:expr, $default:literal, $meaning:literal, $max:expr, $from:expr) => {
        OptionInfo {
            name: stringify!($name),
            unit: $unit,
            default: $default,
            scope: Scope::Any,
            meaning: $meaning,
            max: $max,
            set: |config, value| config.$name = $from(value),
        }
    };
}

const fn is_set(value: u64) -> bool {
    value != 0
}

/// The profiles that the program has, by name, with their text.
pub const ZNS_PROFILES: &[(&str, &str)] = &[("zns-1t", include_str!("../../profiles/zns-1t.toml"))];

/// The options of the ZNS drive, in the order of the help text.
pub const ZNS_OPTIONS: &[OptionInfo<ZnsConfig>] = &[
    count!(zones, "904", "number of zones"),
    size!(zone_size, "2G", "distance between zone starts; need not be a power of two"),
    size!(zone_capacity, "1077M", "writable part of a zone"),
    count!(max_open, "14", "zones that may be open at once; 0 for no limit"),
    count!(max_active, "14", "zones that may be open or closed at once; 0 for no limit"),
    size!(append_max, "1M", "longest zone append; 0 to have it emulated"),
    option!(lba, Unit::Size, "4096", "logical block size, 512 or 4096", U32, to_u32),
    option!(queues, Unit::Count, "32", "hardware queues on offer", U16, to_u16),
    option!(depth, Unit::Count, "1023", "commands in flight on one hardware queue", U16, to_u16),
    size!(max_io, "1M", "longest command"),
    time!(write_time, "17us", "controller, for a write before its data are moved"),
    time!(append_time, "17us", "controller, for a zone append before its data are moved"),
    time!(read_time, "10us", "controller, for a read"),
    time!(manage_time, "17us", "controller, for any other command"),
    time!(zone_switch, "4700ns", "what a write takes longer if the one before had another zone"),
    rate!(link_rate, "2517MB/s", "between host and drive"),
    rate!(zone_rate, "1117MB/s", "what one zone takes into the write buffer"),
    size!(buffer, "32M", "write buffer"),
    flag!(power_safe, "true", "whether the buffer outlives a loss of power: flushes cost nothing"),
    count!(channels, "8", "buses between controller and dies"),
    count!(dies, "32", "dies, spread evenly over the channels"),
    count!(zone_dies, "16", "dies that a zone is striped over, a unit each in turn"),
    count!(planes, "2", "planes of a die that work together"),
    size!(page, "16K", "page of a plane"),
    count!(cell_pages, "3", "pages of a plane that one program writes: bits of a cell"),
    size!(block, "18M", "erase block of a plane"),
    rate!(channel_rate, "1258MB/s", "on a channel"),
    time!(page_read, "65us", "sensing a page, in all planes"),
    time!(program, "1200us", "programming a unit: planes * cell_pages * page"),
    time!(erase, "3500us", "erasing a block, in all planes"),
    flag!(suspend, "false", "whether reads interrupt a program or an erase"),
    time!(suspend_time, "20us", "what an interruption costs"),
    size!(zrwa, "0", "random write area of each active zone; 0 for none"),
    size!(zrwa_granularity, "16K", "what the write pointer moves by where there is such an area"),
    flag!(memory, "false", "whether data are kept, in memory"),
];

/// Describes the drive in one line, for reports.
pub(super) fn describe(config: &ZnsConfig) -> String {
    let size = |bytes: Bytes| format_size(bytes.0);
    let layout = config.layout();
    let mut parts = vec!["zns".to_owned()];
    parts.push(format!("{} zones of {}", config.zones, size(config.zone_size)));
    if config.zone_capacity != config.zone_size {
        parts.push(format!("zone capacity {}", size(config.zone_capacity)));
    }
    for (count, what) in [(layout.open_limit(), "open"), (layout.active_limit(), "active")] {
        if count > 0 {
            parts.push(format!("{count} {what} at most"));
        }
    }
    if config.append_max.0 > 0 {
        parts.push(format!("appends up to {}", size(config.append_max)));
    }
    if config.zrwa.0 > 0 {
        parts.push(format!("random write areas of {}", size(config.zrwa)));
    }
    parts.push(format!("{}B blocks", config.lba));
    parts.push(format!(
        "{} dies on {} channels, {} to a zone, {} programmed in {}",
        config.dies,
        config.channels,
        config.zone_dies,
        size(config.unit()),
        format_time(config.program.0)
    ));
    parts.push(format!("buffer {}", size(config.buffer)));
    if config.memory {
        parts.push("data in memory".to_owned());
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_in_the_table_is_the_configurations() {
        for option in ZNS_OPTIONS {
            let value = option.unit.parse(option.default).expect("a default is a value");
            let mut config = ZnsConfig::default();
            (option.set)(&mut config, value);
            assert_eq!(config, ZnsConfig::default(), "{}", option.name);
        }
    }
}
