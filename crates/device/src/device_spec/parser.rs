//! The parser of options, from a spec or from a profile in TOML. Errors in profiles name the file and,
//! where they concern one, the line.
use super::options::{OptionInfo, Scope, Unit};
use super::tables::{
    HDD_OPTIONS, HDD_PROFILES, HDD_SCOPES, NULL_OPTIONS, NULL_SCOPES, ZNS_OPTIONS, profile_text,
};
use super::{DeviceSpec, SpecError, Written};
use crate::hdd::{HddConfig, Recording};
use crate::null::NullConfig;
use crate::quantity::QuantityError;
use crate::zns::ZnsConfig;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The key of a profile that lists the options that were fitted to measurements.
pub const CALIBRATED: &str = "calibrated";

/// The options of one device, as they are parsed.
pub(super) struct Parser {
    kind: Kind,
    given: Vec<(&'static str, Scope)>,
}

enum Kind {
    Null(NullConfig),
    Hdd(HddConfig),
    Zns(ZnsConfig),
}

impl Parser {
    /// A parser for a kind of device or a built-in profile.
    pub(super) fn new(device: &str) -> Result<Self, SpecError> {
        let kind = match device {
            "null" => Kind::Null(NullConfig::default()),
            "hdd" => Kind::Hdd(HddConfig::default()),
            "zns" => Kind::Zns(ZnsConfig::default()),
            name => {
                let text = profile_text(name).ok_or_else(|| SpecError::unknown_device(name))?;
                match parse_profile(name, text)? {
                    DeviceSpec::Null(config) => Kind::Null(config),
                    DeviceSpec::Hdd(config) => Kind::Hdd(*config),
                    DeviceSpec::Zns(config) => Kind::Zns(*config),
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
            kind if name == "written" => {
                once("written")?;
                let written = Written::parse(value)?;
                match kind {
                    Kind::Null(config) => config.written = written,
                    Kind::Hdd(config) => config.written = written,
                    Kind::Zns(config) => config.written = written,
                }
                ("written", Scope::Zoned)
            }
            Kind::Null(config) => set(NULL_OPTIONS, config, name, value, once)?,
            Kind::Hdd(config) if name == "profile" => {
                once("profile")?;
                apply_profile(config, value, !given.is_empty())?;
                ("profile", Scope::Any)
            }
            Kind::Hdd(config) => set(HDD_OPTIONS, config, name, value, once)?,
            Kind::Zns(config) => set(ZNS_OPTIONS, config, name, value, once)?,
        };
        self.given.push((option, scope));
        Ok(())
    }

    pub(super) fn finish(self) -> Result<DeviceSpec, SpecError> {
        let (zoned, scopes) = match &self.kind {
            Kind::Null(config) => (config.zoned, NULL_SCOPES),
            Kind::Hdd(config) => (config.recording == Recording::Smr, HDD_SCOPES),
            // All of its options apply.
            Kind::Zns(_) => (true, NULL_SCOPES),
        };
        let (found, expected) = (scopes[usize::from(!zoned)], scopes[usize::from(zoned)]);
        let other = if zoned { Scope::Regular } else { Scope::Zoned };
        if let Some(&(option, _)) = self.given.iter().find(|(_, scope)| *scope == other) {
            return Err(SpecError::WrongScope { option, found, expected });
        }
        let spec = match self.kind {
            Kind::Null(config) => DeviceSpec::Null(config),
            Kind::Hdd(config) => DeviceSpec::Hdd(Box::new(config)),
            Kind::Zns(config) => DeviceSpec::Zns(Box::new(config)),
        };
        spec.validate()?;
        Ok(spec)
    }
}

/// Sets one option of a configuration. `once` fails if it was given before.
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
        nearest: zonal_blk::nearest(name, options.iter().map(|option| option.name)),
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

/// Starts from a profile; `late` if options were given already, which it would undo.
fn apply_profile(to: &mut HddConfig, name: &str, late: bool) -> Result<(), SpecError> {
    let known = HDD_PROFILES.iter().find(|(profile, _)| *profile == name);
    let Some((_, text)) = known.filter(|_| !late) else {
        let form = if late {
            "it before all other options".to_owned()
        } else {
            let names: Vec<&str> = HDD_PROFILES.iter().map(|(name, _)| *name).collect();
            format!("one of {}", names.join(", "))
        };
        let found = name.to_owned();
        return Err(SpecError::BadValue { option: "profile", found, form, max: None });
    };
    if let DeviceSpec::Hdd(config) = parse_profile(name, text)? {
        *to = *config;
    }
    Ok(())
}

/// Parses a profile: a TOML table with `device`, the options of the device as integers, booleans or
/// strings with suffixes, and optionally `calibrated`, a list of options. `file` is its name in
/// errors.
///
/// # Errors
/// What is wrong with the profile, with file and line.
pub fn parse_profile(file: &str, text: &str) -> Result<DeviceSpec, SpecError> {
    let table = DeTable::parse(text).map_err(|error| SpecError::Toml {
        file: file.to_owned(),
        line: line_of(text, error.span().map_or(0, |span| span.start)),
        message: error.message().to_owned(),
    })?;
    let table = table.get_ref();
    let at = |position: usize, error| SpecError::InProfile {
        file: file.to_owned(),
        line: line_of(text, position),
        error: Box::new(error),
    };
    let device =
        table.get("device").ok_or_else(|| SpecError::NoDevice { file: file.to_owned() })?;
    let kind = value_text(device).unwrap_or_else(|| device.get_ref().type_str().to_owned());
    let mut parser = Parser::new(&kind).map_err(|error| at(device.span().start, error))?;
    if let Some(value) = table.get(CALIBRATED) {
        check_calibrated(&kind, value).map_err(|error| at(value.span().start, error))?;
    }
    // The base profile comes before the options that change it, wherever it is in the table.
    let (first, others): (Vec<_>, Vec<_>) = table
        .iter()
        .filter(|(name, _)| !["device", CALIBRATED].contains(&name.get_ref().as_ref()))
        .partition(|(name, _)| name.get_ref() == "profile");
    for (name, value) in first.into_iter().chain(others) {
        let set = match value_text(value) {
            Some(text) => parser.set(name.get_ref(), &text),
            None => parser.set(name.get_ref(), value.get_ref().type_str()),
        };
        set.map_err(|error| at(name.span().start, error))?;
    }
    parser.finish().map_err(|error| {
        // The fault may be a default that contradicts a given option.
        let option = error.option().and_then(|name| table.get_key_value(name));
        at(option.map_or(device.span().start, |(name, _)| name.span().start), error)
    })
}

/// Checks a list of names of options.
fn check_calibrated(device: &str, value: &Spanned<DeValue<'_>>) -> Result<(), SpecError> {
    let bad = |found: &str| SpecError::BadValue {
        option: CALIBRATED,
        found: found.to_owned(),
        form: "a list of options of the device, in quotes".to_owned(),
        max: None,
    };
    let names = value.get_ref().as_array().ok_or_else(|| bad(value.get_ref().type_str()))?;
    for name in names {
        let name = name.get_ref().as_str().ok_or_else(|| bad(name.get_ref().type_str()))?;
        option_unit(device, name).ok_or_else(|| bad(name))?;
    }
    Ok(())
}

/// A value as it is written in a spec; `None` for types that a spec does not have.
fn value_text(value: &Spanned<DeValue<'_>>) -> Option<String> {
    match value.get_ref() {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Integer(number) => {
            let value = u64::from_str_radix(number.as_str(), number.radix());
            // A negative or too large number stays as it is, for the error message.
            Some(value.map_or_else(|_| number.to_string(), |value| value.to_string()))
        }
        _ => None,
    }
}

fn line_of(text: &str, position: usize) -> usize {
    let before = text.as_bytes().iter().take(position);
    before.filter(|&&byte| byte == b'\n').count() + 1
}

/// The name and unit of an option of a kind of device or of the device of a built-in profile.
pub fn option_unit(device: &str, name: &str) -> Option<(&'static str, Unit)> {
    fn find<C>(options: &'static [OptionInfo<C>], name: &str) -> Option<(&'static str, Unit)> {
        let option = options.iter().find(|option| option.name == name)?;
        Some((option.name, option.unit))
    }
    match device {
        "null" => find(NULL_OPTIONS, name),
        "hdd" => find(HDD_OPTIONS, name),
        "zns" => find(ZNS_OPTIONS, name),
        profile => option_unit(parse_profile(profile, profile_text(profile)?).ok()?.kind(), name),
    }
}
