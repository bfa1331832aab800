//! `zonal-fio-diff`: runs random jobs in fio and in Zonal and compares what they do.
#![forbid(unsafe_code)]
use anyhow::{Context, Result};
use clap::Parser;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zonal_fio_diff::case::Case;
use zonal_fio_diff::compare::{FURTHER_SEEDS, Outcome, compare, compare_with};
use zonal_fio_diff::deliberate::DELIBERATE;
use zonal_fio_diff::draw::draw;
use zonal_fio_diff::observe::Observation;
use zonal_fio_diff::programs::{Programs, beside_this};
use zonal_fio_diff::recorded::record;
use zonal_fio_diff::shrink::shrink;

/// Cases of which some show each deliberate difference.
const MANY: u64 = 5000;

/// Cases of one run of fio.
const BATCH: u64 = 10;

/// Runs random jobs in fio and in Zonal, and compares what they do.
#[derive(Parser, Debug)]
struct Args {
    /// Seed of the first case; each further one has the next seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of cases
    #[arg(long, default_value_t = 1000)]
    jobs: u64,
    /// Begin no case after this many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// Cases at a time
    #[arg(long, default_value_t = 2)]
    jobs_at_once: usize,
    /// Compare the case of a file, as printed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["jobs", "seconds"])]
    replay: Option<PathBuf>,
    /// Run the case of a file in fio, and print it with what fio does, for tests/fio-diff/recorded
    #[arg(long, value_name = "FILE", conflicts_with_all = ["jobs", "seconds", "replay"])]
    record: Option<PathBuf>,
    /// Cases that may differ: it can only become less
    #[arg(long, default_value_t = 0)]
    most: usize,
    /// End after this many cases that differ more than that
    #[arg(long, default_value_t = 20)]
    failures: usize,
    /// Print cases as they were drawn
    #[arg(long)]
    no_shrink: bool,
    /// Instead, plant each mistake in the job generator: one of --jobs cases that have the option which it is
    /// about has to show it, but for --most of the mistakes
    #[cfg(torture)]
    #[arg(long)]
    mistakes: bool,
    /// fio's program
    #[arg(long, value_name = "PROGRAM", default_value = "fio")]
    fio: PathBuf,
    /// Zonal's program [default: the one beside this]
    #[arg(long, value_name = "PROGRAM")]
    zonal: Option<PathBuf>,
}

/// What was found so far.
#[derive(Default)]
struct Found {
    cases: u64,
    ios: usize,
    refused: u64,
    /// Seeds of cases in which fio hangs or dies.
    no_judge: Vec<u64>,
    /// Cases that differed, with their seeds, to be run again alone.
    differed: Vec<(Case, u64)>,
    /// Those of them that differed again.
    failures: usize,
    /// Cases with a difference of each entry of the list.
    deliberate: Vec<u64>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("zonal-fio-diff: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<bool> {
    let zonal = args.zonal.clone().map_or_else(|| beside_this("zonal"), Ok)?;
    // They run elsewhere.
    let absolute =
        |path: PathBuf| if path.components().count() > 1 { path.canonicalize() } else { Ok(path) };
    let zonal = absolute(zonal.clone()).with_context(|| zonal.display().to_string())?;
    let fio = absolute(args.fio.clone()).with_context(|| args.fio.display().to_string())?;
    let programs = Programs { fio, zonal, mistake: None };
    let read = |file: &PathBuf| -> Result<Case> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        text.parse().with_context(|| file.display().to_string())
    };
    if let Some(file) = &args.record {
        print!("{}", record(&programs, &read(file)?)?);
        return Ok(true);
    }
    if let Some(file) = &args.replay {
        let case = read(file)?;
        let outcome = compare(&programs, &case, args.seed, FURTHER_SEEDS)?;
        report(&case, args.seed, &outcome);
        return Ok(outcome.differences.is_empty());
    }
    #[cfg(torture)]
    if args.mistakes {
        return mistakes(args, &programs);
    }
    let version = programs.fio_version()?;
    let found = all_cases(args, &programs)?;
    println!(
        "{version}: {} cases, {} I/Os, {} refused by both, {} in which fio hangs or dies, \
         {} with an undeclared difference, {} with one only beside other cases",
        found.cases,
        found.ios,
        found.refused,
        found.no_judge.len(),
        found.failures,
        found.differed.len() - found.failures
    );
    if !found.no_judge.is_empty() {
        println!("fio hangs or dies with the seeds {:?}", found.no_judge);
    }
    for (entry, count) in DELIBERATE.iter().zip(&found.deliberate) {
        println!("{count} cases: {}", entry.what);
    }
    let unused = found.cases >= MANY && found.deliberate.contains(&0);
    if unused {
        println!("an entry that no case shows is no longer needed: take it out of deliberate.rs");
    }
    Ok(found.failures <= args.most && !unused)
}

