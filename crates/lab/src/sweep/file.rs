//! A sweep as a file, which the program and the Python package read:
//!
//! ```toml
//! jobs = "examples/xfs.fio"               # a job file, or its text in several lines
//! device = "smr-30t"
//! repetitions = 3
//! metric = "clat_p99_us"
//! output = "depth"                        # keeps what was measured
//!
//! [space]
//! iodepth = { from = 1, to = 64, factor = 2 }
//! zone_write = ["plug", "qd1"]
//! ```
//!
//! Files that it names are found from where the program runs, as those of a job file are. Errors name
//! the file and the line.
use super::axis::{Axis, MAX_VALUES};
use super::{JOBS, MAX_POINTS, Metric, Search, SweepOptions, points};
use crate::executor::ClockKind;
use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use std::ffi::OsString;
use std::iter::successors;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use zonal_backend::Notices;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Nanos, ZoneWrite};
use zonal_fio::options::{format_size, parse_size};
use zonal_os::text_file;
use zonal_sim::CostModel;

/// The keys of a file.
const KEYS: [&str; 14] = [
    "jobs",
    "device",
    "scheduler",
    "zone_write",
    "clock",
    "io_cost",
    "seed",
    "repetitions",
    "time",
    "search",
    "points",
    "metric",
    "output",
    "space",
];
/// The keys of a range.
const RANGE_KEYS: [&str; 4] = ["from", "to", "step", "factor"];
/// The values of `search`. Bayesian search is that of the Python package.
const SEARCHES: [&str; 3] = ["grid", "random", "bayesian"];
/// The cost of an I/O for its thread in virtual time, unless something else is said.
pub const IO_COST: CostModel = CostModel::Flat(Nanos(1000));

/// The contents of a file.
#[derive(Clone, Debug)]
pub struct SweepFile {
    /// The jobs as arguments: [`JOBS`] for those of [`SweepOptions::job_text`].
    pub job_args: Vec<OsString>,
    /// The options to vary, and the ones that stay.
    pub options: SweepOptions,
    /// Axes that are ranges of whole numbers, by their place.
    pub ranges: Vec<Option<NumberRange>>,
    /// This many points are to be chosen by Bayesian search, in place of [`SweepOptions::search`].
    pub bayesian: Option<usize>,
    /// The name, without extension, of the file that keeps what was measured.
    pub output: Option<PathBuf>,
}

/// Whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// The first.
    pub from: u64,
    /// The last.
    pub to: u64,
    /// How one follows from another.
    pub by: By,
}

/// How a number of a range follows from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// This is added.
    Step(u64),
    /// It is multiplied by this.
    Factor(u64),
}

/// Reads a file.
///
/// # Errors
/// It cannot be read, or something in it is wrong.
pub fn read(path: &Path) -> Result<SweepFile> {
    let name = path.display().to_string();
    parse(&name, &text_file::read_toml(path).with_context(|| name.clone())?)
}

/// Parses the text of a file of this name.
///
/// # Errors
/// The error, with file and line.
pub fn parse(name: &str, text: &str) -> Result<SweepFile> {
    let source = Source { name, text };
    let table = DeTable::parse(text).map_err(|error| {
        source.error(error.span().unwrap_or_default(), error.message().to_owned())
    })?;
    for key in table.get_ref().keys() {
        let found = key.get_ref().as_ref();
        if !KEYS.contains(&found) {
            let hint = zonal_blk::did_you_mean(found, KEYS);
            let known = KEYS.join(", ");
            let what = format!("unknown key `{found}`, expected one of {known}{hint}");
            return Err(source.error(key.span(), what));
        }
    }
    Parser { source, table: table.get_ref() }.file()
}

#[derive(Clone, Copy)]
struct Source<'a> {
    name: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn error(&self, at: Range<usize>, what: impl std::fmt::Display) -> Error {
        let before = &self.text.as_bytes()[..at.start.min(self.text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        anyhow!("{}: line {line}: {what}", self.name)
    }
}

type Value<'a> = Spanned<DeValue<'a>>;

struct Parser<'a> {
    source: Source<'a>,
    table: &'a DeTable<'a>,
}

