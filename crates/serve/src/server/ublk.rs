//! The export as a block device of this machine.
use super::{Event, Export, ServeError, expected, of_option};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use zonal_backend::Stack;
use zonal_device::inject::DeviceChange;
use zonal_frontend::ublk::{Server, ServerConfig};
use zonal_os::{RealClock, allowed_cpus};

/// How a block device of this machine is made.
#[derive(Clone, Debug)]
pub struct UblkOptions {
    /// Its number; `None` for one that is free.
    pub id: Option<u32>,
    /// Queues, each with a thread; `None` for as many as there are processors and hardware queues.
    pub queues: Option<u16>,
    /// Requests in flight of a queue.
    pub depth: u16,
    /// It waits for another server when this one is killed, and one that waits is taken over.
    pub recover: bool,
    /// Data are copied even where zero copy is possible.
    pub copies: bool,
}

impl Default for UblkOptions {
    fn default() -> Self {
        UblkOptions { id: None, queues: None, depth: 128, recover: false, copies: false }
    }
}

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
    options: &UblkOptions,
    device: &Stack,
    clock: &RealClock,
    events: Sender<Event>,
) -> Result<Ublk, ServeError> {
    if options.recover && options.id.is_none() {
        let text = "found --ublk without a number, expected --ublk=ID: the next server has to find \
                    the device";
        return Err(expected("recover", text.to_owned()));
    }
    if options.recover && !device.is_persistent {
        tracing::warn!(
            "--recover: device {} is in the memory of this program: the next server has \
             empty zones, or zeroes, where the last one had data",
            device.name
        );
    }
    let queues = u16::try_from(allowed_cpus().len()).unwrap_or(u16::MAX).max(1);
    let config = ServerConfig {
        id: options.id,
        queues: options.queues.unwrap_or(queues.min(device.queue.limits().nr_queues)),
        depth: options.depth,
        recover: options.recover,
        // An image keeps what was flushed, and the kernel flushes the next server instead.
        durable_writes: options.recover && device.kind == "image",
        force_copy: options.copies,
        clock: clock.clone(),
        notify: Arc::new(|what| tracing::info!("{what}")),
        ended: Arc::new(move |why| {
            // Without a receiver the server is already shutting down.
            let _ = events.send(Event::Failed(format!("ublk device: {why}")));
        }),
    };
    let server = Server::start(&device.queue, &config).map_err(of_option("ublk", None))?;
    if let Some(inject) = &device.inject {
        let (id, queue) = (server.id(), Arc::clone(&device.queue));
        inject.on_change(move |change| {
            if change == DeviceChange::Zones
                && let Err(why) = Server::resize(id, &queue)
            {
                tracing::warn!("ublk device {id} keeps its size: {why}");
            }
        });
    }
    Ok(Ublk(server))
}
