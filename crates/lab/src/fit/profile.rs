//! A device profile whose values can be changed. Everything else in its text stays as it is,
//! comments included.
use super::search::STEP;
use anyhow::{Context, Result, bail, ensure};
use toml_edit::{DocumentMut, Item, value};
use zonal_device::device_spec::{self, DeviceSpec, Unit};

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
        let text = zonal_backend::profile_text(name)?;
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

    /// The names of the options that are adjusted.
    pub fn names(&self) -> Vec<&'static str> {
        self.free.iter().map(|free| free.name).collect()
    }

    /// The options that a device's profile names as adjusted to measurements; none without profile.
    pub fn calibrated_options(device: &str) -> Vec<String> {
        let name = device.split_once(':').map_or(device, |(name, _)| name);
        let text = zonal_backend::profile_text(name).ok();
        let document = text.and_then(|text| text.parse::<DocumentMut>().ok());
        document.map_or_else(Vec::new, |document| calibrated(&document))
    }

    /// Values at a point in the profile's notation, with four digits if they changed.
    pub fn format(&self, point: &[f64]) -> Vec<String> {
        let show = |(free, &x): (&FreeParameter, &f64)| {
            if x == 0.0 {
                return free.unit.show(free.start);
            }
            let value = free.start as f64 * x.exp();
            let digits = 10_f64.powf(value.log10().floor() - 3.0).max(1.0);
            let step = if free.unit == Unit::Size { SIZE_STEP as f64 } else { digits };
            free.unit.show(((value / step).round() * step).max(step).round() as u64)
        };
        self.free.iter().zip(point).map(show).collect()
    }

    /// The step of an option for its derivative: the least that changes a value that is rounded.
    pub fn step(&self, point: &[f64], option: usize) -> f64 {
        let here = self.format(point);
        let steps = (1..8).map(|factor| STEP * f64::from(factor));
        let changes = |step: &f64| {
            let mut there = point.to_vec();
            there[option] += step;
            self.format(&there)[option] != here[option]
        };
        steps.clone().find(changes).unwrap_or(STEP)
    }

    /// The profile's text with the values at a point.
    pub fn text(&self, point: &[f64]) -> String {
        let mut document = self.document.clone();
        for (free, text) in self.free.iter().zip(self.format(point)) {
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

    /// The device with the values at a point.
    ///
    /// # Errors
    /// The values contradict one another.
    pub fn spec(&self, point: &[f64]) -> Result<DeviceSpec> {
        Ok(device_spec::parse_profile(&self.name, &self.text(point))?)
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
    use zonal_device::NullConfig;

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
        assert_eq!(profile.names(), ["latency", "zones"]);
        assert_eq!(profile.text(&[0.0, 0.0]), TEXT);
        let point = [1.23454_f64.ln(), (71.6_f64 / 64.0).ln()];
        let expected = TEXT.replace("10us", "12350ns").replace("64", "72");
        assert_eq!(profile.text(&point), expected);
        let spec = profile.spec(&point).unwrap();
        let config = spec.config_of::<NullConfig>().expect("a null device");
        assert_eq!((config.latency.0, config.zones), (12_350, 72));
    }

    #[test]
    fn step_of_a_small_number_changes_it() {
        let profile = profile(&["latency", "zones"]).unwrap();
        assert_eq!(profile.step(&[0.0, 0.0], 0), STEP);
        let two = [0.0, (2.0_f64 / 64.0).ln()];
        assert_eq!(profile.format(&two)[1], "2");
        assert_eq!(profile.step(&two, 1), 2.0 * STEP, "2 becomes 3");
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
