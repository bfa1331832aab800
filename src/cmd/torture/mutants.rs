//! Mistakes that are switched on in the layer, each of which has to be found.
use crate::cli::TortureArgs;
use anyhow::{Result, anyhow, bail};
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use zonal_blk::probe::{Mutant, switch_on};
use zonal_torture::{self as torture, Failure, History};

/// How long a mistake may stay unfound, unless said otherwise.
const LIMIT: Duration = Duration::from_secs(60);
/// Runs that shortening a failing history may take.
const SHRINK_TRIES: u32 = 400;

/// Looks for the mistake of that name, or for all, each on its own.
pub fn find_mutants(args: &TortureArgs, name: &str) -> Result<ExitCode> {
    let wanted: Vec<_> =
        Mutant::ALL.iter().filter(|(mutant, _)| name == "all" || mutant.name() == name).collect();
    if wanted.is_empty() {
        let names: Vec<&str> = Mutant::ALL.iter().map(|(mutant, _)| mutant.name()).collect();
        bail!("--mutant {name}: expected all or one of {}", names.join(", "));
    }
    let limit = args.minutes.map_or(LIMIT, |minutes| Duration::from_secs_f64(minutes * 60.0));
    let mut out = std::io::stdout().lock();
    let mut missed = 0;
    let start = Instant::now();
    for &&(mutant, meaning) in &wanted {
        switch_on(Some(mutant));
        let found = search(args, limit)?;
        let name = mutant.name();
        match found {
            Some((seconds, runs, history, failure)) => {
                let (short, failure) = torture::shrink(&history, &failure, SHRINK_TRIES);
                writeln!(
                    out,
                    "{name:28} found in {seconds:6.2} s, run {runs}, {} steps: {}",
                    short.steps.len(),
                    failure.what
                )?;
                if wanted.len() == 1 {
                    super::report(&mut out, args, &short, &failure)?;
                }
            }
            None => {
                missed += 1;
                writeln!(out, "{name:28} NOT FOUND in {} s: {meaning}", limit.as_secs())?;
            }
        }
    }
    switch_on(None);
    let seconds = start.elapsed().as_secs_f64();
    writeln!(out, "{} of {} found, {seconds:.1} s", wanted.len() - missed, wanted.len())?;
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

type FoundMutant = (f64, u64, History, Failure);

fn search(args: &TortureArgs, limit: Duration) -> Result<Option<FoundMutant>> {
    let start = Instant::now();
    for number in 0.. {
        if start.elapsed() >= limit {
            break;
        }
        let history = History::draw(args.seed.wrapping_add(number), args.profile);
        let outcome = torture::run(&history).map_err(|error| anyhow!(error))?;
        if let Some(failure) = outcome.failure {
            return Ok(Some((start.elapsed().as_secs_f64(), number + 1, history, failure)));
        }
    }
    Ok(None)
}
