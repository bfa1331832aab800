//! The commands, each with its options.
pub mod advise;
pub mod config;
pub mod crash;
pub mod ctl;
pub mod doctor;
pub mod fit;
pub mod image;
pub mod info;
mod measured;
pub mod reproduce;
pub mod run;
pub mod serve;
pub mod shell;
pub mod sweep;
#[cfg(feature = "top")]
pub mod top;
pub mod traced;
pub mod validate;
pub mod view;
pub mod zone;
