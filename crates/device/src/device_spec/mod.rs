//! Device specs: the text by which a user names a device.
//!
//! A spec is `null:zones=4096,zone_size=256M,...`, `smr-30t:cache=64M`, or the name of a profile in
//! TOML. It is parsed into a validated configuration, from which [`build`] creates the device. An
//! error names the option, what was found and what was expected.
//!
//! ```
//! let spec = zonal_device::device_spec::parse("null:zones=64,zone_size=96M,max_open=8").unwrap();
//! let device = zonal_device::device_spec::build(&spec).unwrap();
//! assert_eq!(device.limits().nr_zones, 64);
//! ```
mod help;
mod kinds;
mod parser;

use crate::config::{ConfigError, DeviceConfig, ZoneStates, rule};
pub use crate::config::{DeviceKind, OptionInfo, Scope, Unit, WrittenZones};
use crate::control::DeviceControl;
use crate::ssd::{Prefill, SsdConfig};
pub use help::help;
pub use kinds::{base_profile, kinds, profile_names, profile_subjects, profile_text, profiles};
use parser::Parser;
pub use parser::{CALIBRATED, option_info, option_names, parse_profile};
use std::any::Any;
use std::io;
use std::sync::Arc;
use zonal_blk::{Bytes, ZoneCondition, ZoneNo};

/// A validated device configuration, and the assumptions where no profile describes the device as it is.
#[derive(Debug)]
pub struct DeviceSpec(Box<dyn DeviceConfig>, Vec<String>);

impl DeviceSpec {
    /// The kind of device, as a spec names it.
    pub fn kind(&self) -> &'static str {
        self.0.kind().name
    }

    /// The configuration.
    pub fn config(&self) -> &dyn DeviceConfig {
        &*self.0
    }

    /// The configuration of a kind of device; `None` if the device is of another kind.
    pub fn config_of<C: DeviceConfig>(&self) -> Option<&C> {
        let config: &dyn Any = &*self.0;
        config.downcast_ref()
    }

    /// The assumptions about it, each in a few words: the spec named a size that no profile has, or
    /// limits of the profile did not fit.
    pub fn assumptions(&self) -> &[String] {
        &self.1
    }

    /// Whether the device rotates.
    pub fn is_rotational(&self) -> bool {
        self.0.limits().is_ok_and(|limits| limits.rotational)
    }

    /// Whether the device keeps data, so that bios need buffers.
    pub fn keeps_data(&self) -> bool {
        self.0.keeps_data()
    }

    /// The same device with `seed` added to its own seed; nothing changes if nothing in the model is
    /// random.
    pub fn with_seed(mut self, seed: u64) -> Self {
        if let Some(own) = self.0.get("seed") {
            let set = self.0.set("seed", &own.wrapping_add(seed).to_string());
            set.expect("a seed is any number");
        }
        self
    }

    /// The same device with this logical block size.
    ///
    /// # Errors
    /// The options contradict the block size.
    pub fn with_lba(mut self, lba: u32) -> Result<Self, SpecError> {
        self.0.set("lba", &lba.to_string()).expect("a block size is any number of 32 bits");
        self.0.validate()?;
        Ok(self)
    }

    /// The same device with these zones written.
    ///
    /// # Errors
    /// The device has no such zones.
    pub fn with_written(mut self, written: &WrittenZones) -> Result<Self, SpecError> {
        if self.0.kind().option("written").is_none() {
            let rule =
                rule("written", written.is_empty(), written, || "a device with zones".to_owned());
            return Ok(rule.map(|()| self)?);
        }
        self.0.set("written", &written.to_string()).expect("zones are read as they are shown");
        self.0.validate()?;
        Ok(self)
    }

    /// The same device with something to read everywhere: all zones are written, or each page of a drive
    /// with a translation layer once. A device that says itself what is written stays as it is.
    ///
    /// # Errors
    /// As [`DeviceSpec::with_written`].
    pub fn with_data(mut self) -> Result<Self, SpecError> {
        if self.0.is_zoned() && self.written().is_empty() {
            return self.with_written(&WrittenZones::all());
        }
        if self.config_of::<SsdConfig>().is_some_and(|ssd| ssd.prefill == Prefill::Empty) {
            self.0.set("prefill", "sequential").expect("it is one of the values");
        }
        Ok(self)
    }

    /// The zones that are written.
    pub fn written(&self) -> &WrittenZones {
        self.0.written()
    }

    /// Describes the device in one line, for reports.
    pub fn describe(&self) -> String {
        let mut parts = vec![self.kind().to_owned()];
        parts.extend(self.0.describe());
        if self.keeps_data() {
            parts.push("data in memory".to_owned());
        }
        parts.extend(self.1.clone());
        parts.join(", ")
    }
}

impl Clone for DeviceSpec {
    fn clone(&self) -> Self {
        DeviceSpec(self.0.boxed(), self.1.clone())
    }
}

impl PartialEq for DeviceSpec {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}

impl Eq for DeviceSpec {}

/// An invalid spec.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// Unknown device.
    #[error("unknown device `{found}`{}", known_devices(found))]
    UnknownDevice {
        /// Its name.
        found: String,
    },
    /// An option is not `name=value`.
    #[error("found `{found}`, expected `option=value`")]
    NotAnOption {
        /// The text.
        found: String,
    },
    /// Unknown option.
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
    /// A value has the wrong form or is too large.
    #[error("option `{option}`: found `{found}`, expected {form}{}", at_most(*max))]
    BadValue {
        /// The option's name.
        option: &'static str,
        /// Its value.
        found: String,
        /// The expected form.
        form: String,
        /// The largest value, if this is larger.
        max: Option<u64>,
    },
    /// An option applies to another kind of device only.
    #[error("option `{option}` found with {found}, expected with {expected}")]
    WrongScope {
        /// Its name.
        option: &'static str,
        /// The kind of the device.
        found: &'static str,
        /// The kind that has the option.
        expected: &'static str,
    },
    /// The options contradict each other or break a rule of the device.
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
        /// The message of the TOML parser.
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
        /// The error.
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

/// The device that was meant, or all that there are.
fn known_devices(found: &str) -> String {
    let profiles = profile_names();
    let names = kinds().map(|kind| kind.name).chain(profiles.split(", "));
    match zonal_blk::nearest(found, names) {
        Some(name) => format!(", did you mean `{name}`?"),
        None => format!(
            ", expected {} or a profile ({profiles}), each also with `:option=value,...`, or \
             `NAME.toml`",
            kinds::names()
        ),
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

/// Parses a spec such as `null:zones=4096,zone_size=256M`.
///
/// # Errors
/// The first error in it.
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

/// Parses a spec, or the profile that it names if it ends in `.toml`; `read` reads a file.
///
/// # Errors
/// The first error in the spec or the profile; [`SpecError::Read`] if `read` fails.
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

/// Creates the device as a model of time only, for an image that has the zones and the data: its
/// commands always succeed, but for simulated medium errors. `state` returns the bytes written to
/// each zone, and its condition. `None` for a device that takes no time.
///
/// # Errors
/// As [`build`].
pub fn timing(
    spec: &DeviceSpec,
    state: impl Fn(ZoneNo) -> (Bytes, ZoneCondition),
) -> Result<Option<Arc<dyn DeviceControl>>, SpecError> {
    let state: &ZoneStates<'_> = &state;
    Ok(spec.0.timing(state)?)
}

/// Creates the device.
///
/// # Errors
/// [`SpecError::Config`] if the device cannot be built after all.
pub fn build(spec: &DeviceSpec) -> Result<Arc<dyn DeviceControl>, SpecError> {
    Ok(spec.0.build()?)
}
