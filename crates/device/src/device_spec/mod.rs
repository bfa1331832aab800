//! Device specifications: what a user writes to get a device.
//!
//! Takes `null:zones=4096,zone_size=256M,...`, `smr-30t:cache=64M` or a TOML profile; gives a
//! validated configuration, and from it a device. Keeps true: no text makes it panic; an error says
//! which option is wrong, what was found and what was expected.
//!
//! ```
//! let spec = zonal_device::device_spec::parse("null:zones=64,zone_size=96M,max_open=8").unwrap();
//! let device = zonal_device::device_spec::build(&spec).unwrap();
//! assert_eq!(device.limits().nr_zones, 64);
//! ```
mod calibration;
mod hdd;
mod options;
mod parser;
mod profile;
mod zns;

use crate::control::DeviceControl;
use crate::hdd::{HddConfig, HddDevice};
use crate::null::{ConfigError, NullConfig, NullDevice};
use crate::quantity::{format_size, format_time};
use crate::zns::{ZnsConfig, ZnsDevice};
pub use calibration::{CALIBRATED, option_unit, profile_names, profile_text};
pub use hdd::{HDD_OPTIONS, HDD_PROFILES};
pub use options::{NULL_OPTIONS, OptionInfo, Scope, Unit, help};
use parser::Parser;
pub use profile::parse_profile;
use std::io;
use std::sync::Arc;
pub use zns::{ZNS_OPTIONS, ZNS_PROFILES};
use zonal_blk::{Bytes, Nanos, ZoneCondition, ZoneNo};

/// A device that somebody asked for, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSpec {
    /// A null device.
    Null(NullConfig),
    /// A rotating disk.
    Hdd(Box<HddConfig>),
    /// A flash drive with zones.
    Zns(ZnsConfig),
}

impl DeviceSpec {
    /// What kind of device it is, as a specification names it.
    pub fn kind(&self) -> &'static str {
        match self {
            DeviceSpec::Null(_) => "null",
            DeviceSpec::Hdd(_) => "hdd",
            DeviceSpec::Zns(_) => "zns",
        }
    }

    /// Whether the device keeps data, so that bios have to carry them.
    pub fn keeps_data(&self) -> bool {
        match self {
            DeviceSpec::Null(config) => config.memory,
            DeviceSpec::Hdd(config) => config.memory,
            DeviceSpec::Zns(config) => config.memory,
        }
    }

    /// The same device with its random numbers chosen by `seed` as well as by its own.
    pub fn with_seed(mut self, seed: u64) -> Self {
        let own = match &mut self {
            DeviceSpec::Null(config) => &mut config.seed,
            DeviceSpec::Hdd(config) => &mut config.seed,
            // Nothing in the model is random.
            DeviceSpec::Zns(_) => return self,
        };
        *own = own.wrapping_add(seed);
        self
    }

    /// Describes the device in one line, for reports.
    pub fn describe(&self) -> String {
        let config = match self {
            DeviceSpec::Null(config) => config,
            DeviceSpec::Hdd(config) => return hdd::describe(config),
            DeviceSpec::Zns(config) => return zns::describe(config),
        };
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
}

/// Why a specification is none.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// There is no such device.
    #[error(
        "unknown device `{found}`, expected `null`, `hdd`, `zns` or a profile ({}), each also with \
         `:option=value,...`, or `NAME.toml`",
        profile_names()
    )]
    UnknownDevice {
        /// What stands in its place.
        found: String,
    },
    /// Something else than `name=value` between the commas.
    #[error("found `{found}`, expected `option=value`")]
    NotAnOption {
        /// What stands there.
        found: String,
    },
    /// The device has no such option.
    #[error("unknown option `{found}`{}", suggestion(*nearest, known))]
    UnknownOption {
        /// Its name.
        found: String,
        /// An option with a similar name.
        nearest: Option<&'static str>,
        /// The options that the device has.
        known: Vec<&'static str>,
    },
    /// An option was given twice.
    #[error("option `{option}` is given twice, expected once")]
    Duplicate {
        /// Its name.
        option: &'static str,
    },
    /// A value is not of the option's kind, or too large for it.
    #[error("option `{option}`: found `{found}`, expected {form}{}", at_most(*max))]
    BadValue {
        /// The option's name.
        option: &'static str,
        /// Its value.
        found: String,
        /// What values look like.
        form: String,
        /// The largest, if the value is larger.
        max: Option<u64>,
    },
    /// An option is for another kind of device.
    #[error("option `{option}` found with {found}, expected with {expected}")]
    WrongScope {
        /// Its name.
        option: &'static str,
        /// The kind that the device is.
        found: &'static str,
        /// The kind that has the option.
        expected: &'static str,
    },
    /// The options do not go together, or break a rule of the device.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A profile could not be read.
    #[error("{file}: cannot read the device profile")]
    Read {
        /// The profile.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// A profile is not TOML.
    #[error("{file}:{line}: {message}")]
    Toml {
        /// The profile.
        file: String,
        /// Where, from 1.
        line: usize,
        /// What the TOML parser says.
        message: String,
    },
    /// A profile does not say which device it describes.
    #[error("{file}: found no key `device`, expected device = \"null\"")]
    NoDevice {
        /// The profile.
        file: String,
    },
    /// An error in a profile.
    #[error("{file}:{line}: {error}")]
    InProfile {
        /// The profile.
        file: String,
        /// The line of the option, from 1.
        line: usize,
        /// What is wrong there.
        error: Box<SpecError>,
    },
}

