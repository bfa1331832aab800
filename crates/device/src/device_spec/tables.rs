//! The options and profiles of each device. The parser, the help text and `docs/devices.md` come from
//! these tables.
use super::options::{OptionInfo, Scope, Unit};
use crate::hdd::{HddConfig, HostInterface, Order, Recording};
use crate::null::NullConfig;
use crate::quantity::{format_rate, format_size, format_time};
use crate::zns::ZnsConfig;
use std::convert::identity;
use zonal_blk::{Bytes, Nanos};

pub(super) const U16: u64 = u16::MAX as u64;
pub(super) const U32: u64 = u32::MAX as u64;

pub(super) fn to_u16(value: u64) -> u16 {
    u16::try_from(value).expect("the parser checked the option's maximum")
}

pub(super) fn to_u32(value: u64) -> u32 {
    u32::try_from(value).expect("the parser checked the option's maximum")
}

/// Any option: name, unit, default, scope, meaning, largest value, setter.
macro_rules! option {
    ($name:expr, $unit:expr, $default:literal, $scope:ident, $meaning:literal, $max:expr, $set:expr) => {
        OptionInfo {
            name: $name,
            unit: $unit,
            default: $default,
            scope: Scope::$scope,
            meaning: $meaning,
            max: $max,
            set: $set,
        }
    };
}

/// An option that sets the field of its name, with a conversion from the number.
macro_rules! field {
    ($name:ident, $unit:expr, $default:literal, $scope:ident, $meaning:literal, $max:expr, $from:expr) => {
        option!(stringify!($name), $unit, $default, $scope, $meaning, $max, |config, value| {
            config.$name = $from(value)
        })
    };
}

macro_rules! count {
    ($name:ident, $default:literal, $meaning:literal) => {
        count!($name, $default, Any, $meaning)
    };
    ($name:ident, $default:literal, $scope:ident, $meaning:literal) => {
        field!($name, Unit::Count, $default, $scope, $meaning, U32, to_u32)
    };
}

macro_rules! count16 {
    ($name:ident, $default:literal, $meaning:literal) => {
        field!($name, Unit::Count, $default, Any, $meaning, U16, to_u16)
    };
}

macro_rules! size {
    ($name:ident, $default:literal, $meaning:literal) => {
        size!($name, $default, Any, $meaning)
    };
    ($name:ident, $default:literal, $scope:ident, $meaning:literal) => {
        field!($name, Unit::Size, $default, $scope, $meaning, u64::MAX, Bytes)
    };
}

macro_rules! rate {
    ($name:ident, $default:literal, $meaning:literal) => {
        field!($name, Unit::Rate, $default, Any, $meaning, u64::MAX, Bytes)
    };
}

macro_rules! time {
    ($name:ident, $default:literal, $meaning:literal) => {
        field!($name, Unit::Time, $default, Any, $meaning, u64::MAX, Nanos)
    };
}

macro_rules! flag {
    ($name:ident, $default:literal, $meaning:literal) => {
        field!($name, Unit::Flag, $default, Any, $meaning, 1, is_set)
    };
}

/// The zones that are written, which the parser sets.
macro_rules! written {
    () => {
        option!(
            "written",
            Unit::Zones,
            "0%",
            Zoned,
            "zones that are written to their end, such as 100% or 0-99+200",
            0,
            |_, _| {}
        )
    };
}

const fn is_set(value: u64) -> bool {
    value != 0
}

pub(super) const NULL_SCOPES: [&str; 2] = ["zoned=true", "zoned=false"];
pub(super) const HDD_SCOPES: [&str; 2] = ["recording=smr", "recording=cmr"];

/// The built-in disk profiles: name and text.
pub const HDD_PROFILES: &[(&str, &str)] = &[
    ("smr-30t", include_str!("../../profiles/smr-30t.toml")),
    ("smr-30t-mpi3mr", include_str!("../../profiles/smr-30t-mpi3mr.toml")),
    ("smr-20t", include_str!("../../profiles/smr-20t.toml")),
    ("sata-2009", include_str!("../../profiles/sata-2009.toml")),
];

/// The built-in ZNS drive profiles: name and text.
pub const ZNS_PROFILES: &[(&str, &str)] = &[
    ("zns-1t", include_str!("../../profiles/zns-1t.toml")),
    ("zn540", include_str!("../../profiles/zn540.toml")),
];

