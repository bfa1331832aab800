//! The specification of rotating disks: their options, and the profiles that the program has.
//!
//! Takes `hdd`, the name of a profile, and options; gives a configuration to check.
use super::options::{OptionInfo, Scope, U16, U32, Unit, to_u16, to_u32};
use super::{DeviceSpec, SpecError, parse_profile};
use crate::hdd::{HddConfig, HostInterface, Order, Recording};
use crate::quantity::{format_rate, format_size};
use zonal_blk::{Bytes, Nanos};

/// What shingled and conventional disks are called where an option is for one of them.
pub(super) const HDD_SCOPES: [&str; 2] = ["recording=smr", "recording=cmr"];

/// The profiles that the program has, by name, with their text.
pub const HDD_PROFILES: &[(&str, &str)] = &[
    ("smr-30t", include_str!("../../profiles/smr-30t.toml")),
    ("smr-30t-mpi3mr", include_str!("../../profiles/smr-30t-mpi3mr.toml")),
    ("smr-20t", include_str!("../../profiles/smr-20t.toml")),
    ("sata-2009", include_str!("../../profiles/sata-2009.toml")),
];

/// The names of the profiles, for messages.
pub(super) fn profile_names() -> String {
    let names: Vec<&str> = HDD_PROFILES.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// A disk so far.
pub(super) struct HddSpec {
    pub(super) config: HddConfig,
}

impl HddSpec {
    /// Begins with a profile; `late` if there are options already, which it would undo.
    pub(super) fn apply_profile(&mut self, name: &str, late: bool) -> Result<(), SpecError> {
        let known = HDD_PROFILES.iter().find(|(profile, _)| *profile == name);
        let Some((_, text)) = known.filter(|_| !late) else {
            let form = if late {
                "it before all other options".to_owned()
            } else {
                format!("one of {}", profile_names())
            };
            let found = name.to_owned();
            return Err(SpecError::BadValue { option: "profile", found, form, max: None });
        };
        if let DeviceSpec::Hdd(config) = parse_profile(name, text)? {
            self.config = *config;
        }
        Ok(())
    }

    pub(super) fn is_zoned(&self) -> bool {
        self.config.recording == Recording::Smr
    }
}

/// Describes a disk in one line, for reports.
pub(super) fn describe(config: &HddConfig) -> String {
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

/// The options of rotating disks, in the order of the help text.
pub const HDD_OPTIONS: &[OptionInfo<HddConfig>] = &[
    OptionInfo {
        name: "recording",
        unit: Unit::Choice(&["cmr", "smr"]),
        default: "cmr",
        scope: Scope::Any,
        meaning: "tracks apart, or shingled in zones that are written in order",
        max: 1,
        set: |config, value| {
            config.recording = if value == 0 { Recording::Cmr } else { Recording::Smr }
        },
    },
    OptionInfo {
        name: "zones",
        unit: Unit::Count,
        default: "4096",
        scope: Scope::Zoned,
        meaning: "number of zones",
        max: U32,
        set: |config, value| config.zones = to_u32(value),
    },
    OptionInfo {
        name: "zone_size",
        unit: Unit::Size,
        default: "256M",
        scope: Scope::Zoned,
        meaning: "size of a zone",
        max: u64::MAX,
        set: |config, value| config.zone_size = Bytes(value),
    },
    OptionInfo {
        name: "conventional",
        unit: Unit::Count,
        default: "0",
        scope: Scope::Zoned,
        meaning: "leading zones that are conventional",
        max: U32,
        set: |config, value| config.conventional = to_u32(value),
    },
    OptionInfo {
        name: "max_open",
        unit: Unit::Count,
        default: "128",
        scope: Scope::Zoned,
        meaning: "zones that may be open at once; 0 for no limit",
        max: U32,
        set: |config, value| config.max_open = to_u32(value),
    },
    OptionInfo {
        name: "size",
        unit: Unit::Size,
        default: "1T",
        scope: Scope::Regular,
        meaning: "size of the disk",
        max: u64::MAX,
        set: |config, value| config.size = Bytes(value),
    },
    OptionInfo {
        name: "lba",
        unit: Unit::Size,
        default: "512",
        scope: Scope::Any,
        meaning: "logical block size, 512 or 4096",
        max: U32,
        set: |config, value| config.lba = to_u32(value),
    },
    OptionInfo {
        name: "host",
        unit: Unit::Choice(&["ata", "ahci"]),
        default: "ahci",
        scope: Scope::Any,
        meaning: "one command at a time, or native command queueing",
        max: 1,
        set: |config, value| {
            config.host = if value == 0 { HostInterface::Ata } else { HostInterface::Ahci }
        },
    },
    OptionInfo {
        name: "depth",
        unit: Unit::Count,
        default: "32",
        scope: Scope::Any,
        meaning: "commands in flight with host=ahci",
        max: U16,
        set: |config, value| config.depth = to_u16(value),
    },
    OptionInfo {
        name: "max_io",
        unit: Unit::Size,
        default: "1M",
        scope: Scope::Any,
        meaning: "longest command that the host adapter sends",
        max: u64::MAX,
        set: |config, value| config.max_io = Bytes(value),
    },
    OptionInfo {
        name: "link_rate",
        unit: Unit::Rate,
        default: "550MB/s",
        scope: Scope::Any,
        meaning: "speed of the link",
        max: u64::MAX,
        set: |config, value| config.link_rate = value,
    },
    OptionInfo {
        name: "command",
        unit: Unit::Time,
        default: "20us",
        scope: Scope::Any,
        meaning: "what the controller spends on a command",
        max: u64::MAX,
        set: |config, value| config.command = Nanos(value),
    },
    OptionInfo {
        name: "rpm",
        unit: Unit::Count,
        default: "7200",
        scope: Scope::Any,
        meaning: "revolutions a minute",
        max: U32,
        set: |config, value| config.rpm = to_u32(value),
    },
    OptionInfo {
        name: "heads",
        unit: Unit::Count,
        default: "8",
        scope: Scope::Any,
        meaning: "recording surfaces",
        max: U32,
        set: |config, value| config.heads = to_u32(value),
    },
    OptionInfo {
        name: "rings",
        unit: Unit::Count,
        default: "24",
        scope: Scope::Any,
        meaning: "recording zones: rings of tracks of one size",
        max: U32,
        set: |config, value| config.rings = to_u32(value),
    },
    OptionInfo {
        name: "track_outer",
        unit: Unit::Size,
        default: "1536K",
        scope: Scope::Any,
        meaning: "size of the outermost tracks",
        max: u64::MAX,
        set: |config, value| config.track_outer = Bytes(value),
    },
    OptionInfo {
        name: "track_inner",
        unit: Unit::Size,
        default: "768K",
        scope: Scope::Any,
        meaning: "size of the innermost tracks",
        max: u64::MAX,
        set: |config, value| config.track_inner = Bytes(value),
    },
    OptionInfo {
        name: "skew",
        unit: Unit::Time,
        default: "800us",
        scope: Scope::Any,
        meaning: "from the end of a track to the start of the next",
        max: u64::MAX,
        set: |config, value| config.skew = Nanos(value),
    },
    OptionInfo {
        name: "rate",
        unit: Unit::Rate,
        default: "0B/s",
        scope: Scope::Any,
        meaning: "sustained rate at the outer edge, checked against tracks and rpm; 0B/s for none",
        max: u64::MAX,
        set: |config, value| config.rate = value,
    },
    OptionInfo {
        name: "settle",
        unit: Unit::Time,
        default: "1200us",
        scope: Scope::Any,
        meaning: "shortest seek, and a change of heads",
        max: u64::MAX,
        set: |config, value| config.settle = Nanos(value),
    },
    OptionInfo {
        name: "seek_average",
        unit: Unit::Time,
        default: "8500us",
        scope: Scope::Any,
        meaning: "seek between random places, on average",
        max: u64::MAX,
        set: |config, value| config.seek_average = Nanos(value),
    },
    OptionInfo {
        name: "seek_full",
        unit: Unit::Time,
        default: "16ms",
        scope: Scope::Any,
        meaning: "seek from edge to edge",
        max: u64::MAX,
        set: |config, value| config.seek_full = Nanos(value),
    },
    OptionInfo {
        name: "cache",
        unit: Unit::Size,
        default: "16M",
        scope: Scope::Any,
        meaning: "buffer that writes pass through",
        max: u64::MAX,
        set: |config, value| config.cache = Bytes(value),
    },
    OptionInfo {
        name: "cache_commands",
        unit: Unit::Count,
        default: "1024",
        scope: Scope::Any,
        meaning: "write commands that the buffer holds",
        max: U32,
        set: |config, value| config.cache_commands = to_u32(value),
    },
    OptionInfo {
        name: "write_cache",
        unit: Unit::Flag,
        default: "true",
        scope: Scope::Any,
        meaning: "whether a write is done when it is in the buffer",
        max: 1,
        set: |config, value| config.write_cache = value != 0,
    },
    OptionInfo {
        name: "piece",
        unit: Unit::Size,
        default: "512K",
        scope: Scope::Any,
        meaning: "what moves into or out of the buffer at a time",
        max: u64::MAX,
        set: |config, value| config.piece = Bytes(value),
    },
    OptionInfo {
        name: "stay",
        unit: Unit::Count,
        default: "200",
        scope: Scope::Any,
        meaning: "how long the head writes in a place before it leaves, in percent of the seek",
        max: U32,
        set: |config, value| config.stay = to_u32(value),
    },
    OptionInfo {
        name: "reserve",
        unit: Unit::Size,
        default: "0",
        scope: Scope::Any,
        meaning: "buffer kept free for each command that waits behind the first",
        max: u64::MAX,
        set: |config, value| config.reserve = Bytes(value),
    },
    OptionInfo {
        name: "order",
        unit: Unit::Choice(&["fifo", "satf"]),
        default: "satf",
        scope: Scope::Any,
        meaning: "the drive takes the oldest first, or the shortest access time",
        max: 1,
        set: |config, value| config.order = if value == 0 { Order::Fifo } else { Order::Satf },
    },
    OptionInfo {
        name: "max_age",
        unit: Unit::Time,
        default: "10s",
        scope: Scope::Any,
        meaning: "what has waited so long goes first",
        max: u64::MAX,
        set: |config, value| config.max_age = Nanos(value),
    },
    OptionInfo {
        name: "read_ahead",
        unit: Unit::Size,
        default: "256K",
        scope: Scope::Any,
        meaning: "what is read behind a read when there is nothing else to do",
        max: u64::MAX,
        set: |config, value| config.read_ahead = Bytes(value),
    },
    OptionInfo {
        name: "segments",
        unit: Unit::Count,
        default: "16",
        scope: Scope::Any,
        meaning: "ranges that the drive remembers having read",
        max: U32,
        set: |config, value| config.segments = to_u32(value),
    },
    OptionInfo {
        name: "reset",
        unit: Unit::Time,
        default: "100us",
        scope: Scope::Any,
        meaning: "what a zone reset takes",
        max: u64::MAX,
        set: |config, value| config.reset = Nanos(value),
    },
    OptionInfo {
        name: "finish",
        unit: Unit::Time,
        default: "100us",
        scope: Scope::Any,
        meaning: "what opening, closing or finishing a zone takes",
        max: u64::MAX,
        set: |config, value| config.finish = Nanos(value),
    },
    OptionInfo {
        name: "error_rate",
        unit: Unit::Count,
        default: "0",
        scope: Scope::Any,
        meaning: "accesses in a million that need another turn",
        max: U32,
        set: |config, value| config.error_rate = to_u32(value),
    },
    OptionInfo {
        name: "retries",
        unit: Unit::Count,
        default: "8",
        scope: Scope::Any,
        meaning: "turns after which the drive gives up",
        max: U32,
        set: |config, value| config.retries = to_u32(value),
    },
    OptionInfo {
        name: "seed",
        unit: Unit::Count,
        default: "0",
        scope: Scope::Any,
        meaning: "seed of the errors",
        max: u64::MAX,
        set: |config, value| config.seed = value,
    },
    OptionInfo {
        name: "memory",
        unit: Unit::Flag,
        default: "false",
        scope: Scope::Any,
        meaning: "whether data are kept, in memory",
        max: 1,
        set: |config, value| config.memory = value != 0,
    },
];
