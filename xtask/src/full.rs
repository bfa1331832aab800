//! `cargo xtask full`: all checks one after another, those of CI and those that it leaves out because
//! they take long, need root or the network.
use super::root;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// A check: a script or a command, in the root of the repository.
struct Check {
    name: &'static str,
    what: &'static str,
    /// How long it takes on two cores, in minutes, with what it needs installed and nothing built.
    minutes: u64,
    variables: &'static [(&'static str, &'static str)],
    command: &'static [&'static str],
}

const fn check(
    name: &'static str,
    what: &'static str,
    minutes: u64,
    command: &'static [&'static str],
) -> Check {
    Check { name, what, minutes, variables: &[], command }
}

/// Builds the packages, and uses them.
const PACKAGES: &str = "packaging/release target/full/packages && \
                        tests/packages/run target/full/packages && \
                        tests/packages/image target/full/packages";

/// `ZONAL_SOAK_WITHOUT=ublk`, or `fuse`, leaves out an export that the machine does not have.
const SOAK: &str =
    "cargo test --release --locked --features fuse --test hostile_hosts soak -- --nocapture";

/// Other moments each time.
const KILLS: &str = "ZONAL_KILLS=60 ZONAL_SEED=$(date +%s) \
                     cargo test --locked --features fuse --test kills";

/// Draws other jobs each time.
const FIO_DIFF: &str = "fio=$(tests/newest-fio) && \
                        cargo build --release --locked && \
                        cargo run --release --locked -p zonal-fio-diff -- \
                        --seed $(date +%s) --jobs 1000000 --seconds 3600 --fio $fio";

const CHECKS: [Check; 23] = [
    check("ci", "what CI runs for each change", 20, &[".ci/run"]),
    check(
        "readme",
        "README's test command as it is there: without the features that CI tests with",
        15,
        &["cargo", "test", "--workspace", "--locked"],
    ),
    check("python", "the Python package: wheel, types, tests, tutorial", 8, &["python/check"]),
    check("site", "the documents as a site", 8, &["cargo", "xtask", "site", "target/full/site"]),
    check(
        "packages",
        "packages on a bare Debian system, and the OCI image; root, buildah",
        25,
        &["bash", "-c", PACKAGES],
    ),
    check("fuzz", "each fuzz target for a minute", 15, &["fuzz/smoke", "60"]),
    check(
        "fio-diff",
        "random jobs in the newest fio and here, for an hour; network",
        70,
        &["bash", "-c", FIO_DIFF],
    ),
    Check {
        name: "soak",
        what: "honest hosts beside hostile clients of all exports for half an hour; FUSE, ublk",
        minutes: 40,
        variables: &[("ZONAL_SOAK_SECONDS", "1800")],
        command: &["bash", "-c", SOAK],
    },
    check(
        "kills",
        "servers killed under load, half of them with a loss of power: nothing is lost; FUSE, root",
        30,
        &["bash", "-c", KILLS],
    ),
    Check {
        name: "images",
        what: "images that lose their power or are killed at random moments, 20,000 runs of each",
        minutes: 10,
        variables: &[("ZONAL_CASES", "20000")],
        command: &[
            "cargo",
            "test",
            "--release",
            "--locked",
            "-p",
            "zonal-device",
            "--test",
            "image",
        ],
    },
    check(
        "advice",
        "the same advice for 20 base seeds, of eight jobs; a release of the program",
        45,
        &["bash", "-c", "cargo build --release --locked && tests/advice/run"],
    ),
    check(
        "mutants",
        "mistakes that cargo-mutants plants are found by tests, 40 of each area; network",
        300,
        &["cargo", "xtask", "mutants", "--sample", "40"],
    ),
    check(
        "address",
        "the whole suite under AddressSanitizer; a nightly toolchain",
        60,
        &["tests/sanitizers/run", "address"],
    ),
    check(
        "thread",
        "the crates with unsafe code under ThreadSanitizer; rust-src",
        60,
        &["tests/sanitizers/run", "thread"],
    ),
    check(
        "miri",
        "what Miri can run of the block layer and the devices; miri",
        60,
        &["tests/sanitizers/run", "miri"],
    ),
    check(
        "advisories",
        "known faults of the libraries; network",
        1,
        &["cargo", "deny", "check", "advisories"],
    ),
    check(
        "guests",
        "the suites of exports, each with guests of Linux 6.12 and 7",
        240,
        &["tests/guest/table"],
    ),
    check(
        "guest-6.1",
        "NVMe/TCP with a guest of Linux 6.1",
        10,
        &["tests/guest/run", "--kernel", "6.1", "nvme-tcp"],
    ),
    check(
        "services",
        "the package's services under systemd, and an upgrade from those of 0.2.0",
        15,
        &["tests/guest/run", "systemd"],
    ),
    check(
        "lockstep",
        "the same bios through the kernel of a guest and through the layer",
        45,
        &["tests/guest/run", "--kernel", "7", "lockstep"],
    ),
    check(
        "crash-btrfs",
        "btrfs after losses of power, in a guest",
        40,
        &["tests/guest/run", "crash-btrfs"],
    ),
    check("crash-f2fs", "F2FS after losses of power", 40, &["tests/guest/run", "crash-f2fs"]),
    check(
        "crash-xfs",
        "XFS after losses of power",
        40,
        &["tests/guest/run", "--kernel", "7", "crash-xfs"],
    ),
];

