//! Serving a device to other programs and machines.
use crate::device::EPERM;
use crate::error::bad_input;
use anyhow::{Context, Result};
use pyo3::exceptions::{PyPermissionError, PyTimeoutError};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use zonal_backend::{Notices, OpenOptions, Stack};
use zonal_blk::QueueOptions;
use zonal_lab::devices::named_scheduler;
use zonal_os::fork::OfProcess;
use zonal_serve::{Running, ServeError};

/// How long a server may take to end, as in `zonal serve` by default.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A device that is being served to other programs and machines, from threads of this process. `with` stops
/// it.
///
/// >>> with zonal.Server("zns-1t", nvme_tcp="127.0.0.1:0") as server:
/// ...     server.locations[0].split(":")[0]
/// 'nvme-tcp'
#[pyclass(module = "zonal", frozen)]
pub struct Server {
    locations: Vec<String>,
    running: OfProcess<Mutex<Option<Running>>>,
}

/// Where a device is offered.
struct Exports {
    nvme_tcp: Option<String>,
    vfio_user: Option<PathBuf>,
    vhost_user: Option<PathBuf>,
    ctl: Option<PathBuf>,
    metrics: Option<String>,
    web: Option<String>,
}

fn address(option: &'static str, text: &str) -> Result<std::net::SocketAddr> {
    text.parse().with_context(|| format!("{option}: found `{text}`, expected ADDRESS:PORT"))
}

fn start(name: &str, options: QueueOptions, seed: u64, exports: Exports) -> Result<Running> {
    let Exports { nvme_tcp, vfio_user, vhost_user, ctl, metrics, web } = exports;
    // There may be any number of clients.
    let open = OpenOptions { seed, channels: usize::MAX, notices: Notices::default() };
    let is_controlled = ctl.is_some() || metrics.is_some();
    let queue = QueueOptions { iostats: is_controlled, watchable: web.is_some(), ..options };
    let stack = Stack::open_with(name, &open)?.inject(seed, Vec::new()).attach(queue)?;
    let mut server = zonal_serve::Server::new([stack]);
    if let Some(text) = nvme_tcp {
        server = server.nvme_tcp(address("nvme_tcp", &text)?);
    }
    if let Some(path) = vfio_user {
        server = server.vfio_user(path);
    }
    if let Some(path) = vhost_user {
        server = server.vhost_user(path);
    }
    if let Some(path) = ctl {
        server = server.ctl(path);
    }
    if let Some(text) = metrics {
        server = server.metrics(address("metrics", &text)?);
    }
    if let Some(text) = web {
        server = server.web(address("web", &text)?);
    }
    Ok(server.start()?)
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (name, *, scheduler=None, zone_write=None, seed=0, nvme_tcp=None, vfio_user=None, vhost_user=None, ctl=None, metrics=None, web=None))]
    #[allow(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn new(
        py: Python<'_>,
        name: &str,
        scheduler: Option<String>,
        zone_write: Option<String>,
        seed: u64,
        nvme_tcp: Option<String>,
        vfio_user: Option<PathBuf>,
        vhost_user: Option<PathBuf>,
        ctl: Option<PathBuf>,
        metrics: Option<String>,
        web: Option<String>,
    ) -> PyResult<Self> {
        let exports = Exports { nvme_tcp, vfio_user, vhost_user, ctl, metrics, web };
        let running = py.detach(|| {
            let policy = zone_write.as_deref().map(str::parse).transpose();
            let options = QueueOptions {
                scheduler: named_scheduler(scheduler.as_deref(), &[])?,
                zone_write: policy.context("--zone-write")?,
                ..QueueOptions::default()
            };
            start(name, options, seed, exports)
        });
        let running = running.map_err(bad_input)?;
        Ok(Server {
            locations: running.locations(),
            running: OfProcess::new(Mutex::new(Some(running))),
        })
    }

    /// Where the exports are, such as nvme-tcp://127.0.0.1:4420/NQN, a name that `Device` takes.
    #[getter]
    fn locations(&self) -> Vec<String> {
        self.locations.clone()
    }

    /// Ends the exports, once I/O in flight has completed, and closes the device. Raises TimeoutError if
    /// that takes longer than ten seconds: it ends by itself then.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let running = self
            .running
            .get()
            .map_err(|error| PyPermissionError::new_err((EPERM, format!("server: {error}"))))?;
        let take = || running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stop = || take().map_or(Ok(()), |running| running.stop_within(STOP_LIMIT));
        py.detach(stop).map_err(|error| match error {
            ServeError::Busy(_) => PyTimeoutError::new_err(error.to_string()),
            error => bad_input(error),
        })
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.stop(py)
    }

    fn __repr__(&self) -> String {
        format!("Server({:?})", self.locations)
    }
}
