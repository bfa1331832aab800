//! Device profiles: a device's options in a TOML file.
//!
//! Takes the text of a profile; gives the device. The top level holds `device` and the options
//! that the device has in a specification, as integers, booleans, or strings with suffixes, and
//! perhaps `calibrated`, a list of options. Keeps true: an error names the file and, where it concerns one, the line.
use super::{CALIBRATED, DeviceSpec, Parser, SpecError, option_unit};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads the text of a profile. `file` is what errors call it.
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
    // A profile to begin with comes before what changes it, wherever it stands.
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
        // What is wrong may be a default that does not go with what was given.
        let option = error.option().and_then(|name| table.get_key_value(name));
        at(option.map_or(device.span().start, |(name, _)| name.span().start), error)
    })
}

/// The names of options in a list.
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

/// A value as one would write it in a specification; `None` for what cannot be written there.
fn value_text(value: &Spanned<DeValue<'_>>) -> Option<String> {
    match value.get_ref() {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Integer(number) => {
            let value = u64::from_str_radix(number.as_str(), number.radix());
            // A negative or too large one stays as it is, for the error to show.
            Some(value.map_or_else(|_| number.to_string(), |value| value.to_string()))
        }
        _ => None,
    }
}

fn line_of(text: &str, position: usize) -> usize {
    let before = text.as_bytes().iter().take(position);
    before.filter(|&&byte| byte == b'\n').count() + 1
}
