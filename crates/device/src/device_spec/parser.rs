//! The parser of options, from a spec or from a profile in TOML. Errors in profiles name the file and,
//! where they concern one, the line.
use super::kinds::{kind, profile_text, sized};
use super::{DeviceSpec, SpecError};
use crate::config::{DeviceConfig, DeviceKind, OptionInfo, Scope, Unit};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The key of a profile that lists the options that were fitted to measurements.
pub const CALIBRATED: &str = "calibrated";

/// The options of one device, as they are parsed.
pub(super) struct Parser {
    config: Box<dyn DeviceConfig>,
    given: Vec<(&'static str, Scope)>,
    /// The assumptions about a device that no profile describes as it is.
    assumed: Vec<String>,
    /// Whether the options that are not given are the defaults of the kind of device.
    is_bare: bool,
}

/// The word that was meant, if the option takes words.
fn nearest_word(unit: Unit, found: &str) -> String {
    match unit {
        Unit::Choice(words) => zonal_blk::did_you_mean(found, words.iter().copied()),
        _ => String::new(),
    }
}

impl Parser {
    /// A parser for a kind of device or a built-in profile.
    pub(super) fn new(device: &str) -> Result<Self, SpecError> {
        let (config, assumed) = match (kind(device), profile_text(device), sized(device)) {
            (Some(kind), ..) => ((kind.default)(), Vec::new()),
            (None, Some(text), _) => (parse_profile(device, text)?.0, Vec::new()),
            (None, None, Some((nearest, bytes))) => {
                let text = profile_text(nearest).expect("a profile has a text");
                let mut config = parse_profile(nearest, text)?.0;
                set_bytes(&mut *config, bytes)?;
                (config, vec![format!("assumed to be {nearest} with another number of zones")])
            }
            (None, None, None) => return Err(SpecError::unknown_device(device)),
        };
        Ok(Parser { config, given: Vec::new(), assumed, is_bare: kind(device).is_some() })
    }

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), SpecError> {
        let kind = self.config.kind();
        if name == "profile" && !kind.profiles.is_empty() {
            self.once("profile")?;
            self.config = self.profile(value)?;
            self.given.push(("profile", Scope::Any));
            self.is_bare = false;
            return Ok(());
        }
        let names = || kind.options.iter().map(|option| option.name);
        let info = kind.option(name).ok_or_else(|| SpecError::UnknownOption {
            found: name.to_owned(),
            nearest: zonal_blk::nearest(name, names()),
            known: names().collect(),
        })?;
        self.once(info.name)?;
        self.config.set(name, value).map_err(|error| SpecError::BadValue {
            option: info.name,
            found: value.to_owned(),
            form: info.unit.form() + &nearest_word(info.unit, value),
            max: error.max,
        })?;
        self.given.push((info.name, info.scope));
        Ok(())
    }

    fn once(&self, option: &'static str) -> Result<(), SpecError> {
        match self.given.iter().any(|(given, _)| *given == option) {
            true => Err(SpecError::Duplicate { option }),
            false => Ok(()),
        }
    }

    /// A profile to start from. Options that were given already would be undone.
    fn profile(&self, name: &str) -> Result<Box<dyn DeviceConfig>, SpecError> {
        let profiles = self.config.kind().profiles;
        let bad = |form| SpecError::BadValue {
            option: "profile",
            found: name.to_owned(),
            form,
            max: None,
        };
        if !self.given.is_empty() {
            return Err(bad("it before all other options".to_owned()));
        }
        let known = profiles.iter().find(|(profile, _)| *profile == name);
        let (_, text) = known.ok_or_else(|| {
            let names: Vec<&str> = profiles.iter().map(|(name, _)| *name).collect();
            bad(format!("one of {}", names.join(", ")))
        })?;
        Ok(parse_profile(name, text)?.0)
    }

