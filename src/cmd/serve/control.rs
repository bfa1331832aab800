//! The control socket and the metrics.
use super::Export;
use super::args::ControlArgs;
use anyhow::{Context, Result};
use std::sync::Arc;
use zonal_crash::Recorder;
use zonal_device::inject::InjectDevice;
use zonal_host::control::{ControlServer, DeviceManager, ManagedDevice, MetricsServer};
use zonal_lab::devices::AttachedDevice;

impl Export for ControlServer {
    fn location(&self) -> String {
        format!("ctl {}", self.path().display())
    }
}

impl Export for MetricsServer {
    fn location(&self) -> String {
        format!("http://{}/metrics", self.address())
    }
}

/// Starts the control socket and the metrics server, if they are wanted.
///
/// # Errors
/// The socket or the address cannot be bound.
pub fn start(
    args: &ControlArgs,
    devices: &[AttachedDevice],
    injects: Vec<Arc<InjectDevice>>,
    recorder: Option<&Arc<Recorder>>,
    exports: &[Box<dyn Export>],
) -> Result<Vec<Box<dyn Export>>> {
    // With an export as files there is only one device.
    let files = exports.iter().find_map(|export| export.files());
    let managed = devices.iter().zip(injects).map(|(attached, device)| ManagedDevice {
        name: attached.name.clone(),
        description: attached.description.clone(),
        queue: Arc::clone(&attached.queue),
        device,
        files: files.clone(),
        mark: recorder.map(|recorder| {
            let recorder = Arc::clone(recorder);
            Box::new(move |text: &str| recorder.mark(text)) as _
        }),
    });
    let locations = exports.iter().map(|export| export.location()).collect();
    let manager = Arc::new(DeviceManager::new(managed.collect(), locations));
    let mut servers: Vec<Box<dyn Export>> = Vec::new();
    if let Some(path) = &args.ctl {
        let server = ControlServer::start(path, Arc::clone(&manager))
            .with_context(|| format!("--ctl {}", path.display()))?;
        servers.push(Box::new(server));
    }
    if let Some(address) = args.metrics {
        let server = MetricsServer::start(address, manager)
            .with_context(|| format!("--metrics {address}"))?;
        servers.push(Box::new(server));
    }
    Ok(servers)
}
