//! `cargo xtask mutants`: cargo-mutants plants mistakes in the sources one at a time, and tests have to
//! find each.
//!
//! There are thousands, so a measurement can be a sample, and continues where it was interrupted: what
//! came of each mutant is kept in `target/mutants/results`. Those that no test can find are in
//! `xtask/mutants.txt`, with the reason.
use super::root;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Plants the mistakes.
const TOOL: &str = "cargo-mutants@27.1.0";

/// Runs of the randomized tests of images: fewer than theirs.
const CASES: (&str, &str) = ("ZONAL_CASES", "100");

/// A part of the sources, with the tests that have to find a mistake in it.
#[derive(Debug)]
struct Area {
    name: &'static str,
    package: &'static str,
    files: &'static str,
    tests: &'static str,
    /// Percent of the viable mutants, without the equivalent ones, that have to be killed.
    goal: usize,
}

const fn area(
    name: &'static str,
    package: &'static str,
    files: &'static str,
    tests: &'static str,
    goal: usize,
) -> Area {
    Area { name, package, files, tests, goal }
}

const ALL: &str = "--lib --tests";

const AREAS: [Area; 11] = [
    area("blk", "zonal-blk", "crates/blk/src/**", ALL, 95),
    area("image", "zonal-device", "crates/device/src/image/**", "--lib --test=image", 95),
    area("ssd", "zonal-device", "crates/device/src/ssd/**", ALL, 90),
    area("zns", "zonal-device", "crates/device/src/{zns,zones}/**", ALL, 90),
    area("inject", "zonal-device", "crates/device/src/inject/**", ALL, 90),
    area("power", "zonal-device", "crates/device/src/{power_loss.rs,power/**}", "--lib", 90),
    area(
        "controller",
        "zonal-nvme",
        "crates/nvme/src/controller/**",
        "--lib --test=controller --test=pcie",
        95,
    ),
    area("session", "zonal-nvme", "crates/nvme/src/session.rs", "--lib --test=controller", 95),
    area(
        "crash",
        "zonal-crash",
        "crates/crash/src/{choices,drive,outcome,states}.rs",
        "--lib --test=states",
        90,
    ),
    area("backend", "zonal-backend", "crates/backend/src/**", ALL, 90),
    area("frontend", "zonal-frontend", "crates/frontend/src/**", ALL, 90),
];

/// What came of mutants, named as cargo-mutants names its files, by `FILE:LINE:COLUMN: CHANGE`.
type Outcomes = BTreeMap<String, String>;

/// What to measure.
#[derive(Debug, Default)]
struct Wanted {
    areas: Vec<&'static Area>,
    /// So many of each area, spread evenly.
    sample: Option<usize>,
    /// Only those in lines that differ from this commit.
    since: Option<String>,
}

/// Measures, and prints a table of what has been measured so far.
///
/// # Errors
/// A message: an argument is wrong, a command fails, an area is below its goal, or, with `--since`, a
/// mutant survived.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let wanted = parse(arguments)?;
    let text = fs::read_to_string(root().join("xtask/mutants.txt")).map_err(|e| e.to_string())?;
    let reasons = reasons(&text)?;
    install()?;
    let mut rows = Vec::new();
    for area in wanted.areas {
        let listed = list(area, wanted.since.as_deref())?;
        measure(area, &sample(&listed, wanted.sample), &reasons)?;
        let row = Row::of(&listed, &outcomes(area)?, &reasons);
        let goal = if wanted.since.is_some() { 100 } else { area.goal };
        rows.push((area.name, goal, row));
    }
    println!("area       mutants  tried  viable  killed  equivalent  survived  killed %  goal %");
    rows.iter().for_each(|(name, goal, row)| row.print(name, *goal));
    match rows.iter().any(|(_, goal, row)| row.percent() < *goal) {
        true => Err("a survivor needs a test, or a reason in xtask/mutants.txt".to_owned()),
        false => Ok(()),
    }
}

fn parse(arguments: &[&str]) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    let mut arguments = arguments.iter();
    while let Some(&argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument}: expected a value"));
        match argument {
            "--sample" => {
                let (number, error) = (value()?, "expected a number above 0");
                let sample = number.parse().ok().filter(|&sample| sample > 0);
                wanted.sample = Some(sample.ok_or(format!("--sample: found `{number}`, {error}"))?);
            }
            "--since" => wanted.since = Some((*value()?).to_owned()),
            name => {
                wanted.areas.push(AREAS.iter().find(|area| area.name == name).ok_or_else(|| {
                    let names = AREAS.each_ref().map(|area| area.name).join(", ");
                    format!("found `{name}`, expected --sample, --since or some of {names}")
                })?)
            }
        }
    }
    if wanted.areas.is_empty() {
        wanted.areas.extend(&AREAS);
    }
    Ok(wanted)
}

/// The mutants that no test can find, as `FILE: CHANGE`, each with the reason on the next line, after two
/// spaces.
fn reasons(text: &str) -> Result<BTreeMap<&str, &str>, String> {
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    lines
        .chunks(2)
        .map(|pair| match pair {
            &[name, reason] if !name.starts_with(' ') && reason.starts_with("  ") => {
                Ok((name, reason.trim()))
            }
            _ => Err(format!("xtask/mutants.txt: {}: expected a mutant, then its reason", pair[0])),
        })
        .collect()
}

