//! The declaration of a kind of device: its options, its profiles, and how it is built.
//!
//! A kind is one folder. Its `config.rs` declares the [`DeviceKind`], which `device_spec/kinds.rs` lists,
//! and the options with `device_options!`, each once: name, type, unit, default, help, where it
//! applies and the values that it may have; the text form, the help, the check of the range and the
//! field all come from there. Its `kind.rs` implements [`DeviceConfig`].
mod declare;
mod error;
mod option;
mod rules;
mod written;

use crate::control::DeviceControl;
pub(crate) use declare::{device_options, option_words};
pub use error::ConfigError;
pub(crate) use error::rule;
pub use option::{OptionInfo, OptionValue, Scope, Unit, ValueError};
pub(crate) use rules::Rules;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
pub use written::WrittenZones;
use zonal_blk::{Bytes, Limits, ZoneCondition, ZoneNo};

/// A kind of device.
#[derive(Debug)]
pub struct DeviceKind {
    /// Its name in a spec.
    pub name: &'static str,
    /// Its options, in the order of the help text.
    pub options: &'static [OptionInfo],
    /// The built-in profiles of devices of this kind: name and text.
    pub profiles: &'static [(&'static str, &'static str)],
    /// The option that makes a device zoned, and the one that makes it regular; empty if all are zoned.
    pub scopes: [&'static str; 2],
    /// The configuration in which no option is given.
    pub default: fn() -> Box<dyn DeviceConfig>,
}

impl DeviceKind {
    /// The option that a spec needs for another to apply, such as `recording=smr`; `""` for none.
    pub fn scope(&self, option: &OptionInfo) -> &'static str {
        match option.scope {
            Scope::Zoned => self.scopes[0],
            Scope::Regular => self.scopes[1],
            Scope::Any => "",
        }
    }

    /// The option of a name.
    pub fn option(&self, name: &str) -> Option<&'static OptionInfo> {
        self.options.iter().find(|option| option.name == name)
    }
}

/// A configuration as its declaration has it, with access to options by their names. `device_options!`
/// implements it.
pub trait Options: Any + fmt::Debug + Send + Sync {
    /// The kind.
    fn kind(&self) -> &'static DeviceKind;

    /// Sets an option from its text.
    ///
    /// # Errors
    /// The text has not the form that the option's unit has, or the value is too large.
    ///
    /// # Panics
    /// There is no such option.
    fn set(&mut self, name: &str, text: &str) -> Result<(), ValueError>;

    /// The value of an option as a number; `None` for an option that is not given and has no default
    /// of its own, one whose value is not a number, and one that the device does not have.
    fn get(&self, name: &str) -> Option<u64>;

    /// Whether the device keeps data.
    fn keeps_data(&self) -> bool;

    /// The zones that a new device has written to their end.
    fn written(&self) -> &WrittenZones;

    /// Checks the rules between options.
    ///
    /// # Errors
    /// The first rule that is broken.
    fn validate(&self) -> Result<(), ConfigError>;

    /// The limits of the device.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    fn limits(&self) -> Result<Limits, ConfigError>;

    /// Creates the device.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    fn build(&self) -> Result<Arc<dyn DeviceControl>, ConfigError>;

    /// A copy.
    fn boxed(&self) -> Box<dyn DeviceConfig>;

    /// Whether the other is of the same kind, with the same values.
    fn equals(&self, other: &dyn DeviceConfig) -> bool;
}

/// The configuration of a kind of device.
pub trait DeviceConfig: Options {
    /// Whether the options of zoned devices apply.
    fn is_zoned(&self) -> bool;

    /// The writable part of a sequential zone.
    fn zone_capacity(&self) -> Bytes;

    /// The unit that flash dies program; `None` for a device without flash.
    fn program_unit(&self) -> Option<Bytes> {
        None
    }

    /// Data after which the drive writes for itself; 0 if it never does.
    fn log_interval(&self) -> Bytes {
        Bytes(0)
    }

    /// The options that this option, which was given, stands for, with their values; they hold unless
    /// they are given as well.
    fn implied(&self, _option: &str) -> Option<[(&'static str, &'static str); 2]> {
        None
    }

    /// The profile that is better suited for a device of this size than the defaults of its kind.
    fn profile_of_this_size(&self) -> Option<String> {
        None
    }

    /// Describes the device in one line, for reports: its parts, of which the first is the kind.
    fn describe(&self) -> Vec<String>;

    /// Creates the device as a model of time only, for an image that has the zones and the data: its
    /// commands always succeed, but for simulated medium errors. `state` returns the bytes written to
    /// each zone, and its condition. `None` for a device that takes no time.
    ///
    /// # Errors
    /// As [`build`](Options::build).
    fn timing(&self, state: &ZoneStates<'_>)
    -> Result<Option<Arc<dyn DeviceControl>>, ConfigError>;
}

/// The bytes written to each zone, and its condition.
pub type ZoneStates<'a> = dyn Fn(ZoneNo) -> (Bytes, ZoneCondition) + 'a;

/// Checks that each option that applies is within its range.
///
/// # Errors
/// The first that is not.
pub(crate) fn check_ranges(config: &dyn Options, is_zoned: bool) -> Result<(), ConfigError> {
    let other = if is_zoned { Scope::Regular } else { Scope::Zoned };
    for option in config.kind().options.iter().filter(|option| option.scope != other) {
        let Some(value) = config.get(option.name) else { continue };
        rule(option.name, option.range.contains(&value), option.unit.show(value), || {
            option.form_of_range()
        })?;
    }
    Ok(())
}
