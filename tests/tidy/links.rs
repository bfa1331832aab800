//! Links between documents.
use std::collections::BTreeMap;

/// The anchors that GitHub gives the headings of a page.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in outside_code(text).map(|(_, line)| line) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let mut anchor = String::new();
        for c in heading.trim().chars() {
            match c {
                ' ' => anchor.push('-'),
                '-' | '_' => anchor.push(c),
                c if c.is_alphanumeric() => anchor.extend(c.to_lowercase()),
                _ => {}
            }
        }
        let same = found.iter().filter(|known| **known == anchor).count();
        found.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
    }
    found
}

/// The lines outside of fenced blocks, with their numbers.
fn outside_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The targets of `[text](target)` in a line, without those in backquotes.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let plain = line.split('`').step_by(2).flat_map(|part| part.split("](").skip(1));
    // A link's text may be in backquotes; its target then begins the next part.
    for part in plain {
        if let Some((target, _)) = part.split_once(')') {
            found.push(target);
        }
    }
    found
}

/// Links of the pages to files or headings that are not there. `names` are all files.
pub fn broken(pages: &[(String, String)], names: &[String]) -> Vec<String> {
    let anchors: BTreeMap<&str, Vec<String>> =
        pages.iter().map(|(name, text)| (name.as_str(), anchors(text))).collect();
    let mut faults = Vec::new();
    for (page, text) in pages {
        for (line, text) in outside_code(text) {
            for target in targets(text) {
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                let file = if file.is_empty() { page.clone() } else { resolve(page, file) };
                let folder = format!("{file}/");
                if !names.iter().any(|name| *name == file || name.starts_with(&folder)) {
                    faults.push(format!("{page}:{line}: {target}: no such file"));
                    continue;
                }
                let known = anchors.get(file.as_str());
                let missing = known.is_none_or(|known| !known.iter().any(|known| known == anchor));
                if !anchor.is_empty() && missing {
                    faults.push(format!("{page}:{line}: {target}: no such heading"));
                }
            }
        }
    }
    faults
}

