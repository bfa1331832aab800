//! `zonal image`: what can be done with an image as a file.
use super::{CreateArgs, byte_bar, check, create, describe, of_image, pack};
use crate::format::{self, FormatArgs};
use crate::terminal::{StepBar, notices, stdout};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use zonal_backend::image::{self, ImageName};
use zonal_backend::{OpenOptions, Stack};
use zonal_blk::QueueOptions;
use zonal_device::image::{Profile, Recovered, Superblock};
use zonal_device::quantity::format_size;
use zonal_lab::progress::StepProgress;
use zonal_lab::zone::SyncChannel;
use zonal_lab::zone_copy;
use zonal_os::uuid;

/// The commands.
#[derive(Subcommand, Debug)]
pub enum ImageCommand {
    /// Create a persistent image: a zoned device in a file
    Create(CreateArgs),
    /// Check the metadata of an image
    Check(check::CheckArgs),
    /// Show an image: its device, its format, and the space that it takes
    Info(InfoArgs),
    /// Copy an image to the newest format, to a compressed file or to a raw file of its data, or back
    Convert(ConvertArgs),
    /// Copy an image as it is, with its identity; where the file system shares blocks, in no time
    Snapshot(CopyArgs),
    /// Copy an image to one with an identity of its own, so that hosts take them for two devices
    Clone(CopyArgs),
    /// Change the number of zones; zones that hold data stay
    Resize(ResizeArgs),
}

