//! One file per subcommand.
pub mod devices;
pub mod options;
pub mod run;
