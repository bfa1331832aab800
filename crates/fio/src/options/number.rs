//! Numbers: arithmetic, sizes and durations.
//!
//! ```text
//! value   = "(" sum ")" unit? | number unit?
//! sum     = product (("+" | "-") product)*
//! product = power (("*" | "/" | "%") power)*
//! power   = unary ("^" power)?
//! unary   = "-" unary | primary
//! primary = number unit? | "(" sum ")" unit?
//! ```
//!
//! Every operation is checked for overflow and the nesting depth is limited, so no input can
//! overflow or recurse without bound.
//!
//! Suffixes of sizes are read as fio 3.33 reads them: with `kb_base=1024`, `k`, `kb` and `ki` are
//! 1024 and `kib` is 1000; with `kb_base=1000`, `k`, `kb` and `ki` are 1000 and `kib` is 1024.
//! (fio's manual says that `ki` means `kib`; fio itself does not.)
//!
//! Units of time are `d h m s ms us` and, as in fio's manual, `sec msec usec`. In parentheses a
//! number without a unit is in microseconds, whatever the option's unit is outside them: so says
//! fio's manual. fio 3.33 itself reads `10sec`, and any other unit that it does not know, as ten
//! microseconds; here `sec` is a second and unknown units are errors.
use crate::job::Extent;
use thiserror::Error;
use zonal_blk::Nanos;

/// Nesting limit of parentheses, signs and powers.
const MAX_DEPTH: u32 = 64;

/// Why a text is not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ExprError {
    /// The text is not in the form of a number.
    #[error("malformed number")]
    Malformed,
    /// Arithmetic outside parentheses, of which fio would read the first number only.
    #[error("arithmetic outside parentheses")]
    Bare,
    /// The value does not fit.
    #[error("number too large")]
    TooLarge,
    /// The value is below zero.
    #[error("number less than zero")]
    Negative,
    /// A percentage above 100.
    #[error("percentage above 100")]
    PercentTooLarge,
    /// Division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// Nested too deeply.
    #[error("too many parentheses")]
    TooDeep,
}

/// The meaning of unit suffixes.
struct Units<'a> {
    /// Factor of a suffix in lower case; `None` if there is no such suffix.
    factor: &'a dyn Fn(&str) -> Option<u64>,
    /// Factor of a number without a suffix, outside parentheses.
    bare: u64,
}

/// Parses a whole number, with a unit or in parentheses.
fn evaluate(text: &str, units: &Units) -> Result<u64, ExprError> {
    let mut parser = Parser { rest: text, units };
    let parenthesised = text.starts_with('(');
    let (value, had_unit) = parser.primary(0)?;
    match parser.rest.trim_start().chars().next() {
        None => {}
        Some('+' | '-' | '*' | '/' | '^' | '%') if is_arithmetic(text) => {
            return Err(ExprError::Bare);
        }
        Some(_) => return Err(ExprError::Malformed),
    }
    let factor = if parenthesised || had_unit { 1 } else { i128::from(units.bare) };
    let value = value.checked_mul(factor).ok_or(ExprError::TooLarge)?;
    if value < 0 {
        return Err(ExprError::Negative);
    }
    u64::try_from(value).map_err(|_| ExprError::TooLarge)
}

/// Evaluates arithmetic on plain numbers without parentheses around it, such as `2*$ncpus` after
/// keyword expansion.
pub(crate) fn evaluate_plain(text: &str) -> Result<u64, ExprError> {
    evaluate(&format!("({text})"), &Units { factor: &|_| None, bare: 1 })
}

/// Whether the text would be arithmetic if it were in parentheses.
fn is_arithmetic(text: &str) -> bool {
    let mut parser = Parser { rest: text, units: &Units { factor: &|_| Some(1), bare: 1 } };
    parser.sum(0).is_ok() && parser.rest.is_empty()
}

struct Parser<'a> {
    rest: &'a str,
    units: &'a Units<'a>,
}

impl<'a> Parser<'a> {
    fn sum(&mut self, depth: u32) -> Result<i128, ExprError> {
        let mut left = self.product(depth)?;
        while let Some(operator) = self.operator("+-") {
            let right = self.product(depth)?;
            left = match operator {
                '+' => left.checked_add(right),
                _ => left.checked_sub(right),
            }
            .ok_or(ExprError::TooLarge)?;
        }
        Ok(left)
    }