/// Options of `zonal image info`.
#[derive(Args, Debug)]
pub struct InfoArgs {
    /// The image: a file
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Options of `zonal image convert`.
#[derive(Args, Debug)]
pub struct ConvertArgs {
    /// An image, a compressed one, or a raw file
    #[arg(value_name = "FROM")]
    pub from: PathBuf,
    /// The file to create, which must not exist: an image if its name ends in .img, an image that is
    /// compressed for transport if it ends in .img.zst, else a raw file, in which each sector has its
    /// place, and what is zero is a hole
    #[arg(value_name = "TO")]
    pub to: PathBuf,
    /// For a raw file, the device that the image emulates: a spec (see `zonal devices`) or a TOML profile
    #[arg(long, value_name = "SPEC", value_parser = crate::config::device)]
    pub profile: Option<String>,
}

/// An image and the file of its copy.
#[derive(Args, Debug)]
pub struct CopyArgs {
    /// The image
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// The file to create; it must not exist
    #[arg(value_name = "TO")]
    pub to: PathBuf,
}

/// Options of `zonal image resize`.
#[derive(Args, Debug)]
pub struct ResizeArgs {
    /// The image
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// The number of zones that it is to have
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub zones: u32,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
}

/// Runs a `zonal image` command.
///
/// # Errors
/// A file cannot be used, or the result cannot have what the image holds.
pub fn run(command: &ImageCommand) -> Result<ExitCode> {
    match command {
        ImageCommand::Create(args) => return create(args),
        ImageCommand::Check(args) => return check::check(args),
        ImageCommand::Info(args) => info(args)?,
        ImageCommand::Convert(args) => convert(args)?,
        ImageCommand::Snapshot(args) => snapshot(args)?,
        ImageCommand::Clone(args) => clone(args)?,
        ImageCommand::Resize(args) => resize(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn info(args: &InfoArgs) -> Result<()> {
    let path = args.image.as_path();
    let (superblock, recovered) = inspect(path)?;
    let file = fs::metadata(path).with_context(|| of_image(path))?;
    let text = || {
        [
            format!("{}: {}", path.display(), superblock.geometry.summary()),
            format!("profile {}", superblock.profile.summary()),
            format!("UUID {}", uuid::format(&superblock.uuid)),
            format!("format version {}", superblock.version),
            format!("checksums of data: {}", if superblock.checksums { "on" } else { "off" }),
            format!("zones: {}", recovered.summary()),
            format!(
                "file: {}, of which {} take space",
                format_size(file.len()),
                format_size(file.blocks() * 512)
            ),
        ]
        .map(|line| line + "\n")
        .concat()
    };
    let mut json = describe::superblock(path, &superblock);
    json["zones"] = zones(&recovered);
    json["file_bytes"] = file.len().into();
    json["space_bytes"] = (file.blocks() * 512).into();
    format::print(args.format, "Image", text, &json)
}

/// How many zones there are in each condition, and what they hold.
fn zones(recovered: &Recovered) -> Value {
    let conditions: serde_json::Map<String, Value> =
        recovered.conditions().map(|(name, count)| (name.to_owned(), count.into())).collect();
    json!({ "conditions": conditions, "written_bytes": recovered.written().0 })
}

fn convert(args: &ConvertArgs) -> Result<()> {
    must_be_new(&args.to)?;
    let to_image = args.to.extension().is_some_and(|extension| extension == "img");
    // Raw data, which have a profile beside them, may begin as a compressed file does.
    let is_packed = args.profile.is_none() || pack::has_name(&args.from);
    if is_packed && pack::is_compressed(&args.from)? {
        return unpack(args, to_image);
    }
    if is_image(&args.from)? {
        ensure!(args.profile.is_none(), "--profile: found it with an image, which has its own");
        if args.to.extension().is_some_and(|extension| extension == "zst") {
            return pack(args);
        }
        if !to_image {
            return to_raw(args);
        }
        let (like, _) = inspect(&args.from)?;
        // Version 1 had no checksums.
        let newest = Superblock { checksums: like.checksums || like.version == 1, ..like.clone() };
        copy(&args.from, &args.to, &newest, like.uuid, like.profile.clone())?;
        return said(&args.from, &args.to, "converted");
    }
    ensure!(
        to_image,
        "{}: found a raw file, and {} for it to become, expected one of them to be an image NAME.img",
        args.from.display(),
        args.to.display()
    );
    let profile = args.profile.as_ref().with_context(|| {
        format!("{}: found a raw file, expected --profile SPEC beside it", args.from.display())
    })?;
    let profile = super::profile_of(&args.to, profile, &[])?;
    image::create(&args.to, profile, true).with_context(|| of_image(&args.to))?;
    unless_it_fails(&args.to, || {
        let raw = File::open(&args.from)?;
        let stack = open(&args.to)?;
        let bar = bar(raw.metadata()?.len());
        zone_copy::from_raw(&raw, &mut SyncChannel::new(&stack)?, &mut |bytes| bar.advance(bytes))?;
        bar.finish();
        Ok(())
    })
    .with_context(|| format!("{}", args.from.display()))?;
    said(&args.from, &args.to, "converted")
}

/// Compresses an image, as it is.
fn pack(args: &ConvertArgs) -> Result<()> {
    let (from, to) = (&args.from, &args.to);
    ensure!(
        pack::has_name(to),
        "{}: expected the name of an image, NAME{}",
        to.display(),
        pack::NAME
    );
    // Nobody writes to it meanwhile.
    let _locked = image::ImageFile::open(from, false).with_context(|| of_image(from))?;
    let mut sizes = (0, 0);
    unless_it_fails(to, || {
        sizes = pack::compress(from, to)?;
        Ok(())
    })?;
    let [before, after] = [sizes.0, sizes.1].map(format_size);
    let (from, to) = (from.display(), to.display());
    writeln!(stdout(), "{from}: compressed to {to}: {after} instead of {before}")?;
    Ok(())
}

/// The image that a compressed file holds.
fn unpack(args: &ConvertArgs, to_image: bool) -> Result<()> {
    let (from, to) = (&args.from, &args.to);
    ensure!(
        args.profile.is_none(),
        "--profile: found it with a compressed image, which has its own"
    );
    ensure!(to_image, "{}: expected the name of an image, NAME.img", to.display());
    unless_it_fails(to, || {
        pack::decompress(from, to)?;
        ensure!(is_image(to)?, "{}: found no image in it", from.display());
        Ok(())
    })?;
    said(from, to, "unpacked")
}

fn to_raw(args: &ConvertArgs) -> Result<()> {
    let stack = open(&args.from)?;
    let raw = File::create_new(&args.to).with_context(|| format!("{}", args.to.display()))?;
    let bar = bar(stack.queue.limits().capacity.to_bytes().0);
    unless_it_fails(&args.to, || {
        zone_copy::to_raw(&mut SyncChannel::new(&stack)?, &raw, &mut |bytes| bar.advance(bytes))
    })
    .with_context(|| of_image(&args.from))?;
    bar.finish();
    said(&args.from, &args.to, "converted")
}

fn snapshot(args: &CopyArgs) -> Result<()> {
    must_be_new(&args.to)?;
    // Nobody writes to it meanwhile, and it is an image.
    let _locked =
        image::ImageFile::open(&args.image, false).with_context(|| of_image(&args.image))?;
    ensure!(is_image(&args.image)?, "{}: found no image", of_image(&args.image));
    zonal_crash::image::copy_file(&args.image, &args.to)?;
    said(&args.image, &args.to, "copied")
}

fn clone(args: &CopyArgs) -> Result<()> {
    must_be_new(&args.to)?;
    let (like, _) = inspect(&args.image)?;
    copy(&args.image, &args.to, &like, uuid::random()?, like.profile.clone())?;
    said(&args.image, &args.to, "cloned")
}

fn resize(args: &ResizeArgs) -> Result<()> {
    let path = args.image.as_path();
    let (like, recovered) = inspect(path)?;
    let (before, after) = (like.geometry.zones, args.zones);
    ensure!(
        !like.geometry.regular,
        "{}: found a device without zones, expected one with zones",
        of_image(path)
    );
    if let Some(held) = recovered.last_with_data().filter(|&held| held >= after) {
        bail!("--zones {after}: zone {held} holds data, expected at least {} zones", held + 1);
    }
    let profile = like.profile.with_zones(after);
    if args.dry_run {
        let path = path.display();
        writeln!(stdout(), "dry run: {path}: {after} zones instead of {before}")?;
        return Ok(());
    }
    let mut part = path.as_os_str().to_owned();
    part.push(".resized");
    let part = PathBuf::from(part);
    must_be_new(&part)?;
    copy(path, &part, &like, like.uuid, profile)?;
    fs::rename(&part, path).with_context(|| of_image(path))?;
    writeln!(stdout(), "{}: {after} zones instead of {before}", path.display())?;
    Ok(())
}

/// Creates an image with the zones of another one.
fn copy(from: &Path, to: &Path, like: &Superblock, uuid: [u8; 16], profile: Profile) -> Result<()> {
    let source = open(from)?;
    image::create_like(to, like, uuid, profile).with_context(|| of_image(to))?;
    let bar = bar(source.queue.limits().capacity.to_bytes().0);
    unless_it_fails(to, || {
        let target = open(to)?;
        let (mut source, mut target) = (SyncChannel::new(&source)?, SyncChannel::new(&target)?);
        zone_copy::between(&mut source, &mut target, &mut |bytes| bar.advance(bytes))
    })
    .with_context(|| of_image(from))?;
    bar.finish();
    Ok(())
}

/// Removes the file if what makes it fails.
fn unless_it_fails(path: &Path, make: impl FnOnce() -> Result<()>) -> Result<()> {
    make().inspect_err(|_| {
        // The error that is reported is the one before it.
        let _removed = fs::remove_file(path);
    })
}

fn open(path: &Path) -> Result<Stack> {
    let name = path.to_str().with_context(|| format!("{}: expected UTF-8", of_image(path)))?;
    let options = OpenOptions { notices: notices(), ..OpenOptions::default() };
    let stack = Stack::open_with(&ImageName::of_path(name), &options)?;
    Ok(stack.attach(QueueOptions::default())?)
}

fn inspect(path: &Path) -> Result<(Superblock, Recovered)> {
    let (superblock, recovered, _) = image::inspect(path, None).with_context(|| of_image(path))?;
    Ok((superblock, recovered))
}

/// Whether a file is an image, if a damaged one.
fn is_image(path: &Path) -> Result<bool> {
    match image::inspect(path, None) {
        Ok(_) => Ok(true),
        Err(error) if check::is_damage(&error) => Err(error).with_context(|| of_image(path)),
        Err(image::OpenError::Image(zonal_device::image::ImageError::NotAnImage)) => Ok(false),
        Err(error) => Err(error).with_context(|| of_image(path)),
    }
}

fn must_be_new(path: &Path) -> Result<()> {
    ensure!(!path.exists(), "{}: found a file, expected none", path.display());
    Ok(())
}

fn bar(bytes: u64) -> StepBar {
    let bar = byte_bar();
    bar.start("data", bytes);
    bar
}

fn said(from: &Path, to: &Path, done: &str) -> Result<()> {
    let (superblock, what) = match image::inspect(to, None) {
        Ok((superblock, recovered, _)) => (Some(superblock), recovered.summary()),
        Err(_) => (None, "raw data".to_owned()),
    };
    let version = superblock.map_or(String::new(), |it| format!("format version {}, ", it.version));
    writeln!(stdout(), "{}: {done} to {}: {version}{what}", from.display(), to.display())?;
    Ok(())
}
