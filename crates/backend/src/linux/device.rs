//! A block device of this machine.
use super::block::{BlockCommands, CachedReports, report_zones};
use super::describe;
use super::queue::Queue;
use super::sysfs::{self, LimitsError};
use super::users;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zonal_blk::{Device, HwQueue, Limits, ReadBufs, Sector, Status, Zone, ZoneNo};
use zonal_device::control::DeviceControl;
use zonal_os::blk_zone::BlkZone;

/// Zones of one report.
const BATCH: u32 = 4096;

/// Why a block device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be opened.
    #[error("{0}")]
    Open(io::Error),
    /// This process may not open it: who may.
    #[error("permission denied: {0}")]
    Forbidden(String),
    /// It is mounted, or a program has opened it exclusively: how it is used.
    #[error("it is in use: {0}")]
    InUse(String),
    /// It is not a block device.
    #[error("expected a block device")]
    NotABlockDevice,
    /// There is no io_uring.
    #[error("no io_uring: {0} (see kernel.io_uring_disabled in sysctl)")]
    Ring(io::Error),
    /// Its limits cannot be read.
    #[error(transparent)]
    Limits(#[from] LimitsError),
}

/// The number of a device as sysfs writes it.
fn number(device: &Metadata) -> String {
    let number = device.rdev();
    format!("{}:{}", libc::major(number), libc::minor(number))
}

/// A block device of this machine.
pub struct LinuxDevice {
    file: Arc<File>,
    name: String,
    /// In sysfs.
    directory: PathBuf,
    limits: Limits,
    cached: CachedReports,
    /// See [`Device::external_buf_alignment`].
    alignment: Option<u32>,
}

impl LinuxDevice {
    /// Opens a block device exclusively, for direct I/O.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open(path: &str) -> Result<Self, OpenError> {
        let metadata = std::fs::metadata(path).map_err(OpenError::Open)?;
        if !metadata.file_type().is_block_device() {
            return Err(OpenError::NotABlockDevice);
        }
        let flags = libc::O_DIRECT | libc::O_EXCL;
        let open = File::options().read(true).write(true).custom_flags(flags).open(path);
        let file = open.map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => {
                OpenError::InUse(users::of(Path::new("/"), &number(&metadata)))
            }
            io::ErrorKind::PermissionDenied => {
                OpenError::Forbidden(users::allowed(Path::new("/"), &metadata))
            }
            _ => OpenError::Open(error),
        })?;
        // The device that was opened, whatever the path names by now.
        let opened = number(&file.metadata().map_err(OpenError::Open)?);
        let directory = PathBuf::from(format!("/sys/dev/block/{opened}"));
        let limits = sysfs::limits(&directory)?;
        let alignment = sysfs::alignment(&directory);
        // `open_queue` cannot fail.
        io_uring::IoUring::new(1).map_err(OpenError::Ring)?;
        let (file, name, cached) = (Arc::new(file), path.to_owned(), CachedReports::default());
        Ok(LinuxDevice { file, name, directory, limits, cached, alignment })
    }

    /// Describes the device in one line, for reports.
    pub fn describe(&self) -> String {
        describe(&self.name, &self.limits)
    }
}

impl LinuxDevice {
    /// Reports zones in parts, each of which `report` gives.
    fn report(
        &self,
        first: ZoneNo,
        max: usize,
        zones: &mut Vec<Zone>,
        report: impl Fn(Sector, u32) -> io::Result<Vec<BlkZone>>,
    ) -> Result<(), Status> {
        let mut next = first.0;
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        let end = first.0.saturating_add(max).min(self.limits.nr_zones);
        while next < end {
            let start = self.limits.zone_start(ZoneNo(next));
            let report = report(start, BATCH.min(end - next)).map_err(Status::from)?;
            if report.is_empty() {
                return Err(Status::IoError);
            }
            for zone in &report {
                zones.push(zone.zone().ok_or(Status::IoError)?);
            }
            next += u32::try_from(report.len()).expect("no more than requested");
        }
        Ok(())
    }
}

impl Device for LinuxDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The kernel reads the zones anew when it is told that the disk has changed.
    fn nr_zones(&self) -> u32 {
        match self.limits.nr_zones {
            0 => 0,
            all => sysfs::nr_zones(&self.directory).unwrap_or(all),
        }
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        self.report(first, max, zones, |start, max| report_zones(&self.file, start, max))
    }

    fn report_zones_cached(
        &self,
        first: ZoneNo,
        max: usize,
        zones: &mut Vec<Zone>,
    ) -> Result<(), Status> {
        self.report(first, max, zones, |start, max| self.cached.report(&self.file, start, max))
    }

    fn external_buf_alignment(&self) -> Option<u32> {
        self.alignment
    }

    /// A read succeeds only if all its bytes were transferred.
    fn read_bufs(&self) -> ReadBufs {
        ReadBufs::Filled
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let depth = self.limits.queue_depth;
        let file = Arc::clone(&self.file);
        Box::new(Queue::new(BlockCommands { file, limits: self.limits.clone() }, depth))
    }
}

impl DeviceControl for LinuxDevice {
    fn characteristics(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.name.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_refused() {
        let error = |path| LinuxDevice::open(path).err().expect("refused").to_string();
        assert_eq!(error("/dev/null"), "expected a block device");
        assert!(error("/dev/nonexistent").contains("No such file"));
    }
}
