//! Values by direction, and the errors of values.
use super::number::ExprError;
use thiserror::Error;

/// Values for reads, writes and trims; `None` leaves a direction unchanged.
pub type ByDirection<T> = [Option<T>; 3];

/// Sizes in bytes, each with a percentage.
pub type Split = Vec<(u64, u8)>;

/// Why a value cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ValueError {
    /// The option needs a value.
    #[error("expected {expected}, found no value")]
    Missing {
        /// The value expected.
        expected: &'static str,
    },
    /// The text has another form.
    #[error("expected {expected}, found {found:?}")]
    Malformed {
        /// The value expected.
        expected: &'static str,
        /// The value found.
        found: String,
    },
    /// The keyword is unknown.
    #[error("expected one of {}, found {found:?}{}", .expected.join(", "), hint(.found, .expected))]
    NotOneOf {
        /// The known keywords.
        expected: Vec<&'static str>,
        /// The value found.
        found: String,
    },
    /// The number is too small or too large.
    #[error("expected {min} to {max}, found {found:?}")]
    OutOfRange {
        /// Lowest value.
        min: u64,
        /// Highest value.
        max: u64,
        /// The value found.
        found: String,
    },
    /// The arithmetic is invalid.
    #[error("{error} in {found:?}")]
    Arithmetic {
        /// The error.
        error: ExprError,
        /// The value found.
        found: String,
    },
    /// fio supports this value, Zonal does not.
    #[error("{found:?} is not supported: {why}")]
    Unsupported {
        /// The value found.
        found: String,
        /// Why, or what to use instead.
        why: &'static str,
    },
}

/// The keyword that was meant, if one is near. What follows a colon is no part of it.
fn hint(found: &str, known: &[&'static str]) -> String {
    let word = found.split(':').next().unwrap_or(found);
    zonal_blk::did_you_mean(word, known.iter().copied())
}
