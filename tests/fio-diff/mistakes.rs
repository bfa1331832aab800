//! The proof that the comparison can fail: mistakes planted in the job generator, each of which a
//! case has to show.
use crate::case::Case;
use crate::compare::{FURTHER_SEEDS, compare_with};
use crate::observe::Observation;
use crate::programs::Programs;
use anyhow::Result;
use zonal_fio::mistake::Mistake;

/// Tries each mistake on cases, of which it is known what fio does with each of their seeds, and that Zonal
/// does the same. Prints what shows it, and returns whether all were found.
///
/// # Errors
/// A program cannot be run.
pub fn all_are_found(programs: &Programs, cases: &[(Case, u64, Observation)]) -> Result<bool> {
    let mut missed = 0;
    for (mistake, what) in Mistake::ALL {
        let programs = Programs { mistake: Some(mistake.name().to_owned()), ..programs.clone() };
        let mut shown = None;
        for (number, (case, seed, fio)) in cases.iter().enumerate() {
            let outcome = compare_with(&programs, case, *seed, FURTHER_SEEDS, fio.clone())?;
            if let Some(difference) = outcome.differences.first() {
                shown = Some(format!("case {}: {}", number + 1, difference.feature));
                break;
            }
        }
        missed += u32::from(shown.is_none());
        println!("{what}: {}", shown.as_deref().unwrap_or("NOT FOUND"));
    }
    Ok(missed == 0)
}
