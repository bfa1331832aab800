//! The control socket, the metrics and the page.
use super::{Export, ServeError, of_option};
use crate::control::{ControlServer, DeviceManager, ManagedDevice, Power};
#[cfg(feature = "http")]
use crate::{control::MetricsServer, web::Watched, web::WebServer};
#[cfg(feature = "http")]
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zonal_backend::Stack;
use zonal_blk::Device;
use zonal_device::image::Profile;
use zonal_device::power::PowerDevice;
use zonal_nvme::controller::PutMark;

/// How devices are watched and changed.
#[derive(Clone, Debug, Default)]
pub struct ControlOptions {
    /// The control socket.
    pub ctl: Option<PathBuf>,
    /// The group whose members may use the control socket.
    pub ctl_group: Option<u32>,
    /// The address of the metrics.
    #[cfg(feature = "http")]
    pub metrics: Option<SocketAddr>,
    /// The address of the page.
    #[cfg(feature = "http")]
    pub web: Option<SocketAddr>,
    /// The page changes devices.
    #[cfg(feature = "http")]
    pub web_control: bool,
}

/// What watching and changing devices needs of them.
pub struct Needs {
    /// What the device does is counted.
    pub iostats: bool,
    /// It can be counted while somebody looks at the page.
    pub watchable: bool,
    /// Faults can be injected: so is each device that can be changed, or has metrics.
    pub inject: bool,
}

impl Export for ControlServer {
    fn location(&self) -> String {
        format!("ctl {}", self.path().display())
    }
}

#[cfg(feature = "http")]
impl Export for MetricsServer {
    fn location(&self) -> String {
        format!("http://{}/metrics", self.address())
    }
}

#[cfg(feature = "http")]
impl Export for WebServer {
    fn location(&self) -> String {
        self.url()
    }
}

/// The receiver of marks, if the device is recorded or its power can fail at one.
pub fn put_mark(stack: &Stack) -> Option<PutMark> {
    if let Some(recording) = &stack.recording {
        let recorder = Arc::clone(&recording.recorder);
        return Some(Arc::new(move |text| recorder.mark(text)));
    }
    let power = Arc::clone(stack.power.as_ref()?);
    Some(Arc::new(move |text| power.mark(text)))
}

/// The power of a device, if it has a write cache.
fn power(stack: &Stack) -> Result<Option<Power>, ServeError> {
    let Some(device) = &stack.power else { return Ok(None) };
    let (saved, profile) = (Arc::clone(device), stack.image_profile()?);
    let save = move |path: &Path| save_image(&saved, &profile, path);
    Ok(Some(Power { device: Arc::clone(device), save: Box::new(save) }))
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

/// Devices, to be watched.
#[cfg(feature = "http")]
pub fn watched<'a>(stacks: impl Iterator<Item = &'a Stack>) -> Vec<Watched> {
    let watched = |stack: &Stack| Watched {
        name: stack.name.clone(),
        description: stack.description.clone(),
        queue: Arc::clone(&stack.queue),
        device: Arc::clone(&stack.model),
        inject: stack.inject.clone(),
    };
    stacks.map(watched).collect()
}

/// A device, to be monitored and changed. `None` unless faults can be injected into it.
pub fn managed(stack: &Stack) -> Option<ManagedDevice> {
    Some(ManagedDevice {
        name: stack.name.clone(),
        description: stack.description.clone(),
        queue: Arc::clone(&stack.queue),
        device: Arc::clone(stack.inject.as_ref()?),
        files: None,
        mark: None,
        power: None,
    })
}

impl ControlOptions {
    /// What of the devices all of this needs.
    pub fn needs(&self) -> Needs {
        #[cfg(feature = "http")]
        let (metrics, watchable, control) =
            (self.metrics.is_some(), self.web.is_some(), self.web_control);
        #[cfg(not(feature = "http"))]
        let (metrics, watchable, control) = (false, false, false);
        let iostats = self.ctl.is_some() || metrics;
        Needs { iostats, watchable, inject: iostats || control }
    }

    /// Starts what is wanted.
    ///
    /// # Errors
    /// The socket or an address cannot be bound.
    pub fn start(
        &self,
        stacks: &[Stack],
        marks: Vec<Option<PutMark>>,
        exports: &[Box<dyn Export>],
    ) -> Result<Vec<Box<dyn Export>>, ServeError> {
        // With an export as files there is only one device.
        let files = exports.iter().find_map(|export| export.files());
        let mut devices = Vec::new();
        for (stack, mark) in stacks.iter().zip(marks) {
            let Some(device) = managed(stack) else { continue };
            let power = power(stack)?;
            devices.push(ManagedDevice { power, files: files.clone(), mark, ..device });
        }
        let locations = exports.iter().map(|export| export.location()).collect();
        let paths = exports.iter().flat_map(|export| export.paths()).collect();
        let manager = Arc::new(DeviceManager::new(devices, locations).with_paths(paths));
        let mut servers: Vec<Box<dyn Export>> = Vec::new();
        if let Some(path) = &self.ctl {
            let server = ControlServer::start(path, self.ctl_group, Arc::clone(&manager));
            servers.push(Box::new(server.map_err(of_option("ctl", Some(&path.display())))?));
        }
        #[cfg(feature = "http")]
        self.start_http(stacks, &manager, &mut servers)?;
        Ok(servers)
    }

    #[cfg(feature = "http")]
    fn start_http(
        &self,
        stacks: &[Stack],
        manager: &Arc<DeviceManager>,
        servers: &mut Vec<Box<dyn Export>>,
    ) -> Result<(), ServeError> {
        if let Some(address) = self.metrics {
            let server = MetricsServer::start(address, Arc::clone(manager));
            servers.push(Box::new(server.map_err(of_option("metrics", Some(&address)))?));
        }
        if let Some(address) = self.web {
            let control = self.web_control.then(|| Arc::clone(manager));
            let server = WebServer::start(address, watched(stacks.iter()), control);
            servers.push(Box::new(server.map_err(of_option("web", Some(&address)))?));
        }
        Ok(())
    }
}
