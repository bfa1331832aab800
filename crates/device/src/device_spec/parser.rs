//! Gathers the options of one device, of whatever kind it is.
//!
//! Takes the name of a device, then options one after the other; gives a configuration that obeys
//! the rules of its device, or the first thing that is wrong.
use super::hdd::{HDD_OPTIONS, HDD_SCOPES, HddSpec};
use super::options::{self, NULL_OPTIONS, OptionInfo, Scope};
use super::zns::ZNS_OPTIONS;
use super::{DeviceSpec, SpecError, parse_profile, profile_text};
use crate::hdd::HddConfig;
use crate::null::NullConfig;
use crate::quantity::QuantityError;
use crate::zns::ZnsConfig;

const NULL_SCOPES: [&str; 2] = ["zoned=true", "zoned=false"];

/// The device so far.
pub(super) struct Parser {
    kind: Kind,
    given: Vec<(&'static str, Scope)>,
}

enum Kind {
    Null(NullConfig),
    Hdd(HddSpec),
    Zns(ZnsConfig),
}

impl Parser {
    /// A device of a kind, or of a profile that the program has.
    pub(super) fn new(device: &str) -> Result<Self, SpecError> {
        let kind = match device {
            "null" => Kind::Null(NullConfig::default()),
            "hdd" => Kind::Hdd(HddSpec { config: HddConfig::default() }),
            "zns" => Kind::Zns(ZnsConfig::default()),
            name => {
                let text = profile_text(name).ok_or_else(|| SpecError::unknown_device(name))?;
                match parse_profile(name, text)? {
                    DeviceSpec::Null(config) => Kind::Null(config),
                    DeviceSpec::Hdd(config) => Kind::Hdd(HddSpec { config: *config }),
                    DeviceSpec::Zns(config) => Kind::Zns(config),
                }
            }
        };
        Ok(Parser { kind, given: Vec::new() })
    }

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), SpecError> {
        let given = &self.given;
        let once = |option: &'static str| match given.iter().any(|(given, _)| *given == option) {
            true => Err(SpecError::Duplicate { option }),
            false => Ok(()),
        };
        let (option, scope) = match &mut self.kind {
            Kind::Null(config) => set(NULL_OPTIONS, config, name, value, once)?,
            Kind::Hdd(spec) if name == "profile" => {
                once("profile")?;
                spec.apply_profile(value, !given.is_empty())?;
                ("profile", Scope::Any)
            }
            Kind::Hdd(spec) => set(HDD_OPTIONS, &mut spec.config, name, value, once)?,
            Kind::Zns(config) => set(ZNS_OPTIONS, config, name, value, once)?,
        };
        self.given.push((option, scope));
        Ok(())
    }

    pub(super) fn finish(self) -> Result<DeviceSpec, SpecError> {
        let (zoned, scopes) = match &self.kind {
            Kind::Null(config) => (config.zoned, NULL_SCOPES),
            Kind::Hdd(spec) => (spec.is_zoned(), HDD_SCOPES),
            // No option of it is for one kind only.
            Kind::Zns(_) => (true, NULL_SCOPES),
        };
        let (found, expected) = (scopes[usize::from(!zoned)], scopes[usize::from(zoned)]);
        let other = if zoned { Scope::Regular } else { Scope::Zoned };
        if let Some(&(option, _)) = self.given.iter().find(|(_, scope)| *scope == other) {
            return Err(SpecError::WrongScope { option, found, expected });
        }
        match self.kind {
            Kind::Null(config) => {
                config.validate()?;
                Ok(DeviceSpec::Null(config))
            }
            Kind::Hdd(spec) => {
                spec.config.validate()?;
                Ok(DeviceSpec::Hdd(Box::new(spec.config)))
            }
            Kind::Zns(config) => {
                config.validate()?;
                Ok(DeviceSpec::Zns(config))
            }
        }
    }
}

/// Sets one option of a configuration. `once` says whether it may still be given.
fn set<C>(
    options: &'static [OptionInfo<C>],
    config: &mut C,
    name: &str,
    value: &str,
    once: impl FnOnce(&'static str) -> Result<(), SpecError>,
) -> Result<(&'static str, Scope), SpecError> {
    let known = options.iter().find(|option| option.name == name);
    let info = known.ok_or_else(|| SpecError::UnknownOption {
        found: name.to_owned(),
        nearest: options::nearest(options, name),
        known: options.iter().map(|option| option.name).collect(),
    })?;
    let option = info.name;
    once(option)?;
    let bad =
        |max| SpecError::BadValue { option, found: value.to_owned(), form: info.unit.form(), max };
    match info.unit.parse(value) {
        Ok(number) if number <= info.max => (info.set)(config, number),
        Ok(_) | Err(QuantityError::TooLarge) => return Err(bad(Some(info.max))),
        Err(QuantityError::Malformed) => return Err(bad(None)),
    }
    Ok((option, info.scope))
}
