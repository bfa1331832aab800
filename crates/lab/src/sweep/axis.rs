//! The options that a sweep varies: `iodepth=1,2,4..128`.
use anyhow::{Context, Result, bail, ensure};
use std::iter::successors;
use zonal_blk::sched::Scheduler;
use zonal_blk::{ZoneWrite, nearest};
use zonal_fio::options::{self, FioOption, format_size, parse_size};

/// Axes that are no job options.
const OWN: [&str; 3] = ["device", "scheduler", "zone_write"];
/// Other words for the names of axes.
const CALLED: [(&str, &str); 4] = [
    ("policy", "zone_write"),
    ("zone_write_policy", "zone_write"),
    ("depth", "iodepth"),
    ("queue_depth", "iodepth"),
];
/// Most values of an axis.
pub(super) const MAX_VALUES: usize = 1000;

/// The target that an axis sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// An option of all jobs, by fio's name.
    Option(&'static str),
    /// The device of all jobs.
    Device,
    /// The scheduler of all devices.
    Scheduler,
    /// How writes to sequential zones are kept in order.
    ZoneWrite,
}

/// An axis with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The target that it sets.
    pub target: Target,
    /// Its values, as they are written.
    pub values: Vec<String>,
}

impl Axis {
    /// Parses `NAME=VALUE,...`. `A..B` among the values of a job option stands for A, 2A, 4A and so
    /// on up to B; a value with commas is in double quotes.
    ///
    /// # Errors
    /// The error, with the nearest right name.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, values) = text
            .split_once('=')
            .with_context(|| format!("found `{text}`, expected NAME=VALUE,..."))?;
        let target = Target::named(name)?;
        let values = match target {
            Target::Device => devices(values),
            Target::Option(_) => {
                let each = parts(values).into_iter().map(doubled);
                each.collect::<Result<Vec<_>>>()?.concat()
            }
            Target::Scheduler | Target::ZoneWrite => values.split(',').map(str::to_owned).collect(),
        };
        ensure!(
            values.iter().all(|value| !value.is_empty()),
            "found `{text}`, expected no empty value"
        );
        Axis::of(name, values)
    }

    /// The axis of this name with these values.
    ///
    /// # Errors
    /// The error, with the nearest right name.
    pub fn of(name: &str, values: Vec<String>) -> Result<Self> {
        let target = Target::named(name)?;
        for (at, value) in values.iter().enumerate() {
            ensure!(!value.is_empty(), "found an empty value, expected none");
            ensure!(!values[..at].contains(value), "`{value}` is given twice, expected once");
            match target {
                Target::Scheduler => drop(value.parse::<Scheduler>()?),
                Target::ZoneWrite => drop(value.parse::<ZoneWrite>()?),
                Target::Option(_) | Target::Device => {}
            }
        }
        let count = values.len();
        ensure!(
            (1..=MAX_VALUES).contains(&count),
            "found {count} values, expected 1 to {MAX_VALUES}"
        );
        Ok(Axis { target, values })
    }

    /// `NAME=VALUE` for one of its values, as [`Axis::parse`] takes it.
    pub fn with_value(&self, at: usize) -> String {
        let value = &self.values[at];
        match self.target {
            Target::Option(name) if value.contains(',') => format!("{name}=\"{value}\""),
            _ => format!("{}={value}", self.name()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self.target {
            Target::Option(name) => name,
            Target::Device => "device",
            Target::Scheduler => "scheduler",
            Target::ZoneWrite => "zone_write",
        }
    }

    /// Whether all values are numbers or sizes, which have an order.
    pub fn is_numeric(&self) -> bool {
        matches!(self.target, Target::Option(_))
            && self.values.iter().all(|value| parse_size(value).is_ok())
    }
}

impl Target {
    fn named(name: &str) -> Result<Self> {
        match name {
            "device" => return Ok(Target::Device),
            "scheduler" => return Ok(Target::Scheduler),
            "zone_write" | "zone-write" => return Ok(Target::ZoneWrite),
            _ => {}
        }
        match options::find(name) {
            Some(FioOption::Supported(spec)) => Ok(Target::Option(spec.name)),
            Some(FioOption::Unsupported(_)) => {
                bail!("{name}: fio's option is not supported here, so it changes nothing")
            }
            None => {
                let called = CALLED.iter().find(|(word, _)| *word == name).map(|(_, axis)| *axis);
                let near = called.or_else(|| nearest(name, OWN)).or_else(|| options::nearest(name));
                let near = near.map_or_else(
                    || ", expected a job option, device, scheduler or zone_write".to_owned(),
                    |near| format!(", did you mean `{near}`?"),
                );
                bail!("unknown axis `{name}`{near}")
            }
        }
    }
}

/// Splits a list of device specs. A part `OPTION=VALUE` without a device belongs to the spec before
/// it: `zns-1t,null:zones=64,depth=4` are two.
fn devices(text: &str) -> Vec<String> {
    let mut devices: Vec<String> = Vec::new();
    for part in text.split(',') {
        let is_option = part.split_once('=').is_some_and(|(name, _)| !name.contains([':', '/']));
        match devices.last_mut() {
            Some(last) if is_option => *last = format!("{last},{part}"),
            _ => devices.push(part.to_owned()),
        }
    }
    devices
}

/// Splits a list of values. Commas within double quotes belong to the value.
fn parts(text: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let is_comma = |c: char| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    };
    text.split(is_comma).collect()
}

