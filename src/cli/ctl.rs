//! `zonal ctl`.
use clap::Args;
use std::path::PathBuf;

/// Options of `zonal ctl`.
#[derive(Args, Debug)]
pub struct CtlArgs {
    /// The socket that `zonal serve --ctl` made
    #[arg(value_name = "SOCKET")]
    pub socket: PathBuf,
    /// The device, by its number, if several are served
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub device: usize,
    /// The answer as JSON
    #[arg(long)]
    pub json: bool,
    /// What to ask or do
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub command: Vec<String>,
}