/// Runs the cases, several at a time, and those that differ again, one after another: the times of a machine with
/// other work are not of the case.
fn all_cases(args: &Args, programs: &Programs) -> Result<Found> {
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let found = Mutex::new(Found { deliberate: vec![0; DELIBERATE.len()], ..Found::default() });
    let work = || -> Result<()> {
        loop {
            let at = next.fetch_add(BATCH, Ordering::Relaxed);
            let late = args.seconds.is_some_and(|most| begun.elapsed() > Duration::from_secs(most));
            let enough = found.lock().expect("found").differed.len() >= args.most + args.failures;
            if at >= args.jobs || late || enough {
                return Ok(());
            }
            for (case, seed, fio) in
                in_fio(programs, args.seed + at..args.seed + args.jobs.min(at + BATCH))?
            {
                one_case(programs, case, seed, fio, &found)?;
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.jobs_at_once.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread panicked"))
    })?;
    let mut found = found.into_inner().expect("found");
    if found.differed.len() <= args.most {
        // These may differ.
        found.failures = found.differed.len();
        return Ok(found);
    }
    for (case, seed) in &found.differed {
        found.failures += usize::from(differs_alone(args, programs, case.clone(), *seed)?);
    }
    Ok(found)
}

fn one_case(
    programs: &Programs,
    case: Case,
    seed: u64,
    fio: Observation,
    found: &Mutex<Found>,
) -> Result<()> {
    let outcome = compare_with(programs, &case, seed, FURTHER_SEEDS, fio)?;
    let mut found = found.lock().expect("found");
    found.cases += 1;
    found.ios += outcome.ios;
    if outcome.no_judge {
        found.no_judge.push(seed);
    }
    found.refused += u64::from(outcome.refused && outcome.differences.is_empty());
    outcome.deliberate.iter().for_each(|&entry| found.deliberate[entry] += 1);
    if !outcome.differences.is_empty() {
        found.differed.push((case, seed));
    }
    Ok(())
}

/// Whether a case differs again. If so, makes it small and prints it.
fn differs_alone(args: &Args, programs: &Programs, mut case: Case, seed: u64) -> Result<bool> {
    let mut outcome = compare(programs, &case, seed, FURTHER_SEEDS)?;
    let Some(first) = outcome.differences.first().map(|difference| kind(&difference.feature))
    else {
        return Ok(false);
    };
    if !args.no_shrink {
        case = shrink(&case, |smaller| {
            let differences = compare(programs, smaller, seed, 1)?.differences;
            Ok::<_, anyhow::Error>(differences.iter().any(|found| kind(&found.feature) == first))
        })?;
        outcome = compare(programs, &case, seed, FURTHER_SEEDS)?;
    }
    report(&case, seed, &outcome);
    Ok(true)
}

/// The cases of these seeds, and what fio does with them.
fn in_fio(programs: &Programs, seeds: Range<u64>) -> Result<Vec<(Case, u64, Observation)>> {
    let cases: Vec<Case> = seeds.clone().map(draw).collect();
    let borrowed: Vec<(&Case, u64)> = cases.iter().zip(seeds.clone()).collect();
    let fio = programs.run_fio_all(&borrowed)?;
    Ok(cases.into_iter().zip(seeds).zip(fio).map(|((case, seed), fio)| (case, seed, fio)).collect())
}

/// Plants each mistake and tries it on cases that show no difference without.
#[cfg(torture)]
fn mistakes(args: &Args, programs: &Programs) -> Result<bool> {
    let each = usize::try_from(args.jobs)?;
    let drawn = zonal_fio_diff::mistakes::cases(args.seed, each);
    let next = AtomicU64::new(0);
    let work = || -> Result<Vec<(Case, u64, Observation)>> {
        let mut same = Vec::new();
        loop {
            let at = usize::try_from(next.fetch_add(1, Ordering::Relaxed))?;
            let Some((case, seed)) = drawn.get(at) else { return Ok(same) };
            let fio = programs.run_fio(case, *seed)?;
            let outcome = compare_with(programs, case, *seed, FURTHER_SEEDS, fio.clone())?;
            if outcome.differences.is_empty() {
                same.push((case.clone(), *seed, fio));
            }
        }
    };
    let mut cases = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.jobs_at_once.max(1)).map(|_| scope.spawn(work)).collect();
        let all = threads.into_iter().map(|thread| thread.join().expect("a thread panicked"));
        all.collect::<Result<Vec<_>>>()
    })?
    .concat();
    cases.sort_unstable_by_key(|&(_, seed, _)| seed);
    println!("{} of {} cases show no difference", cases.len(), drawn.len());
    let missed = zonal_fio_diff::mistakes::not_found(programs, &cases, args.jobs_at_once)?;
    Ok(missed <= args.most)
}

/// What a feature is of, whatever clone or zone it is about.
fn kind(feature: &str) -> String {
    feature.replace(|digit: char| digit.is_ascii_digit(), "")
}

fn report(case: &Case, seed: u64, outcome: &Outcome) {
    println!("--- seed {seed}\n{case}");
    for difference in outcome.differences.iter().take(12) {
        println!("  {difference}");
    }
    for (name, message) in [("fio", &outcome.fio_message), ("zonal", &outcome.zonal_message)] {
        if !message.is_empty() {
            println!("  {name} says: {message}");
        }
    }
}