impl Parser<'_> {
    fn file(&self) -> Result<SweepFile> {
        let (axes, ranges) = self.space()?;
        let jobs = self.required("jobs", "a job file, or its text", text)?;
        // A path has one line.
        let job_text = jobs.contains('\n').then(|| jobs.clone());
        let count = |value: &Value<'_>| within(value, 1, MAX_POINTS as u64).map(|n| n as usize);
        let (search, points) = (self.get("search", searched)?, self.get("points", count)?);
        let search = search.unwrap_or(SEARCHES[0]);
        let (search, bayesian) = match (search, points) {
            ("grid", None) => (Search::Grid, None),
            ("grid", Some(_)) => bail!(self.wrong("points", "found it with a grid, which has all")),
            (_, None) => bail!(self.wrong("search", "expected `points`, the number of points")),
            ("random", Some(points)) => (Search::Random { points }, None),
            (_, points) => (Search::Grid, points),
        };
        let clock = self.get("clock", clock)?.unwrap_or(ClockKind::Virtual);
        let metric = |value: &Value<'_>| Metric::from_name(&text(value)?);
        let repetitions = self.get("repetitions", |value| within(value, 1, 1000))?.unwrap_or(1);
        let options = SweepOptions {
            axes,
            device: self.get("device", text)?,
            scheduler: self.get("scheduler", |value| checked::<Scheduler>(&text(value)?))?,
            zone_write: self.get("zone_write", |value| Ok(text(value)?.parse::<ZoneWrite>()?))?,
            seeds: u32::try_from(repetitions).expect("1000 at most"),
            seed: self.get("seed", |value| within(value, 0, u64::MAX))?.unwrap_or(0),
            seconds: self.get("time", seconds)?,
            clock,
            io_cost: self.get("io_cost", |value| Ok(scalar(value)?.parse()?))?.unwrap_or(IO_COST),
            search,
            metric: self.get("metric", metric)?,
            job_text,
            goes_on: true,
            resume: None,
            notices: Notices::default(),
        };
        self.check(&options, bayesian)?;
        Ok(SweepFile {
            job_args: vec![if options.job_text.is_some() { JOBS.into() } else { jobs.into() }],
            options,
            ranges,
            bayesian,
            output: self.get("output", text)?.map(PathBuf::from),
        })
    }

    /// Checks the rules between keys.
    fn check(&self, options: &SweepOptions, bayesian: Option<usize>) -> Result<()> {
        for (key, is_given) in [
            ("device", options.device.is_some()),
            ("scheduler", options.scheduler.is_some()),
            ("zone_write", options.zone_write.is_some()),
        ] {
            let is_axis = options.axes.iter().any(|axis| axis.name() == key);
            ensure!(
                !(is_given && is_axis),
                self.wrong(key, "found it in [space] as well, expected one of the two")
            );
        }
        if bayesian.is_none() {
            points(&options.axes, options.search, options.seed)
                .map_err(|error| self.wrong("space", error))?;
        }
        Ok(())
    }

    /// The result of `read` for the value of a key; `None` if there is no such key.
    fn get<T>(&self, key: &str, read: impl FnOnce(&Value<'_>) -> Result<T>) -> Result<Option<T>> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        match read(value) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(self.source.error(value.span(), format!("`{key}`: {error}"))),
        }
    }

    fn required<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&Value<'_>) -> Result<T>,
    ) -> Result<T> {
        let missing = || anyhow!("{}: found no `{key}`, expected {expected}", self.source.name);
        self.get(key, read)?.ok_or_else(missing)
    }

    /// An error about a key that is there.
    fn wrong(&self, key: &str, what: impl std::fmt::Display) -> Error {
        let span = self.table.get(key).map(Spanned::span).unwrap_or_default();
        self.source.error(span, format!("`{key}`: {what}"))
    }

    /// The axes, in the order of the file.
    fn space(&self) -> Result<(Vec<Axis>, Vec<Option<NumberRange>>)> {
        let Some(value) = self.table.get("space") else {
            bail!("{}: found no table [space], expected it, with what is varied", self.source.name)
        };
        let Some(space) = value.get_ref().as_table().filter(|table| !table.is_empty()) else {
            let what = "expected a table [space] with what is varied";
            return Err(self.source.error(value.span(), what));
        };
        let mut keys: Vec<_> = space.iter().collect();
        keys.sort_by_key(|(key, _)| key.span().start);
        let (mut axes, mut ranges) = (Vec::<Axis>::new(), Vec::new());
        for (key, value) in keys {
            let name = key.get_ref().as_ref();
            let found = values(value).and_then(|(values, range)| {
                let axis = Axis::of(name, values)?;
                let twice = axes.iter().any(|other| other.target == axis.target);
                ensure!(!twice, "found the axis twice, expected it once");
                Ok((axis, range))
            });
            let (axis, range) = found.map_err(|error| {
                self.source.error(key.span(), format!("space: `{name}`: {error}"))
            })?;
            axes.push(axis);
            ranges.push(range);
        }
        Ok((axes, ranges))
    }
}

