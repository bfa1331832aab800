//! Errors of a configuration.

/// A configuration that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An option has an invalid value.
    #[error("option `{option}`: found {found}, expected {expected}")]
    Value {
        /// The option's name.
        option: &'static str,
        /// Its value.
        found: String,
        /// The values that are allowed.
        expected: String,
    },
    /// The capacity does not fit in 64 bits.
    #[error(
        "option `zones`: {zones} zones of {zone_size} each are more than 2^64 bytes, \
         expected fewer or smaller ones"
    )]
    CapacityOverflow {
        /// Number of zones.
        zones: u32,
        /// Their size, as text.
        zone_size: String,
    },
}

impl ConfigError {
    /// The option that the error is about.
    pub fn option(&self) -> &'static str {
        match self {
            ConfigError::Value { option, .. } => option,
            ConfigError::CapacityOverflow { .. } => "zones",
        }
    }
}

/// An error for `option` unless the rule `holds`.
pub(crate) fn rule(
    option: &'static str,
    holds: bool,
    found: impl ToString,
    expected: impl FnOnce() -> String,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError::Value { option, found: found.to_string(), expected: expected() })
}
