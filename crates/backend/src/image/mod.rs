//! Images in files. One process at a time can have an image open for writing.
mod file;
mod name;
mod ring;
mod shared;

pub use file::ImageFile;
pub use name::{ImageName, Latency, NameError};
pub use zonal_device::image::Profile;

use std::io;
use std::path::Path;
use std::sync::Arc;
use zonal_blk::ZoneNo;
use zonal_device::control::DeviceControl;
use zonal_device::device_spec::{self, DeviceSpec, SpecError};
use zonal_device::image::{
    self, Finding, ImageError, ImageGeometry, ImageStore, Model, Recovered, Superblock, ZoneEntry,
};
use zonal_device::{ImageDevice, image::check};
use zonal_os::uuid;

/// Why an image cannot be created or opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file does not exist.
    #[error("there is no such file; `zonal image create` makes one")]
    Missing,
    /// The file exists already.
    #[error("the file exists; `zonal image create` makes new ones only")]
    Exists,
    /// Another process has it.
    #[error("another process has the image open")]
    InUse,
    /// The file cannot be opened.
    #[error("cannot open the file: {0}")]
    File(#[source] io::Error),
    /// Its contents cannot be used.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Its profile no longer describes a device.
    #[error("its profile: {0}")]
    Profile(#[from] SpecError),
    /// Its profile describes a device with other zones.
    #[error("its profile has {found}, and the image has {expected}")]
    ShapeMismatch {
        /// The zones of the profile.
        found: String,
        /// The zones of the image.
        expected: String,
    },
    /// Its profile has no latencies.
    #[error("latency=model: {0}")]
    Timing(&'static str),
}

/// An image that is open.
pub struct OpenImage {
    /// The device.
    pub device: Arc<ImageDevice>,
    /// The device in one line, for reports.
    pub description: String,
    /// Remarks for the user about it.
    pub notices: Vec<String>,
}

/// The specification of a profile.
fn spec_of(profile: &Profile) -> Result<DeviceSpec, SpecError> {
    match profile {
        Profile::Spec(text) => device_spec::parse(text),
        Profile::Toml(text) => device_spec::parse_profile("profile.toml", text),
    }
}

/// Whether a profile sets the longest command.
fn sets_max_io(profile: &Profile) -> bool {
    let (Profile::Spec(text) | Profile::Toml(text)) = profile;
    let mut settings = text.split([':', ',', '\n']).filter_map(|part| part.split_once('='));
    settings.any(|(name, _)| name.trim() == "max_io")
}

/// The geometry of a device.
fn geometry_of(model: &dyn DeviceControl) -> Result<ImageGeometry, OpenError> {
    let mut zones = Vec::new();
    let count = model.limits().nr_zones as usize;
    if count > 0 {
        model.report_zones(ZoneNo(0), count, &mut zones).map_err(|status| {
            ImageError::Geometry(format!("a device that does not report its zones: {status}"))
        })?;
    }
    Ok(ImageGeometry::of(model.limits(), &zones)?)
}

/// Creates an image of the device that a profile describes, with or without checksums of its data.
/// Returns its superblock.
///
/// # Errors
/// The profile is unsuitable or the file cannot be written. An incomplete file is removed.
pub fn create(path: &Path, profile: Profile, checksums: bool) -> Result<Superblock, OpenError> {
    let superblock = new_superblock(profile)?;
    write_new(path, Superblock { checksums, ..superblock }, &mut |_, _| Ok(()))
}

/// The same with the space of all zones, which is written with zeroes and stays when zones are reset.
/// Calls `progress` with the number of its bytes and how many of them were written so far; an error
/// that it returns ends the creation.
///
/// # Errors
/// The profile is unsuitable or the file cannot be written. An incomplete file is removed.
pub fn create_preallocated(
    path: &Path,
    profile: Profile,
    checksums: bool,
    progress: &mut dyn FnMut(u64, u64) -> io::Result<()>,
) -> Result<Superblock, OpenError> {
    let superblock = new_superblock(profile)?;
    write_new(path, Superblock { checksums, preallocated: true, ..superblock }, progress)
}

/// Creates an image with an identity that is given: a copy of another one, or that one in another form.
/// Checksums and preallocation are those of `like`.
///
/// # Errors
/// As [`create`].
pub fn create_like(
    path: &Path,
    like: &Superblock,
    uuid: [u8; 16],
    profile: Profile,
) -> Result<Superblock, OpenError> {
    let superblock = new_superblock(profile)?;
    let &Superblock { checksums, preallocated, .. } = like;
    write_new(path, Superblock { uuid, checksums, preallocated, ..superblock }, &mut |_, _| Ok(()))
}

fn new_superblock(profile: Profile) -> Result<Superblock, OpenError> {
    let model = device_spec::build(&spec_of(&profile)?)?;
    let geometry = geometry_of(&*model)?;
    let uuid = uuid::random().map_err(OpenError::File)?;
    let superblock = Superblock::new(uuid, geometry, profile)?;
    Ok(match model.kept() {
        Some(state) => superblock.with_state(state.most_bytes())?,
        None => superblock,
    })
}

fn write_new(
    path: &Path,
    superblock: Superblock,
    progress: &mut dyn FnMut(u64, u64) -> io::Result<()>,
) -> Result<Superblock, OpenError> {
    let mut file = ImageFile::create(path)?;
    let all = superblock.full_len();
    let mut write = || -> Result<(), OpenError> {
        ImageDevice::begin_creation(&file)?;
        if superblock.preallocated {
            // First, so that a lack of space is found immediately; without it the page cache has the data.
            match file.reserve(0, all) {
                Err(error) if error.kind() != io::ErrorKind::Unsupported => {
                    return Err(OpenError::File(error));
                }
                _ => drop(file.try_direct_io(superblock.geometry.lba)),
            }
        }
        ImageDevice::create_with(&file, &superblock, &mut |done| progress(all, done))?;
        Ok(())
    };
    if let Err(error) = write() {
        // It was created above.
        let _removed = std::fs::remove_file(path);
        return Err(error);
    }
    Ok(superblock)
}

/// Opens the image of a name.
///
/// # Errors
/// Why it cannot be opened or used.
pub fn open(name: &ImageName) -> Result<OpenImage, OpenError> {
    let mut file = ImageFile::open(Path::new(&name.path), true)?;
    let (superblock, _) = image::read_superblock(&file)?;
    let mut notices: Vec<String> =
        file.try_direct_io(superblock.geometry.lba).into_iter().collect();
    if superblock.version == 1 {
        notices.push(
            "format version 1: nothing protects the data, since blocks have no checksums; `zonal image \
             convert` makes an image that has them"
                .to_owned(),
        );
    }
    let direct = file.is_direct();
    let file = Arc::new(file);
    if let Err(error) = ring::ImageRing::new(file.handle(), 1) {
        notices.push(format!(
            "no io_uring here ({error}): commands of a queue move their data one after the other"
        ));
    }
    let latency = name.latency;
    let device = ImageDevice::open(file, |superblock, zones| model(latency, superblock, zones))?;
    notices.extend(device.state_damage().map(|why| {
        format!(
            "the state of the drive's translation layer cannot be used ({why}): it begins anew; the data \
             are not affected"
        )
    }));
    // A model sets the longest command itself.
    let may_be_long = latency == Latency::None && !sets_max_io(&superblock.profile);
    let device = Arc::new(if may_be_long { device.with_long_commands() } else { device });
    let mut description = device.describe();
    if latency == Latency::Model {
        let spec = spec_of(&superblock.profile)?;
        description.push_str(&format!(", latencies of {}", spec.kind()));
    }
    if !direct {
        description.push_str(", through the page cache");
    }
    Ok(OpenImage { device, description, notices })
}

/// The model that gives an image its latencies, or that has a state which the image keeps.
fn model(
    latency: Latency,
    superblock: &Superblock,
    zones: &[ZoneEntry],
) -> Result<Option<Model>, OpenError> {
    let paced = latency == Latency::Model;
    if !paced && superblock.state_blocks == 0 {
        return Ok(None);
    }
    let spec = spec_of(&superblock.profile)?;
    let geometry = geometry_of(&*device_spec::build(&spec)?)?;
    if geometry != superblock.geometry {
        let expected = superblock.geometry.summary();
        return Err(OpenError::ShapeMismatch { found: geometry.summary(), expected });
    }
    let model = device_spec::timing(&spec, |zone: ZoneNo| {
        let entry = &zones[zone.index()];
        (entry.written.to_bytes(), entry.cond)
    })?;
    let model = model.map(|device| Some(Model { device, paced }));
    model.ok_or(OpenError::Timing("the profile has no time in it"))
}

/// Checks all metadata of an image without changing it; with `progress` also its data, and calls
/// that with the number of bytes read so far.
///
/// # Errors
/// Why it cannot be used.
pub fn inspect(
    path: &Path,
    progress: Option<&mut dyn FnMut(u64)>,
) -> Result<(Superblock, Recovered, Vec<Finding>), OpenError> {
    let file = ImageFile::open(path, false)?;
    let (superblock, recovered, mut findings) = check(&file)?;
    if let Some(progress) = progress {
        findings.extend(image::check_data(&file, &superblock, &recovered, progress)?);
    }
    Ok((superblock, recovered, findings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::{Bio, Device, Nanos, Op, Queue, QueueOptions, Sector, Status};

    #[test]
    fn a_preallocated_image_has_all_of_its_space_and_keeps_it_when_zones_are_reset() {
        use std::os::unix::fs::MetadataExt;
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("full.img");
        let profile = Profile::Spec("null:zones=4,zone_size=4M,conventional=1,lba=4096".to_owned());
        let mut last = (0, 0);
        let made = create_preallocated(&path, profile, true, &mut |all, done| {
            last = (all, done);
            Ok(())
        });
        let full_len = made.expect("an image").full_len();
        assert_eq!(last.0, full_len);
        assert!(last.1 >= 16 << 20, "{last:?}");
        let space = || std::fs::metadata(&path).expect("the file").blocks() * 512;
        assert_eq!(std::fs::metadata(&path).expect("the file").len(), full_len);
        let before = space();
        assert!(before >= full_len, "{before} of {full_len}");
        let name = format!("image:{}", path.display()).parse().expect("a name");
        for _ in 0..2 {
            let device = open(&name).expect("it opens").device;
            let queue = Queue::attach(device, QueueOptions::default()).expect("a queue");
            let mut io = queue.channel().expect("a channel");
            let sector = Sector(8 << 11);
            for bio in [
                Bio::write(sector, zonal_blk::Buf::zeroed(1 << 20), 0),
                Bio::new(Op::Flush, Sector(0), 0, 0),
                Bio::new(Op::ZoneReset, sector, 0, 0),
            ] {
                let mut done = Vec::new();
                io.submit(Nanos(0), bio);
                while io.outstanding() > 0 {
                    io.poll(Nanos(0), &mut done);
                }
                assert_eq!(done[0].status, Status::Ok);
            }
        }
        assert_eq!(space(), before);
    }

    #[test]
    fn creation_that_is_interrupted_leaves_no_file_and_a_killed_one_says_what_it_is() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("part.img");
        let name = format!("image:{}", path.display()).parse().expect("a name");
        let mut seen = None;
        let mut interrupt = |_, done| {
            if done < 4 << 20 {
                return Ok(());
            }
            // As it would be found after a kill.
            seen = open(&name).map(drop).err().zip(std::fs::read(&path).ok());
            Err(io::ErrorKind::Interrupted.into())
        };
        let profile = Profile::Spec("null:zones=4,zone_size=4M".to_owned());
        let created = create_preallocated(&path, profile, true, &mut interrupt);
        let error = created.expect_err("it was interrupted").to_string();
        assert!(error.starts_with("writing the new image: "), "{error}");
        assert!(!path.exists());
        let (error, contents) = seen.expect("the file cannot be opened");
        assert!(matches!(error, OpenError::InUse), "{error}");
        std::fs::write(&path, contents).expect("a file");
        let error = open(&name).map(drop).expect_err("it is no image").to_string();
        assert!(error.starts_with("its creation was interrupted"), "{error}");
    }

    #[test]
    fn commands_are_long_unless_the_profile_or_a_model_says_otherwise() {
        let place = tempfile::tempdir().expect("a directory");
        let longest = |number: u32, profile: Profile, options: &str| {
            let path = place.path().join(format!("{number}.img"));
            create(&path, profile, true).expect("an image");
            let name = format!("image:{}{options}", path.display()).parse().expect("a name");
            open(&name).expect("it opens").device.limits().max_sectors
        };
        let spec = |text: &str| Profile::Spec(text.to_owned());
        let toml = |text: &str| Profile::Toml(format!("device = \"zns\"\nzones = 64\n{text}"));
        assert_eq!(longest(0, spec("null:zones=2,zone_size=1M"), ""), 8 << 11);
        assert_eq!(longest(1, spec("null:zones=2,zone_size=1M,max_io=64K"), ""), 128);
        assert_eq!(longest(2, toml("max_io = \"1M\""), ""), 1 << 11);
        assert_eq!(longest(3, toml(""), ""), 8 << 11);
        assert_eq!(longest(4, toml(""), ":latency=model"), 1 << 11);
    }
}
