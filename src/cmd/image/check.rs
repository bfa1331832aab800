//! `zonal image check`.
use super::{byte_bar, describe, of_image};
use crate::format::{self, FormatArgs};
use crate::terminal::notices;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use zonal_backend::image::{self, OpenError};
use zonal_device::image::{Finding, Recovered, Superblock};
use zonal_lab::progress::StepProgress;
use zonal_os::uuid;

/// Options of `zonal image check`.
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
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Checks an image. Exits with 1 if its data or copies of its metadata are damaged, or it cannot be
/// opened.
///
/// # Errors
/// The file cannot be read or is not an image.
pub fn check(args: &CheckArgs) -> Result<ExitCode> {
    let path = args.image.as_path();
    let repaired = if args.repair { repair(path)? } else { Vec::new() };
    match inspect(args) {
        Ok((superblock, recovered, findings)) => {
            let checked = Checked { args, superblock, recovered, findings, repaired };
            format::print(args.format, "Image", || checked.text(), &checked.json())?;
            Ok(if checked.is_damaged() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Err(error) if is_damage(&error) => {
            let json = json!({ "image": path, "error": error.to_string(), "damaged": true });
            let text = || format!("{}: {error}\n", path.display());
            format::print(args.format, "Image", text, &json)?;
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error).with_context(|| of_image(path)),
    }
}

/// Reads the metadata, and with `--data` the data, with a line of progress.
fn inspect(args: &CheckArgs) -> Result<(Superblock, Recovered, Vec<Finding>), OpenError> {
    let path = args.image.as_path();
    if !args.data {
        return image::inspect(path, None);
    }
    let bar = byte_bar();
    let mut read = 0;
    bar.start("data", std::fs::metadata(path).map_or(0, |file| file.blocks() * 512));
    let mut advance = |bytes| bar.advance(bytes - std::mem::replace(&mut read, bytes));
    let inspected = image::inspect(path, Some(&mut advance));
    bar.finish();
    inspected
}

/// An image that was checked.
struct Checked<'a> {
    args: &'a CheckArgs,
    superblock: Superblock,
    recovered: Recovered,
    findings: Vec<Finding>,
    /// The findings before a repair.
    repaired: Vec<Finding>,
}

impl Checked<'_> {
    fn is_damaged(&self) -> bool {
        self.findings.iter().any(|found| matches!(found, Finding::Damage(_)))
    }

    fn text(&self) -> String {
        let Checked { superblock, recovered, .. } = self;
        let mut lines: Vec<String> = self.repaired.iter().map(repaired).collect();
        lines.push(format!("{}: {}", self.args.image.display(), superblock.geometry.summary()));
        lines.push(format!("UUID {}", uuid::format(&superblock.uuid)));
        lines.push(format!("format version {}", superblock.version));
        lines.push(format!("generation {}: {}", recovered.generation, recovered.summary()));
        if !self.args.data {
            lines.push(skipped(superblock).to_owned());
        }
        lines.extend(self.findings.iter().map(|finding| {
            let (kind, what) = kind_and_text(finding);
            format!("{kind}: {what}")
        }));
        lines.into_iter().map(|line| line + "\n").collect()
    }

    fn json(&self) -> Value {
        let finding = |finding: &Finding| {
            let (kind, what) = kind_and_text(finding);
            json!({ "kind": kind, "text": what })
        };
        let findings = |of: &[Finding]| of.iter().map(finding).collect::<Vec<Value>>();
        let mut json = describe::superblock(&self.args.image, &self.superblock);
        json["generation"] = self.recovered.generation.into();
        json["closed"] = self.recovered.clean.into();
        json["data_checked"] = (self.args.data && self.superblock.checksums).into();
        json["repaired"] = findings(&self.repaired).into();
        json["findings"] = findings(&self.findings).into();
        json["damaged"] = self.is_damaged().into();
        json
    }
}

fn kind_and_text(finding: &Finding) -> (&'static str, &str) {
    match finding {
        Finding::Note(what) => ("note", what),
        Finding::Damage(what) => ("damage", what),
    }
}

/// The line about a finding that a repair has removed.
fn repaired(finding: &Finding) -> String {
    match finding {
        Finding::Note(what) => format!("settled: {what}"),
        Finding::Damage(what) => format!("written again: {what}"),
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
pub fn is_damage(error: &OpenError) -> bool {
    use zonal_device::image::ImageError::{Features, Io, NotAnImage, Version};
    let OpenError::Image(error) = error else { return false };
    !matches!(error, NotAnImage | Version { .. } | Features { .. } | Io { .. })
}

/// Opens the image, which recovers from a power loss and rewrites damaged copies of metadata. Returns
/// the findings before that.
fn repair(path: &Path) -> Result<Vec<Finding>> {
    let Some(text) = path.to_str() else {
        bail!("{}: found a name that is not UTF-8, expected one that is", of_image(path));
    };
    let before = image::inspect(path, None).with_context(|| format!("image {text}"))?;
    let opened = zonal_backend::open_image(&format!("image:{text}:latency=none"), &notices())?;
    opened.device.reclaim_space().with_context(|| format!("image {text}: giving back space"))?;
    Ok(before.2)
}
