//! One file per subcommand.
pub mod advise;
pub mod ctl;
pub mod device;
pub mod devices;
pub mod fit;
pub mod image;
pub mod layout;
pub mod options;
pub mod pattern;
pub mod reproduce;
pub mod run;
pub mod serve;
pub mod torture;
pub mod zone;
