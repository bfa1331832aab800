//! The files of the workspace.
use std::fs;
use std::path::{Path, PathBuf};
use toml::Table;

/// Output of cargo, git and the fuzzer, by its path from the root.
const SKIPPED: [&str; 6] =
    [".git", "target", "fuzz/target", "fuzz/corpus", "fuzz/artifacts", "fuzz/coverage"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("tests/tidy").to_owned()
}

fn collect(root: &Path, folder: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(folder)).expect("a readable folder") {
        let entry = entry.expect("a folder's entry");
        let name = entry.file_name().into_string().expect("names are UTF-8");
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let kind = entry.file_type().expect("an entry's type");
        if kind.is_symlink() || SKIPPED.contains(&path.as_str()) {
            continue;
        }
        if kind.is_dir() {
            collect(root, &path, found);
        } else {
            found.push(path);
        }
    }
}

/// The paths of all files, from the root.
pub fn file_names() -> Vec<String> {
    let mut found = Vec::new();
    collect(&root(), "", &mut found);
    found.sort();
    found
}

/// The text of a file, by its path from the root.
pub fn read(name: &str) -> String {
    let text = fs::read_to_string(root().join(name));
    text.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Path and text of every Rust file.
pub fn rust_files() -> Vec<(String, String)> {
    let names = file_names().into_iter().filter(|name| name.ends_with(".rs"));
    names.map(|name| (name.clone(), read(&name))).collect()
}

/// Name and manifest of every crate of the product, without the `zonal-` before its name; the
/// program is `zonal`.
pub fn members() -> Vec<(String, String)> {
    let member = |name: &String| match name.split('/').collect::<Vec<_>>()[..] {
        ["Cargo.toml"] => Some("zonal".to_owned()),
        ["crates", member, "Cargo.toml"] => Some(member.to_owned()),
        _ => None,
    };
    let names = file_names().into_iter();
    names.filter_map(|name| Some((member(&name)?, read(&name)))).collect()
}

/// The first files of all crates: those that cargo finds by their place, and those that a manifest
/// names.
pub fn crate_roots() -> Vec<String> {
    let names = file_names();
    let mut found = Vec::new();
    for manifest in names.iter().filter(|name| name.ends_with("Cargo.toml")) {
        let folder = manifest.trim_end_matches("Cargo.toml");
        let by_place = names.iter().filter(|name| {
            let Some(inside) = name.strip_prefix(folder) else { return false };
            match inside.split('/').collect::<Vec<_>>()[..] {
                ["build.rs"] | ["src", "lib.rs" | "main.rs"] => true,
                ["src", "bin", file] | ["tests" | "benches" | "examples", file] => {
                    file.ends_with(".rs")
                }
                ["tests" | "benches" | "examples", _, "main.rs"] => true,
                _ => false,
            }
        });
        found.extend(by_place.cloned());
        let table: Table = read(manifest).parse().expect("a manifest is TOML");
        for section in ["lib", "bin", "test", "bench", "example"] {
            let entries = match table.get(section) {
                Some(toml::Value::Array(entries)) => entries.as_slice(),
                Some(entry) => std::slice::from_ref(entry),
                None => &[],
            };
            let paths = entries.iter().filter_map(|entry| entry.get("path")?.as_str());
            found.extend(paths.map(|path| format!("{folder}{path}")));
        }
    }
    found
}
