//! `zonal create` and `zonal check`: images in files.
use crate::terminal::notices;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use zonal_device::image::{Finding, Profile};
use zonal_host::backend::image::{self, ImageName, OpenError};
use zonal_lab::devices;

/// Options of `zonal create`.
#[derive(Args, Debug)]
pub struct CreateArgs {
    /// The file to create; it must not exist
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// The device that it emulates: a spec (see `zonal devices`) or a TOML profile
    #[arg(long, value_name = "SPEC")]
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
}

/// Options of `zonal check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The image: a file
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
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
    let superblock = image::create(&args.image, profile(args)?).with_context(in_image)?;
    let name = ImageName::of_path(&args.image.to_string_lossy());
    writeln!(
        io::stdout(),
        "{name}: {}, UUID {}",
        superblock.geometry.summary(),
        devices::format_uuid(&superblock.uuid)
    )?;
    Ok(ExitCode::SUCCESS)
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
        devices::load(spec)?;
        return Ok(Profile::Toml(devices::profile_text(spec)?));
    }
    let separator = if spec.contains(':') { "," } else { ":" };
    let mut text = spec.clone();
    if !options.is_empty() {
        text = [text.as_str(), separator, &options.join(",")].concat();
    }
    devices::load(&text)?;
    Ok(Profile::Spec(text))
}

/// Checks an image. Exits with 1 if copies of its metadata are damaged or it cannot be opened.
///
/// # Errors
/// The file cannot be read or is not an image.
pub fn check(args: &CheckArgs) -> Result<ExitCode> {
    let path = args.image.as_path();
    let mut out = io::stdout().lock();
    if args.repair {
        repair(path, &mut out)?;
    }
    match image::inspect(path) {
        Ok((superblock, recovered, findings)) => {
            writeln!(out, "{}: {}", path.display(), superblock.geometry.summary())?;
            writeln!(out, "UUID {}", devices::format_uuid(&superblock.uuid))?;
            writeln!(out, "generation {}: {}", recovered.generation, recovered.summary())?;
            for finding in &findings {
                match finding {
                    Finding::Note(what) => writeln!(out, "note: {what}")?,
                    Finding::Damage(what) => writeln!(out, "damage: {what}")?,
                }
            }
            let damaged = findings.iter().any(|found| matches!(found, Finding::Damage(_)));
            Ok(if damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Err(error) if is_damage(&error) => {
            writeln!(out, "{}: {error}", path.display())?;
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error).with_context(|| format!("image {}", path.display())),
    }
}

/// Whether the file is an image that is damaged beyond what opening it repairs.
fn is_damage(error: &OpenError) -> bool {
    use zonal_device::image::ImageError::{Io, NotAnImage, Version};
    matches!(error, OpenError::Image(error) if !matches!(error, NotAnImage | Version { .. } | Io { .. }))
}

/// Opens the image, which recovers from a power loss and rewrites damaged copies of metadata.
fn repair(path: &Path, out: &mut impl Write) -> Result<()> {
    let Some(text) = path.to_str() else {
        bail!("image {}: found a name that is not UTF-8, expected one that is", path.display());
    };
    let before = image::inspect(path).with_context(|| format!("image {text}"))?;
    let opened = devices::open_image(&format!("image:{text}:latency=none"), &notices())?;
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
