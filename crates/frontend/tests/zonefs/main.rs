//! Zones as files: the rules of zonefs, as its documentation has them, without a mount and with one.
mod errors;
mod flight;
#[cfg(feature = "fuse")]
mod mounted;
mod rules;
mod support;
