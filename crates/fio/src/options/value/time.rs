//! Durations.
//!
//! Units are `d h m s ms us` and, as fio's manual has them, `sec msec usec`. In parentheses a
//! number without a unit is in microseconds, whatever the option's unit outside them: so says fio's
//! manual. fio 3.33 itself reads `10sec` as ten microseconds, and so any unit that it does not
//! know; here `sec` is a second and other units are errors.
use super::expr::{ExprError, Units, evaluate};
use zonal_blk::Nanos;

/// Microseconds in a microsecond.
pub(crate) const MICROSECOND: u64 = 1;
/// Microseconds in a second.
pub(crate) const SECOND: u64 = 1_000_000;

/// Reads a duration; `bare` is the unit, in microseconds, of a number that has none.
pub(crate) fn read(text: &str, bare: u64) -> Result<Nanos, ExprError> {
    let micros = evaluate(text, &Units { factor: &factor, bare })?;
    micros.checked_mul(1000).map(Nanos).ok_or(ExprError::TooGreat)
}

fn factor(suffix: &str) -> Option<u64> {
    Some(match suffix {
        "us" | "usec" => MICROSECOND,
        "ms" | "msec" => 1000,
        "s" | "sec" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        "d" => 24 * 3600 * SECOND,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str, bare: u64) -> Result<u64, ExprError> {
        read(text, bare).map(|time| time.0 / 1000)
    }

    /// What `fio --debug=parse --parse-only --runtime=...` (3.33) read, in microseconds.
    const FIO: &[(&str, u64)] = &[
        ("10", 10_000_000),
        ("10s", 10_000_000),
        ("10S", 10_000_000),
        ("10m", 600_000_000),
        ("10M", 600_000_000),
        ("10h", 36_000_000_000),
        ("10d", 864_000_000_000),
        ("10ms", 10_000),
        ("10msec", 10_000),
        ("10us", 10),
        ("10usec", 10),
        ("0", 0),
    ];

    #[test]
    fn units_mean_what_they_mean_to_fio() {
        for &(text, expected) in FIO {
            assert_eq!(micros(text, SECOND), Ok(expected), "{text}");
        }
        assert_eq!(micros("10", MICROSECOND), Ok(10), "thinktime=10");
        assert_eq!(micros("10ms", MICROSECOND), Ok(10_000), "thinktime=10ms");
    }

    #[test]
    fn a_sec_is_a_second_as_the_manual_says() {
        assert_eq!(micros("10sec", SECOND), Ok(10_000_000));
    }

    #[test]
    fn numbers_in_parentheses_are_microseconds() {
        assert_eq!(micros("(10)", SECOND), Ok(10));
        assert_eq!(micros("(1h+10m)", SECOND), Ok(4_200_000_000));
        assert_eq!(micros("(2*3)s", SECOND), Ok(6_000_000));
    }

    #[test]
    fn other_units_and_ranges_are_errors() {
        for text in ["10ns", "10min", "10k", "1.5", "10x", "10%", "10z"] {
            assert_eq!(read(text, SECOND), Err(ExprError::Malformed), "{text}");
        }
        assert_eq!(read("5-10", SECOND), Err(ExprError::Bare));
        assert_eq!(read("999999999999d", SECOND), Err(ExprError::TooGreat));
    }
}
