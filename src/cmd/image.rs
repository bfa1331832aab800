//! `zonal create` and `zonal check`: images in files.
use crate::config;
use crate::interrupt::{exit_code, set_on_interrupt};
use crate::terminal::{StepBar, notices, stdout};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zonal_backend::image::{self, ImageName, OpenError};
use zonal_device::image::{Finding, ImageError, Profile, Superblock};
use zonal_lab::progress::StepProgress;
use zonal_os::uuid;

/// Options of `zonal create`.
#[derive(Args, Debug)]
pub struct CreateArgs {
    /// The file to create; it must not exist
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// The device that it emulates: a spec (see `zonal devices`) or a TOML profile
    #[arg(long, value_name = "SPEC", value_parser = config::device)]
    pub profile: String,
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
}

/// Whether something is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// It is.
    On,
    /// It is not.
    Off,
}

/// Options of `zonal check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The image: a file
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Also read all data and compare them with their checksums
    #[arg(long)]
    pub data: bool,
    /// Recover from a power loss, rewrite damaged copies of metadata, and release unused space
    #[arg(long)]
    pub repair: bool,
}

/// Creates an image.
///
/// # Errors
/// The profile is malformed, or the file cannot be created.
pub fn create(args: &CreateArgs) -> Result<ExitCode> {
    let in_image = || format!("image {}", args.image.display());
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
    let name = ImageName::of_path(&args.image.to_string_lossy());
    writeln!(
        stdout(),
        "{name}: {}, UUID {}",
        superblock.geometry.summary(),
        uuid::format(&superblock.uuid)
    )?;
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
    let bar = StepBar::new("{prefix} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left");
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

/// The device that the image emulates.
fn profile(args: &CreateArgs) -> Result<Profile> {
    let spec = &args.profile;
    let mut options: Vec<String> = args.options.clone();
    options.extend(args.zones.iter().map(|zones| format!("zones={zones}")));
    options.extend(args.zone_size.iter().map(|size| format!("zone_size={size}")));
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
    let mut text = spec.clone();
    if !options.is_empty() {
        text = [text.as_str(), separator, &options.join(",")].concat();
    }
    zonal_backend::load(&text)?;
    Ok(Profile::Spec(text))
}

/// Checks an image. Exits with 1 if its data or copies of its metadata are damaged, or it cannot be
/// opened.
///
/// # Errors
/// The file cannot be read or is not an image.
pub fn check(args: &CheckArgs) -> Result<ExitCode> {
    let path = args.image.as_path();
    let mut out = stdout();
    if args.repair {
        repair(path, &mut out)?;
    }
    let bar = StepBar::new("{prefix} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left");
    let inspected = if args.data {
        let mut read = 0;
        bar.start("data", std::fs::metadata(path).map_or(0, |file| file.blocks() * 512));
        image::inspect(
            path,
            Some(&mut |bytes| bar.advance(bytes - std::mem::replace(&mut read, bytes))),
        )
    } else {
        image::inspect(path, None)
    };
    bar.finish();
    match inspected {
        Ok((superblock, recovered, findings)) => {
            writeln!(out, "{}: {}", path.display(), superblock.geometry.summary())?;
            writeln!(out, "UUID {}", uuid::format(&superblock.uuid))?;
            writeln!(out, "generation {}: {}", recovered.generation, recovered.summary())?;
            if !args.data {
                writeln!(out, "{}", skipped(&superblock))?;
            }
            for finding in &findings {
                match finding {
                    Finding::Note(what) => writeln!(out, "note: {}", what)?,
                    Finding::Damage(what) => writeln!(out, "damage: {}", what)?,
                }
            }
            let damaged = findings.iter().any(|found| matches!(found, Finding::Damage(_)));
            Ok(if damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Err(error) if is_damage(&error) => {
            writeln!(out, "{}: {}", path.display(), error)?;
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error).with_context(|| format!("image {}", path.display())),
    }
}

/// The line about the data in a check of the metadata alone.
fn skipped(superblock: &Superblock) -> &'static str {
    if superblock.checksums {
        "data: not read; --data compares them with their checksums"
    } else {
        "data: not checked, the image has no checksums of them"
    }
}

/// Whether the file is an image that is damaged beyond what opening it repairs.
fn is_damage(error: &OpenError) -> bool {
    use zonal_device::image::ImageError::{Features, Io, NotAnImage, Version};
    let OpenError::Image(error) = error else { return false };
    !matches!(error, NotAnImage | Version { .. } | Features { .. } | Io { .. })
}

/// Opens the image, which recovers from a power loss and rewrites damaged copies of metadata.
fn repair(path: &Path, out: &mut impl Write) -> Result<()> {
    let Some(text) = path.to_str() else {
        bail!("image {}: found a name that is not UTF-8, expected one that is", path.display());
    };
    let before = image::inspect(path, None).with_context(|| format!("image {text}"))?;
    let opened = zonal_backend::open_image(&format!("image:{text}:latency=none"), &notices())?;
    opened.device.reclaim_space().with_context(|| format!("image {text}: giving back space"))?;
    drop(opened);
    for finding in before.2 {
        match finding {
            Finding::Note(what) => writeln!(out, "settled: {what}")?,
            Finding::Damage(what) => writeln!(out, "written again: {what}")?,
        }
    }
    Ok(())
}
