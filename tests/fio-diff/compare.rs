//! Whether two programs did the same with a case.
//!
//! Features beyond their margins are looked at again with further seeds. A number differs if all values of one
//! program are above all values of the other; a text differs if it is always the same in fio, and
//! another one here. So what chance or the timing of threads decides in fio is distinguished from what is determined by
//! how it behaves, without a list of which is which. A run of fio that hangs or dies says how it ended, and nothing of
//! what it would have done: it is no sample of anything else. Where most do, the others are none either: they may be
//! just those that end before they get there.
use crate::case::Case;
use crate::deliberate::covering;
use crate::features::{Feature, Features, features};
use crate::observe::{End, Observation};
use crate::programs::Programs;
use anyhow::Result;
use std::fmt::{self, Display};

/// Seeds besides the first one. Numbers of the same distribution are all above or all below by chance with a
/// probability of 2 / (28 choose 14), which is one in 20 million, whatever the distribution is. A case has at
/// most about a hundred numbers that chance decides: of 10,000 cases 0.05 are expected to differ by chance.
pub const FURTHER_SEEDS: u64 = 13;

/// From one seed of a case to the next: in all bits, as the lowest ones decide some of what fio does alone.
const APART: u64 = (1 << 20) + 1;

/// Runs of fio that may hang or die before a case is one in which it always does.
const ATTEMPTS: u64 = 3;

/// A difference between fio and Zonal.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The feature.
    pub feature: String,
    /// What it is in fio, with each seed.
    pub fio: Vec<Option<Feature>>,
    /// What it is in Zonal.
    pub zonal: Vec<Option<Feature>>,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Differences that all seeds show and that are not on the list.
    pub differences: Vec<Difference>,
    /// The entries of the list that the case shows.
    pub deliberate: Vec<usize>,
    /// What fio said last, if it failed.
    pub fio_message: String,
    /// What Zonal said last, if it failed.
    pub zonal_message: String,
    /// Both refuse the case.
    pub refused: bool,
    /// fio hangs or dies, with most seeds if not with all, so that there is nothing to compare with.
    pub no_judge: bool,
    /// I/Os that fio did.
    pub ios: usize,
}

impl Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |values: &[Option<Feature>]| {
            let mut texts: Vec<String> = values.iter().map(shown).collect();
            texts.dedup();
            texts.join(", ")
        };
        write!(f, "{}: fio {}; zonal {}", self.feature, all(&self.fio), all(&self.zonal))
    }
}

/// A value as it is printed.
pub fn shown(feature: &Option<Feature>) -> String {
    match feature {
        None => "nothing".to_owned(),
        Some(Feature::Number(value, _) | Feature::Time(value, _)) => value.to_string(),
        Some(Feature::Text(text)) => text.clone(),
    }
}

/// Compares the programs on a case with a seed, and where they differ with `further` ones.
///
/// # Errors
/// A program cannot be run.
pub fn compare(programs: &Programs, case: &Case, seed: u64, further: u64) -> Result<Outcome> {
    compare_with(programs, case, seed, further, programs.run_fio(case, seed)?)
}