/// The options of the null device, in the order of the help text.
pub const NULL_OPTIONS: &[OptionInfo<NullConfig>] = &[
    flag!(zoned, "true", "whether the device has zones"),
    count!(zones, "4096", Zoned, "number of zones"),
    size!(zone_size, "256M", Zoned, "distance between zone starts; need not be a power of two"),
    option!(
        "zone_capacity",
        Unit::Size,
        "zone_size",
        Zoned,
        "writable part of a sequential zone",
        u64::MAX,
        |config, value| config.zone_capacity = Some(Bytes(value))
    ),
    count!(conventional, "0", Zoned, "leading zones that are conventional"),
    option!(
        "max_open",
        Unit::Count,
        "128, or max_active if less",
        Zoned,
        "zones that may be open at once; 0 for no limit",
        U32,
        |config, value| config.max_open = Some(to_u32(value))
    ),
    count!(max_active, "0", Zoned, "zones that may be open or closed at once; 0 for no limit"),
    size!(append_max, "0", Zoned, "longest native zone append; 0 to have it emulated"),
    size!(size, "1T", Regular, "size of the device"),
    field!(lba, Unit::Size, "512", Any, "logical block size, 512 or 4096", U32, to_u32),
    count16!(queues, "65535", "hardware queues on offer, opened as they are needed"),
    count16!(depth, "1024", "commands in flight on one hardware queue"),
    time!(latency, "0", "how long a command takes"),
    time!(jitter, "0", "what a command takes longer, at random, less than this much"),
    field!(seed, Unit::Count, "0", Any, "seed of the jitter", u64::MAX, identity),
    size!(max_io, "1M", "longest command"),
    size!(zrwa, "0", Zoned, "random write area that a zone can be opened with; 0 for none"),
    size!(
        zrwa_granularity,
        "16K",
        Zoned,
        "what the write pointer moves by where there is such an area"
    ),
    count!(
        max_zrwa,
        "0",
        Zoned,
        "zones that may have such an area; 0 for as many as may be active"
    ),
    count!(
        descriptor_extension,
        "0",
        Zoned,
        "bytes that a host can keep with a zone, a multiple of 64"
    ),
    flag!(memory, "false", "whether data are kept, in memory"),
    written!(),
];

