//! `zonal create` and `zonal check`.
use clap::Args;
use std::path::PathBuf;

/// Options of `zonal create`.
#[derive(Args, Debug)]
pub struct CreateArgs {
    /// The file to make; there must be none yet
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// The device that it is to be: a spec (see `zonal devices`) or a TOML profile
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
    /// Settle what a loss of power left, write damaged copies again, and give back unused space
    #[arg(long)]
    pub repair: bool,
}
