//! The options of each device, in one table: the parser and the help text both come from it.
use super::calibration::profile_names;
use super::hdd::{HDD_OPTIONS, HDD_SCOPES};
use super::zns::ZNS_OPTIONS;
use crate::null::NullConfig;
use crate::quantity::{
    QuantityError, format_rate, format_size, format_time, parse_count, parse_rate, parse_size,
    parse_time,
};
use zonal_blk::{Bytes, Nanos};

/// How an option's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A whole number.
    Count,
    /// A number of bytes, with a suffix if one likes.
    Size,
    /// A duration, in nanoseconds or with a suffix.
    Time,
    /// Bytes a second, in powers of 1000.
    Rate,
    /// `true` or `false`.
    Flag,
    /// One of these words; its number is its place among them.
    Choice(&'static [&'static str]),
}

impl Unit {
    /// The unit as the help text names it.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Size => "size",
            Unit::Time => "time",
            Unit::Rate => "rate",
            Unit::Flag => "flag",
            Unit::Choice(_) => "word",
        }
    }

    /// What a value must look like.
    pub(super) fn form(self) -> String {
        match self {
            Unit::Count => "a whole number".to_owned(),
            Unit::Size => "a size such as 4096, 64K or 256M".to_owned(),
            Unit::Time => "a time such as 500ns, 10us or 8ms".to_owned(),
            Unit::Rate => "a rate such as 245MB/s or 244.5MB/s".to_owned(),
            Unit::Flag => "true or false".to_owned(),
            Unit::Choice(words) => words.join(" or "),
        }
    }

    /// A number as it is written.
    pub fn show(self, value: u64) -> String {
        match self {
            Unit::Count => value.to_string(),
            Unit::Size => format_size(value),
            Unit::Time => format_time(value),
            Unit::Rate => format_rate(value),
            Unit::Flag => (value != 0).to_string(),
            Unit::Choice(words) => {
                let word = usize::try_from(value).ok().and_then(|at| words.get(at));
                word.map_or_else(|| value.to_string(), |word| (*word).to_owned())
            }
        }
    }

    /// Reads a value; a flag gives 0 or 1.
    ///
    /// # Errors
    /// The text is not written as the unit is, or is too large.
    pub fn parse(self, text: &str) -> Result<u64, QuantityError> {
        match self {
            Unit::Count => parse_count(text),
            Unit::Size => parse_size(text),
            Unit::Time => parse_time(text),
            Unit::Rate => parse_rate(text),
            Unit::Choice(words) => {
                let known = words.iter().position(|word| *word == text);
                known.map(|at| at as u64).ok_or(QuantityError::Malformed)
            }
            Unit::Flag => match text {
                "false" => Ok(0),
                "true" => Ok(1),
                _ => Err(QuantityError::Malformed),
            },
        }
    }
}

/// The devices that an option is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All.
    Any,
    /// Those with zones.
    Zoned,
    /// Those without.
    Regular,
}

/// An option of a device with the configuration `C`.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo<C: 'static = NullConfig> {
    /// Its name in a specification and a profile.
    pub name: &'static str,
    /// How its value is written.
    pub unit: Unit,
    /// What it is unless given, in words where it depends on others.
    pub default: &'static str,
    /// The devices that it is for.
    pub scope: Scope,
    /// What it does.
    pub meaning: &'static str,
    /// The largest number that its field holds.
    pub(super) max: u64,
    pub(super) set: fn(&mut C, u64),
}

pub(super) const U16: u64 = u16::MAX as u64;
pub(super) const U32: u64 = u32::MAX as u64;

pub(super) fn to_u16(value: u64) -> u16 {
    u16::try_from(value).expect("the parser checked the option's maximum")
}

pub(super) fn to_u32(value: u64) -> u32 {
    u32::try_from(value).expect("the parser checked the option's maximum")
}