    fn product(&mut self, depth: u32) -> Result<i128, ExprError> {
        let mut left = self.power(depth)?;
        while let Some(operator) = self.operator("*/%") {
            let right = self.power(depth)?;
            if operator != '*' && right == 0 {
                return Err(ExprError::DivisionByZero);
            }
            left = match operator {
                '*' => left.checked_mul(right),
                '/' => left.checked_div(right),
                _ => left.checked_rem(right),
            }
            .ok_or(ExprError::TooLarge)?;
        }
        Ok(left)
    }

    fn power(&mut self, depth: u32) -> Result<i128, ExprError> {
        let base = self.unary(depth)?;
        if self.operator("^").is_none() {
            return Ok(base);
        }
        let exponent = self.power(deeper(depth)?)?;
        let exponent = u32::try_from(exponent)
            .map_err(|_| if exponent < 0 { ExprError::Negative } else { ExprError::TooLarge })?;
        base.checked_pow(exponent).ok_or(ExprError::TooLarge)
    }

    fn unary(&mut self, depth: u32) -> Result<i128, ExprError> {
        match self.operator("-") {
            Some(_) => self.unary(deeper(depth)?)?.checked_neg().ok_or(ExprError::TooLarge),
            None => {
                self.rest = self.rest.trim_start();
                Ok(self.primary(depth)?.0)
            }
        }
    }

    /// The value, and whether it had a unit.
    fn primary(&mut self, depth: u32) -> Result<(i128, bool), ExprError> {
        if let Some(inner) = self.rest.strip_prefix('(') {
            self.rest = inner;
            let value = self.sum(deeper(depth)?)?;
            self.rest = self.rest.trim_start().strip_prefix(')').ok_or(ExprError::Malformed)?;
            return self.with_unit(value);
        }
        if let Some(digits) = self.rest.strip_prefix("0x").or(self.rest.strip_prefix("0X")) {
            // `0x1b` ends in a digit, not in a unit: hexadecimal numbers have none.
            self.rest = digits;
            return Ok((self.digits(16)?, false));
        }
        let value = self.digits(10)?;
        self.with_unit(value)
    }

    fn with_unit(&mut self, value: i128) -> Result<(i128, bool), ExprError> {
        let unit = self.take_while(|c| c.is_ascii_alphabetic());
        if unit.is_empty() {
            return Ok((value, false));
        }
        let unit = unit.to_ascii_lowercase();
        let factor = (self.units.factor)(&unit).ok_or(ExprError::Malformed)?;
        let value = value.checked_mul(i128::from(factor)).ok_or(ExprError::TooLarge)?;
        Ok((value, true))
    }

    fn digits(&mut self, radix: u32) -> Result<i128, ExprError> {
        let digits = self.take_while(|c| c.is_digit(radix));
        if digits.is_empty() {
            return Err(ExprError::Malformed);
        }
        i128::from_str_radix(digits, radix).map_err(|_| ExprError::TooLarge)
    }

