//! A device profile whose values can be changed. Everything else in its text stays as it is,
//! comments included.
use super::search::STEP;
use anyhow::{Context, Result, bail, ensure};
use std::ops::RangeInclusive;
use toml_edit::{DocumentMut, Item, value};
use zonal_device::device_spec::{self, DeviceSpec, OptionInfo, Unit};

/// The coordinate of the usual value of an option that is 0 to begin with: 0 itself is off.
const ON: f64 = 1e-9;

/// Values that drives have, least and most, of options by name: times in nanoseconds.
const PLAUSIBLE: [(&str, u64, u64); 8] = [
    ("settle", 300_000, 2_500_000),
    ("seek_average", 3_000_000, 16_000_000),
    ("seek_full", 6_000_000, 32_000_000),
    ("write_settle", 0, 2_000_000),
    ("page_read", 3_000, 200_000),
    ("program", 50_000, 10_000_000),
    ("erase", 500_000, 30_000_000),
    ("latency", 0, 500_000),
];

/// Sizes are rounded to multiples of this.
const SIZE_STEP: u64 = 1024;

/// A profile whose values can be changed.
pub struct Profile {
    /// Its name in errors.
    name: String,
    document: DocumentMut,
    /// The built-in profiles that it builds on, the nearest first.
    bases: Vec<DocumentMut>,
    /// The options that are adjusted.
    free: Vec<FreeParameter>,
}

/// An option that is adjusted.
struct FreeParameter {
    name: &'static str,
    unit: Unit,
    start: u64,
    /// The values that it may have.
    range: &'static RangeInclusive<u64>,
}

