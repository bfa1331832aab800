//! `zonal create` and `zonal check`: images in files.
use crate::cli::{CheckArgs, CreateArgs};
use crate::devices;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::ExitCode;
use zonal_device::image::{Finding, Profile};
use zonal_host::backend::image::{self, ImageName, OpenError};

/// Makes an image.
///
/// # Errors
/// What is wrong with the profile or the file.
pub fn create(args: &CreateArgs) -> Result<ExitCode> {
    let in_image = || format!("image {}", args.image.display());
    let superblock = image::create(&args.image, profile(args)?).with_context(in_image)?;
    let name = ImageName::of_path(&args.image.to_string_lossy());
    println!(
        "{name}: {}, UUID {}",
        superblock.geometry.summary(),
        devices::format_uuid(&superblock.uuid)
    );
    Ok(ExitCode::SUCCESS)
}

/// The device that the image is to be.
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

/// Checks an image: 0 if it is whole, 1 if copies of metadata are damaged or the image cannot be
/// used.
///
/// # Errors
/// The file cannot be looked at, or is no image.
pub fn check(args: &CheckArgs) -> Result<ExitCode> {
    let path = args.image.as_path();
    if args.repair {
        repair(path)?;
    }
    match image::inspect(path) {
        Ok((superblock, recovered, findings)) => {
            println!("{}: {}", path.display(), superblock.geometry.summary());
            println!("UUID {}", devices::format_uuid(&superblock.uuid));
            println!("generation {}: {}", recovered.generation, recovered.summary());
            for finding in &findings {
                match finding {
                    Finding::Note(what) => println!("note: {what}"),
                    Finding::Damage(what) => println!("damage: {what}"),
                }
            }
            let damaged = findings.iter().any(|found| matches!(found, Finding::Damage(_)));
            Ok(if damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Err(error) if is_damage(&error) => {
            println!("{}: {error}", path.display());
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error).with_context(|| format!("image {}", path.display())),
    }
}

/// Whether an image is there, and broken beyond what opening it mends.
fn is_damage(error: &OpenError) -> bool {
    use zonal_device::image::ImageError::{Io, NotAnImage, Version};
    matches!(error, OpenError::Image(error) if !matches!(error, NotAnImage | Version { .. } | Io { .. }))
}

/// Opens the image, which settles what a loss of power left and writes damaged copies again.
fn repair(path: &Path) -> Result<()> {
    let Some(text) = path.to_str() else {
        bail!("image {}: found a name that is not UTF-8, expected one that is", path.display());
    };
    let before = image::inspect(path).with_context(|| format!("image {text}"))?;
    let opened = devices::open_image(&format!("image:{text}:latency=none"))?;
    opened.device.reclaim_space().with_context(|| format!("image {text}: giving back space"))?;
    drop(opened);
    for finding in before.2 {
        match finding {
            Finding::Note(what) => println!("settled: {what}"),
            Finding::Damage(what) => println!("written again: {what}"),
        }
    }
    Ok(())
}
