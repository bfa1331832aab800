//! `zonal devices`, and the devices that jobs name.
use anyhow::{Context, Result};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use zonal_blk::{Device, Queue, QueueOptions};
use zonal_device::spec::{self, DeviceSpec};

/// Prints how a device is described.
pub fn help() -> Result<ExitCode> {
    io::stdout().write_all(spec::help().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// A device that jobs use, with its block layer.
pub struct Attached {
    /// As it was named.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Whether bios have to carry data.
    pub keeps_data: bool,
    /// The block layer.
    pub queue: Arc<Queue>,
}

/// Reads a spec or the profile that it names; `seed` chooses the device's random numbers unless it
/// says otherwise.
pub fn load(name: &str) -> Result<DeviceSpec> {
    spec::load(name, |path| std::fs::read_to_string(path)).with_context(|| format!("device {name}"))
}

/// Makes a device and attaches the block layer for up to `channels` channels at once.
pub fn attach(
    name: &str,
    spec: &DeviceSpec,
    options: QueueOptions,
    channels: usize,
) -> Result<Attached> {
    let device: Arc<dyn Device> = spec::build(spec).with_context(|| format!("device {name}"))?;
    let share_queues = channels > usize::from(device.limits().nr_queues);
    let queue = Queue::attach(device, QueueOptions { share_queues, ..options })
        .with_context(|| format!("device {name}"))?;
    Ok(Attached {
        name: name.to_owned(),
        description: spec.describe(),
        keeps_data: spec.keeps_data(),
        queue,
    })
}
