//! The control socket, the metrics and the page.
use super::Export;
use super::args::{ControlArgs, ServeArgs};
use anyhow::{Context, Result};
use std::path::Path;
use std::sync::Arc;
use zonal_blk::Device;
use zonal_device::image::Profile;
use zonal_device::power::PowerDevice;
use zonal_lab::devices::{AttachedDevice, OpenDevice};
use zonal_lab::run;
use zonal_nvme::controller::PutMark;
use zonal_serve::control::{ControlServer, DeviceManager, ManagedDevice, MetricsServer, Power};
use zonal_serve::web::WebServer;

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

impl Export for WebServer {
    fn location(&self) -> String {
        self.url()
    }
}

/// What takes marks, if the power can fail at one.
pub fn put_mark(power: &Power) -> PutMark {
    let device = Arc::clone(&power.device);
    Arc::new(move |text| device.mark(text))
}

/// Makes a device one that can be controlled. Returns its power, if it has a write cache.
///
/// # Errors
/// It is to have a write cache, and nothing can be taken back on its medium.
pub fn wrap(mut opened: OpenDevice, args: &ServeArgs) -> Result<(OpenDevice, Option<Power>)> {
    let mut power = None;
    if let Some(cache) = args.write_cache {
        let name = &opened.name;
        let device = PowerDevice::new(Arc::clone(&opened.model), cache).with_context(|| {
            format!(
                "--write-cache: device {name}: found one that cannot take back what was written, \
                 expected a model, or an image without the latencies of one"
            )
        })?;
        let device = Arc::new(device);
        opened.model = Arc::clone(&device) as _;
        let (saved, profile) = (Arc::clone(&device), opened.image_profile()?);
        let save = move |path: &Path| save_image(&saved, &profile, path);
        power = Some(Power { device, save: Box::new(save) });
    }
    Ok((opened.with_inject(args.seed), power))
}

/// Makes an image of what a device holds while its power is off.
fn save_image(device: &PowerDevice, profile: &Profile, path: &Path) -> Result<(), String> {
    let mut zones = Vec::new();
    device.zones_inside(&mut zones).map_err(|status| format!("the zones: {status}"))?;
    let uuid = zonal_os::uuid::random().map_err(|error| format!("a UUID: {error}"))?;
    let read = |sector, to: &mut [u8]| device.peek(sector, to);
    let of = (uuid, profile.clone());
    let saved = zonal_crash::image::save(device.limits(), &zones, of, &read, path);
    saved.map_err(|error| error.to_string())
}

/// Starts the control socket, the metrics server and the page, if they are wanted.
///
/// # Errors
/// The socket or an address cannot be bound.
pub fn start(
    args: &ControlArgs,
    devices: &[AttachedDevice],
    power: Vec<Option<Power>>,
    marks: Vec<Option<PutMark>>,
    exports: &[Box<dyn Export>],
) -> Result<Vec<Box<dyn Export>>> {
    // With an export as files there is only one device.
    let files = exports.iter().find_map(|export| export.files());
    let managed = devices.iter().zip(power).zip(marks).filter_map(|((attached, power), mark)| {
        let managed = run::managed(attached)?;
        Some(ManagedDevice { power, files: files.clone(), mark, ..managed })
    });
    let locations = exports.iter().map(|export| export.location()).collect();
    let paths = exports.iter().flat_map(|export| export.paths()).collect();
    let manager = DeviceManager::new(managed.collect(), locations).with_paths(paths);
    let manager = Arc::new(manager);
    let mut servers: Vec<Box<dyn Export>> = Vec::new();
    if let Some(path) = &args.ctl {
        let server = ControlServer::start(path, Arc::clone(&manager))
            .with_context(|| format!("--ctl {}", path.display()))?;
        servers.push(Box::new(server));
    }
    if let Some(address) = args.metrics {
        let server = MetricsServer::start(address, Arc::clone(&manager))
            .with_context(|| format!("--metrics {address}"))?;
        servers.push(Box::new(server));
    }
    if let Some(address) = args.web {
        let control = args.web_control.then_some(manager);
        let server = WebServer::start(address, run::watched(devices.iter()), control)
            .with_context(|| format!("--web {address}"))?;
        servers.push(Box::new(server));
    }
    Ok(servers)
}
