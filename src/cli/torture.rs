//! `zonal torture`.
use super::Eta;
use clap::Args;
use std::path::PathBuf;
use zonal_torture::Profile;

/// Options of `zonal torture`.
#[derive(Args, Debug)]
pub struct TortureArgs {
    /// Seed of the first run; the next has the next number
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Number of runs [default: 1000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "minutes")]
    pub runs: Option<u64>,
    /// How long to go on
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    pub minutes: Option<f64>,
    /// Runs side by side, each on a thread
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// Which devices and faults: any, zoned, regular, calm (no faults) or crash (power losses)
    #[arg(long, default_value = "any", value_parser = profile)]
    pub profile: Profile,
    /// Do the history of a file, which --save wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "runs", "minutes", "profile"])]
    pub replay: Option<PathBuf>,
    /// Write the shortest history that fails to a file
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Show progress: on a terminal, always or never
    #[arg(long, value_enum, default_value_t = Eta::Auto)]
    pub eta: Eta,
    /// Fail unless every mark was reached
    #[cfg(torture)]
    #[arg(long)]
    pub all_marks: bool,
    /// Switch on a mistake in the layer, which is to be found; `all` for one after the other, each
    /// for at most --minutes
    #[cfg(torture)]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["replay", "runs"])]
    pub mutant: Option<String>,
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|_| "expected minutes such as 0.5".to_owned())?;
    if (0.001..=100_000.0).contains(&minutes) {
        Ok(minutes)
    } else {
        Err("expected 0.001 to 100000 minutes".to_owned())
    }
}

fn profile(text: &str) -> Result<Profile, String> {
    let known = Profile::ALL.iter().find(|(name, _)| *name == text);
    known.map(|&(_, profile)| profile).ok_or_else(|| {
        let names: Vec<&str> = Profile::ALL.iter().map(|&(name, _)| name).collect();
        format!("expected one of {}", names.join(", "))
    })
}
