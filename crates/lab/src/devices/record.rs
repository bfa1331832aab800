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

    /// The device, from now on recorded to a new file.
    ///
    /// # Errors
    /// The device keeps no data, no image can have its zones, or the file cannot be written.
    pub fn recorded(self, log: &Path) -> Result<(OpenDevice, Arc<Recorder>)> {
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
        let recorder = Recorder::create(log, &header)
            .with_context(|| format!("{}: cannot write the log", log.display()))?;
        let model = Arc::new(RecordDevice::new(self.model, Arc::clone(&recorder)));
        Ok((OpenDevice { model, ..self }, recorder))
    }
}
