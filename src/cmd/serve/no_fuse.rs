//! The export as files, in a program that was built without it.
use super::{Event, Export};
use crate::cli::ServeArgs;
use crate::devices::AttachedDevice;
use anyhow::{Result, bail};
use std::convert::Infallible;
use std::path::Path;
use std::sync::mpsc::Sender;
use zonal_host::RealClock;

impl Export for Infallible {
    fn location(&self) -> String {
        match *self {}
    }
}

/// Says what is missing.
///
/// # Errors
/// Always.
pub fn start(
    dir: &Path,
    _args: &ServeArgs,
    _device: &AttachedDevice,
    _: (&RealClock, Sender<Event>),
) -> Result<Infallible> {
    bail!(
        "--fuse {}: this program was built without it; `cargo build --release --features fuse` \
         builds one with it",
        dir.display()
    )
}