impl FreeParameter {
    /// The value to begin with, or a usual one where that is 0. A coordinate of a point is the logarithm
    /// of a factor of this.
    fn scale(&self) -> f64 {
        match (self.start, self.unit) {
            (0, Unit::Rate) => 1e9,
            (0, Unit::Size) => 65_536.0,
            (0, Unit::Time) => 2_000.0,
            (0, _) => 8.0,
            (start, _) => start as f64,
        }
    }
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
        let bases = bases_of(&document);
        Ok(Profile { name: name.to_owned(), document, bases, free: Vec::new() })
    }

    /// A key in the profile, or in those that it builds on.
    fn get(&self, key: &str) -> Option<&Item> {
        [&self.document].into_iter().chain(&self.bases).find_map(|document| document.get(key))
    }

    /// The options that are adjusted unless told otherwise: those that are named as calibrated, and the
    /// times and rates that are written down as 0, which another drive of the kind may have.
    fn usual(&self, device: &str) -> Vec<String> {
        let calibrated = self.get(device_spec::CALIBRATED).map(names_in).unwrap_or_default();
        let mut names = calibrated.clone();
        if calibrated.is_empty() {
            return names;
        }
        for document in [&self.document].into_iter().chain(&self.bases) {
            for (key, item) in document.iter() {
                let unit = device_spec::option_info(device, key).map(|option| option.unit);
                let may_be_off = matches!(unit, Some(Unit::Time | Unit::Rate));
                let is_off = || unit.is_some_and(|unit| number_of(item, unit) == Some(0));
                if may_be_off && is_off() && !names.iter().any(|name| name == key) {
                    names.push(key.to_owned());
                }
            }
        }
        // An option that a nearer profile turns on is not off.
        names.retain(|name| {
            let unit = device_spec::option_info(device, name).map(|option| option.unit);
            let zero = unit.and_then(|unit| number_of(self.get(name)?, unit)) == Some(0);
            calibrated.contains(name) || zero
        });
        names
    }

    /// The profile with the options to adjust: `wanted`, or those that it names as `calibrated`.
    ///
    /// # Errors
    /// An option does not exist, is not a number or has no value.
    pub fn adjusting(mut self, wanted: &[String]) -> Result<Self> {
        let device = self.document["device"].as_str().unwrap_or_default().to_owned();
        let names = if wanted.is_empty() { self.usual(&device) } else { wanted.to_vec() };
        let name = &self.name;
        ensure!(
            !names.is_empty(),
            "{name} names no options as `{}`, expected the options to adjust",
            device_spec::CALIBRATED
        );
        if names.iter().any(|name| name.starts_with("track_")) {
            // The rate of the data sheet would contradict the values that are tried.
            self.document.remove("rate");
        }
        let mut free: Vec<FreeParameter> = Vec::new();
        for option in &names {
            ensure!(
                free.iter().all(|other| other.name != option),
                "option `{option}` is given twice, expected once"
            );
            let known = device_spec::option_info(&device, option);
            let OptionInfo { name: option, unit, range, .. } = known.with_context(|| {
                let names = device_spec::option_names(&device);
                let hint = zonal_blk::did_you_mean(option, names.iter().copied());
                let names = names.join(", ");
                format!(
                    "the device `{device}` has no option `{option}`, expected one of {names}{hint}"
                )
            })?;
            ensure!(
                matches!(*unit, Unit::Count | Unit::Size | Unit::Time | Unit::Rate),
                "option `{option}` is not a number"
            );
            let given = self.get(option).and_then(|item| number_of(item, *unit));
            let start = given
                .with_context(|| format!("{name} has no value of `{option}` to begin with"))?;
            free.push(FreeParameter { name: option, unit: *unit, start, range });
        }
        self.free = free;
        Ok(self)
    }

    /// Whether an option is 0 at a point.
    pub(super) fn is_off(&self, point: &[f64], option: usize) -> bool {
        self.free[option].start == 0 && point[option] == 0.0
    }

    /// Large steps of an option that are worth a try, direction by direction, outward.
    pub(super) fn rungs(&self, option: usize) -> Vec<Vec<f64>> {
        let free = &self.free[option];
        let FreeParameter { unit, start, range, .. } = *free;
        let in_range = |x: &f64| range.contains(&((free.scale() * x.exp()).round() as u64));
        let factors = |powers: &[i32]| -> Vec<f64> {
            let two = std::f64::consts::LN_2;
            powers
                .iter()
                .map(|&power| if power == 0 { ON } else { two * f64::from(power) })
                .filter(in_range)
                .collect()
        };
        match (unit, start) {
            // 0 means that there is no limit.
            (Unit::Rate, 0) => vec![factors(&[3, 2, 1, 0, -1, -2])],
            (_, 0) => vec![factors(&[-2, -1, 0, 1, 2, 3])],
            (Unit::Size | Unit::Count, _) => vec![factors(&[1, 2, 3]), factors(&[-1, -2, -3])],
            _ => Vec::new(),
        }
    }

    /// The number of large steps of all options.
    pub(super) fn rungs_in_all(&self) -> usize {
        (0..self.free.len())
            .map(|option| self.rungs(option).iter().map(Vec::len).sum::<usize>())
            .sum()
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
        let Some(document) = text.and_then(|text| text.parse::<DocumentMut>().ok()) else {
            return Vec::new();
        };
        let bases = bases_of(&document);
        let named = [document].into_iter().chain(bases);
        named
            .filter_map(|document| document.get(device_spec::CALIBRATED).map(names_in))
            .next()
            .unwrap_or_default()
    }

    /// Values at a point in the profile's notation, with four digits if they changed.
    pub fn format(&self, point: &[f64]) -> Vec<String> {
        let show = |(free, &x): (&FreeParameter, &f64)| {
            if x == 0.0 {
                return free.unit.show(free.start);
            }
            let value = free.scale() * x.exp();
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
            let given = document.get(free.name).and_then(Item::as_value);
            let decor = given.map(|value| value.decor().clone());
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
    /// The values contradict one another, or one that changed is of no real drive.
    pub fn spec(&self, point: &[f64]) -> Result<DeviceSpec> {
        for (free, text) in self.free.iter().zip(self.format(point)) {
            let value = free.unit.parse(&text).unwrap_or(free.start);
            let plausible = PLAUSIBLE.iter().find(|(name, ..)| *name == free.name);
            if let Some((name, least, most)) = plausible
                && value != free.start
                && !(*least..=*most).contains(&value)
            {
                bail!("no drive has `{name}` of {text}");
            }
        }
        Ok(device_spec::parse_profile(&self.name, &self.text(point))?)
    }
}

/// The built-in profiles that a profile builds on, the nearest first.
fn bases_of(document: &DocumentMut) -> Vec<DocumentMut> {
    let base = |document: &DocumentMut| {
        let name = |key: &str| document.get(key).and_then(Item::as_str);
        let of_base = |name: &str| device_spec::profile_text(name)?.parse().ok();
        name("profile").and_then(of_base).or_else(|| name("device").and_then(of_base))
    };
    std::iter::successors(base(document), base).collect()
}

/// The number of an item, in the smallest unit.
fn number_of(item: &Item, unit: Unit) -> Option<u64> {
    match item.as_integer() {
        Some(number) => u64::try_from(number).ok(),
        None => item.as_str().and_then(|text| unit.parse(text).ok()),
    }
}

/// The names in a list.
fn names_in(item: &Item) -> Vec<String> {
    let names = item.as_array();
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

    /// A profile file with this text, its usual options adjusted.
    fn of_text(text: &str) -> Profile {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, text).unwrap();
        Profile::load(path.to_str().expect("a plain path")).unwrap().adjusting(&[]).unwrap()
    }

    #[test]
    fn profile_that_builds_on_another_adjusts_what_that_calibrated_and_what_is_off() {
        let profile = of_text("device = \"zn540\"\nlatency = \"9us\"\n");
        let names = profile.names();
        assert!(names.starts_with(&["latency", "write_time"]), "{names:?}");
        assert!(names.ends_with(&["suspend_time"]), "what is off comes last: {names:?}");
        let start = vec![0.0; names.len()];
        assert_eq!(profile.format(&start)[..2], ["9us", "3200ns"]);
        let mut point = start;
        point[1] = 2.0_f64.ln();
        let text = profile.text(&point);
        assert!(text.ends_with("\nwrite_time = \"6400ns\"\n"), "it is added: {text}");
        let on = of_text("device = \"zn540\"\nzone_switch = \"2us\"\n");
        assert!(!on.names().contains(&"zone_switch"), "it is on");
    }

    #[test]
    fn option_that_is_off_has_large_steps_to_values_and_others_have_factors() {
        let profile = of_text("device = \"zn540\"\n");
        let at = |name: &str| {
            profile.names().iter().position(|known| *known == name).expect("it is one")
        };
        let values = |name: &str| {
            let option = at(name);
            let value = |x: f64| {
                let mut point = vec![0.0; profile.names().len()];
                point[option] = x;
                profile.format(&point)[option].clone()
            };
            profile.rungs(option).into_iter().flatten().map(value).collect::<Vec<_>>()
        };
        assert_eq!(values("zone_switch"), ["500ns", "1us", "2us", "4us", "8us", "16us"]);
        assert_eq!(values("zone_rate"), ["8GB/s", "4GB/s", "2GB/s", "1GB/s", "500MB/s", "250MB/s"]);
        assert_eq!(values("reset_hold"), ["35", "18", "9"], "it is at most 100");
        assert!(values("page_read").is_empty());
    }

    #[test]
    fn values_that_no_drive_has_are_refused() {
        let profile = of_text("device = \"smr-30t\"\n");
        let settle = profile.names().iter().position(|name| *name == "settle").expect("it is one");
        let mut point = vec![0.0; profile.names().len()];
        assert!(profile.spec(&point).is_ok());
        point[settle] = 2.0_f64.ln();
        let error = profile.spec(&point).unwrap_err().to_string();
        assert_eq!(error, "no drive has `settle` of 2800us");
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
        let unknown = message(&["latenci"]);
        assert!(
            unknown
                .starts_with("the device `null` has no option `latenci`, expected one of zoned, "),
            "{unknown}"
        );
        assert!(unknown.ends_with(", did you mean `latency`?"), "{unknown}");
        assert_eq!(message(&["memory"]), "option `memory` is not a number");
        assert!(message(&["jitter"]).ends_with("mine.toml has no value of `jitter` to begin with"));
        assert_eq!(message(&["latency"]), "");
        assert!(message(&["zones", "zones"]).ends_with("is given twice, expected once"));
        assert!(message(&[]).ends_with("expected the options to adjust"));
    }
}
