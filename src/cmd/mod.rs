//! One file per subcommand.
pub mod devices;
pub mod options;
pub mod reproduce;
pub mod run;
pub mod torture;
pub mod zone;
