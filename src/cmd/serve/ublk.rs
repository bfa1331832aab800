//! The export as a block device of this machine.
use super::{End, Export};
use crate::cli::ServeArgs;
use crate::devices::{self, Attached};
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use zonal_host::online_cpus;
use zonal_host::ublk::{Server, ServerConfig};

/// A ublk device.
pub struct Ublk(Server);

impl Export for Ublk {
    fn place(&self) -> String {
        self.0.path()
    }
}

/// Makes a ublk device, or goes on with one.
///
/// # Errors
/// What is wrong with an option or the device, or what the kernel does not have or do.
pub fn start(id: Option<u32>, args: &ServeArgs, device: &Attached, end: &End) -> Result<Ublk> {
    let options = &args.ublk;
    ensure!(
        !options.recover || id.is_some(),
        "--recover: found --ublk without a number, expected --ublk=ID: the next server has to find \
         the device"
    );
    if options.recover && !devices::is_block_device(&args.device) {
        eprintln!(
            "zonal: --recover: device {} is in the memory of this program: the next server has \
             empty zones, or zeroes, where the last one had data",
            args.device
        );
    }
    let queues = u16::try_from(online_cpus().len()).unwrap_or(u16::MAX).max(1);
    let end = end.clone();
    let config = ServerConfig {
        id,
        queues: options.queues.unwrap_or(queues.min(device.queue.limits().nr_queues)),
        depth: options.depth,
        recover: options.recover,
        notify: Arc::new(|what| eprintln!("zonal: {what}")),
        ended: Arc::new(move |why| {
            // If it is over already, nobody listens.
            let _ = end.send(Some(format!("ublk device: {why}")));
        }),
    };
    Server::start(&device.queue, &config).map(Ublk).context("--ublk")
}
