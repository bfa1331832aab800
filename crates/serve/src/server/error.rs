//! Why devices are not served.
use std::error::Error;
use std::fmt::Display;
use std::io;
use std::time::Duration;
use zonal_backend::{ProfileError, RecordingError, StackError};

/// Why devices are not served, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An option is malformed, or what it asks for cannot be had.
    #[error("{option}{}", value.as_ref().map_or_else(String::new, |value| format!(" {value}")))]
    Option {
        /// The option, as the command line calls it without its dashes.
        option: &'static str,
        /// Its value, where there may be several.
        value: Option<String>,
        /// The error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A device cannot be opened or attached.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// A device is unsuitable.
    #[error("device {name}")]
    Device {
        /// Its name.
        name: String,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The system has no random numbers.
    #[error("cannot generate an identity: the system has no random numbers")]
    Random(#[from] io::Error),
    /// The profile of a device, of which images are to be made, cannot be read.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The log of a device cannot be written.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// A device could not be flushed at the end.
    #[error(transparent)]
    Flush(StackError),
    /// The exports have not ended within this time.
    #[error("I/O is still in flight after {} s", .0.as_secs_f64())]
    Busy(Duration),
    /// An export failed while it was served.
    #[error("{0}")]
    Failed(String),
}

/// An error with an option. `value` is given where the option may be given several times, or is long.
pub fn of_option<E: Into<Box<dyn Error + Send + Sync>>>(
    option: &'static str,
    value: Option<&dyn Display>,
) -> impl FnOnce(E) -> ServeError {
    let value = value.map(ToString::to_string);
    move |source| ServeError::Option { option, value, source: source.into() }
}

/// An option whose value is not what is expected.
pub fn expected(option: &'static str, text: String) -> ServeError {
    of_option(option, None)(text)
}

/// An error with a device.
pub fn of_device<E: Into<Box<dyn Error + Send + Sync>>>(
    name: &str,
) -> impl FnOnce(E) -> ServeError {
    let name = name.to_owned();
    move |source| ServeError::Device { name, source: source.into() }
}
