//! Serving a device to other programs and machines.
use crate::device::EPERM;
use crate::error::{DeviceError, bad_input};
use anyhow::{Context, Result};
use pyo3::exceptions::{PyPermissionError, PyTimeoutError};
use pyo3::prelude::*;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use zonal_blk::QueueOptions;
use zonal_lab::devices::named_scheduler;
use zonal_os::fork::OfProcess;
use zonal_serve::{ControlOptions, Running, ServeError, ServeOptions};

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

fn address(option: &'static str, text: Option<String>) -> Result<Option<SocketAddr>> {
    let parse = |text: String| {
        let address: Result<SocketAddr, _> = text.parse();
        address.with_context(|| format!("{option}: found `{text}`, expected ADDRESS:PORT"))
    };
    text.map(parse).transpose()
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
        let running = py.detach(|| -> Result<Running> {
            let policy = zone_write.as_deref().map(str::parse).transpose();
            let options = ServeOptions {
                seed,
                queue: QueueOptions {
                    scheduler: named_scheduler(scheduler.as_deref(), &[])?,
                    zone_write: policy.context("--zone-write")?,
                    ..QueueOptions::default()
                },
                nvme_tcp: address("nvme_tcp", nvme_tcp)?.into_iter().collect(),
                vfio_user,
                vhost_user: vhost_user.map(|path| (path, 1)),
                control: ControlOptions {
                    ctl,
                    metrics: address("metrics", metrics)?,
                    web: address("web", web)?,
                    ..ControlOptions::default()
                },
                ..ServeOptions::default()
            };
            Ok(zonal_serve::Server::open(name, options)?.start()?)
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

    /// Ends the exports, once I/O in flight has completed, makes what was answered durable, and closes the
    /// device. Raises TimeoutError if that takes longer than ten seconds: it ends by itself then.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let running = self
            .running
            .get()
            .map_err(|error| PyPermissionError::new_err((EPERM, format!("server: {error}"))))?;
        let take = || running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stop = || take().map_or(Ok(()), |running| running.stop_within(STOP_LIMIT));
        py.detach(stop).map_err(|error| match error {
            ServeError::Busy(_) => PyTimeoutError::new_err(error.to_string()),
            ServeError::Flush(_) => DeviceError::new_err(error.to_string()),
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
