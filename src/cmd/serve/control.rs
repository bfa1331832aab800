//! The control socket and the metrics: not ways to the data, but to what serves them.
use super::Export;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use zonal_host::control::{ControlServer, MetricsServer, Operator};

impl Export for ControlServer {
    fn place(&self) -> String {
        format!("ctl {}", self.path().display())
    }
}

impl Export for MetricsServer {
    fn place(&self) -> String {
        format!("http://{}/metrics", self.address())
    }
}

/// Makes a control socket.
///
/// # Errors
/// Why there can be none.
pub fn socket(path: &Path, operator: &Arc<Operator>) -> Result<Box<dyn Export>> {
    let server = ControlServer::start(path, Arc::clone(operator))
        .with_context(|| format!("--ctl {}", path.display()))?;
    Ok(Box::new(server))
}

/// Serves metrics.
///
/// # Errors
/// Why nothing can be listened to.
pub fn metrics(address: SocketAddr, operator: &Arc<Operator>) -> Result<Box<dyn Export>> {
    let server = MetricsServer::start(address, Arc::clone(operator))
        .with_context(|| format!("--metrics {address}"))?;
    Ok(Box::new(server))
}
