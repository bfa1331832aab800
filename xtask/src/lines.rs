//! The lines of the program by crate: without blanks, comments and tests.
use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// Where the program is.
const PLACES: [&str; 3] = ["crates", "python/src", "src"];

/// Prints a line for each crate, and the sum.
///
/// # Errors
/// A file cannot be read.
pub fn print(root: &Path) -> io::Result<()> {
    let mut crates = BTreeMap::new();
    for place in PLACES {
        add(root, &root.join(place), &mut crates)?;
    }
    crates.iter().for_each(|(name, lines)| println!("{lines:7} {name}"));
    println!("{:7} in all", crates.values().sum::<usize>());
    Ok(())
}

/// Adds the lines of the files in a folder.
fn add(root: &Path, folder: &Path, crates: &mut BTreeMap<String, usize>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_test = ["tests", "testing"].contains(&&*stem) || stem.ends_with("_tests");
        if is_test {
            continue;
        }
        if path.is_dir() {
            if !["benches", "examples"].contains(&&*stem) {
                add(root, &path, crates)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let own = path.strip_prefix(root).expect("it is in the workspace");
            let mut parts = own.components().map(|part| part.as_os_str().to_string_lossy());
            let name = parts.find(|part| *part != "crates").unwrap_or_default();
            *crates.entry(name.into_owned()).or_default() += count(&fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// The lines of a file that `rustfmt` has formatted: an item ends with its first line, or with the first
/// that begins with a bracket at the same depth.
fn count(text: &str) -> usize {
    let mut lines = text.lines().filter(|line| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with("//")
    });
    let mut count = 0;
    while let Some(line) = lines.next() {
        let line = line.trim_start();
        if !line.starts_with("#[cfg(test)]") && !line.starts_with("#[cfg(all(test") {
            count += 1;
            continue;
        }
        let mut item = lines.by_ref().skip_while(|line| line.trim_start().starts_with("#["));
        let first = item.next().unwrap_or_default();
        let depth = |line: &str| line.len() - line.trim_start().len();
        if !first.ends_with([';', '}', ',']) {
            let ends = |line: &&str| {
                depth(line) == depth(first) && line.trim_start().starts_with(['}', ')', ']'])
            };
            item.find(|line| ends(line) && !line.ends_with('{'));
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn blanks_comments_and_tests_do_not_count() {
        let text = "//! A crate.\n\nuse a;\n#[cfg(test)]\nuse b::{\n    c,\n};\n\n/// A function.\n\
                    fn d() {\n    // Why.\n    e();\n    #[cfg(test)]\n    f();\n}\n\n\
                    #[cfg(test)]\n#[path = \"x.rs\"]\nmod g;\n#[cfg(test)]\nmod tests {\n    \
                    fn h() {\n    }\nconst X: &str = \"\nx,\n\";\n}\nfn i() {}\n";
        assert_eq!(count(text), 5);
        assert_eq!(count("#[cfg(test)]\nmod tests {}\nstruct A;\n"), 1);
    }
}