/// A value, or all values of `A..B`.
fn doubled(text: &str) -> Result<Vec<String>> {
    if let Some(quoted) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        return Ok(vec![quoted.to_owned()]);
    }
    let Some((first, last)) = text.split_once("..") else { return Ok(vec![text.to_owned()]) };
    let number = |end: &str| {
        let number = parse_size(end).ok().filter(|&number| number > 0);
        number.with_context(|| {
            format!("found `{text}`, expected A..B with numbers or sizes above 0, such as 4..128")
        })
    };
    let (low, high) = (number(first)?, number(last)?);
    let plain = [first, last].iter().all(|end| end.bytes().all(|byte| byte.is_ascii_digit()));
    let show = |number: u64| if plain { number.to_string() } else { format_size(number) };
    let doubles = successors(Some(low), |number| number.checked_mul(2));
    let values: Vec<u64> = doubles.take_while(|&number| number <= high).collect();
    match values.last() {
        Some(&end) if end == high => Ok(values.into_iter().map(show).collect()),
        end => bail!(
            "found `{text}`, which doubles from {first} and never reaches {last}, expected it to \
             end with {}",
            end.map_or_else(|| format!("{first} or more"), |&end| show(end)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        Axis::parse(text).unwrap().values
    }

    #[test]
    fn ranges_double() {
        assert_eq!(values("iodepth=1,2,4..32"), ["1", "2", "4", "8", "16", "32"]);
        assert_eq!(values("bs=4k..32k,1m"), ["4k", "8k", "16k", "32k", "1m"]);
        assert_eq!(values("blocksize=512..1k"), ["512", "1k"]);
        assert_eq!(values("iodepth=7..7"), ["7"]);
    }

    #[test]
    fn value_with_commas_is_in_quotes_and_read_back() {
        let axis = Axis::parse("bs=\"4k,8k\",1m").unwrap();
        assert_eq!(axis.values, ["4k,8k", "1m"]);
        assert_eq!(Axis::parse(&axis.with_value(0)).unwrap().values, ["4k,8k"]);
        assert_eq!(axis.with_value(1), "bs=1m");
    }

    #[test]
    fn devices_keep_their_options() {
        assert_eq!(
            values("device=zns-1t,null:zones=64,depth=4,../x=1/a.toml"),
            ["zns-1t", "null:zones=64,depth=4", "../x=1/a.toml"]
        );
    }

    #[test]
    fn only_numbers_have_an_order() {
        assert!(Axis::parse("bs=4k,1m").unwrap().is_numeric());
        assert!(!Axis::parse("rw=read,write").unwrap().is_numeric());
        assert!(!Axis::parse("scheduler=none").unwrap().is_numeric());
    }

    #[test]
    fn errors_say_what_was_found_and_the_nearest_right_name() {
        for (text, message) in [
            ("iodepth", "found `iodepth`, expected NAME=VALUE,..."),
            ("iodeph=1", "unknown axis `iodeph`, did you mean `iodepth`?"),
            ("schedular=none", "unknown axis `schedular`, did you mean `scheduler`?"),
            ("policy=plug", "unknown axis `policy`, did you mean `zone_write`?"),
            ("depth=4", "unknown axis `depth`, did you mean `iodepth`?"),
            ("scheduler=deadline", "did you mean `mq-deadline`?"),
            ("colour=red", "expected a job option, device, scheduler or zone_write"),
            (
                "scheduler=kybre",
                concat!(
                    "no scheduler is called `kybre`, expected ",
                    zonal_blk::scheduler_names!(),
                    ", did you mean `kyber`?"
                ),
            ),
            (
                "zone_write=plgu",
                "no policy is called `plgu`, expected plug, qd1, lock or off, did you mean `plug`?",
            ),
            ("iodepth=1,,2", "expected no empty value"),
            ("iodepth=1,2,1..4", "`1` is given twice, expected once"),
            ("iodepth=4..100", "never reaches 100, expected it to end with 64"),
            ("iodepth=8..4", "expected it to end with 8 or more"),
            ("iodepth=0..4", "expected A..B with numbers or sizes above 0"),
        ] {
            let error = Axis::parse(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
