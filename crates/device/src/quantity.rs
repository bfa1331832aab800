//! Counts, sizes, times and rates as text: `4096`, `256M`, `10us`, `245MB/s`.
//!
//! Formatting a size or a time and parsing it again yields the same number.

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a whole number with one of the suffixes.
    #[error("not a number with a known suffix")]
    Malformed,
    /// The value does not fit in 64 bits.
    #[error("more than 64 bits hold")]
    TooLarge,
}

/// Suffixes of sizes, without `B` and `iB`, with their powers of two.
const SIZES: [(&str, u32); 5] = [("T", 40), ("G", 30), ("M", 20), ("K", 10), ("", 0)];

/// Suffixes of times, in nanoseconds.
const TIMES: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// Suffixes of rates, in bytes per second.
const RATES: [(&str, u64); 4] =
    [("GB/s", 1_000_000_000), ("MB/s", 1_000_000), ("kB/s", 1_000), ("B/s", 1)];

/// Parses a whole number without a suffix.
///
/// # Errors
/// The error in the text.
pub fn parse_count(text: &str) -> Result<u64, QuantityError> {
    match split(text)? {
        (number, "") => Ok(number),
        _ => Err(QuantityError::Malformed),
    }
}

/// Parses a number of bytes: with `K`, `M`, `G` or `T` for powers of 1024, then optionally `B` or
/// `iB`, in upper or lower case.
///
/// # Errors
/// The error in the text.
pub fn parse_size(text: &str) -> Result<u64, QuantityError> {
    let (number, suffix) = split(text)?;
    let suffix = suffix.to_ascii_uppercase();
    let unit = match suffix.strip_suffix("IB") {
        // "iB" alone is not a unit.
        Some("") => return Err(QuantityError::Malformed),
        Some(unit) => unit,
        None => suffix.strip_suffix('B').unwrap_or(&suffix),
    };
    let known = SIZES.iter().find(|(name, _)| *name == unit);
    let (_, shift) = known.ok_or(QuantityError::Malformed)?;
    number.checked_mul(1 << shift).ok_or(QuantityError::TooLarge)
}

/// Parses a number of nanoseconds, with `ns`, `us`, `ms` or `s`. Only 0 needs no unit: someone who writes
/// `10` may well mean microseconds.
///
/// # Errors
/// The error in the text.
pub fn parse_time(text: &str) -> Result<u64, QuantityError> {
    let (number, suffix) = split(text)?;
    let suffix = if number == 0 && suffix.is_empty() { "ns" } else { suffix };
    let known = TIMES.iter().find(|(name, _)| *name == suffix);
    let (_, nanos) = known.ok_or(QuantityError::Malformed)?;
    number.checked_mul(*nanos).ok_or(QuantityError::TooLarge)
}

/// Parses a rate in bytes per second: a number, with up to three decimals, and `kB/s`, `MB/s` or
/// `GB/s` for powers of 1000, or `B/s`. Only 0 needs no unit.
///
/// # Errors
/// The error in the text.
pub fn parse_rate(text: &str) -> Result<u64, QuantityError> {
    let (whole, rest) = split(text)?;
    let (thousandths, suffix) = match rest.strip_prefix('.') {
        None => (0, rest),
        Some(decimals) => {
            let (digits, suffix) = split(decimals)?;
            let places = u32::try_from(decimals.len() - suffix.len());
            let places = places.ok().filter(|places| (1..=3).contains(places));
            (digits * 10u64.pow(3 - places.ok_or(QuantityError::Malformed)?), suffix)
        }
    };
    let suffix = if (whole, rest) == (0, "") { "B/s" } else { suffix };
    let known = RATES.iter().find(|(name, _)| *name == suffix);
    let (_, unit) = known.ok_or(QuantityError::Malformed)?;
    let part = thousandths * unit / 1000;
    let whole = whole.checked_mul(*unit).and_then(|bytes| bytes.checked_add(part));
    whole.ok_or(QuantityError::TooLarge)
}

/// Parses a share in thousandths of a percent: a number, with up to three decimals, and `%`.
///
/// # Errors
/// [`QuantityError`]: the text is no percentage, or too large a one.
pub fn parse_percent(text: &str) -> Result<u64, QuantityError> {
    let number = text.strip_suffix('%').ok_or(QuantityError::Malformed)?;
    // A rate in kB/s has three decimals, too.
    parse_rate(&format!("{number}kB/s"))
}

/// Formats a share in thousandths of a percent: `7%`, `12.5%`.
pub fn format_percent(thousandths: u64) -> String {
    let decimals = format!("{:03}", thousandths % 1000);
    match decimals.trim_end_matches('0') {
        "" => format!("{}%", thousandths / 1000),
        decimals => format!("{}.{decimals}%", thousandths / 1000),
    }
}

/// Splits a text into its leading digits and the rest.
fn split(text: &str) -> Result<(u64, &str), QuantityError> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, suffix) = text.split_at(end.unwrap_or(text.len()));
    if digits.is_empty() {
        return Err(QuantityError::Malformed);
    }
    let number = digits.parse().map_err(|_| QuantityError::TooLarge)?;
    Ok((number, suffix))
}