/// The options of rotating disks, in the order of the help text.
pub const HDD_OPTIONS: &[OptionInfo<HddConfig>] = &[
    option!(
        "recording",
        Unit::Choice(&["cmr", "smr"]),
        "cmr",
        Any,
        "tracks apart, or shingled in zones that are written in order",
        1,
        |config, value| {
            config.recording = if value == 0 { Recording::Cmr } else { Recording::Smr }
        }
    ),
    count!(zones, "4096", Zoned, "number of zones"),
    size!(zone_size, "256M", Zoned, "size of a zone"),
    count!(conventional, "0", Zoned, "leading zones that are conventional"),
    count!(max_open, "128", Zoned, "zones that may be open at once; 0 for no limit"),
    size!(size, "1T", Regular, "size of the disk"),
    field!(lba, Unit::Size, "512", Any, "logical block size, 512 or 4096", U32, to_u32),
    option!(
        "host",
        Unit::Choice(&["ata", "ahci"]),
        "ahci",
        Any,
        "one command at a time, or native command queueing",
        1,
        |config, value| {
            config.host = if value == 0 { HostInterface::Ata } else { HostInterface::Ahci }
        }
    ),
    count16!(depth, "32", "commands in flight with host=ahci"),
    size!(max_io, "1M", "longest command that the host adapter sends"),
    field!(link_rate, Unit::Rate, "550MB/s", Any, "speed of the link", u64::MAX, identity),
    time!(command, "20us", "what the controller spends on a command"),
    count!(rpm, "7200", "revolutions a minute"),
    count!(heads, "8", "recording surfaces"),
    count!(rings, "24", "recording zones: rings of tracks of one size"),
    size!(track_outer, "1536K", "size of the outermost tracks"),
    size!(track_inner, "768K", "size of the innermost tracks"),
    time!(skew, "800us", "from the end of a track to the start of the next"),
    field!(
        rate,
        Unit::Rate,
        "0B/s",
        Any,
        "sustained rate at the outer edge, checked against tracks and rpm; 0B/s for none",
        u64::MAX,
        identity
    ),
    time!(settle, "1200us", "shortest seek, and a change of heads"),
    time!(write_settle, "0", "what a seek before a write takes longer"),
    time!(seek_average, "8500us", "seek between random places, on average"),
    time!(seek_full, "16ms", "seek from edge to edge"),
    size!(cache, "16M", "buffer that writes pass through"),
    count!(cache_commands, "1024", "write commands that the buffer holds"),
    flag!(write_cache, "true", "whether a write is done when it is in the buffer"),
    size!(piece, "512K", "what moves into or out of the buffer at a time"),
    count!(
        stay,
        "200",
        "how long the head writes in a place before it leaves, in percent of the seek"
    ),
    size!(
        min_run,
        "0",
        "what the head writes in a place at least before it leaves, if it is there"
    ),
    size!(reserve, "0", "buffer kept free for each command that waits behind the first"),
    option!(
        "order",
        Unit::Choice(&["fifo", "satf"]),
        "satf",
        Any,
        "the drive takes the oldest first, or the shortest access time",
        1,
        |config, value| config.order = if value == 0 { Order::Fifo } else { Order::Satf }
    ),
    time!(max_age, "10s", "what has waited so long goes first"),
    size!(read_ahead, "256K", "what is read behind a read when there is nothing else to do"),
    count!(segments, "16", "ranges that the drive remembers having read"),
    time!(reset, "100us", "what a zone reset takes"),
    time!(finish, "100us", "what opening, closing or finishing a zone takes"),
    count!(error_rate, "0", "accesses in a million that need another turn"),
    count!(retries, "8", "turns after which the drive gives up"),
    field!(seed, Unit::Count, "0", Any, "seed of the errors", u64::MAX, identity),
    flag!(memory, "false", "whether data are kept, in memory"),
    written!(),
];