/// The values of an axis: a list, or a range.
fn values(value: &Value<'_>) -> Result<(Vec<String>, Option<NumberRange>)> {
    match value.get_ref() {
        DeValue::Array(values) => Ok((values.iter().map(scalar).collect::<Result<_>>()?, None)),
        DeValue::Table(table) => range(table),
        _ => bail!(
            "found {}, expected a list, or a range such as {{ from = 1, to = 64, factor = 2 }}",
            kind(value)
        ),
    }
}

fn range(table: &DeTable<'_>) -> Result<(Vec<String>, Option<NumberRange>)> {
    for key in table.keys() {
        let found = key.get_ref().as_ref();
        let hint = zonal_blk::did_you_mean(found, RANGE_KEYS);
        let known = RANGE_KEYS.join(", ");
        ensure!(
            RANGE_KEYS.contains(&found),
            "unknown key `{found}` of a range, expected {known}{hint}"
        );
    }
    let end = |key: &str| {
        let value = table.get(key).with_context(|| format!("found no `{key}` of the range"))?;
        let text = scalar(value)?;
        let size = parse_size(&text).ok();
        size.with_context(|| format!("`{key}`: found `{text}`, expected a number or a size"))
    };
    let (from, to) = (end("from")?, end("to")?);
    let by = |key, least| table.get(key).map(|value| within(value, least, u64::MAX)).transpose();
    let by = match (by("step", 1)?, by("factor", 2)?) {
        (Some(step), None) => By::Step(step),
        (None, Some(factor)) if from > 0 => By::Factor(factor),
        (None, Some(_)) => bail!("`from`: found 0, expected more with a factor"),
        (None, None) => By::Step(1),
        _ => bail!("found `step` and `factor`, expected one of the two"),
    };
    let range = NumberRange { from, to, by };
    let is_plain = |key| table.get(key).is_some_and(|value| value.get_ref().is_integer());
    let is_plain = is_plain("from") && is_plain("to");
    let show = |number: u64| if is_plain { number.to_string() } else { format_size(number) };
    let values = range.numbers()?.into_iter().map(show).collect();
    Ok((values, is_plain.then_some(range)))
}

impl NumberRange {
    /// All its numbers.
    fn numbers(self) -> Result<Vec<u64>> {
        let next = |&number: &u64| match self.by {
            By::Step(step) => number.checked_add(step),
            By::Factor(factor) => number.checked_mul(factor),
        };
        let all = successors(Some(self.from), next).take_while(|&number| number <= self.to);
        let numbers: Vec<u64> = all.take(MAX_VALUES + 1).collect();
        ensure!(numbers.len() <= MAX_VALUES, "expected at most {MAX_VALUES} values");
        match numbers.last() {
            Some(&last) if last == self.to => Ok(numbers),
            Some(last) => {
                bail!("the range never reaches {}, expected it to end with {last}", self.to)
            }
            None => bail!("found {} to {}, expected a range that goes up", self.from, self.to),
        }
    }
}

fn text(value: &Value<'_>) -> Result<String> {
    let text = value.get_ref().as_str().filter(|text| !text.is_empty());
    let text = text.with_context(|| format!("found {}, expected a text in quotes", kind(value)))?;
    Ok(text.to_owned())
}

/// A text, a number or a truth value, as job options have it.
fn scalar(value: &Value<'_>) -> Result<String> {
    match value.get_ref() {
        DeValue::Integer(_) => Ok(within(value, 0, u64::MAX)?.to_string()),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Ok(u8::from(*flag).to_string()),
        _ => text(value)
            .with_context(|| format!("found {}, expected a text or a number", kind(value))),
    }
}