    pub(super) fn finish(mut self) -> Result<DeviceSpec, SpecError> {
        let is_zoned = self.config.is_zoned();
        let at = |name| self.given.iter().position(|(given, _)| *given == name);
        if let (true, Some(size), None) = (is_zoned, at("size"), at("zones")) {
            // The size of a device with zones is that of as many zones.
            let bytes = self.config.get("size").expect("it was given");
            set_bytes(&mut *self.config, bytes)?;
            self.given[size] = ("zones", Scope::Zoned);
        }
        if is_zoned {
            self.lower_limits();
        }
        self.apply_implied();
        self.name_profile_of_this_size();
        let scopes = self.config.kind().scopes;
        let (found, expected) = (scopes[usize::from(!is_zoned)], scopes[usize::from(is_zoned)]);
        let other = if is_zoned { Scope::Regular } else { Scope::Zoned };
        if let Some(&(option, _)) = self.given.iter().find(|(_, scope)| *scope == other) {
            return Err(SpecError::WrongScope { option, found, expected });
        }
        self.config.validate()?;
        Ok(DeviceSpec(self.config, self.assumed))
    }

    /// Sets the options that others stand for.
    fn apply_implied(&mut self) {
        let is_given = |name: &str| self.given.iter().any(|(given, _)| *given == name);
        for implied in self
            .given
            .iter()
            .filter_map(|(given, _)| self.config.implied(given))
            .collect::<Vec<_>>()
        {
            for (option, value) in implied.into_iter().filter(|(option, _)| !is_given(option)) {
                self.config.set(option, value).expect("an implied value is one of the option");
            }
        }
    }

    /// Says which profile has better values than the defaults, if only the size of a large device was given.
    fn name_profile_of_this_size(&mut self) {
        let is_given = |names: [&str; 3]| self.given.iter().any(|(given, _)| names.contains(given));
        let sized = is_given(["size", "zones", "zone_size"]);
        let described = is_given(["track_outer", "heads", "seek_average"]);
        let better = self.config.profile_of_this_size();
        if let Some(better) = better.filter(|_| self.is_bare && sized && !described) {
            self.assumed.push(format!(
                "assumed to have the tracks and seeks of a small disk; {better} has those of a large one"
            ));
        }
    }

    /// Lowers limits that were not given to what the options that were given allow: a profile's limits
    /// are those of a larger device.
    fn lower_limits(&mut self) {
        let is_given = |name: &str| self.given.iter().any(|(given, _)| *given == name);
        for limit in ["max_active", "max_open"].into_iter().filter(|limit| !is_given(limit)) {
            let bounds = ["zones", "max_active"].into_iter().filter(|bound| is_given(bound));
            let bounds = bounds.filter_map(|bound| Some((bound, self.config.get(bound)?)));
            // 0 is no limit.
            let least = bounds.filter(|(_, value)| *value > 0).min_by_key(|(_, value)| *value);
            let (Some((bound, most)), Some(now)) = (least, self.config.get(limit)) else {
                continue;
            };
            if now > most {
                self.config.set(limit, &most.to_string()).expect("a smaller number is one, too");
                self.assumed.push(format!("{limit} lowered from {now} to {bound}={most}"));
            }
        }
    }
}

/// Gives a device with zones as many as these bytes need.
fn set_bytes(config: &mut dyn DeviceConfig, bytes: u64) -> Result<(), SpecError> {
    let Some(zone_size) = config.get("zone_size").filter(|size| *size > 0) else { return Ok(()) };
    let zones = bytes.div_ceil(zone_size).to_string();
    config.set("zones", &zones).map_err(|error| SpecError::BadValue {
        option: "size",
        found: crate::quantity::format_size(bytes),
        form: Unit::Size.form(),
        max: error.max.map(|zones| zones.saturating_mul(zone_size)),
    })
}

/// Parses a profile: a TOML table with `device`, the options of the device as integers, booleans or
/// strings with suffixes, and optionally `calibrated`, a list of options. `file` is its name in
/// errors.
///
/// # Errors
/// The error in the profile, with file and line.
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
        option_info(device, name).ok_or_else(|| bad(name))?;
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

/// An option of a kind of device or of the device of a built-in profile.
pub fn option_info(device: &str, name: &str) -> Option<&'static OptionInfo> {
    kind_of(device)?.option(name)
}

/// The names of the options of a kind of device or of the device of a built-in profile, in the order of their
/// declaration; none where there is no such device.
pub fn option_names(device: &str) -> Vec<&'static str> {
    kind_of(device).map_or_else(Vec::new, |kind| kind.options.iter().map(|it| it.name).collect())
}

/// A kind of device by its name, or by that of a built-in profile.
fn kind_of(device: &str) -> Option<&'static DeviceKind> {
    match kind(device) {
        Some(kind) => Some(kind),
        None => Some(parse_profile(device, profile_text(device)?).ok()?.0.kind()),
    }
}
