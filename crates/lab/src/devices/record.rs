//! Recording what changes a device, for the crash lab.
use super::{OpenDevice, profile_text};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::sync::Arc;
use zonal_crash::log::Header;
use zonal_crash::{RecordDevice, Recorder};
use zonal_device::image::Profile;

impl OpenDevice {
    /// What an image with the content of the device says it was made as.
    ///
    /// # Errors
    /// The file of the device's profile cannot be read.
    pub fn image_profile(&self) -> Result<Profile> {
        if let Some(superblock) = self.model.superblock() {
            return Ok(superblock.profile.clone());
        }
        Ok(match self.name.ends_with(".toml") {
            true => Profile::Toml(profile_text(&self.name)?),
            false => Profile::Spec(self.name.clone()),
        })
    }

    /// The device, recorded from [`Recording::start`] on.
    ///
    /// # Errors
    /// The device keeps no data, or no image can have its zones.
    pub fn recorded(self) -> Result<(OpenDevice, Recording)> {
        let in_device = || format!("device {}", self.name);
        ensure!(
            self.keeps_data,
            "device {}: found one that keeps no data, expected one that does (memory=true), or an \
             image: there is nothing to record",
            self.name
        );
        let superblock = self.model.superblock().cloned();
        let profile = self.image_profile()?;
        let header = Header::of(&self.name, &*self.model, superblock, profile);
        let header = header.with_context(in_device)?;
        let recorder = Recorder::idle();
        let model = Arc::new(RecordDevice::new(self.model, Arc::clone(&recorder)));
        Ok((OpenDevice { model, ..self }, Recording { recorder, header }))
    }
}

/// The recording of a device, which has no file before it starts.
pub struct Recording {
    /// What records it.
    pub recorder: Arc<Recorder>,
    header: Header,
}

impl Recording {
    /// Creates the file, in which what follows is recorded.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn start(&self, log: &Path) -> Result<()> {
        let started = self.recorder.start(log, &self.header);
        started.with_context(|| format!("{}: cannot write the log", log.display()))
    }
}
