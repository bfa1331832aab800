//! The files of the workspace.
use std::fs;
use std::path::{Path, PathBuf};

/// Directories that are none of ours or hold nothing to read.
const SKIPPED: [&str; 5] = ["target", ".git", "corpus", "artifacts", "coverage"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory).expect("a directory is read");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let name = path.file_name().and_then(|name| name.to_str()).expect("names are UTF-8");
        if path.is_symlink() || SKIPPED.contains(&name) {
            continue;
        }
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

fn all() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(root(), &mut found);
    found.sort();
    found
}

fn name(path: &Path) -> String {
    let inside = path.strip_prefix(root()).expect("a file of the workspace");
    inside.to_str().expect("names are UTF-8").to_owned()
}

/// Path and text of every Rust file.
pub fn rust_files() -> Vec<(String, String)> {
    let rust = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let read = |path: PathBuf| (name(&path), fs::read_to_string(&path).expect("a file is read"));
    all().into_iter().filter(rust).map(read).collect()
}

/// The paths of all files.
pub fn tracked_names() -> Vec<String> {
    all().iter().map(|path| name(path)).collect()
}

/// Name and manifest of every crate of the workspace, without the `zonal-` before its name; the
/// binary is `zonal`.
pub fn members() -> Vec<(String, String)> {
    let is_manifest = |name: &String| {
        let parts: Vec<&str> = name.split('/').collect();
        matches!(parts[..], ["Cargo.toml"] | ["crates", _, "Cargo.toml"])
    };
    let crate_of = |name: &str| match name.split('/').nth(1) {
        Some(member) => member.to_owned(),
        None => "zonal".to_owned(),
    };
    let names = tracked_names().into_iter().filter(is_manifest);
    names
        .map(|name| (crate_of(&name), fs::read_to_string(root().join(&name)).expect("a manifest")))
        .collect()
}
