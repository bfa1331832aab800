//! Numbers as fio prints them, such as `15.6MiB` or `3566.1k`, and dates.
//!
//! The rules were derived from fio 3.33's output. Numbers round to nearest.
use crate::job::Job;

/// Prefixes of powers of 1000 and of 1024.
const THOUSANDS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
const KIBI: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// A count in at most `digits` digits: `1931`, `19.3k`, `1931k`.
pub(super) fn count(value: u64, digits: usize) -> String {
    scaled(value, digits, 1000, &THOUSANDS)
}

/// The units of a job's report (`kb_base=` and `unit_base=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Units {
    /// Decimal units first and binary ones in parentheses, instead of the reverse.
    decimal_first: bool,
    /// Rates in bits per second.
    bits: bool,
    /// Digits of bytes, rates and IOPS (`significant_figures=`).
    digits: usize,
}

impl Units {
    /// The units of `job`.
    pub fn of(job: &Job) -> Self {
        Self {
            decimal_first: job.kb_base == 1000,
            bits: job.unit_base == 1,
            digits: job.report.significant_figures.into(),
        }
    }

    /// A number of I/Os per second: `541k`.
    pub fn iops(self, value: u64) -> String {
        count(value, self.digits)
    }

    /// An amount of bytes: `512B`, `9.77MiB`.
    pub fn bytes(self, value: u64) -> String {
        self.both(value).0 + "B"
    }

    /// The same in the other units.
    pub fn other_bytes(self, value: u64) -> String {
        self.both(value).1 + "B"
    }

    /// A rate of bytes per second: `954MiB/s`, `8000Kibit/s`.
    pub fn rate(self, bytes_per_second: u64) -> String {
        self.both(self.scale(bytes_per_second)).0 + self.per_second()
    }

    /// The same in the other units.
    pub fn other_rate(self, bytes_per_second: u64) -> String {
        self.both(self.scale(bytes_per_second)).1 + self.per_second()
    }

    fn scale(self, bytes: u64) -> u64 {
        if self.bits { bytes.saturating_mul(8) } else { bytes }
    }

    fn per_second(self) -> &'static str {
        if self.bits { "bit/s" } else { "B/s" }
    }

    fn both(self, value: u64) -> (String, String) {
        let binary = scaled(value, self.digits, 1024, &KIBI);
        let decimal = scaled(value, self.digits, 1000, &THOUSANDS);
        if self.decimal_first { (decimal, binary) } else { (binary, decimal) }
    }
}

/// Formats a number in the smallest unit in which the integer part has at most `digits` digits.
/// Decimals fill the rest; the point counts as a digit.
fn scaled(value: u64, digits: usize, base: u64, names: &[&str; 7]) -> String {
    let mut unit = 0;
    let mut size = 1;
    while digits_of(value / size) > digits && unit + 1 < names.len() {
        unit += 1;
        size *= base;
    }
    let whole = value / size;
    let decimals = match unit {
        0 => 0,
        _ => (digits - digits_of(whole).min(digits)).saturating_sub(1),
    };
    let number = match decimals {
        0 => (whole + u64::from(value % size >= size.div_ceil(2) && unit > 0)).to_string(),
        _ => format!("{:.*}", decimals, value as f64 / size as f64),
    };
    number + names[unit]
}

/// A latency in three digits with its unit: `0ns`, `136ns`, `1.67us`, `75.9ms`.
pub(super) fn duration(nanos: f64) -> String {
    let mut value = nanos;
    let mut names = ["ns", "us", "ms"].into_iter();
    let name = loop {
        let Some(name) = names.next() else {
            break "s";
        };
        // What would round to 1000 is 1 of the next unit.
        if value < 999.5 {
            break name;
        }
        value /= 1000.0;
    };
    let decimals = match value {
        _ if name == "ns" => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{name}")
}

/// Number of decimal digits.
pub(super) fn digits_of(value: u64) -> usize {
    value.max(1).ilog10() as usize + 1
}

/// The unit of time of a latency statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeUnit {
    Nsec,
    Usec,
    Msec,
}

impl TimeUnit {
    /// The unit for a statistic with this minimum, maximum and deviation in nanoseconds: the largest
    /// in which the minimum and the deviation still have more than one digit.
    pub fn of_spread(min: u64, max: u64, stddev: f64) -> Self {
        if min > 2_000_000 && max > 99_999_999 && stddev > 1e6 {
            TimeUnit::Msec
        } else if min > 2_000 && max > 99_999 && stddev > 1e3 {
            TimeUnit::Usec
        } else {
            TimeUnit::Nsec
        }
    }

    /// The unit for a range of values in nanoseconds.
    pub fn of_range(min: u64, max: u64) -> Self {
        Self::of_spread(min, max, f64::INFINITY)
    }

