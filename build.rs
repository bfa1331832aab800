//! Tells the program from which commit a release is built, as `ZONAL_COMMIT`.
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=ZONAL_COMMIT");
    let variable = |name| std::env::var(name).unwrap_or_default();
    // Who makes a package says it. A debug build would be built anew after each commit.
    if !variable("ZONAL_COMMIT").is_empty() || variable("PROFILE") != "release" {
        return;
    }
    let directory = variable("CARGO_MANIFEST_DIR");
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&directory).args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // A copy of the sources inside some other repository has no commit.
    let top = git(&["rev-parse", "--show-toplevel"]);
    let is_ours = top.is_some_and(|top| {
        Path::new(&top).canonicalize().ok() == Path::new(&directory).canonicalize().ok()
    });
    let Some(commit) = is_ours.then(|| git(&["rev-parse", "--short=12", "HEAD"])).flatten() else {
        return;
    };
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    println!("cargo:rustc-env=ZONAL_COMMIT={commit}");
}
