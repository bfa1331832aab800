//! The proof that the comparison can fail: mistakes planted in the job generator, each of which a
//! case has to show.
use crate::case::Case;
use crate::compare::{FURTHER_SEEDS, compare_with};
use crate::observe::Observation;
use crate::programs::Programs;
use anyhow::Result;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{ScopedJoinHandle, scope};
use zonal_fio::mistake::Mistake;

/// Tries each mistake, several at a time, on cases with their seeds and with what fio does, which Zonal is
/// known to do as well. Prints what shows each mistake, and returns how many were not found.
///
/// # Errors
/// A program cannot be run.
///
/// # Panics
/// If a thread does.
pub fn not_found(
    programs: &Programs,
    cases: &[(Case, u64, Observation)],
    at_once: usize,
) -> Result<usize> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, Option<String>)>> {
        let mut tried = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((mistake, _)) = Mistake::ALL.get(at) else { return Ok(tried) };
            tried.push((at, first_to_show(programs, *mistake, cases)?));
        }
    };
    let mut tried = scope(|scope| {
        let threads: Vec<_> = (0..at_once.max(1)).map(|_| scope.spawn(work)).collect();
        let join = |thread: ScopedJoinHandle<'_, _>| thread.join().expect("a thread panicked");
        threads.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?
    .concat();
    tried.sort_unstable();
    for (at, shown) in &tried {
        println!("{}: {}", Mistake::ALL[*at].1, shown.as_deref().unwrap_or("NOT FOUND"));
    }
    Ok(tried.iter().filter(|(_, shown)| shown.is_none()).count())
}

/// The first case that shows a mistake, and the feature that does.
fn first_to_show(
    programs: &Programs,
    mistake: Mistake,
    cases: &[(Case, u64, Observation)],
) -> Result<Option<String>> {
    let programs = Programs { mistake: Some(mistake.name().to_owned()), ..programs.clone() };
    for (number, (case, seed, fio)) in cases.iter().enumerate() {
        let outcome = compare_with(&programs, case, *seed, FURTHER_SEEDS, fio.clone())?;
        if let Some(difference) = outcome.differences.first() {
            return Ok(Some(format!("case {}: {}", number + 1, difference.feature)));
        }
    }
    Ok(None)
}