/// The options of the ZNS drive, in the order of the help text.
pub const ZNS_OPTIONS: &[OptionInfo<ZnsConfig>] = &[
    count!(zones, "904", "number of zones"),
    size!(zone_size, "2G", "distance between zone starts; need not be a power of two"),
    size!(zone_capacity, "1077M", "writable part of a zone"),
    count!(max_open, "14", "zones that may be open at once; 0 for no limit"),
    count!(max_active, "14", "zones that may be open or closed at once; 0 for no limit"),
    size!(append_max, "1M", "longest zone append; 0 to have it emulated"),
    field!(lba, Unit::Size, "4096", Any, "logical block size, 512 or 4096", U32, to_u32),
    count16!(queues, "32", "hardware queues on offer"),
    count16!(depth, "1023", "commands in flight on one hardware queue"),
    size!(max_io, "1M", "longest command"),
    time!(write_time, "17us", "controller, for a write before its data are moved"),
    time!(append_time, "17us", "controller, for a zone append before its data are moved"),
    time!(read_time, "2us", "controller, for a read"),
    time!(manage_time, "17us", "controller, for any other command"),
    time!(zone_switch, "4700ns", "what a write takes longer if the one before had another zone"),
    time!(
        latency,
        "0",
        "of each command besides controller, data and flash; commands overlap in it"
    ),
    time!(
        partial_time,
        "0",
        "with lba=512: a write, for each page and each 4K that it writes in part"
    ),
    rate!(link_rate, "2517MB/s", "from the host to the drive"),
    rate!(read_link_rate, "0", "from the drive to the host; 0 for link_rate"),
    time!(send_time, "0", "link to the host, for a read besides its data"),
    count!(reads, "0", "reads that the drive works on at once; 0 for no limit"),
    rate!(
        zone_rate,
        "1117MB/s",
        "what one zone takes into the write buffer; 0 for no limit of its own"
    ),
    size!(buffer, "32M", "write buffer"),
    count!(
        buffer_groups,
        "0",
        "groups of dies that each free buffer space in order; 0 for any order"
    ),
    flag!(power_safe, "true", "whether the buffer outlives a loss of power: flushes cost nothing"),
    count!(channels, "8", "buses between controller and dies"),
    count!(dies, "32", "dies, spread evenly over the channels"),
    count!(zone_dies, "32", "dies that a zone is striped over, a unit on each, in changing order"),
    count!(planes, "2", "planes of a die that work together"),
    size!(page, "16K", "page of a plane"),
    count!(cell_pages, "3", "pages of a plane that one program writes: bits of a cell"),
    size!(block, "18M", "erase block of a plane"),
    rate!(channel_rate, "1258MB/s", "on a channel"),
    time!(page_read, "65us", "sensing a page, in all planes"),
    count!(page_spread, "0", "what the slowest page of a cell takes longer to sense, in percent"),
    time!(transfer_time, "0", "channel, for each transfer from a die besides its data"),
    flag!(cache_read, "false", "whether a die senses the next page of a read while it sends one"),
    flag!(read_ahead, "false", "whether the drive reads ahead of a sequential stream"),
    rate!(
        stream_rate,
        "0",
        "to the host, of short reads that continue a stream and were not read ahead"
    ),
    time!(program, "1200us", "programming a unit: planes * cell_pages * page"),
    count!(program_spread, "0", "by how many percent, at most, a program takes more or less"),
    time!(erase, "3500us", "erasing a block, in all planes"),
    flag!(suspend, "false", "whether reads interrupt a program or an erase"),
    time!(suspend_time, "20us", "what an interruption costs"),
    time!(
        suspend_step,
        "0",
        "an interruption is possible each time that this much is done; 0 for any"
    ),
    time!(reset_time, "0", "a reset, besides the data; 0 to erase the zone's blocks at once"),
    rate!(reset_rate, "0", "data that a reset releases, with reset_time"),
    size!(zrwa, "0", "random write area that a zone can be opened with; 0 for none"),
    size!(zrwa_granularity, "16K", "what the write pointer moves by where there is such an area"),
    count!(max_zrwa, "0", "zones that may have such an area; 0 for as many as may be active"),
    count!(descriptor_extension, "0", "bytes that a host can keep with a zone, a multiple of 64"),
    time!(
        finish_recommended,
        "0",
        "the drive recommends to finish zones active for longer; 0: never"
    ),
    time!(finish_after, "0", "the drive finishes zones that are active for longer; 0: never"),
    time!(reset_recommended, "0", "the drive recommends to reset zones full for longer; 0: never"),
    flag!(memory, "false", "whether data are kept, in memory"),
    written!(),
];

/// The text of a built-in profile.
pub fn profile_text(name: &str) -> Option<&'static str> {
    profiles().find(|(known, _)| *known == name).map(|(_, text)| text)
}

/// The names of the built-in profiles, for messages.
pub fn profile_names() -> String {
    profiles().map(|(name, _)| name).collect::<Vec<&str>>().join(", ")
}

fn profiles() -> impl Iterator<Item = (&'static str, &'static str)> {
    HDD_PROFILES.iter().chain(ZNS_PROFILES).copied()
}

/// The help text on devices: a line for each option.
pub fn help() -> String {
    let mut help = String::from(
        "A device is `null`, `hdd`, `zns` or the name of a profile below, alone or with \
         `:option=value,...` behind it, or a file `NAME.toml` with `device = \"null\"` or another and \
         its options.\n\
         Sizes take K, M, G, T (powers of 1024); times need ns, us, ms or s; rates take kB/s, \
         MB/s, GB/s (powers of 1000).\n",
    );
    help.push_str(&format!("Profiles: {}.\n", profile_names()));
    help.push_str("\nOptions of null:\n\n");
    add_options(&mut help, NULL_OPTIONS, NULL_SCOPES);
    help.push_str("\nOptions of hdd, and `profile=NAME` before all others:\n\n");
    add_options(&mut help, HDD_OPTIONS, HDD_SCOPES);
    help.push_str("\nOptions of zns:\n\n");
    add_options(&mut help, ZNS_OPTIONS, [""; 2]);
    help
}