/// What a script ends with that cannot run on this machine.
const CANNOT_RUN: i32 = 2;

/// Lists the checks, or runs those of these names, or all.
pub fn run(arguments: &[&str]) -> ExitCode {
    let wanted: Vec<&Check> = match arguments {
        ["--list"] => {
            list(&CHECKS.iter().collect::<Vec<_>>());
            return ExitCode::SUCCESS;
        }
        [] => CHECKS.iter().collect(),
        names => match names.iter().map(|name| named(name)).collect() {
            Ok(checks) => checks,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        },
    };
    list(&wanted);
    let results: Vec<_> = wanted.iter().map(|check| (*check, carry_out(check))).collect();
    println!("\n== summary");
    for (check, (outcome, time)) in &results {
        println!("{outcome:12} {:12} {}", check.name, minutes(*time));
    }
    let passed = results.iter().all(|(_, (outcome, _))| *outcome == PASSED);
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

const PASSED: &str = "passed";

fn named(name: &str) -> Result<&'static Check, String> {
    let known = CHECKS.iter().find(|check| check.name == name);
    known.ok_or_else(|| {
        let names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
        format!("cargo xtask full: found `{name}`, expected --list or some of {}", names.join(", "))
    })
}

fn list(checks: &[&Check]) {
    for check in checks {
        println!("{:12} {:3} min  {}", check.name, check.minutes, check.what);
    }
    let all: u64 = checks.iter().map(|check| check.minutes).sum();
    println!("{:12} {all:3} min, expected on two cores", "in all");
}

/// Runs a check. Returns what came of it, and how long it took.
fn carry_out(check: &Check) -> (&'static str, Duration) {
    let variables = check.variables.iter().map(|(name, value)| format!("{name}={value} "));
    let line = variables.collect::<String>() + &check.command.join(" ");
    println!("\n== {}: {line} (expected: {} min)", check.name, check.minutes);
    let begun = Instant::now();
    let mut command = Command::new(check.command[0]);
    command.args(&check.command[1..]).envs(check.variables.iter().copied()).current_dir(root());
    let outcome = match command.status() {
        Ok(status) if status.success() => PASSED,
        Ok(status) if status.code() == Some(CANNOT_RUN) => "cannot run",
        Ok(_) => "failed",
        Err(error) => {
            eprintln!("{}: {error}", check.command[0]);
            "cannot run"
        }
    };
    let time = begun.elapsed();
    println!("== {}: {outcome} after {}", check.name, minutes(time));
    (outcome, time)
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_have_different_names_and_their_scripts_are_there() {
        for (at, check) in CHECKS.iter().enumerate() {
            assert!(CHECKS[..at].iter().all(|other| other.name != check.name), "{}", check.name);
            let script = check.command[0];
            assert!(
                ["bash", "cargo"].contains(&script) || root().join(script).is_file(),
                "{script}"
            );
            if script == "tests/guest/run" {
                let suite = check.command.last().expect("a suite");
                let file = root().join(format!("tests/guest/suites/{suite}.sh"));
                assert!(file.is_file(), "{}", file.display());
            }
        }
    }

    #[test]
    fn unknown_name_is_refused() {
        assert_eq!(named("python").map(|check| check.name), Ok("python"));
        assert!(named("pyton").is_err_and(|error| error.contains("expected --list or some of ci")));
    }
}