    fn operator(&mut self, operators: &str) -> Option<char> {
        let rest = self.rest.trim_start();
        let found = rest.chars().next().filter(|c| operators.contains(*c))?;
        self.rest = &rest[found.len_utf8()..];
        Some(found)
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

fn deeper(depth: u32) -> Result<u32, ExprError> {
    if depth < MAX_DEPTH { Ok(depth + 1) } else { Err(ExprError::TooDeep) }
}

/// Parses a number without a unit: decimal, hexadecimal with `0x`, or arithmetic in parentheses.
pub(super) fn parse_number(text: &str) -> Result<u64, ExprError> {
    evaluate(text, &Units { factor: &|_| None, bare: 1 })
}

const PREFIXES: &str = "kmgtp";

/// Parses a size in bytes. `kb_base` is 1024 or 1000.
pub(super) fn parse_size(text: &str, kb_base: u32) -> Result<u64, ExprError> {
    evaluate(text, &Units { factor: &|suffix| size_factor(suffix, kb_base), bare: 1 })
}

/// Parses bytes, a percentage (`50%`) or zones (`8z`).
pub(super) fn parse_extent(text: &str, kb_base: u32) -> Result<Extent, ExprError> {
    if let Some(number) = text.strip_suffix('%') {
        let percent = parse_number(number)?;
        return u8::try_from(percent)
            .ok()
            .filter(|percent| *percent <= 100)
            .map(Extent::Percent)
            .ok_or(ExprError::PercentTooLarge);
    }
    if let Some(number) = text.strip_suffix('z') {
        return parse_number(number).map(Extent::Zones);
    }
    parse_size(text, kb_base).map(Extent::Bytes)
}

/// The factor of a size suffix in lower case.
fn size_factor(suffix: &str, kb_base: u32) -> Option<u64> {
    if suffix == "b" {
        return Some(1);
    }
    let mut letters = suffix.chars();
    let exponent = u32::try_from(PREFIXES.find(letters.next()?)?).ok()? + 1;
    let base = match letters.as_str() {
        "" | "b" | "i" => kb_base,
        "ib" => 2024 - kb_base,
        _ => return None,
    };
    Some(u64::from(base).pow(exponent))
}

/// Formats bytes with the largest suffix that leaves a whole number, for `kb_base=1024`.
pub fn format_size(bytes: u64) -> String {
    let mut value = bytes;
    let mut suffix = String::new();
    for prefix in PREFIXES.chars() {
        if value == 0 || !value.is_multiple_of(1024) {
            break;
        }
        value /= 1024;
        suffix = prefix.to_string();
    }
    format!("{value}{suffix}")
}

/// Microseconds in a microsecond.
pub(super) const MICROSECOND: u64 = 1;
/// Microseconds in a second.
pub(super) const SECOND: u64 = 1_000_000;

/// Parses a duration; `bare` is the unit, in microseconds, of a number without one.
pub(super) fn parse_duration(text: &str, bare: u64) -> Result<Nanos, ExprError> {
    let micros = evaluate(text, &Units { factor: &time_factor, bare })?;
    micros.checked_mul(1000).map(Nanos).ok_or(ExprError::TooLarge)
}

/// The factor of a unit of time in lower case, in microseconds.
fn time_factor(suffix: &str) -> Option<u64> {
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

    #[test]
    fn operators_have_their_usual_precedence() {
        for (text, value) in [
            ("1+2*3", 7),
            ("(1+2)*3", 9),
            ("10-4-3", 3),
            ("10/3", 3),
            ("10%3", 1),
            ("2^10", 1024),
            ("2^3^2", 512),
            ("-2+5", 3),
            ("2*-1+4", 2),
            (" ( 8 ) ", 8),
            ("0x10*2", 32),
        ] {
            assert_eq!(evaluate_plain(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn impossible_arithmetic_is_an_error() {
        for (text, error) in [
            ("1/0", ExprError::DivisionByZero),
            ("1%0", ExprError::DivisionByZero),
            ("1-2", ExprError::Negative),
            ("2^-1", ExprError::Negative),
            ("2^200", ExprError::TooLarge),
            ("2^64", ExprError::TooLarge),
            ("2^99999999999", ExprError::TooLarge),
            ("1+", ExprError::Malformed),
            ("", ExprError::Malformed),
            ("(1", ExprError::Malformed),
            ("1)", ExprError::Malformed),
            ("1 2", ExprError::Malformed),
            ("é", ExprError::Malformed),
        ] {
            assert_eq!(evaluate_plain(text), Err(error), "{text}");
        }
    }

    #[test]
    fn nesting_depth_is_limited() {
        assert_eq!(evaluate_plain(&"(".repeat(100_000)), Err(ExprError::TooDeep));
        assert_eq!(evaluate_plain(&"-".repeat(100_000)), Err(ExprError::TooDeep));
        assert_eq!(evaluate_plain(&"1^".repeat(100_000)), Err(ExprError::TooDeep));
    }

    /// The values that `fio --debug=parse --parse-only --bs=...` (3.33) read, with each `kb_base`.
    const FIO_SIZES: &[(&str, u64, u64)] = &[
        ("4096", 4096, 4096),
        ("4b", 4, 4),
        ("4B", 4, 4),
        ("010", 10, 10),
        ("0x10", 16, 16),
        ("4k", 4096, 4000),
        ("4K", 4096, 4000),
        ("4kb", 4096, 4000),
        ("4KB", 4096, 4000),
        ("4ki", 4096, 4000),
        ("4kib", 4000, 4096),
        ("4KiB", 4000, 4096),
        ("4m", 4 << 20, 4_000_000),
        ("4mi", 4 << 20, 4_000_000),
        ("4mib", 4_000_000, 4 << 20),
        ("4g", 4 << 30, 4_000_000_000),
        ("4gib", 4_000_000_000, 4 << 30),
        ("4t", 4 << 40, 4_000_000_000_000),
        ("4tib", 4_000_000_000_000, 4 << 40),
        ("4p", 4 << 50, 4_000_000_000_000_000),
        ("4pib", 4_000_000_000_000_000, 4 << 50),
    ];

    #[test]
    fn size_suffixes_are_those_of_fio() {
        for &(text, base_1024, base_1000) in FIO_SIZES {
            assert_eq!(parse_size(text, 1024), Ok(base_1024), "{text} with kb_base=1024");
            assert_eq!(parse_size(text, 1000), Ok(base_1000), "{text} with kb_base=1000");
        }
    }

    #[test]
    fn arithmetic_needs_parentheses() {
        assert_eq!(parse_size("(4*1024)", 1024), Ok(4096));
        assert_eq!(parse_size("(4k*2)", 1024), Ok(8192));
        assert_eq!(parse_size("(4+4)k", 1024), Ok(8192));
        assert_eq!(parse_size("4k*2", 1024), Err(ExprError::Bare));
        assert_eq!(parse_size("4*1024", 1024), Err(ExprError::Bare));
        assert_eq!(parse_size("4k-8k", 1024), Err(ExprError::Bare));
    }

    #[test]
    fn what_follows_a_number_must_be_a_suffix() {
        for text in ["4x", "4kx", "4.5k", "4 k", "4e", "4z", "10%", "k", "", "+4", "0x10k", "-1"] {
            assert_eq!(parse_size(text, 1024), Err(ExprError::Malformed), "{text:?}");
        }
    }

    #[test]
    fn sizes_beyond_64_bits_are_too_large() {
        assert_eq!(parse_size("18446744073709551615", 1024), Ok(u64::MAX));
        for text in ["18446744073709551616", "99999999999999999999999999999999999999999", "16384p"]
        {
            assert_eq!(parse_size(text, 1024), Err(ExprError::TooLarge), "{text}");
        }
    }

    #[test]
    fn extents_may_be_percentages_and_zones() {
        assert_eq!(parse_extent("4k", 1024), Ok(Extent::Bytes(4096)));
        assert_eq!(parse_extent("0%", 1024), Ok(Extent::Percent(0)));
        assert_eq!(parse_extent("100%", 1024), Ok(Extent::Percent(100)));
        assert_eq!(parse_extent("8z", 1024), Ok(Extent::Zones(8)));
        assert_eq!(parse_extent("(10%3)", 1024), Ok(Extent::Bytes(1)));
        assert_eq!(parse_extent("101%", 1024), Err(ExprError::PercentTooLarge));
        for text in ["1k%", "1kz", "z", "%", "1.5%", "10%%", "8Z"] {
            assert_eq!(parse_extent(text, 1024), Err(ExprError::Malformed), "{text}");
        }
    }

    #[test]
    fn formatted_sizes_use_the_largest_whole_suffix() {
        for (bytes, text) in [(0, "0"), (512, "512"), (4096, "4k"), (3 << 20, "3m"), (1536, "1536")]
        {
            assert_eq!(format_size(bytes), text);
        }
        assert_eq!(format_size(2048 << 50), "2048p");
    }

    fn micros(text: &str, bare: u64) -> Result<u64, ExprError> {
        parse_duration(text, bare).map(|time| time.0 / 1000)
    }

    /// The values that `fio --debug=parse --parse-only --runtime=...` (3.33) read, in microseconds.
    const FIO_TIMES: &[(&str, u64)] = &[
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
    fn time_units_are_those_of_fio() {
        for &(text, expected) in FIO_TIMES {
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
    fn unknown_units_of_time_and_ranges_are_errors() {
        for text in ["10ns", "10min", "10k", "1.5", "10x", "10%", "10z"] {
            assert_eq!(parse_duration(text, SECOND), Err(ExprError::Malformed), "{text}");
        }
        assert_eq!(parse_duration("5-10", SECOND), Err(ExprError::Bare));
        assert_eq!(parse_duration("999999999999d", SECOND), Err(ExprError::TooLarge));
    }
}