/// The same with what fio did with the first seed.
///
/// # Errors
/// A program cannot be run.
pub fn compare_with(
    programs: &Programs,
    case: &Case,
    seed: u64,
    further: u64,
    fio: Observation,
) -> Result<Outcome> {
    let (seed, fio) = judged(programs, case, seed, further, fio)?;
    let zonal = programs.run_zonal(case, seed)?;
    let (mut of_fio, mut of_zonal) = (vec![features(case, &fio)], vec![features(case, &zonal)]);
    let mut silent = 0;
    let difference = |feature: &String, fio: &[Features], zonal: &[Features]| Difference {
        feature: feature.clone(),
        fio: of(fio, feature),
        zonal: of(zonal, feature),
    };
    let mut suspects: Vec<String> = names(&of_fio, &of_zonal);
    suspects.retain(|name| !is_close(of_fio[0].get(name), of_zonal[0].get(name)));
    if says_nothing(fio.end) || says_nothing(zonal.end) {
        let end = says_nothing(zonal.end).then(|| "end".to_owned());
        return Ok(Outcome {
            differences: end.iter().map(|name| difference(name, &of_fio, &of_zonal)).collect(),
            no_judge: says_nothing(fio.end),
            fio_message: fio.message,
            zonal_message: zonal.message,
            ..Outcome::default()
        });
    }
    // Nothing else needs to be said of programs that end differently.
    if suspects.iter().any(|name| name == "end") {
        suspects.retain(|name| name == "end");
    }
    let mut deliberate = Vec::new();
    suspects.retain(|name| {
        let entry = covering(case, &difference(name, &of_fio, &of_zonal));
        deliberate.extend(entry);
        entry.is_none()
    });
    deliberate.sort_unstable();
    deliberate.dedup();
    for attempt in 1..further + ATTEMPTS {
        if suspects.is_empty() || of_fio.len() as u64 > further {
            break;
        }
        let seed = seed.wrapping_add(attempt * APART);
        let again = programs.run_fio(case, seed)?;
        if says_nothing(again.end) {
            // How it ends is left to chance.
            suspects.retain(|name| name != "end");
            silent += 1;
            continue;
        }
        of_fio.push(features(case, &again));
        of_zonal.push(features(case, &programs.run_zonal(case, seed)?));
        suspects.retain(|name| is_apart(&of(&of_fio, name), &of(&of_zonal, name)));
    }
    let no_judge = silent > of_fio.len();
    suspects.retain(|_| !no_judge);
    Ok(Outcome {
        differences: suspects.iter().map(|name| difference(name, &of_fio, &of_zonal)).collect(),
        deliberate,
        refused: of_fio[0].get("end") == Some(&Feature::Text("refuses".into())),
        no_judge,
        ios: fio.clones.iter().map(Vec::len).sum(),
        fio_message: fio.message,
        zonal_message: zonal.message,
    })
}

/// What fio does with a case and a seed, or with another one if it hangs or dies; no further one if none
/// are wanted.
fn judged(
    programs: &Programs,
    case: &Case,
    seed: u64,
    further: u64,
    fio: Observation,
) -> Result<(u64, Observation)> {
    let (mut seed, mut fio) = (seed, fio);
    for again in 1..ATTEMPTS {
        if !says_nothing(fio.end) || further == 0 {
            break;
        }
        seed = seed.wrapping_add(again << 40);
        fio = programs.run_fio(case, seed)?;
    }
    Ok((seed, fio))
}

/// Whether a program that ended like this has not shown what it would have done.
fn says_nothing(end: End) -> bool {
    matches!(end, End::Hung | End::Code(-1))
}