/// A mutant's name without line and column, which other changes move: `FILE: CHANGE`.
fn without_place(name: &str) -> String {
    let (place, change) = name.split_once(": ").unwrap_or((name, ""));
    format!("{}: {change}", place.split(':').next().unwrap_or_default())
}

/// So many of the mutants, spread evenly.
fn sample(listed: &[String], count: Option<usize>) -> Vec<&String> {
    let count = count.unwrap_or(listed.len()).min(listed.len());
    (0..count).map(|number| &listed[number * listed.len() / count]).collect()
}

/// Tries those that have not been killed yet. cargo-mutants 27.1.0 also tries all of the area that
/// delete a field, whatever `--re` says.
fn measure(area: &Area, names: &[&String], reasons: &BTreeMap<&str, &str>) -> Result<(), String> {
    let known = outcomes(area)?;
    let is_open = |name: &&&String| {
        known.get(**name).is_none_or(|outcome| outcome == "missed")
            && !reasons.contains_key(&*without_place(name))
    };
    let open: Vec<&&String> = names.iter().filter(is_open).collect();
    // The names are arguments, whose length is limited.
    for names in open.chunks(500) {
        let mut command = cargo_mutants(area);
        for name in names {
            command.args(["--re", &format!("^{}$", escaped(name))]);
        }
        command.args(["--minimum-test-timeout", "60", "--output"]).arg(run_directory(area));
        // Also when it builds, which takes in all targets otherwise.
        let arguments = ["--locked"].into_iter().chain(area.tests.split(' '));
        command.args(arguments.map(|argument| format!("--cargo-arg={argument}")));
        command.env("CARGO_TARGET_DIR", directory().join("target")).envs([CASES]);
        fs::create_dir_all(run_directory(area)).map_err(|error| error.to_string())?;
        let status = command.status().map_err(|error| format!("cargo mutants: {error}"))?;
        outcomes(area)?;
        // 2: some were missed; 3: some took too long.
        if !matches!(status.code(), Some(0 | 2 | 3)) {
            return Err(format!("{}: cargo mutants ended with {status}", area.name));
        }
    }
    Ok(())
}

/// What is known of an area's mutants, with what the latest run has found, also if it was interrupted.
fn outcomes(area: &Area) -> Result<Outcomes, String> {
    let file = directory().join("results").join(area.name);
    let known = fs::read_to_string(&file).unwrap_or_default();
    let line = |line: &str| line.split_once('\t').map(|(what, name)| (name.into(), what.into()));
    let mut outcomes: Outcomes = known.lines().filter_map(line).collect();
    for what in ["caught", "timeout", "unviable", "missed"] {
        let found = run_directory(area).join("mutants.out").join(what).with_extension("txt");
        let names = fs::read_to_string(found).unwrap_or_default();
        outcomes.extend(names.lines().map(|name| (name.to_owned(), what.to_owned())));
    }
    let text: String = outcomes.iter().map(|(name, what)| format!("{what}\t{name}\n")).collect();
    fs::create_dir_all(directory().join("results"))
        .and_then(|()| fs::write(&file, text))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(outcomes)
}

/// A regular expression for a text.
fn escaped(text: &str) -> String {
    let escape =
        |c: char| if r"\.+*?()|[]{}^$".contains(c) { format!("\\{c}") } else { c.to_string() };
    text.chars().map(escape).collect()
}

#[derive(Debug, Default)]
struct Row {
    listed: usize,
    tried: usize,
    viable: usize,
    killed: usize,
    equivalent: usize,
    survivors: Vec<String>,
}

impl Row {
    fn of(listed: &[String], outcomes: &Outcomes, reasons: &BTreeMap<&str, &str>) -> Self {
        let mut row = Row { listed: listed.len(), ..Row::default() };
        for name in listed {
            let has_reason = reasons.contains_key(&*without_place(name));
            match outcomes.get(name).map(String::as_str) {
                _ if has_reason => row.equivalent += 1,
                Some("caught" | "timeout") => row.killed += 1,
                Some("missed") => row.survivors.push(name.clone()),
                Some(_) => row.tried += 1,
                None => {}
            }
        }
        row.viable = row.killed + row.equivalent + row.survivors.len();
        row.tried += row.viable;
        row
    }

    /// How many percent of the mutants are killed that can be.
    fn percent(&self) -> usize {
        (self.killed * 100).checked_div(self.viable - self.equivalent).unwrap_or(100)
    }

    fn print(&self, name: &str, goal: usize) {
        let Row { listed, tried, viable, killed, equivalent, survivors } = self;
        let (lived, percent) = (survivors.len(), self.percent());
        println!(
            "{name:10} {listed:7} {tried:6} {viable:7} {killed:7} {equivalent:11} {lived:9} {percent:9} {goal:7}"
        );
        survivors.iter().for_each(|name| println!("  {name}"));
    }
}

