//! Numbers with units, and arithmetic with them.
//!
//! Takes a text and the meaning of unit suffixes; gives a whole number. Keeps true: every
//! operation is checked, and depth is limited, so no text makes it overflow or recurse without end.
//!
//! ```text
//! value   = "(" sum ")" unit? | number unit?
//! sum     = product (("+" | "-") product)*
//! product = power (("*" | "/" | "%") power)*
//! power   = unary ("^" power)?
//! unary   = "-" unary | primary
//! primary = number unit? | "(" sum ")" unit?
//! ```
use thiserror::Error;

/// Parentheses, signs and powers inside one another.
const MAX_DEPTH: u32 = 64;

/// Why a text is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ExprError {
    /// It does not have the form of one.
    #[error("malformed number")]
    Malformed,
    /// Arithmetic stands outside parentheses, where fio would read its first number only.
    #[error("arithmetic outside parentheses")]
    Bare,
    /// It is greater than what fits.
    #[error("number too great")]
    TooGreat,
    /// It is less than zero.
    #[error("number less than zero")]
    Negative,
    /// A percentage of more than the whole.
    #[error("percentage above 100")]
    AboveWhole,
    /// Division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// Parentheses in parentheses in parentheses...
    #[error("too many parentheses")]
    TooDeep,
}

/// What unit suffixes mean.
pub(crate) struct Units<'a> {
    /// Factor of a suffix (in lower case), if it is one.
    pub(crate) factor: &'a dyn Fn(&str) -> Option<u64>,
    /// Factor of a number outside parentheses without a suffix.
    pub(crate) bare: u64,
}

/// Reads a whole number, with unit or in parentheses.
pub(crate) fn evaluate(text: &str, units: &Units) -> Result<u64, ExprError> {
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
    let value = value.checked_mul(factor).ok_or(ExprError::TooGreat)?;
    if value < 0 {
        return Err(ExprError::Negative);
    }
    u64::try_from(value).map_err(|_| ExprError::TooGreat)
}

/// Evaluates arithmetic on plain numbers, without parentheses around it: what a value such as
/// `2*$ncpus` has become once its keywords were replaced.
pub(crate) fn evaluate_plain(text: &str) -> Result<u64, ExprError> {
    evaluate(&format!("({text})"), &Units { factor: &|_| None, bare: 1 })
}

/// Whether it would be arithmetic if there were parentheses around it.
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
            .ok_or(ExprError::TooGreat)?;
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
            .ok_or(ExprError::TooGreat)?;
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
            .map_err(|_| if exponent < 0 { ExprError::Negative } else { ExprError::TooGreat })?;
        base.checked_pow(exponent).ok_or(ExprError::TooGreat)
    }

    fn unary(&mut self, depth: u32) -> Result<i128, ExprError> {
        match self.operator("-") {
            Some(_) => self.unary(deeper(depth)?)?.checked_neg().ok_or(ExprError::TooGreat),
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
        let value = value.checked_mul(i128::from(factor)).ok_or(ExprError::TooGreat)?;
        Ok((value, true))
    }

    fn digits(&mut self, radix: u32) -> Result<i128, ExprError> {
        let digits = self.take_while(|c| c.is_digit(radix));
        if digits.is_empty() {
            return Err(ExprError::Malformed);
        }
        i128::from_str_radix(digits, radix).map_err(|_| ExprError::TooGreat)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_bind_as_in_arithmetic() {
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
    fn arithmetic_that_cannot_be_done_says_why() {
        for (text, fault) in [
            ("1/0", ExprError::DivisionByZero),
            ("1%0", ExprError::DivisionByZero),
            ("1-2", ExprError::Negative),
            ("2^-1", ExprError::Negative),
            ("2^200", ExprError::TooGreat),
            ("2^64", ExprError::TooGreat),
            ("2^99999999999", ExprError::TooGreat),
            ("1+", ExprError::Malformed),
            ("", ExprError::Malformed),
            ("(1", ExprError::Malformed),
            ("1)", ExprError::Malformed),
            ("1 2", ExprError::Malformed),
            ("é", ExprError::Malformed),
        ] {
            assert_eq!(evaluate_plain(text), Err(fault), "{text}");
        }
    }

    #[test]
    fn depth_is_limited() {
        assert_eq!(evaluate_plain(&"(".repeat(100_000)), Err(ExprError::TooDeep));
        assert_eq!(evaluate_plain(&"-".repeat(100_000)), Err(ExprError::TooDeep));
        assert_eq!(evaluate_plain(&"1^".repeat(100_000)), Err(ExprError::TooDeep));
    }
}