fn names(fio: &[Features], zonal: &[Features]) -> Vec<String> {
    let mut names: Vec<String> =
        fio.iter().chain(zonal).flat_map(|all| all.keys().cloned()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn of(all: &[Features], name: &str) -> Vec<Option<Feature>> {
    all.iter().map(|features| features.get(name).cloned()).collect()
}

/// Whether two values may be the same but for chance. What is missing counts as 0.
fn is_close(fio: Option<&Feature>, zonal: Option<&Feature>) -> bool {
    match (fio, zonal) {
        (Some(Feature::Text(fio)), Some(Feature::Text(zonal))) => fio == zonal,
        (Some(Feature::Text(_)), _) | (_, Some(Feature::Text(_))) => false,
        (Some(Feature::Time(fio, most)), Some(Feature::Time(zonal, _))) => {
            is_near(*fio, *zonal, *most)
        }
        (fio, zonal) => {
            let ((fio, one), (zonal, other)) = (number(fio), number(zonal));
            (fio - zonal).abs() <= f64::max(one, other)
        }
    }
}

/// Whether two times in milliseconds may be the same: fio's is up to `most` times as long on a machine that
/// does other work.
fn is_near(fio: f64, zonal: f64, most: f64) -> bool {
    zonal <= fio * 1.25 + 30.0 && fio <= zonal * most + 25.0 * most
}

fn number(feature: Option<&Feature>) -> (f64, f64) {
    match feature {
        Some(Feature::Number(value, margin)) => (*value, *margin),
        Some(Feature::Time(value, most)) => (*value, *most),
        _ => (0.0, 0.0),
    }
}

/// Whether the values with several seeds are those of programs that differ.
fn is_apart(fio: &[Option<Feature>], zonal: &[Option<Feature>]) -> bool {
    let is_text = |feature: &Option<Feature>| matches!(feature, Some(Feature::Text(_)));
    if fio.iter().chain(zonal).any(is_text) {
        return fio.iter().all(|feature| feature == &fio[0]) && !zonal.contains(&fio[0]);
    }
    let is_time = |feature: &Option<Feature>| matches!(feature, Some(Feature::Time(..)));
    if fio.iter().chain(zonal).any(is_time) {
        let near = |fio: &Option<Feature>, zonal: &Option<Feature>| {
            let (fio, (zonal, most)) = (number(fio.as_ref()).0, number(zonal.as_ref()));
            is_near(fio, zonal, most)
        };
        return !fio.iter().any(|fio| zonal.iter().any(|zonal| near(fio, zonal)));
    }
    let range = |values: &[Option<Feature>]| {
        let numbers = values.iter().map(|value| number(value.as_ref()).0);
        numbers
            .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)))
    };
    let (fio, zonal) = (range(fio), range(zonal));
    fio.1 < zonal.0 || zonal.1 < fio.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(values: &[f64]) -> Vec<Option<Feature>> {
        values.iter().map(|&value| Some(Feature::Number(value, 1.0))).collect()
    }

    fn texts(values: &[&str]) -> Vec<Option<Feature>> {
        values.iter().map(|&value| Some(Feature::Text(value.into()))).collect()
    }

    #[test]
    fn numbers_differ_if_their_ranges_do() {
        assert!(is_apart(&numbers(&[4.0, 6.0]), &numbers(&[7.0, 9.0])));
        assert!(is_apart(&numbers(&[4.0, 4.0]), &[None, None]));
        assert!(!is_apart(&numbers(&[4.0, 7.0]), &numbers(&[6.0, 9.0])));
    }

    #[test]
    fn texts_differ_if_fio_always_has_another_one() {
        assert!(is_apart(&texts(&["a", "a"]), &texts(&["b", "c"])));
        assert!(!is_apart(&texts(&["a", "b"]), &texts(&["c", "d"])), "left to chance in fio");
        assert!(!is_apart(&texts(&["a", "a"]), &texts(&["b", "a"])));
        assert!(is_apart(&texts(&["a", "a"]), &[None, None]));
    }

    #[test]
    fn times_may_be_longer_in_fio() {
        let time = |value| Some(Feature::Time(value, 8.0));
        assert!(is_close(time(900.0).as_ref(), time(200.0).as_ref()));
        assert!(!is_close(time(200.0).as_ref(), time(400.0).as_ref()));
        assert!(is_apart(&[time(200.0), time(210.0)], &[time(400.0), time(400.0)]));
        assert!(!is_apart(&[time(200.0), time(390.0)], &[time(400.0), time(400.0)]));
        let of_rate = |value| Some(Feature::Time(value, 1.4));
        assert!(!is_close(of_rate(200.0).as_ref(), of_rate(100.0).as_ref()), "twice the rate");
    }

    #[test]
    fn fio_that_dies_with_most_seeds_is_no_judge() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().expect("a directory");
        let program = |name: &str, script: &str| {
            let path = place.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a program");
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&path, mode).expect("it may be run");
            path
        };
        let report = "printf '{\\n\"jobs\": [{}]}' >report";
        let one = format!("echo '1 f write 0 512' >io.0.0; {report}");
        let two = format!("echo '1 f write 0 512\n2 f write 512 512' >io.0.0; {report}");
        let dies = "echo 'fio: pid=1, got signal=6' >&2";
        let case: Case = "; device size=4096\n[a]\nrw=write\n".parse().expect("a case");
        // fio's random seed is the next number.
        for (lives_with, no_judge) in [("8", true), ("*", false)] {
            let script = format!(
                "case $(sed -n s/randseed=//p job) in {lives_with}) {one};; *) {dies};; esac"
            );
            let programs = Programs {
                fio: program("fio", &script),
                zonal: program("zonal", &two),
                mistake: None,
            };
            let outcome = compare(&programs, &case, 7, FURTHER_SEEDS).expect("they run");
            assert_eq!(outcome.no_judge, no_judge, "{lives_with}");
            assert_eq!(outcome.differences.is_empty(), no_judge, "{lives_with}");
        }
    }

    #[test]
    fn a_second_look_is_taken_beyond_the_margin() {
        let number = |value| Some(Feature::Number(value, 1.0));
        assert!(is_close(number(4.0).as_ref(), number(5.0).as_ref()));
        assert!(!is_close(number(4.0).as_ref(), number(5.5).as_ref()));
        assert!(!is_close(None, number(5.5).as_ref()));
        assert!(is_close(None, number(0.0).as_ref()));
    }
}
