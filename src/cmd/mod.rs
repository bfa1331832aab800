//! One file per subcommand.
pub mod devices;
pub mod layout;
pub mod options;
pub mod reproduce;
pub mod run;
pub mod zone;
