//! Parts of a build with `--cfg torture` alone: mutants, bugs that can be switched on and have to be
//! found, and coverage marks on rare paths of the layer.
use super::TortureArgs;
use crate::shown::stdout;
use anyhow::{Result, anyhow, bail};
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use zonal_blk::probe::{Mark, Mutant, switch_on, was_reached};
use zonal_torture::report::Report;
use zonal_torture::{self as torture, Failure, History};

/// Default time limit for finding a mutant.
const LIMIT: Duration = Duration::from_secs(60);
/// Runs for shrinking a history.
const SHRINK_TRIES: u32 = 400;

/// Searches for the mutant of that name, or for all of them, one by one.
pub fn find_mutants(args: &TortureArgs, name: &str) -> Result<ExitCode> {
    let wanted: Vec<_> =
        Mutant::ALL.iter().filter(|(mutant, _)| name == "all" || mutant.name() == name).collect();
    if wanted.is_empty() {
        let names: Vec<&str> = Mutant::ALL.iter().map(|(mutant, _)| mutant.name()).collect();
        let hint = zonal_blk::did_you_mean(name, names.iter().copied());
        bail!("--mutant {name}: expected all or one of {}{hint}", names.join(", "));
    }
    let limit = args.minutes.map_or(LIMIT, |minutes| Duration::from_secs_f64(minutes * 60.0));
    if args.json {
        return find_as_json(args, &wanted, limit);
    }
    let mut out = stdout();
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

/// The same as a report.
fn find_as_json(
    args: &TortureArgs,
    wanted: &[&(Mutant, &str)],
    limit: Duration,
) -> Result<ExitCode> {
    let mut report = Report { version: env!("CARGO_PKG_VERSION").to_owned(), ..Report::default() };
    let start = Instant::now();
    for &&(mutant, _) in wanted {
        switch_on(Some(mutant));
        let seed = search(args, limit)?.map(|(.., history, _)| history.seed);
        report.mutants.insert(mutant.name().to_owned(), seed);
    }
    switch_on(None);
    report.seconds = start.elapsed().as_secs_f64();
    super::print_report(args, &report)?;
    Ok(super::exit_code(args, &report))
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

/// Prints the coverage marks that were not reached. Returns whether that is fine: `all` requires that
/// every mark was reached.
pub fn show_marks(out: &mut impl Write, all: bool) -> Result<bool> {
    let (reached, missed): (Vec<_>, Vec<_>) =
        Mark::ALL.iter().partition(|&&(mark, _)| was_reached(mark));
    writeln!(out, "{} of {} marks reached", reached.len(), Mark::ALL.len())?;
    for (mark, meaning) in &missed {
        writeln!(out, "  not reached: {} ({meaning})", mark.name())?;
    }
    Ok(!all || missed.is_empty())
}
