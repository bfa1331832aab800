//! The control socket and the metrics: not ways to the data, but to what serves them.
use super::Export;
use super::args::ControlArgs;
use anyhow::{Context, Result};
use std::sync::Arc;
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

/// Makes the control socket and serves the metrics, as far as they are asked for.
///
/// # Errors
/// Why there can be none.
pub fn start(
    args: &ControlArgs,
    devices: &[AttachedDevice],
    injects: Vec<Arc<InjectDevice>>,
    exports: &[Box<dyn Export>],
) -> Result<Vec<Box<dyn Export>>> {
    // Files are of the only device that there is then.
    let files = exports.iter().find_map(|export| export.files());
    let operated = devices.iter().zip(injects).map(|(attached, device)| ManagedDevice {
        name: attached.name.clone(),
        description: attached.description.clone(),
        queue: Arc::clone(&attached.queue),
        device,
        files: files.clone(),
    });
    let places = exports.iter().map(|export| export.location()).collect();
    let operator = Arc::new(DeviceManager::new(operated.collect(), places));
    let mut servers: Vec<Box<dyn Export>> = Vec::new();
    if let Some(path) = &args.ctl {
        let server = ControlServer::start(path, Arc::clone(&operator))
            .with_context(|| format!("--ctl {}", path.display()))?;
        servers.push(Box::new(server));
    }
    if let Some(address) = args.metrics {
        let server = MetricsServer::start(address, operator)
            .with_context(|| format!("--metrics {address}"))?;
        servers.push(Box::new(server));
    }
    Ok(servers)
}
