//! The export as a block device of this machine.
use super::ServeArgs;
use super::{Event, Export};
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use zonal_frontend::ublk::{Server, ServerConfig};
use zonal_lab::devices::AttachedDevice;
use zonal_os::{RealClock, allowed_cpus};

/// A ublk device.
pub struct Ublk(Server);

impl Export for Ublk {
    fn location(&self) -> String {
        self.0.path()
    }
}

/// Creates a ublk device, or takes over one that waits for recovery.
///
/// # Errors
/// An option or the device is unsuitable, or the kernel's ublk driver refuses.
pub fn start(
    id: Option<u32>,
    args: &ServeArgs,
    device: &AttachedDevice,
    (clock, events): (&RealClock, Sender<Event>),
) -> Result<Ublk> {
    let options = &args.ublk;
    ensure!(
        !options.recover || id.is_some(),
        "--recover: found --ublk without a number, expected --ublk=ID: the next server has to find \
         the device"
    );
    if options.recover && !device.is_persistent {
        tracing::warn!(
            "--recover: device {} is in the memory of this program: the next server has \
             empty zones, or zeroes, where the last one had data",
            device.name
        );
    }
    let queues = u16::try_from(allowed_cpus().len()).unwrap_or(u16::MAX).max(1);
    let config = ServerConfig {
        id,
        queues: options.queues.unwrap_or(queues.min(device.queue.limits().nr_queues)),
        depth: options.depth,
        recover: options.recover,
        force_copy: options.copies,
        clock: clock.clone(),
        notify: Arc::new(|what| tracing::info!("{what}")),
        ended: Arc::new(move |why| {
            // Without a receiver the server is already shutting down.
            let _ = events.send(Event::Failed(format!("ublk device: {why}")));
        }),
    };
    Server::start(&device.queue, &config).map(Ublk).context("--ublk")
}