    /// The name in fio's text.
    pub fn name(self) -> &'static str {
        match self {
            TimeUnit::Nsec => "nsec",
            TimeUnit::Usec => "usec",
            TimeUnit::Msec => "msec",
        }
    }

    /// Nanoseconds in one.
    pub fn nanos(self) -> u64 {
        match self {
            TimeUnit::Nsec => 1,
            TimeUnit::Usec => 1_000,
            TimeUnit::Msec => 1_000_000,
        }
    }
}

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The date `seconds` after 1970-01-01, in C's `ctime` form but in UTC: `Thu Jan  1 00:00:00 1970`.
pub(super) fn ctime(seconds: u64) -> String {
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let weekday = DAYS[(day % 7) as usize];
    let (year, month, day_of_month) = zonal_blk::units::date(day);
    let month = MONTHS[month as usize - 1];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday} {month} {day_of_month:2} {hour:02}:{minute:02}:{second:02} {year}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_as_in_fio() {
        // (bytes, binary, decimal) as printed by fio 3.33.
        let facts = [
            (1, "1B", "1B"),
            (9_728, "9728B", "9728B"),
            (10_240, "10.0KiB", "10.2kB"),
            (12_544, "12.2KiB", "12.5kB"),
            (13_056, "12.8KiB", "13.1kB"),
            (102_912, "101KiB", "103kB"),
            (103_936, "102KiB", "104kB"),
            (512_000, "500KiB", "512kB"),
            (1_048_576, "1024KiB", "1049kB"),
            (9_999_872, "9766KiB", "10000kB"),
            (10_000_384, "9766KiB", "10.0MB"),
            (10_485_248, "10.00MiB", "10.5MB"),
            (10_240_000, "9.77MiB", "10.2MB"),
            (99_999_744, "95.4MiB", "100.0MB"),
            (104_857_088, "100.0MiB", "105MB"),
            (1_073_741_312, "1024MiB", "1074MB"),
        ];
        let units = Units::of(&Job::default());
        for (bytes, binary, decimal) in facts {
            assert_eq!((&*units.bytes(bytes), &*units.other_bytes(bytes)), (binary, decimal));
        }
    }

    #[test]
    fn significant_figures_are_those_of_the_job() {
        // As printed by fio 3.41 with --significant_figures=2, 6 and 9.
        let facts = [
            (2, "1GiB", "1GB", "0M"),
            (6, "617084KiB", "631894kB", "423821"),
            (9, "631894016B", "631894016B", "423821"),
        ];
        for (significant_figures, binary, decimal, iops) in facts {
            let report = crate::job::ReportOptions { significant_figures, ..Default::default() };
            let units = Units::of(&Job { report, ..Job::default() });
            let bytes = 631_894_016;
            assert_eq!((&*units.bytes(bytes), &*units.other_bytes(bytes)), (binary, decimal));
            assert_eq!(units.iops(423_821), iops);
        }
    }

    #[test]
    fn the_bases_of_a_job_choose_the_units() {
        let rates = |kb_base, unit_base| {
            let units = Units::of(&Job { kb_base, unit_base, ..Job::default() });
            format!("{} {}", units.rate(1_024_000), units.other_rate(1_024_000))
        };
        assert_eq!(rates(1024, 0), "1000KiB/s 1024kB/s");
        assert_eq!(rates(1000, 8), "1024kB/s 1000KiB/s");
        // As printed by fio 3.33.
        assert_eq!(rates(1024, 1), "8000Kibit/s 8192kbit/s");
        assert_eq!(rates(1000, 1), "8192kbit/s 8000Kibit/s");
    }

    #[test]
    fn durations_have_three_digits() {
        let facts = [
            (0.0, "0ns"),
            (9.85, "10ns"),
            (999.4, "999ns"),
            (999.5, "1.00us"),
            (1_671.7, "1.67us"),
            (9_995.0, "10.0us"),
            (75_949_000.0, "75.9ms"),
            (999_500_000.0, "1.00s"),
            (4e12, "4000s"),
        ];
        for (nanos, text) in facts {
            assert_eq!(duration(nanos), text);
        }
    }

    #[test]
    fn counts_read_as_in_fio() {
        let iops = [1_000, 3_998, 19_000, 195_000, 1_953_000, 8_533_291].map(|n| count(n, 4));
        assert_eq!(iops, ["1000", "3998", "19.0k", "195k", "1953k", "8533k"]);
        let latencies = [10_425, 62_343, 3_566_100, 41_446_123].map(|n| count(n, 6));
        assert_eq!(latencies, ["10425", "62343", "3566.1k", "41446k"]);
        assert_eq!((count(0, 4), count(u64::MAX, 4)), ("0".to_owned(), "18.4E".to_owned()));
    }

    #[test]
    fn the_unit_of_time_follows_the_smallest_figure() {
        // (min, max, stddev) of statistics printed by fio 3.33.
        assert_eq!(TimeUnit::of_spread(1_842, 3_566_100, 13_859.67), TimeUnit::Nsec);
        assert_eq!(TimeUnit::of_spread(292_000, 731_000, 88_290.0), TimeUnit::Usec);
        assert_eq!(TimeUnit::of_spread(7_600_000, 105_000_000, 22_220_000.0), TimeUnit::Msec);
        assert_eq!(TimeUnit::of_range(1_944, 268_288), TimeUnit::Nsec);
        assert_eq!(TimeUnit::of_range(211_968, 501_760), TimeUnit::Usec);
    }

    #[test]
    fn dates_read_as_ctime() {
        let dates = [
            (0, "Thu Jan  1 00:00:00 1970"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (1_704_067_199, "Sun Dec 31 23:59:59 2023"),
            (1_795_262_709, "Sat Nov 21 12:05:09 2026"),
            (4_107_542_400, "Mon Mar  1 00:00:00 2100"),
        ];
        for (seconds, text) in dates {
            assert_eq!(ctime(seconds), text);
        }
    }
}
