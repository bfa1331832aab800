//! A device profile whose values can be changed. Everything else in its text stays as it is,
//! comments included.
use super::search::Parameter;
use crate::devices;
use anyhow::{Context, Result, bail, ensure};
use toml_edit::{DocumentMut, Item, value};
use zonal_device::device_spec::{self, DeviceSpec, Unit};

/// The bounds of a search, as a factor of the start value.
const REACH: f64 = 8.0;

/// Sizes are rounded to multiples of this.
const SIZE_STEP: u64 = 1024;

/// A profile whose values can be changed.
pub struct Profile {
    /// Its name in errors.
    name: String,
    document: DocumentMut,
    /// The options that are adjusted.
    free: Vec<FreeParameter>,
}

/// An option that is adjusted.
struct FreeParameter {
    name: &'static str,
    unit: Unit,
    start: u64,
}

impl Profile {
    /// Reads a profile, none of whose options is adjusted yet.
    ///
    /// # Errors
    /// The profile cannot be read or is malformed.
    pub fn load(name: &str) -> Result<Self> {
        let text = devices::profile_text(name)?;
        // Has better messages than the TOML editor.
        device_spec::parse_profile(name, &text)?;
        let document: DocumentMut = text.parse().with_context(|| name.to_owned())?;
        Ok(Profile { name: name.to_owned(), document, free: Vec::new() })
    }

    /// The profile with the options to adjust: `wanted`, or those that it names as `calibrated`.
    ///
    /// # Errors
    /// An option does not exist, is not a number or has no value.
    pub fn adjusting(mut self, wanted: &[String]) -> Result<Self> {
        let (name, document) = (&self.name, &mut self.document);
        let device = document["device"].as_str().unwrap_or_default().to_owned();
        let names = if wanted.is_empty() { calibrated(document) } else { wanted.to_vec() };
        ensure!(
            !names.is_empty(),
            "{name} names no options as `{}`, expected the options to adjust",
            device_spec::CALIBRATED
        );
        if names.iter().any(|name| name.starts_with("track_")) {
            // The rate of the data sheet would contradict the values that are tried.
            document.remove("rate");
        }
        let free = &mut self.free;
        for option in &names {
            ensure!(
                free.iter().all(|other| other.name != option),
                "option `{option}` is given twice, expected once"
            );
            let known = device_spec::option_unit(&device, option);
            let (option, unit) =
                known.with_context(|| format!("the device `{device}` has no option `{option}`"))?;
            ensure!(
                matches!(unit, Unit::Count | Unit::Size | Unit::Time | Unit::Rate),
                "option `{option}` is not a number"
            );
            let given = document
                .get(option)
                .with_context(|| format!("{name} has no value of `{option}` to begin with"))?;
            let start = match given.as_integer() {
                Some(number) => u64::try_from(number).ok(),
                None => given.as_str().and_then(|text| unit.parse(text).ok()),
            };
            let Some(start) = start.filter(|&start| start > 0) else {
                bail!("{name} has no value above 0 of `{option}` to begin with");
            };
            free.push(FreeParameter { name: option, unit, start });
        }
        Ok(self)
    }

    /// The profile's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The options that are adjusted, with their start values and bounds.
    pub fn parameters(&self) -> Vec<Parameter> {
        let parameter = |free: &FreeParameter| {
            let start = free.start as f64;
            Parameter { name: free.name, start, low: start / REACH, high: start * REACH }
        };
        self.free.iter().map(parameter).collect()
    }

    /// Values in the profile's notation.
    pub fn format(&self, values: &[f64]) -> Vec<String> {
        let show = |(free, &value): (&FreeParameter, &f64)| {
            let step = if free.unit == Unit::Size { SIZE_STEP } else { 1 };
            let steps = (value / step as f64).round().max(1.0);
            free.unit.show(steps as u64 * step)
        };
        self.free.iter().zip(values).map(show).collect()
    }

    /// The profile's text with these values.
    pub fn text(&self, values: &[f64]) -> String {
        let mut document = self.document.clone();
        for (free, text) in self.free.iter().zip(self.format(values)) {
            if free.unit.parse(&text) == Ok(free.start) {
                continue;
            }
            let decor = document[free.name].as_value().map(|value| value.decor().clone());
            document[free.name] = match text.parse::<i64>() {
                Ok(number) => value(number),
                Err(_) => value(text),
            };
            if let (Some(decor), Some(value)) = (decor, document[free.name].as_value_mut()) {
                *value.decor_mut() = decor;
            }
        }
        document.to_string()
    }

    /// The device with these values.
    ///
    /// # Errors
    /// The values contradict one another.
    pub fn spec(&self, values: &[f64]) -> Result<DeviceSpec> {
        Ok(device_spec::parse_profile(&self.name, &self.text(values))?)
    }
}

/// The options that a profile names as adjusted to measurements.
fn calibrated(document: &DocumentMut) -> Vec<String> {
    let names = document.get(device_spec::CALIBRATED).and_then(Item::as_array);
    names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Mine.\ndevice = \"null\"\nlatency = \"10us\" # measured\nzones = 64\n";

    fn profile(free: &[&str]) -> Result<Profile> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, TEXT)?;
        let free: Vec<String> = free.iter().map(|&name| name.to_owned()).collect();
        Profile::load(path.to_str().expect("a plain path"))?.adjusting(&free)
    }

    fn message(free: &[&str]) -> String {
        profile(free).err().map_or(String::new(), |error| format!("{error:#}"))
    }

    #[test]
    fn values_change_and_all_else_stays() {
        let profile = profile(&["latency", "zones"]).unwrap();
        let [latency, zones] = &profile.parameters()[..] else { panic!("two are free") };
        assert_eq!((latency.start, zones.start), (10_000.0, 64.0));
        assert_eq!(profile.text(&[10_000.0, 64.0]), TEXT);
        let other = profile.text(&[12_345.4, 71.6]);
        let expected = TEXT.replace("10us", "12345ns").replace("64", "72");
        assert_eq!(other, expected);
        let DeviceSpec::Null(config) = profile.spec(&[12_345.4, 71.6]).unwrap() else {
            panic!("a null device")
        };
        assert_eq!((config.latency.0, config.zones), (12_345, 72));
    }

    #[test]
    fn options_that_cannot_be_adjusted_are_named() {
        assert_eq!(message(&["speed"]), "the device `null` has no option `speed`");
        assert_eq!(message(&["memory"]), "option `memory` is not a number");
        assert!(message(&["jitter"]).ends_with("mine.toml has no value of `jitter` to begin with"));
        assert!(message(&["zones", "zones"]).ends_with("is given twice, expected once"));
        assert!(message(&[]).ends_with("expected the options to adjust"));
    }
}
