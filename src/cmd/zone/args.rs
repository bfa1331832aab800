//! `zonal zone`: the options of blkzone(8), util-linux 2.38.
use crate::config;
use crate::format::FormatArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use zonal_blk::ZoneCondition;

/// The commands.
#[derive(Subcommand, Debug)]
pub enum ZoneCommand {
    /// Show the zones
    Report(ReportArgs),
    /// Show the sum of the zones' capacities, in sectors
    Capacity(RangeArgs),
    /// Open zones explicitly
    Open(ActionArgs),
    /// Close zones
    Close(ActionArgs),
    /// Finish zones: make them full
    Finish(ActionArgs),
    /// Reset zones
    Reset(ActionArgs),
}

/// The device and a range of its zones.
#[derive(Args, Debug)]
pub struct RangeArgs {
    /// A spec (see `zonal devices`), a TOML profile, an image NAME.img,
    /// nvme-tcp://HOST:PORT/NQN, a block device /dev/NAME, or an NVMe namespace /dev/ngXnY
    #[arg(value_name = "DEVICE", value_parser = config::device)]
    pub device: String,
    /// First sector of the first zone, in 512-byte sectors; takes 0x... and suffixes such as K,
    /// KiB, KB
    #[arg(short, long, value_name = "SECTOR", default_value = "0", value_parser = sectors)]
    pub offset: u64,
    /// Sectors to go over [default: all after the offset]
    #[arg(short, long, value_name = "SECTORS", value_parser = sectors)]
    pub length: Option<u64>,
    /// Zones to go over [default: all after the offset]
    #[arg(short, long, value_name = "ZONES", conflicts_with = "length")]
    pub count: Option<u32>,
    /// Show the number of zones found, or the range that was worked on
    #[arg(short, long)]
    pub verbose: bool,
    /// Operations to run first, since an emulated device is new for each command: `write SECTOR
    /// SECTORS`, `append SECTOR SECTORS`, `commit SECTOR SECTORS` of a random write area, or `open`,
    /// `open-zrwa`, `close`, `finish` or `reset` with the SECTOR of a zone; separated by semicolons
    #[arg(long, value_name = "OPERATIONS")]
    pub after: Vec<String>,
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Options of `zonal zone report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    #[command(flatten)]
    pub range: RangeArgs,
    /// Show only zones that are this; with it, --count limits the zones shown
    #[arg(long, value_parser = filter())]
    pub filter: Option<ZoneCondition>,
}

/// Options of zone management.
#[derive(Args, Debug)]
pub struct ActionArgs {
    #[command(flatten)]
    pub range: RangeArgs,
    /// Accepted for compatibility with blkzone; has no effect
    #[arg(short, long)]
    pub force: bool,
    /// Only say what would be done, and which data would be lost
    #[arg(long)]
    pub dry_run: bool,
}

/// Parses `--filter`: a condition, or `conventional`, which is [`ZoneCondition::NotWritePointer`].
fn filter() -> impl TypedValueParser<Value = ZoneCondition> {
    let all = ZoneCondition::ALL.map(|cond| (filter_name(cond), cond));
    PossibleValuesParser::new(all.map(|(name, _)| name)).map(move |found| {
        let named = all.into_iter().find(|&(name, _)| name == found);
        named.expect("one of the possible values").1
    })
}

fn filter_name(cond: ZoneCondition) -> &'static str {
    if cond == ZoneCondition::NotWritePointer { "conventional" } else { cond.long() }
}

/// Suffixes of blkzone's numbers: each alone or with `iB` for powers of 1024, with `B` for those of
/// 1000.
const SUFFIXES: &str = "KMGTPE";

/// Parses a number of sectors.
pub fn sectors(text: &str) -> Result<u64, String> {
    let expected =
        || "expected a number of sectors such as 524288, 0x80000, 512K or 1MiB".to_owned();
    let text = text.trim();
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(digits, 16).map_err(|_| expected());
    }
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = digits.parse().map_err(|_| expected())?;
    let suffix = &text[digits.len()..];
    let factor = match suffix.chars().next() {
        None => 1,
        Some(unit) => {
            let power = SUFFIXES.find(unit.to_ascii_uppercase()).ok_or_else(expected)?;
            let base: u64 = match &suffix[1..] {
                "" | "iB" => 1024,
                "B" => 1000,
                _ => return Err(expected()),
            };
            base.pow(u32::try_from(power).expect("there are six suffixes") + 1)
        }
    };
    number.checked_mul(factor).ok_or_else(|| "expected less than 2^64 sectors".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_have_the_suffixes_and_the_prefix_of_blkzone() {
        for (text, expected) in [
            ("0", 0),
            ("524288", 524_288),
            ("0x80000", 524_288),
            ("512K", 524_288),
            ("512KiB", 524_288),
            ("512k", 524_288),
            ("2MB", 2_000_000),
            ("1MiB", 1 << 20),
            ("15E", 15 << 60),
        ] {
            assert_eq!(sectors(text), Ok(expected), "{text}");
        }
        for text in
            ["", "K", "x", "-1", "1.5M", "1 M", "1Kib", "1Z", "0x", "0xg", "1KiBB", "1\u{e9}"]
        {
            assert!(sectors(text).is_err(), "{text}");
        }
        assert!(sectors("16E").unwrap_err().contains("2^64"));
    }
}
