//! The movements of the heads of rotating disks during a run, as CSV.
use crate::devices::Devices;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use zonal_device::hdd::TraceEntry;

const HEADER: &str = "disk,time_ns,activity,byte,radius,buffered_bytes";

/// A file that traces are being written to.
pub struct HeadTrace {
    path: PathBuf,
    out: Arc<Mutex<Output>>,
}

struct Output {
    file: BufWriter<File>,
    /// The first error.
    result: io::Result<()>,
}

impl Output {
    fn line(&mut self, disk: usize, entry: &TraceEntry) {
        let TraceEntry { at, activity, byte, radius, buffered } = entry;
        let activity = activity.name();
        if self.result.is_ok() {
            self.result =
                writeln!(self.file, "{disk},{},{activity},{byte},{radius:.6},{buffered}", at.0);
        }
    }
}

impl HeadTrace {
    /// Traces the heads of all disks of `devices`, which are numbered from 0.
    ///
    /// # Errors
    /// The file cannot be created, or no device is a rotating disk.
    pub fn start(devices: &Devices, path: &Path) -> Result<Self> {
        let create = || -> io::Result<BufWriter<File>> {
            let mut file = BufWriter::new(zonal_os::output_file::create(path)?);
            writeln!(file, "{HEADER}")?;
            Ok(file)
        };
        let file = create().with_context(|| format!("--head-trace {}", path.display()))?;
        let out = Arc::new(Mutex::new(Output { file, result: Ok(()) }));
        let mut disk = 0;
        for device in devices.iter() {
            let out = Arc::clone(&out);
            let traced = device.model.trace_head(Box::new(move |entry| {
                out.lock().expect("trace lock").line(disk, entry);
            }));
            disk += usize::from(traced);
        }
        if disk == 0 {
            let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
            bail!(
                "--head-trace: expected a rotating disk such as smr-30t, found {}",
                names.join(", ")
            );
        }
        Ok(HeadTrace { path: path.to_owned(), out })
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The trace could not be written.
    pub fn finish(&self) -> Result<()> {
        let mut out = self.out.lock().expect("trace lock");
        let result = std::mem::replace(&mut out.result, Ok(())).and_then(|()| out.file.flush());
        result.with_context(|| format!("--head-trace {}", self.path.display()))
    }
}