/// Formats a number of bytes in the largest unit that divides it: `256MiB`, `512B`.
pub fn format_size(bytes: u64) -> String {
    let fits = |&&(_, shift): &&(&str, u32)| bytes > 0 && bytes.is_multiple_of(1 << shift);
    match SIZES.iter().find(fits) {
        Some(&(unit, shift)) if shift > 0 => format!("{}{unit}iB", bytes >> shift),
        _ => format!("{bytes}B"),
    }
}

/// Formats a number of nanoseconds in the largest unit that divides it: `10us`, `0ns`.
pub fn format_time(nanos: u64) -> String {
    let fits = |&&(_, unit): &&(&str, u64)| nanos > 0 && nanos.is_multiple_of(unit);
    match TIMES.iter().find(fits) {
        Some((name, unit)) => format!("{}{name}", nanos / unit),
        None => "0ns".to_owned(),
    }
}

/// A rate in the largest unit that shows it in three decimals: `245MB/s`, `244.5MB/s`.
pub fn format_rate(rate: u64) -> String {
    let fits = |&&(_, unit): &&(&str, u64)| {
        rate >= unit && (unit < 1000 || rate.is_multiple_of(unit / 1000))
    };
    match RATES.iter().find(fits) {
        Some((name, unit)) if rate.is_multiple_of(*unit) => format!("{}{name}", rate / unit),
        Some((name, unit)) => {
            let decimals = format!("{:03}", rate % unit * 1000 / unit);
            format!("{}.{}{name}", rate / unit, decimals.trim_end_matches('0'))
        }
        None => format!("{rate}B/s"),
    }
}

/// A rate with four digits, for people: `1.305GB/s`.
pub fn format_rate_rounded(rate: u64) -> String {
    let step = 10_u64.pow(rate.max(1).ilog10().saturating_sub(3));
    format_rate((rate.saturating_add(step / 2)) / step * step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use QuantityError::{Malformed, TooLarge};

    #[test]
    fn sizes_are_read_with_every_suffix() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("512", Ok(512)),
            ("512B", Ok(512)),
            ("4k", Ok(4096)),
            ("256M", Ok(256 << 20)),
            ("256MB", Ok(256 << 20)),
            ("256MiB", Ok(256 << 20)),
            ("3g", Ok(3 << 30)),
            ("2TiB", Ok(2 << 40)),
            ("18446744073709551615", Ok(u64::MAX)),
            ("18446744073709551616", Err(TooLarge)),
            ("16777216T", Err(TooLarge)),
            ("", Err(Malformed)),
            ("M", Err(Malformed)),
            ("-1", Err(Malformed)),
            ("1.5G", Err(Malformed)),
            ("4iB", Err(Malformed)),
            ("4 M", Err(Malformed)),
            ("4X", Err(Malformed)),
            ("4\u{e9}", Err(Malformed)),
        ] {
            assert_eq!(parse_size(text), expected, "{text:?}");
        }
    }

    #[test]
    fn times_are_read_with_every_suffix() {
        for (text, expected) in [
            ("7", Err(Malformed)),
            ("0", Ok(0)),
            ("7ns", Ok(7)),
            ("10us", Ok(10_000)),
            ("8ms", Ok(8_000_000)),
            ("2s", Ok(2_000_000_000)),
            ("2m", Err(Malformed)),
            ("99999999999s", Err(TooLarge)),
        ] {
            assert_eq!(parse_time(text), expected, "{text:?}");
        }
    }

    #[test]
    fn rates_are_read_with_decimals() {
        for (text, expected) in [
            ("245MB/s", Ok(245_000_000)),
            ("244.5MB/s", Ok(244_500_000)),
            ("1.234kB/s", Ok(1234)),
            ("0B/s", Ok(0)),
            ("0", Ok(0)),
            ("0.", Err(Malformed)),
            ("2GB/s", Ok(2_000_000_000)),
            ("1.2345MB/s", Err(Malformed)),
            ("1.MB/s", Err(Malformed)),
            ("245", Err(Malformed)),
            ("245MiB/s", Err(Malformed)),
            ("99999999999GB/s", Err(TooLarge)),
        ] {
            assert_eq!(parse_rate(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for number in [0, 1, 511, 512, 4096, 96 << 20, 5 << 30, 1 << 40, u64::MAX] {
            assert_eq!(parse_size(&format_size(number)), Ok(number));
            assert_eq!(parse_time(&format_time(number)), Ok(number));
            assert_eq!(parse_rate(&format_rate(number)), Ok(number));
        }
        assert_eq!(format_size(256 << 20), "256MiB");
        assert_eq!(format_time(10_000), "10us");
        assert_eq!(format_rate(244_500_000), "244.5MB/s");
        for (rate, shown) in
            [(0, "0B/s"), (999, "999B/s"), (1_305_281_327, "1.305GB/s"), (244_499_999, "244.5MB/s")]
        {
            assert_eq!(format_rate_rounded(rate), shown);
        }
    }

    #[test]
    fn shares_are_read_as_they_are_shown() {
        for (text, expected) in
            [("7%", Ok(7000)), ("12.5%", Ok(12_500)), ("0%", Ok(0)), ("0.125%", Ok(125))]
        {
            assert_eq!(parse_percent(text), expected, "{text}");
            assert_eq!(expected.map(format_percent).as_deref(), Ok(text));
        }
        for text in ["7", "%", "7.%", "7.1234%", "-1%", "7%%"] {
            assert_eq!(parse_percent(text), Err(Malformed), "{text}");
        }
    }
}
