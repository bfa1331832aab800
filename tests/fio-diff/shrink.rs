//! Makes a case that fails small: sections and options are left out, and numbers are halved, for as
//! long as it fails.
use crate::case::{Case, Section};

/// Comparisons that a case is worth.
const TRIES: usize = 150;

/// The block that all drawn lengths are multiples of.
const BLOCK: u64 = 4096;

/// The smallest case found that still fails.
///
/// # Errors
/// The error of `fails`.
pub fn shrink<E>(case: &Case, mut fails: impl FnMut(&Case) -> Result<bool, E>) -> Result<Case, E> {
    let mut best = case.clone();
    let mut tries = 0;
    'smaller: loop {
        for candidate in smaller(&best).into_iter().filter(Case::is_sound) {
            tries += 1;
            if tries > TRIES {
                break 'smaller;
            }
            if fails(&candidate)? {
                best = candidate;
                continue 'smaller;
            }
        }
        break;
    }
    Ok(best)
}

/// The next smaller cases, those that leave out most first.
fn smaller(case: &Case) -> Vec<Case> {
    let with = |at: usize, section: Section| {
        let mut sections = case.sections.clone();
        sections[at] = section;
        Case { sections, ..case.clone() }
    };
    let mut cases = Vec::new();
    for at in (0..case.sections.len()).filter(|_| case.sections.len() > 1) {
        let mut less = case.clone();
        less.sections.remove(at);
        cases.push(less);
    }
    for (at, section) in case.sections.iter().enumerate() {
        for option in 0..section.options.len() {
            // Without these it is another case, or a larger one.
            if ["rw", "zonemode", "stonewall"].contains(&section.options[option].0.as_str()) {
                continue;
            }
            let mut less = section.clone();
            less.options.remove(option);
            cases.push(with(at, less));
        }
    }
    if let Some(zones) = case.geometry.zones {
        let mut simpler = case.clone();
        for zones in [
            crate::case::Zones { max_open: 0, ..zones },
            crate::case::Zones { capacity: zones.size, ..zones },
        ] {
            simpler.geometry.zones = Some(zones);
            cases.push(simpler.clone());
        }
        cases.retain(|less| less != case);
    }
    for (at, section) in case.sections.iter().enumerate() {
        for (option, (_, value)) in section.options.iter().enumerate() {
            for halved in halves(value) {
                let mut less = section.clone();
                less.options[option].1 = halved;
                cases.push(with(at, less));
            }
        }
    }
    cases
}

/// A value with its number halved, and a list with its first entry alone.
fn halves(value: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Some((first, _)) = value.split_once([',', ':']) {
        found.push(first.to_owned());
    }
    let digits = value.len() - value.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    // Lengths stay whole blocks.
    let is_length = |number: u64| number.is_multiple_of(BLOCK);
    if let Ok(number @ 2..) = value[..digits].parse::<u64>()
        && number.is_multiple_of(2)
        && is_length(number) == is_length(number / 2)
    {
        found.push(format!("{}{}", number / 2, &value[digits..]));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let text = "; device size=65536\n[a]\nrw=write\nbs=4k\nsize=48k\n[b]\nstonewall=1\nrw=read\niodepth=16\nloops=2\n";
        let fails = |case: &Case| {
            Ok::<_, ()>(case.sections.iter().any(|section| {
                section.get("iodepth").is_some_and(|depth| depth.parse::<u32>().unwrap() >= 4)
            }))
        };
        let small = shrink(&text.parse().unwrap(), fails).unwrap();
        assert_eq!(
            small.to_string(),
            "; device size=65536\n[b]\nstonewall=1\nrw=read\niodepth=4\n"
        );
    }

    #[test]
    fn a_case_that_is_as_small_as_can_be_stays() {
        let case: Case = "; device size=65536\n[a]\nrw=write\n".parse().unwrap();
        assert_eq!(shrink(&case, |_| Ok::<_, ()>(true)).unwrap(), case);
    }
}