fn directory() -> PathBuf {
    root().join("target/mutants")
}

fn run_directory(area: &Area) -> PathBuf {
    directory().join("runs").join(area.name)
}

/// Builds cargo-mutants below `target` if the machine has none.
fn install() -> Result<(), String> {
    if output(cargo("mutants").arg("--version")).is_ok() {
        return Ok(());
    }
    let tools = root().join("target/tools");
    output(cargo("install").args([TOOL, "--locked", "--root"]).arg(tools)).map(|_| ())
}

/// Cargo, with what `install` has built.
fn cargo(what: &str) -> Command {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let own = std::iter::once(root().join("target/tools/bin"));
    let paths = std::env::join_paths(own.chain(std::env::split_paths(&paths)));
    let mut command = Command::new("cargo");
    command.arg(what).current_dir(root()).env("PATH", paths.expect("they were separated"));
    command
}

fn cargo_mutants(area: &Area) -> Command {
    let mut command = cargo("mutants");
    command.args(["--no-config", "--colors", "never", "--package", area.package]);
    command.args(["--file", area.files]);
    command
}

/// The names of an area's mutants, perhaps only those in lines that differ from a commit.
fn list(area: &Area, since: Option<&str>) -> Result<Vec<String>, String> {
    let mut command = cargo_mutants(area);
    command.arg("--list");
    if let Some(commit) = since {
        let mut diff = Command::new("git");
        diff.args(["diff", "--merge-base", commit, "--", "crates"]).current_dir(root());
        let file = directory().join("diff");
        let text = output(&mut diff)?;
        fs::create_dir_all(directory())
            .and_then(|()| fs::write(&file, text))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        command.arg("--in-diff").arg(file);
    }
    Ok(output(&mut command)?.lines().map(str::to_owned).collect())
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_have_different_names_and_files_that_are_there() {
        for (at, area) in AREAS.iter().enumerate() {
            assert!(AREAS[..at].iter().all(|other| other.name != area.name), "{}", area.name);
            let folder = area.files.split(['*', '{']).next().expect("a path");
            assert!(root().join(folder).exists(), "{folder}");
        }
    }

    #[test]
    fn equivalent_mutants_have_a_reason_each_and_their_files_are_there() {
        let text = fs::read_to_string(root().join("xtask/mutants.txt")).expect("the list");
        for name in reasons(&text).expect("mutants and reasons").keys() {
            let file = name.split(':').next().expect("a file");
            assert!(root().join(file).is_file(), "{name}");
        }
        assert!(reasons("a.rs: change\n").is_err());
        assert!(reasons("  reason\n").is_err());
        assert!(reasons("a.rs: change\nb.rs: change\n  reason\n").is_err());
    }

    #[test]
    fn table_counts_each_mutant_once_and_names_the_survivors() {
        let listed: Vec<String> =
            (1..=6).map(|line| format!("a.rs:{line}:9: change {line}")).collect();
        let what = ["caught", "timeout", "unviable", "missed", "missed"].map(str::to_owned);
        let outcomes: Outcomes = listed.iter().cloned().zip(what).collect();
        let reasons = reasons("# Why.\na.rs: change 5\n  it says the same\n").expect("one");
        let row = Row::of(&listed, &outcomes, &reasons);
        assert_eq!((row.listed, row.tried, row.viable, row.killed), (6, 5, 4, 2));
        assert_eq!((row.equivalent, row.percent()), (1, 66));
        assert_eq!(row.survivors, listed[3..4]);
        assert_eq!(Row::default().percent(), 100);
    }

    #[test]
    fn samples_are_spread_over_the_list() {
        let listed: Vec<String> = (0..10).map(|number| number.to_string()).collect();
        assert_eq!(sample(&listed, Some(3)), ["0", "3", "6"]);
        assert_eq!(sample(&listed, Some(11)).len(), 10);
        assert_eq!(sample(&listed, None).len(), 10);
        assert_eq!(sample(&[], Some(3)), Vec::<&String>::new());
    }

    #[test]
    fn names_match_themselves() {
        // `\<` would be the begin of a word.
        let name = "a.rs:1:9: replace <impl A>::f -> Vec<u8> with vec![1] + b";
        let expected = r"a\.rs:1:9: replace <impl A>::f -> Vec<u8> with vec!\[1\] \+ b";
        assert_eq!(escaped(name), expected);
    }

    #[test]
    fn arguments_are_areas_a_sample_and_a_commit() {
        let wanted = parse(&["image", "blk", "--sample", "7"]).expect("arguments");
        let names: Vec<&str> = wanted.areas.iter().map(|area| area.name).collect();
        assert_eq!((names, wanted.sample), (vec!["image", "blk"], Some(7)));
        assert_eq!(parse(&["--since", "main"]).expect("arguments").areas.len(), AREAS.len());
        assert!(parse(&["imag"]).is_err_and(|error| error.contains("some of blk, image")));
        assert!(parse(&["--sample", "0"]).is_err_and(|error| error.contains("above 0")));
        assert!(parse(&["--since"]).is_err_and(|error| error.contains("expected a value")));
    }
}