/// Adds a line for each option; `scopes` names what options of zoned and of regular devices need.
fn add_options<C>(help: &mut String, options: &[OptionInfo<C>], scopes: [&str; 2]) {
    let width = |text: fn(&OptionInfo<C>) -> &str| {
        let widths = options.iter().map(|option| text(option).len());
        widths.max().unwrap_or(0)
    };
    let names = width(|option| option.name);
    let defaults = width(|option| option.default);
    for option in options {
        let scope = match option.scope {
            Scope::Any => String::new(),
            // All of these devices have zones.
            Scope::Zoned if scopes[0].is_empty() => String::new(),
            Scope::Zoned => format!(" ({})", scopes[0]),
            Scope::Regular => format!(" ({})", scopes[1]),
        };
        help.push_str(&format!(
            "  {:names$}  {:5}  {:defaults$}  {}{scope}\n",
            option.name,
            option.unit.name(),
            option.default,
            option.meaning,
        ));
    }
}

/// Describes a null device in one line, for reports.
pub(super) fn describe_null(config: &NullConfig) -> String {
    let size = |bytes: Bytes| format_size(bytes.0);
    let mut parts = vec!["null".to_owned()];
    if config.zoned {
        let layout = config.layout();
        parts.push(format!("{} zones of {}", config.zones, size(config.zone_size)));
        if layout.zone_capacity != layout.zone_size {
            parts.push(format!("zone capacity {}", size(config.effective_zone_capacity())));
        }
        let (open, active) = (layout.open_limit(), layout.active_limit());
        for (count, what) in [
            (config.conventional, "conventional"),
            (open, "open at most"),
            (active, "active at most"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        if config.append_max.0 > 0 {
            parts.push(format!("appends up to {}", size(config.append_max)));
        }
        if config.zrwa.0 > 0 {
            parts.push(format!("random write areas of {}", size(config.zrwa)));
        }
    } else {
        parts.push(format!("{} without zones", size(config.size)));
    }
    parts.push(format!("{}B blocks", config.lba));
    if config.latency.0 > 0 {
        parts.push(format!("latency {}", format_time(config.latency.0)));
    }
    if config.jitter.0 > 0 {
        let jitter = format_time(config.jitter.0);
        parts.push(format!("jitter {jitter} from seed {}", config.seed));
    }
    if config.memory {
        parts.push("data in memory".to_owned());
    }
    parts.join(", ")
}

/// Describes a disk in one line, for reports.
pub(super) fn describe_hdd(config: &HddConfig) -> String {
    let size = |bytes: Bytes| format_size(bytes.0);
    let mut parts = vec!["hdd".to_owned()];
    match config.recording {
        Recording::Smr => {
            parts.push(format!("shingled, {} zones of {}", config.zones, size(config.zone_size)));
            for (count, what) in
                [(config.conventional, "conventional"), (config.max_open, "open at most")]
            {
                if count > 0 {
                    parts.push(format!("{count} {what}"));
                }
            }
        }
        Recording::Cmr => parts.push(format!("{} without zones", size(config.size))),
    }
    parts.push(format!(
        "{} rpm, {} at the rim",
        config.rpm,
        format_rate(config.outer_rate() / 1_000_000 * 1_000_000)
    ));
    parts.push(match config.host {
        HostInterface::Ata => "one command at a time".to_owned(),
        HostInterface::Ahci => {
            format!("{} commands of up to {}", config.depth, size(config.max_io))
        }
    });
    parts.push(format!("{}B blocks", config.lba));
    if config.error_rate > 0 {
        parts.push(format!("{} errors in a million from seed {}", config.error_rate, config.seed));
    }
    if config.memory {
        parts.push("data in memory".to_owned());
    }
    parts.join(", ")
}

/// Describes the drive in one line, for reports.
pub(super) fn describe_zns(config: &ZnsConfig) -> String {
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

    fn check_defaults<C: Clone + Default + PartialEq + std::fmt::Debug>(options: &[OptionInfo<C>]) {
        for option in options {
            // Defaults in words depend on other options; the configuration has them as `None`.
            if let Ok(value) = option.unit.parse(option.default) {
                let mut config = C::default();
                (option.set)(&mut config, value);
                assert_eq!(config, C::default(), "{}", option.name);
            }
        }
    }

    #[test]
    fn every_default_in_the_tables_is_that_of_the_configuration() {
        check_defaults(NULL_OPTIONS);
        check_defaults(HDD_OPTIONS);
        check_defaults(ZNS_OPTIONS);
    }
}
