//! `zonal image create` and `zonal image check`: images in files.
mod check;
mod describe;
mod pack;
mod tool;

pub use tool::{ImageCommand, run};

use crate::config;
use crate::format::{self, FormatArgs};
use crate::interrupt::{exit_code, set_on_interrupt};
use crate::terminal::StepBar;
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zonal_backend::image::{self, ImageName, OpenError};
use zonal_device::image::{ImageError, Profile, Superblock};
use zonal_lab::progress::StepProgress;
use zonal_os::uuid;

/// Options of `zonal image create`.
#[derive(Args, Debug)]
pub struct CreateArgs {
    /// The file to create; it must not exist
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// The device that it emulates: a spec (see `zonal devices`) or a TOML profile
    #[arg(long, value_name = "SPEC", value_parser = config::device)]
    pub profile: Option<String>,
    /// Number of zones, as the spec's `zones`
    #[arg(long, value_name = "COUNT")]
    pub zones: Option<String>,
    /// Size of a zone, as the spec's `zone_size`
    #[arg(long, value_name = "SIZE")]
    pub zone_size: Option<String>,
    /// Another option of the spec, OPTION=VALUE; can be repeated
    #[arg(short = 'o', long = "option", value_name = "OPTION=VALUE")]
    pub options: Vec<String>,
    /// Whether each block of data gets a checksum, which reads verify
    #[arg(long, value_name = "ON|OFF", default_value = "on")]
    pub checksums: Switch,
    /// Write the space of all zones now, and keep it when zones are reset: later writes are faster,
    /// above all those that are flushed one by one
    #[arg(long)]
    pub preallocate: bool,
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Whether something is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// It is.
    On,
    /// It is not.
    Off,
}

/// Creates an image.
///
/// # Errors
/// The profile is malformed, or the file cannot be created.
fn create(args: &CreateArgs) -> Result<ExitCode> {
    let in_image = || of_image(&args.image);
    let checksums = args.checksums == Switch::On;
    let profile = profile(args)?;
    let created = if args.preallocate {
        create_preallocated(&args.image, profile, checksums)?
    } else {
        image::create(&args.image, profile, checksums)
    };
    let superblock = match (created, exit_code()) {
        (Err(OpenError::Image(ImageError::Io { source, .. })), Some(interrupted))
            if source.kind() == ErrorKind::Interrupted =>
        {
            tracing::warn!("{}: interrupted, and the file was removed", in_image());
            return Ok(interrupted);
        }
        (created, _) => created.with_context(in_image)?,
    };
    let name = ImageName::of_path(&args.image.to_string_lossy()).to_string();
    let (summary, uuid) = (superblock.geometry.summary(), uuid::format(&superblock.uuid));
    let text = || format!("{name}: {summary}, UUID {uuid}\n");
    format::print(args.format, "Image", text, &describe::superblock(&args.image, &superblock))?;
    Ok(ExitCode::SUCCESS)
}

/// Creates an image with all of its space, until an interrupt.
fn create_preallocated(
    path: &Path,
    profile: Profile,
    checksums: bool,
) -> Result<Result<Superblock, OpenError>> {
    let stop = Arc::default();
    set_on_interrupt(&stop)?;
    let bar = byte_bar();
    let mut written = None;
    let created = image::create_preallocated(path, profile, checksums, &mut |all, done| {
        let before = written.replace(done).unwrap_or_else(|| {
            bar.start("space", all);
            0
        });
        bar.advance(done - before);
        if stop.load(Ordering::Relaxed) { Err(ErrorKind::Interrupted.into()) } else { Ok(()) }
    });
    bar.finish();
    Ok(created)
}

/// The line of progress of what goes through many bytes.
fn byte_bar() -> StepBar {
    StepBar::new("{prefix} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left")
}

/// An image in an error message.
fn of_image(path: &Path) -> String {
    format!("image {}", path.display())
}

/// The device that the image emulates.
fn profile(args: &CreateArgs) -> Result<Profile> {
    let spec = args.profile.as_ref().with_context(|| {
        format!(
            "create: found no --profile, expected the device that the image emulates, such as \
             --profile zns-1t --zones 64; profiles are {}, and `zonal devices` explains them",
            zonal_device::device_spec::profile_names()
        )
    })?;
    let mut options: Vec<String> = args.options.clone();
    for option in &options {
        ensure!(option.contains('='), "--option: found `{option}`, expected OPTION=VALUE");
    }
    options.extend(args.zones.iter().map(|zones| format!("zones={zones}")));
    options.extend(args.zone_size.iter().map(|size| format!("zone_size={size}")));
    profile_of(&args.image, spec, &options)
}

/// The profile of an image: a spec with options added, or a TOML profile.
fn profile_of(image: &Path, spec: &str, options: &[String]) -> Result<Profile> {
    if spec.ends_with(".toml") {
        ensure!(
            options.is_empty(),
            "--profile {spec}: found `{}` beside it, expected that in the profile",
            options[0]
        );
        zonal_backend::load(spec)?;
        return Ok(Profile::Toml(zonal_backend::profile_text(spec)?));
    }
    let separator = if spec.contains(':') { "," } else { ":" };
    let mut text = spec.to_owned();
    if !options.is_empty() {
        text = [text.as_str(), separator, &options.join(",")].concat();
    }
    for assumption in zonal_backend::load(&text)?.assumptions() {
        tracing::warn!("image {}: {assumption}", image.display());
    }
    Ok(Profile::Spec(text))
}
