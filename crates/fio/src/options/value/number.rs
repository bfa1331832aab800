//! Whole numbers without units.
use super::expr::{ExprError, Units, evaluate};

/// Reads a number, decimal or hexadecimal with `0x`, or arithmetic in parentheses.
pub(crate) fn read(text: &str) -> Result<u64, ExprError> {
    evaluate(text, &Units { factor: &|_| None, bare: 1 })
}
