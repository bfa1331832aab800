//! The proof that the comparison can fail: mistakes planted in the job generator, each of which a
//! case has to show. A mistake is tried on the first cases that have the option which it is about.
use crate::case::{Case, Section};
use crate::compare::{FURTHER_SEEDS, compare_with};
use crate::draw::draw;
use crate::observe::Observation;
use crate::programs::Programs;
use anyhow::Result;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{ScopedJoinHandle, scope};
use zonal_fio::mistake::Mistake;

/// Whether a job may show a mistake.
fn concerns(mistake: Mistake, case: &Case, section: &Section) -> bool {
    let rw = section.get("rw").unwrap_or("read");
    match mistake {
        Mistake::OneZoneTooMany => case.leaves_zones(section),
        Mistake::RegionTooShort => !section.is_zbd(),
        Mistake::OffsetForgotten => section.has("offset"),
        Mistake::ClonesOverlap => section.has("offset_increment"),
        Mistake::AmountHalved => section.has("io_size"),
        Mistake::OneIoMore => section.has("number_ios"),
        Mistake::DirectionsSwapped => section.has("rwmixread"),
        Mistake::FirstSizeOnly => section.has("bssplit"),
        Mistake::RangeShort => section.has("bsrange"),
        Mistake::BlocksRepeat => rw.starts_with("rand") && !section.has("norandommap"),
        Mistake::SomeUnverified => section.has("verify"),
        Mistake::RateDoubled => section.has("rate_iops"),
    }
}

fn may_show(mistake: Mistake, case: &Case) -> bool {
    case.sections.iter().any(|section| concerns(mistake, case, section))
}

/// The first cases from a seed on of which `each` may show each of the mistakes, with their seeds.
pub fn cases(seed: u64, each: usize) -> Vec<(Case, u64)> {
    let mut wanted: Vec<(Mistake, usize)> =
        Mistake::ALL.iter().map(|(mistake, _)| (*mistake, each)).collect();
    let mut chosen = Vec::new();
    for seed in seed.. {
        if wanted.iter().all(|(_, left)| *left == 0) {
            break;
        }
        let case = draw(seed);
        let mut is_wanted = false;
        for (mistake, left) in &mut wanted {
            if *left > 0 && may_show(*mistake, &case) {
                (*left, is_wanted) = (*left - 1, true);
            }
        }
        if is_wanted {
            chosen.push((case, seed));
        }
    }
    chosen
}

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
    for (case, seed, fio) in cases.iter().filter(|(case, ..)| may_show(mistake, case)) {
        let outcome = compare_with(&programs, case, *seed, FURTHER_SEEDS, fio.clone())?;
        if let Some(difference) = outcome.differences.first() {
            return Ok(Some(format!("seed {seed}: {}", difference.feature)));
        }
    }
    Ok(None)
}