impl SpecError {
    fn unknown_device(found: &str) -> Self {
        SpecError::UnknownDevice { found: found.to_owned() }
    }

    /// The option that the error is about, if it is about one.
    pub fn option(&self) -> Option<&'static str> {
        match self {
            SpecError::Duplicate { option }
            | SpecError::BadValue { option, .. }
            | SpecError::WrongScope { option, .. } => Some(option),
            SpecError::Config(error) => Some(error.option()),
            SpecError::InProfile { error, .. } => error.option(),
            _ => None,
        }
    }
}

fn suggestion(nearest: Option<&str>, known: &[&str]) -> String {
    match nearest {
        Some(name) => format!(", did you mean `{name}`?"),
        None => format!(", expected one of {}", known.join(", ")),
    }
}

fn at_most(max: Option<u64>) -> String {
    max.map_or(String::new(), |max| format!(", at most {max}"))
}

/// Reads a specification such as `null:zones=4096,zone_size=256M`.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(text: &str) -> Result<DeviceSpec, SpecError> {
    let (device, options) = match text.split_once(':') {
        Some((device, options)) => (device, options),
        None => (text, ""),
    };
    let mut parser = Parser::new(device.trim())?;
    if !options.trim().is_empty() {
        for option in options.split(',') {
            let (name, value) = option
                .split_once('=')
                .ok_or_else(|| SpecError::NotAnOption { found: option.trim().to_owned() })?;
            parser.set(name.trim(), value.trim())?;
        }
    }
    parser.finish()
}

/// Reads a specification, or the profile that it names if it ends in `.toml`; `read` gives the
/// text of a file: `|path| std::fs::read_to_string(path)`.
///
/// # Errors
/// What is wrong with the specification or the profile; [`SpecError::Read`] if `read` fails.
pub fn load(
    text: &str,
    read: impl FnOnce(&str) -> io::Result<String>,
) -> Result<DeviceSpec, SpecError> {
    if !text.ends_with(".toml") {
        return parse(text);
    }
    let profile = read(text).map_err(|source| SpecError::Read { file: text.to_owned(), source })?;
    parse_profile(text, &profile)
}

/// Makes the device as a model of time alone, for one that has the zones and the data: its commands
/// always succeed, but for what the drive itself gives up. `state` says how many bytes each zone
/// has, and its condition. `None` for a device that takes no time.
///
/// # Errors
/// As [`build`].
pub fn timing(
    spec: &DeviceSpec,
    state: impl Fn(ZoneNo) -> (Bytes, ZoneCondition),
) -> Result<Option<Arc<dyn DeviceControl>>, SpecError> {
    Ok(match spec {
        DeviceSpec::Null(NullConfig { latency: Nanos(0), jitter: Nanos(0), .. }) => None,
        // Without zones there are none that could be in another state.
        DeviceSpec::Null(config) => {
            let config = NullConfig { zoned: false, memory: false, ..config.clone() };
            Some(Arc::new(NullDevice::new(&config)?))
        }
        DeviceSpec::Hdd(config) => Some(Arc::new(HddDevice::timing(config)?)),
        DeviceSpec::Zns(config) => Some(Arc::new(ZnsDevice::timing(config, state)?)),
    })
}

/// Makes the device.
///
/// # Errors
/// [`SpecError::Config`] if the configuration was changed since it was read and now breaks a rule.
pub fn build(spec: &DeviceSpec) -> Result<Arc<dyn DeviceControl>, SpecError> {
    Ok(match spec {
        DeviceSpec::Null(config) => Arc::new(NullDevice::new(config)?),
        DeviceSpec::Hdd(config) => Arc::new(HddDevice::new(config)?),
        DeviceSpec::Zns(config) => Arc::new(ZnsDevice::new(config)?),
    })
}