fn within(value: &Value<'_>, least: u64, most: u64) -> Result<u64> {
    let number = value
        .get_ref()
        .as_integer()
        .and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
    let expected = match most {
        u64::MAX => format!("expected a whole number of {least} or more"),
        _ => format!("expected a whole number from {least} to {most}"),
    };
    let number = number.filter(|number| (least..=most).contains(number));
    number.with_context(|| format!("found {}, {expected}", shown(value)))
}

fn seconds(value: &Value<'_>) -> Result<f64> {
    let number = match value.get_ref() {
        DeValue::Integer(number) => number.as_str().parse().ok(),
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    };
    let number = number.filter(|seconds| (0.0001..=86400.0).contains(seconds));
    number.with_context(|| format!("found {}, expected 0.0001 to 86400 seconds", shown(value)))
}

/// A name, checked as `T`.
fn checked<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(
    name: &str,
) -> Result<String> {
    name.parse::<T>()?;
    Ok(name.to_owned())
}

fn searched(value: &Value<'_>) -> Result<&'static str> {
    let found = text(value)?;
    let known = SEARCHES.into_iter().find(|known| *known == found);
    known.with_context(|| {
        let hint = zonal_blk::did_you_mean(&found, SEARCHES);
        format!("found `{found}`, expected grid, random or bayesian{hint}")
    })
}

fn clock(value: &Value<'_>) -> Result<ClockKind> {
    match text(value)?.as_str() {
        "virtual" => Ok(ClockKind::Virtual),
        "real" => Ok(ClockKind::Real),
        found => {
            let hint = zonal_blk::did_you_mean(found, ["virtual", "real"]);
            bail!("found `{found}`, expected virtual or real{hint}")
        }
    }
}

/// A value as errors show it.
fn shown(value: &Value<'_>) -> String {
    match value.get_ref() {
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::String(text) => format!("`{text}`"),
        _ => kind(value),
    }
}

fn kind(value: &Value<'_>) -> String {
    let kind = value.get_ref().type_str();
    let article = if kind.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "jobs = 'a.fio'\n[space]\niodepth = [1, 4]\n";

    fn error(text: &str) -> String {
        parse("s.toml", text).expect_err(text).to_string()
    }

    fn axes(space: &str) -> Vec<Axis> {
        parse("s.toml", &format!("jobs = 'a.fio'\n[space]\n{space}")).unwrap().options.axes
    }

    #[test]
    fn defaults_are_those_of_the_command() {
        let SweepFile { job_args, options, ranges, bayesian, output } =
            parse("s.toml", GOOD).unwrap();
        assert_eq!(job_args, ["a.fio"]);
        assert_eq!((options.seeds, options.seed, options.seconds), (1, 0, None));
        assert_eq!((options.clock, options.io_cost), (ClockKind::Virtual, IO_COST));
        assert_eq!((options.search, options.metric), (Search::Grid, None));
        assert_eq!(options.axes, [Axis::parse("iodepth=1,4").unwrap()]);
        assert_eq!((ranges, bayesian, output), (vec![None], None, None));
        assert!(options.goes_on && options.job_text.is_none());
    }

    #[test]
    fn axes_are_in_the_order_of_the_file_and_ranges_are_counted_out() {
        let axes = axes(
            "zone_write = ['qd1', 'plug']\niodepth = { from = 1, to = 64, factor = 4 }\n\
             bs = { from = '4k', to = '12k', step = 4096 }\nbssplit = ['4k/50:8k/50,1m']\n\
             thinktime = { from = 0, to = 2 }\ndirect = [true, false]\n",
        );
        let expected = [
            "zone_write=qd1,plug",
            "iodepth=1,4,16,64",
            "bs=4k,8k,12k",
            "bssplit=\"4k/50:8k/50,1m\"",
            "thinktime=0,1,2",
            "direct=1,0",
        ];
        assert_eq!(axes, expected.map(|axis| Axis::parse(axis).unwrap()));
    }

    #[test]
    fn jobs_of_several_lines_are_their_text() {
        let text = "jobs = '''\n[w]\nrw=write\n'''\nsearch = 'bayesian'\npoints = 9\n\
                    [space]\niodepth = { from = 2, to = 4 }";
        let file = parse("s.toml", text).unwrap();
        assert_eq!(file.job_args, [JOBS]);
        assert_eq!(file.options.job_text.as_deref(), Some("[w]\nrw=write\n"));
        assert_eq!(file.bayesian, Some(9));
        assert_eq!(file.ranges, [Some(NumberRange { from: 2, to: 4, by: By::Step(1) })]);
    }

    #[test]
    fn errors_name_the_line_the_key_and_the_nearest_right_name() {
        let of_space = |space: &str| error(&format!("jobs = 'a'\n[space]\n{space}"));
        let of_key = |line: &str| error(&format!("{line}\n{GOOD}"));
        for (found, expected) in [
            (error("a = = 1"), "s.toml: line 1: "),
            (error(""), "s.toml: found no table [space]"),
            (error("[space]\niodepth = [1]"), "s.toml: found no `jobs`, expected a job file"),
            (error("space = 1"), "s.toml: line 1: expected a table [space]"),
            (of_key("sede = 1"), "s.toml: line 1: unknown key `sede`, expected one of jobs, "),
            (of_key("sede = 1"), "did you mean `seed`?"),
            (of_key("device = 1"), "line 1: `device`: found an integer, expected a text in quotes"),
            (of_key("seed = -1"), "`seed`: found -1, expected a whole number of 0 or more"),
            (of_key("repetitions = 0"), "found 0, expected a whole number from 1 to 1000"),
            (of_key("time = 'long'"), "`time`: found `long`, expected 0.0001 to 86400 seconds"),
            (of_key("scheduler = 'kybre'"), "did you mean `kyber`?"),
            (of_key("zone_write = 'plgu'"), "did you mean `plug`?"),
            (of_key("clock = 'reel'"), "expected virtual or real, did you mean `real`?"),
            (of_key("io_cost = 'publisht'"), "`io_cost`: found `publisht`, expected a number of"),
            (of_key("metric = 'iosp'"), "expected one of bandwidth, iops, clat_p50_us, "),
            (of_key("search = 'gird'"), "expected grid, random or bayesian, did you mean `grid`?"),
            (of_key("search = 'random'"), "`search`: expected `points`, the number of points"),
            (of_key("points = 3"), "`points`: found it with a grid, which has all"),
            (of_space("iodeph = [1]"), "line 3: space: `iodeph`: unknown axis `iodeph`, did you"),
            (of_space("bs = [1]\nblocksize = [2]"), "found the axis twice, expected it once"),
            (of_space("iodepth = []"), "found 0 values, expected 1 to 1000"),
            (of_space("iodepth = [1, 1]"), "`1` is given twice, expected once"),
            (of_space("iodepth = [[1]]"), "found an array, expected a text or a number"),
            (of_space("iodepth = 1"), "found an integer, expected a list, or a range such as"),
            (of_space("bs = { from = 1 }"), "found no `to` of the range"),
            (of_space("bs = { from = 1, too = 2 }"), "did you mean `to`?"),
            (of_space("bs = { from = 'x', to = 2 }"), "`from`: found `x`, expected a number or a"),
            (of_space("bs = { from = 3, to = 2 }"), "found 3 to 2, expected a range that goes up"),
            (of_space("bs = { from = 0, to = 2, factor = 2 }"), "`from`: found 0, expected more"),
            (of_space("bs = { from = 1, to = 2, factor = 1 }"), "expected a whole number of 2 or"),
            (
                of_space("bs = { from = 1, to = 9, step = 4, factor = 2 }"),
                "expected one of the two",
            ),
            (of_space("bs = { from = 1, to = 9, step = 5 }"), "expected it to end with 6"),
            (of_space("bs = { from = 1, to = 9000 }"), "expected at most 1000 values"),
        ] {
            assert!(found.contains(expected), "{found}\nexpected {expected}");
        }
        let twice = "device = 'null'\njobs = 'a'\n[space]\ndevice = ['hdd']";
        assert!(error(twice).contains("line 1: `device`: found it in [space] as well"));
        let range = "{ from = 1, to = 1000 }";
        let many = of_space(&format!("bs = {range}\niodepth = {range}"));
        assert!(many.contains("line 2: `space`: expected at most 100000 combinations"), "{many}");
    }
}
