//! Device specifications: what a user writes to get a device.
//!
//! Takes `null:zones=4096,zone_size=256M,...` or a TOML profile; gives a validated configuration,
//! and from it a device. Keeps true: no text makes it panic; an error says which option is wrong,
//! what was found and what was expected.
//!
//! ```
//! let spec = zonal_device::spec::parse("null:zones=64,zone_size=96M,max_open=8").unwrap();
//! let device = zonal_device::spec::build(&spec).unwrap();
//! assert_eq!(device.limits().nr_zones, 64);
//! ```
mod options;
mod profile;
mod zns;

use crate::null::{ConfigError, NullConfig, NullDevice};
use crate::quantity::{QuantityError, show_size, show_time};
use crate::zns::{ZnsConfig, ZnsDevice};
pub use options::{NULL_OPTIONS, OptionInfo, Scope, Unit, help};
pub use profile::{PROFILES, parse_profile};
use std::io;
use std::sync::Arc;
pub use zns::ZNS_OPTIONS;
use zonal_blk::{Bytes, Device};

/// A device that somebody asked for, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSpec {
    /// A null device.
    Null(NullConfig),
    /// A flash drive with zones.
    Zns(ZnsConfig),
}

impl DeviceSpec {
    /// Whether the device keeps data, so that bios have to carry them.
    pub fn keeps_data(&self) -> bool {
        match self {
            DeviceSpec::Null(config) => config.memory,
            DeviceSpec::Zns(config) => config.memory,
        }
    }

    /// The same device with its random numbers chosen by `seed` as well as by its own.
    pub fn with_seed(mut self, seed: u64) -> Self {
        match &mut self {
            DeviceSpec::Null(config) => config.seed = config.seed.wrapping_add(seed),
            // Nothing in the model is random.
            DeviceSpec::Zns(_) => {}
        }
        self
    }

    /// Describes the device in one line, for reports.
    pub fn describe(&self) -> String {
        match self {
            DeviceSpec::Null(config) => describe_null(config),
            DeviceSpec::Zns(config) => zns::describe(config),
        }
    }
}

fn describe_null(config: &NullConfig) -> String {
    let size = |bytes: Bytes| show_size(bytes.0);
    let mut parts = vec!["null".to_owned()];
    if config.zoned {
        let layout = config.layout();
        parts.push(format!("{} zones of {}", config.zones, size(config.zone_size)));
        if layout.zone_capacity != layout.zone_size {
            parts.push(format!("zone capacity {}", size(config.capacity_of_zone())));
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
        parts.push(format!("latency {}", show_time(config.latency.0)));
    }
    if config.jitter.0 > 0 {
        let jitter = show_time(config.jitter.0);
        parts.push(format!("jitter {jitter} from seed {}", config.seed));
    }
    if config.memory {
        parts.push("data in memory".to_owned());
    }
    parts.join(", ")
}

/// Why a specification is none.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// There is no such device.
    #[error(
        "unknown device `{found}`, expected `null`, `zns` or a profile ({}), each also with \
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
        form: &'static str,
        /// The largest, if the value is larger.
        max: Option<u64>,
    },
    /// An option is for another kind of device.
    #[error("option `{option}` found with zoned={zoned}, expected with zoned={}", !zoned)]
    WrongScope {
        /// Its name.
        option: &'static str,
        /// Whether the device has zones.
        zoned: bool,
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

fn profile_names() -> String {
    PROFILES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
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

/// Makes the device.
///
/// # Errors
/// [`SpecError::Config`] if the configuration was changed since it was read and now breaks a rule.
pub fn build(spec: &DeviceSpec) -> Result<Arc<dyn Device>, SpecError> {
    Ok(match spec {
        DeviceSpec::Null(config) => Arc::new(NullDevice::new(config)?),
        DeviceSpec::Zns(config) => Arc::new(ZnsDevice::new(config)?),
    })
}

/// Gathers the options of one device.
struct Parser {
    spec: DeviceSpec,
    given: Vec<(&'static str, Scope)>,
}

impl Parser {
    fn new(device: &str) -> Result<Self, SpecError> {
        let spec = match device {
            "null" => DeviceSpec::Null(NullConfig::default()),
            "zns" => DeviceSpec::Zns(ZnsConfig::default()),
            name => match PROFILES.iter().find(|(profile, _)| *profile == name) {
                Some((_, text)) => parse_profile(name, text)?,
                None => return Err(SpecError::unknown_device(device)),
            },
        };
        Ok(Parser { spec, given: Vec::new() })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), SpecError> {
        let given = &mut self.given;
        match &mut self.spec {
            DeviceSpec::Null(config) => set(NULL_OPTIONS, config, given, name, value),
            DeviceSpec::Zns(config) => set(ZNS_OPTIONS, config, given, name, value),
        }
    }

    fn finish(self) -> Result<DeviceSpec, SpecError> {
        match &self.spec {
            DeviceSpec::Null(config) => {
                let zoned = config.zoned;
                let other = if zoned { Scope::Regular } else { Scope::Zoned };
                if let Some(&(option, _)) = self.given.iter().find(|(_, scope)| *scope == other) {
                    return Err(SpecError::WrongScope { option, zoned });
                }
                config.validate()?;
            }
            DeviceSpec::Zns(config) => config.validate()?,
        }
        Ok(self.spec)
    }
}

/// Sets one option of a device.
fn set<C>(
    options: &'static [OptionInfo<C>],
    config: &mut C,
    given: &mut Vec<(&'static str, Scope)>,
    name: &str,
    value: &str,
) -> Result<(), SpecError> {
    let known = options.iter().find(|option| option.name == name);
    let info = known.ok_or_else(|| SpecError::UnknownOption {
        found: name.to_owned(),
        nearest: options::nearest(options, name),
        known: options.iter().map(|option| option.name).collect(),
    })?;
    let option = info.name;
    if given.iter().any(|(given, _)| *given == option) {
        return Err(SpecError::Duplicate { option });
    }
    given.push((option, info.scope));
    let bad =
        |max| SpecError::BadValue { option, found: value.to_owned(), form: info.unit.form(), max };
    match info.unit.parse(value) {
        Ok(number) if number <= info.max => (info.set)(config, number),
        Ok(_) | Err(QuantityError::TooLarge) => return Err(bad(Some(info.max))),
        Err(QuantityError::Malformed) => return Err(bad(None)),
    }
    Ok(())
}
