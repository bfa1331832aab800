//! docs/adding.md: a section has all steps, of files that there are, and leaves out no place where each
//! thing of its kind is named.
use std::collections::BTreeSet;

/// What a step calls the new thing in a path.
const PLACEHOLDERS: [&str; 3] = ["NAME", "KIND", "GROUP"];

/// A section of the page: its title, how many files it promises, and its text.
struct Section<'a> {
    title: &'a str,
    files: usize,
    text: &'a str,
}

fn sections(page: &str) -> Vec<Section<'_>> {
    let section = |part| {
        let (heading, text): (&str, &str) = str::split_once(part, '\n')?;
        let (title, files) = heading.rsplit_once(": ")?;
        let files = files.strip_suffix(" files")?.parse().ok()?;
        Some(Section { title, files, text })
    };
    page.split("\n## ").skip(1).map(|part| section(part).expect("a heading `X: N files`")).collect()
}

/// The numbered lines: number, and the first path.
fn steps(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().filter_map(|line| {
        let (number, rest) = line.split_once(". ")?;
        Some((number.parse().ok()?, rest.split('`').nth(1).unwrap_or_default()))
    })
}

/// Whether a file is the one of a step, whose placeholder stands for any name.
fn is_file(step: &str, file: &str) -> bool {
    let placeholder = PLACEHOLDERS.iter().find_map(|name| step.split_once(name));
    let Some((before, after)) = placeholder else { return step == file };
    let name = file.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    name.is_some_and(|name| !name.contains('/'))
}

/// What is wrong with the steps of the page.
pub fn faults(page: &str, files: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    for Section { title, files: promised, text } in sections(page) {
        let numbers: Vec<usize> = steps(text).map(|(number, _)| number).collect();
        if numbers != (1..=promised).collect::<Vec<_>>() {
            faults.push(format!("{title}: found steps {numbers:?}, expected 1 to {promised}"));
        }
        let is_there = |step: &str, file: &String| match step.ends_with('/') {
            true => file.starts_with(step),
            false => is_file(step, file),
        };
        let gone = |(_, step): &(usize, &str)| !files.iter().any(|file| is_there(step, file));
        faults.extend(steps(text).filter(gone).map(|(_, step)| format!("{title}: no {step}")));
    }
    faults
}

/// The words of code, in small letters; comments and tests at the end of a file have none.
fn words(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut words = BTreeSet::new();
    for line in code.lines() {
        let line = line.split("//").next().unwrap_or_default();
        let mut word = String::new();
        for letter in line.chars().chain([' ']) {
            if !letter.is_lowercase() {
                words.insert(std::mem::take(&mut word));
            }
            word.extend(letter.to_lowercase().filter(|letter| letter.is_alphabetic()));
        }
    }
    words
}

/// The files whose code has each of these names, and which the section does not mention.
pub fn left_out(
    page: &str,
    title: &str,
    names: &[String],
    files: &[(String, String)],
) -> Vec<String> {
    let section = sections(page).into_iter().find(|section| section.title == title);
    let text = section.unwrap_or_else(|| panic!("no section {title}")).text;
    let is_code = |path: &str| {
        let inside = path.starts_with("src/") || path.contains("/src/");
        inside && !path.contains("/test") && path.ends_with(".rs")
    };
    let has_all = |text: &str| {
        let words = words(text);
        names.iter().all(|name| name.split('-').all(|word| words.contains(word)))
    };
    let places = files.iter().filter(|(path, code)| is_code(path) && has_all(code));
    let places: Vec<_> = places.collect();
    assert!(!places.is_empty(), "{names:?} have no place in common");
    let missing = places.into_iter().filter(|(path, _)| !text.contains(&format!("`{path}`")));
    missing.map(|(path, _)| format!("docs/adding.md: {title}: no step for {path}")).collect()
}

/// The names that a table of the sources has: what stands between `before` and `after` in each line of it.
pub fn names(source: &str, table: &str, before: char, after: &str) -> Vec<String> {
    let (_, rows) = source.split_once(table).expect("the table");
    let rows = rows.split("\n}").next().unwrap_or_default();
    let ends = rows.match_indices(after).map(|(end, _)| &rows[..end]);
    let names: Vec<_> =
        ends.filter_map(|row| Some(row.rsplit_once(before)?.1.to_owned())).collect();
    assert!(names.len() > 2, "{table}: found {names:?}");
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{file_names, read};

    #[test]
    fn page_without_a_step_is_refused() {
        let (page, files) = (read("docs/adding.md"), file_names());
        let all: Vec<&str> = page.lines().collect();
        let mut deleted = 0;
        for (at, _) in all.iter().enumerate().filter(|(_, line)| steps(line).next().is_some()) {
            let others = [&all[..at], &all[at + 1..]].concat().join("\n");
            assert!(!faults(&others, &files).is_empty(), "without `{}`", all[at]);
            deleted += 1;
        }
        assert!(deleted > 40, "found {deleted} steps");
    }

    #[test]
    fn place_that_a_section_leaves_out_is_found() {
        let page = "\n## A thing: 1 files\n\n1. `src/a.rs`: a line.\n";
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let both = "match thing { Red => 1, \"dark-blue\" => 2 }";
        let files = [
            file("src/a.rs", both),
            file("src/b.rs", both),
            file("src/c.rs", "// Red and dark-blue."),
            file("src/d.rs", "Red"),
        ];
        let names = ["red", "dark-blue"].map(str::to_owned);
        let found = left_out(page, "A thing", &names, &files);
        assert_eq!(found, ["docs/adding.md: A thing: no step for src/b.rs"]);
    }
}