/// The options of the null device, in the order of the help text.
pub const NULL_OPTIONS: &[OptionInfo] = &[
    OptionInfo {
        name: "zoned",
        unit: Unit::Flag,
        default: "true",
        scope: Scope::Any,
        meaning: "whether the device has zones",
        max: 1,
        set: |config, value| config.zoned = value != 0,
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
        meaning: "distance between zone starts; need not be a power of two",
        max: u64::MAX,
        set: |config, value| config.zone_size = Bytes(value),
    },
    OptionInfo {
        name: "zone_capacity",
        unit: Unit::Size,
        default: "zone_size",
        scope: Scope::Zoned,
        meaning: "writable part of a sequential zone",
        max: u64::MAX,
        set: |config, value| config.zone_capacity = Some(Bytes(value)),
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
        default: "128, or max_active if less",
        scope: Scope::Zoned,
        meaning: "zones that may be open at once; 0 for no limit",
        max: U32,
        set: |config, value| config.max_open = Some(to_u32(value)),
    },
    OptionInfo {
        name: "max_active",
        unit: Unit::Count,
        default: "0",
        scope: Scope::Zoned,
        meaning: "zones that may be open or closed at once; 0 for no limit",
        max: U32,
        set: |config, value| config.max_active = to_u32(value),
    },
    OptionInfo {
        name: "append_max",
        unit: Unit::Size,
        default: "0",
        scope: Scope::Zoned,
        meaning: "longest native zone append; 0 to have it emulated",
        max: u64::MAX,
        set: |config, value| config.append_max = Bytes(value),
    },
    OptionInfo {
        name: "size",
        unit: Unit::Size,
        default: "1T",
        scope: Scope::Regular,
        meaning: "size of the device",
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
        name: "queues",
        unit: Unit::Count,
        default: "65535",
        scope: Scope::Any,
        meaning: "hardware queues on offer, opened as they are needed",
        max: U16,
        set: |config, value| config.queues = to_u16(value),
    },
    OptionInfo {
        name: "depth",
        unit: Unit::Count,
        default: "1024",
        scope: Scope::Any,
        meaning: "commands in flight on one hardware queue",
        max: U16,
        set: |config, value| config.depth = to_u16(value),
    },
    OptionInfo {
        name: "latency",
        unit: Unit::Time,
        default: "0",
        scope: Scope::Any,
        meaning: "how long a command takes",
        max: u64::MAX,
        set: |config, value| config.latency = Nanos(value),
    },
    OptionInfo {
        name: "jitter",
        unit: Unit::Time,
        default: "0",
        scope: Scope::Any,
        meaning: "what a command takes longer, at random, less than this much",
        max: u64::MAX,
        set: |config, value| config.jitter = Nanos(value),
    },
    OptionInfo {
        name: "seed",
        unit: Unit::Count,
        default: "0",
        scope: Scope::Any,
        meaning: "seed of the jitter",
        max: u64::MAX,
        set: |config, value| config.seed = value,
    },
    OptionInfo {
        name: "max_io",
        unit: Unit::Size,
        default: "1M",
        scope: Scope::Any,
        meaning: "longest command",
        max: u64::MAX,
        set: |config, value| config.max_io = Bytes(value),
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

/// What a user can say about devices: one line an option, from the tables of options.
pub fn help() -> String {
    let mut help = String::from(
        "A device is `null`, `hdd`, `zns` or the name of a profile below, alone or with \
         `:option=value,...` behind it, or a file `NAME.toml` with `device = \"null\"` or another and \
         its options.\n\
         Sizes take K, M, G, T (powers of 1024); times take ns, us, ms, s; rates take kB/s, MB/s, \
         GB/s (powers of 1000).\n",
    );
    help.push_str(&format!("Profiles: {}.\n", profile_names()));
    help.push_str("\nOptions of null:\n\n");
    add_options(&mut help, NULL_OPTIONS, ["zoned=true", "zoned=false"]);
    help.push_str("\nOptions of hdd, and `profile=NAME` before all others:\n\n");
    add_options(&mut help, HDD_OPTIONS, HDD_SCOPES);
    help.push_str("\nOptions of zns:\n\n");
    add_options(&mut help, ZNS_OPTIONS, [""; 2]);
    help
}

/// Adds a line for each option; `scopes` says what options for devices with and without zones need.
pub(super) fn add_options<C>(help: &mut String, options: &[OptionInfo<C>], scopes: [&str; 2]) {
    let width = |text: fn(&OptionInfo<C>) -> &str| {
        let widths = options.iter().map(|option| text(option).len());
        widths.max().unwrap_or(0)
    };
    let names = width(|option| option.name);
    let defaults = width(|option| option.default);
    for option in options {
        let scope = match option.scope {
            Scope::Any => String::new(),
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

/// The option whose name is most like `found`, if any is much like it.
pub(super) fn nearest<C>(options: &[OptionInfo<C>], found: &str) -> Option<&'static str> {
    // A long text is no misspelling, and comparing it would take long.
    if found.len() > 32 {
        return None;
    }
    let distance = |option: &OptionInfo<C>| edit_distance(found, option.name);
    let nearest = options.iter().min_by_key(|option| distance(option))?;
    (distance(nearest) <= (nearest.name.len() / 3).max(1)).then_some(nearest.name)
}

/// How many characters must be put in, left out or replaced to make `a` into `b` (Levenshtein).
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_in_the_table_is_the_configurations() {
        for option in NULL_OPTIONS {
            // Defaults in words depend on other options; the configuration has them as `None`.
            if let Ok(value) = option.unit.parse(option.default) {
                let mut config = NullConfig::default();
                (option.set)(&mut config, value);
                assert_eq!(config, NullConfig::default(), "{}", option.name);
            }
        }
    }

    #[test]
    fn misspelt_names_are_recognised() {
        for (found, expected) in [
            ("zone-size", Some("zone_size")),
            ("zonecapacity", Some("zone_capacity")),
            ("maxopen", Some("max_open")),
            ("latncy", Some("latency")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(NULL_OPTIONS, found), expected, "{found}");
        }
    }
}
