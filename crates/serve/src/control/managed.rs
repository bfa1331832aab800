//! A served device, as the control knows it.
use std::sync::Arc;
use zonal_blk::Queue;
use zonal_device::inject::InjectDevice;
use zonal_device::power::PowerDevice;
use zonal_frontend::zonefs::ZoneFs;
use zonal_nvme::controller::PutMark;

/// A served device.
pub struct ManagedDevice {
    /// Its name on the command line.
    pub name: String,
    /// Its description, one line.
    pub description: String,
    /// Its queue, with I/O statistics.
    pub queue: Arc<Queue>,
    /// The device, with fault injection.
    pub device: Arc<InjectDevice>,
    /// Its zones as files, if they are mounted.
    pub files: Option<Arc<ZoneFs>>,
    /// Takes marks, if the device is recorded or its power can fail at one.
    pub mark: Option<PutMark>,
    /// The device's power, if its cache is volatile.
    pub power: Option<Power>,
}

/// The power of a device.
pub struct Power {
    /// The device with the cache.
    pub device: Arc<PowerDevice>,
    /// Makes an image of what the device holds while its power is off.
    pub save: SaveImage,
}

/// Makes an image of what a device holds while its power is off, or says why it cannot.
pub type SaveImage = Box<dyn Fn(&std::path::Path) -> Result<(), String> + Send + Sync>;
