//! One file per subcommand.
pub mod devices;
pub mod options;
pub mod pattern;
pub mod reproduce;
pub mod run;
pub mod zone;