/// Pages in a folder of documents that the `README.md` there does not link.
pub fn unlisted(pages: &[(String, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (index, text) in pages.iter().filter(|(name, _)| name.starts_with("docs/")) {
        let Some(folder) = index.strip_suffix("README.md") else { continue };
        let listed: Vec<String> = outside_code(text)
            .flat_map(|(_, line)| targets(line))
            .map(|target| resolve(index, target))
            .collect();
        for (page, _) in pages {
            let inside = page.strip_prefix(folder).is_some_and(|rest| !rest.contains('/'));
            if inside && page != index && !listed.contains(page) {
                faults.push(format!("{page}: {index} does not list it"));
            }
        }
    }
    faults
}

/// Names in the first column of the glossary's tables that the sources do not have.
pub fn unknown_names(glossary: &str, sources: &[(String, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (line, row) in outside_code(glossary).filter(|(_, line)| line.starts_with("| ")) {
        let column = row.split('|').nth(1).unwrap_or_default();
        for name in column.split('`').skip(1).step_by(2) {
            if !sources.iter().any(|(_, text)| text.contains(name)) {
                faults.push(format!("docs/glossary.md:{line}: no source has {name}"));
            }
        }
    }
    faults
}

/// Rows of a checklist, with a section, a requirement and its test, whose test the sources do not have.
pub fn unknown_tests(page: &str, sources: &[(String, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    let rows = outside_code(page).filter(|(_, line)| line.starts_with("| "));
    for (line, row) in rows.filter(|(_, row)| *row != "| Section | Requirement | Test |") {
        let column = row.split('|').nth(3).unwrap_or_default().trim();
        if !sources.iter().any(|(_, text)| has_test(text, column.trim_matches('`'))) {
            faults.push(format!("docs/evidence/nvme-compliance.md:{line}: no test {column}"));
        }
    }
    faults
}

/// Whether a source has a test of this name: a function with the attribute `test`, or one in `proptest!`.
fn has_test(text: &str, name: &str) -> bool {
    let function = format!("fn {name}(");
    text.match_indices(&function).any(|(at, _)| {
        let before = text[..at].lines().rev().map(str::trim).filter(|line| !line.is_empty());
        let mut above = before.take_while(|line| line.starts_with("#[") || line.starts_with("///"));
        above.any(|line| line == "#[test]")
    })
}

/// A table of faults: its page, and its header. Each row has a number first, and the tests last.
pub type FaultTable = (&'static str, &'static str);

/// The faults of Linux.
pub const LINUX_FAULTS: FaultTable = (
    "docs/reliability.md",
    "| # | Fault of Linux | Kernel | Zonal: tests, or why it cannot happen |",
);

/// The faults that jobs of fio had here.
pub const JOB_FAULTS: FaultTable =
    ("docs/evidence/jobs.md", "| # | Fault of the job generator | Tests |");

/// What clients may cost: limits in place of faults.
pub const CLIENT_COSTS: FaultTable =
    ("docs/evidence/security.md", "| # | Export | Of | At most | Tests |");

/// Rows of a table of faults that are out of sequence, name a test that the sources do not have, or
/// name none and do not begin with `n/a:` and a reason.
pub fn untested_faults(
    (path, header): FaultTable,
    page: &str,
    sources: &[(String, String)],
) -> Vec<String> {
    let mut faults = Vec::new();
    let table = outside_code(page).skip_while(|(_, line)| *line != header).skip(2);
    let mut number = 0;
    for (line, row) in table.take_while(|(_, line)| line.starts_with("| ")) {
        let mut fault = |what: String| faults.push(format!("{path}:{line}: {what}"));
        number += 1;
        let mut columns = row.trim_end_matches('|').split('|').skip(1).map(str::trim);
        if columns.next() != Some(&number.to_string()) {
            fault(format!("expected row {number}"));
        }
        let answer = columns.last().unwrap_or_default();
        let names = answer.split('`').skip(1).step_by(2);
        let tests: Vec<&str> = names.filter(|name| name.matches('_').count() > 1).collect();
        if tests.is_empty() && answer.strip_prefix("n/a: ").is_none_or(str::is_empty) {
            fault("expected a test, or `n/a: ` and a reason".to_owned());
        }
        for test in tests {
            if !sources.iter().any(|(_, text)| has_test(text, test)) {
                fault(format!("no test {test}"));
            }
        }
    }
    if number == 0 {
        faults.push(format!("{path}: no table {header}"));
    }
    faults
}

/// A path relative to a page's folder, from the root.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

mod tests {
    use super::*;

    #[test]
    fn link_to_nothing_is_found() {
        let page = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let names = ["README.md", "docs/a.md", "docs/sub/b.md", "src/main.rs"].map(str::to_owned);
        let b = page("docs/sub/b.md", "# The `zonal` program, at work\n## Twice\n## Twice\n");
        let check = |text: &str| broken(&[page("docs/a.md", text), b.clone()], &names);
        for good in [
            "[r](../README.md) and [b](sub/b.md#the-zonal-program-at-work)",
            "# Here\n[here](#here) [`b`](sub/b.md#twice-1) [src](../src/)",
            "[far](https://example.org/x.md) `[no](link)`",
            "```\n[no](link)\n```",
        ] {
            assert!(check(good).is_empty(), "{:?}", check(good));
        }
        for bad in ["[r](README.md)", "[b](sub/b.md#none)", "[`x`](#x)", "a [y](z.md) b"] {
            assert_eq!(check(bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn page_that_the_index_does_not_list_is_found() {
        let page = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let index = page("docs/README.md", "- [a](a.md), [more](sub/README.md)\n");
        let more = page("docs/sub/README.md", "none");
        assert!(unlisted(&[index.clone(), page("docs/a.md", ""), more]).is_empty());
        assert_eq!(unlisted(&[index, page("docs/a.md", ""), page("docs/b.md", "")]).len(), 1);
    }

    #[test]
    fn name_that_no_source_has_is_found() {
        let sources = [("crates/blk/src/bio.rs".to_owned(), "pub struct Bio;".to_owned())];
        assert!(unknown_names("| `Bio` | `struct bio` |\n", &sources).is_empty());
        assert_eq!(unknown_names("| a `Bia` | x |\n", &sources).len(), 1);
    }
    #[test]
    fn test_that_no_source_has_is_found() {
        let sources = [("tests/a.rs".to_owned(), "#[test]\nfn it_works() {}".to_owned())];
        let page = |test: &str| {
            format!("| Section | Requirement | Test |\n|---|---|---|\n| 1 | it works | {test} |\n")
        };
        assert!(unknown_tests(&page("`it_works`"), &sources).is_empty());
        assert_eq!(unknown_tests(&page("`it`"), &sources).len(), 1);
        assert_eq!(unknown_tests(&page(""), &sources).len(), 1);
    }

    #[test]
    fn function_without_the_attribute_of_a_test_is_no_test() {
        for text in [
            "#[test]\nfn it() {}",
            "#[test]\n#[should_panic]\nfn it() {}",
            "#[test]\n\n/// Doc.\nfn it() {}",
        ] {
            assert!(has_test(text, "it"), "{text}");
        }
        for text in [
            "fn it() {}",
            "#[test]\nfn other() {}\nfn it() {}",
            "#[inline]\npub fn it() {}",
            "#[test]\nfn it_too() {}",
        ] {
            assert!(!has_test(text, "it"), "{text}");
        }
    }

    #[test]
    fn fault_of_linux_without_a_test_or_a_reason_is_found() {
        let sources = [("tests/a.rs".to_owned(), "#[test]\nfn it_does_work() {}".to_owned())];
        let table = LINUX_FAULTS;
        let check = |number: u32, answer: &str| {
            let header = table.1;
            let page =
                format!("{header}\n|---|---|---|---|\n| {number} | hangs | 6.10 | {answer} |\n");
            untested_faults(table, &page, &sources).len()
        };
        assert_eq!(check(1, "`it_does_work`, with `Off`"), 0);
        assert_eq!(check(1, "n/a: there is no worker"), 0);
        for bad in ["", "`Off`", "n/a: ", "there is no worker", "`it_does_work`, `it_is_no_test`"] {
            assert_eq!(check(1, bad), 1, "{bad}");
        }
        assert_eq!(check(2, "`it_does_work`"), 1, "row 1 is missing");
        assert_eq!(untested_faults(table, "no table", &sources).len(), 1);
    }
}
