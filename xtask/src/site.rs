//! The documentation as a site: what mdBook makes a book of, and a check of the book's links.
//!
//! The sources keep the paths that they have in the repository, so that their links hold.
use super::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// Chapters that the index of `docs/` does not list.
const PROJECT: [&str; 3] = ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
const INDEX: &str = "docs/README.md";

/// Writes the sources of the book, among them the reference that `program` prints, into `book`.
///
/// # Errors
/// A file cannot be read or written, or the program fails.
pub fn write_sources(program: &Path, book: &Path) -> io::Result<()> {
    let source = book.join("src");
    fs::create_dir_all(source.join("reference"))?;
    fs::copy(root().join("packaging/book.toml"), book.join("book.toml"))?;
    let mut summary = summary(&fs::read_to_string(root().join(INDEX))?)?;
    for (file, title, text) in reference(program)? {
        fs::write(source.join("reference").join(file), format!("# {title}\n\n{text}"))?;
    }
    let mut left: Vec<PathBuf> = chapters(&summary);
    let mut done: BTreeSet<PathBuf> = BTreeSet::new();
    while let Some(path) = left.pop() {
        if path.starts_with("reference") || !done.insert(path.clone()) {
            continue;
        }
        let to = source.join(&path);
        fs::create_dir_all(to.parent().expect("below the sources"))?;
        if path.extension().is_none_or(|extension| extension != "md") {
            fs::copy(root().join(&path), to)?;
            continue;
        }
        let text = fs::read_to_string(root().join(&path))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let linked = targets(&text).filter_map(|target| normal(&folder.join(target)));
        left.extend(linked.filter(|path| root().join(path).is_file()));
        fs::write(to, text)?;
    }
    let listed: BTreeSet<PathBuf> = chapters(&summary).into_iter().collect();
    for path in done.difference(&listed).filter(|path| path.to_string_lossy().ends_with(".md")) {
        writeln!(summary, "- [{}]({})", title(path)?, path.display()).expect("a string");
    }
    fs::write(source.join("SUMMARY.md"), summary)
}

/// The table of contents, after the index of `docs/`.
fn summary(index: &str) -> io::Result<String> {
    let mut summary = "# Summary\n\n[Zonal](README.md)\n[Pages](docs/README.md)\n".to_owned();
    let mut listed = BTreeSet::new();
    for line in index.lines() {
        if let Some(part) = line.strip_prefix("## ") {
            write!(summary, "\n# {part}\n\n").expect("a string");
        } else if let Some(target) = line.strip_prefix("- ").and_then(|line| targets(line).next()) {
            let path = Path::new("docs").join(target);
            if listed.insert(path.clone()) {
                writeln!(summary, "- [{}]({})", title(&path)?, path.display()).expect("a string");
            }
        }
    }
    summary += "\n# Reference\n\n- [Commands](reference/commands.md)\n\
                - [Options of jobs](reference/options.md)\n\
                - [Options of devices](reference/devices.md)\n\
                - [Python](reference/python.md)\n\n# Project\n\n";
    for path in PROJECT {
        writeln!(summary, "- [{}]({path})", title(Path::new(path))?).expect("a string");
    }
    Ok(summary)
}

/// The files that a table of contents names.
fn chapters(summary: &str) -> Vec<PathBuf> {
    targets(summary).map(PathBuf::from).collect()
}

/// The heading of a page.
fn title(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(root().join(path))?;
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    heading.map(str::to_owned).ok_or_else(|| {
        io::Error::other(format!("{}: found no heading, expected `# TITLE`", path.display()))
    })
}

/// The files of the repository that a text in Markdown links to.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    links
        .map(|target| target.split('#').next().expect("a part before"))
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '))
}

/// A path without `.` and `..`; `None` outside the repository.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::ParentDir if normal.pop() => {}
            _ => return None,
        }
    }
    Some(normal)
}

/// File, title and text of the pages that the program writes, and of that about the Python package.
fn reference(program: &Path) -> io::Result<[(&'static str, &'static str, String); 4]> {
    let mut commands = String::new();
    help(program, &mut Vec::new(), &mut commands)?;
    let options = output(program, &["options", "--markdown"])?;
    let python = output(&root().join("python/reference"), &[])?;
    let devices = format!("```text\n{}```\n", output(program, &["devices"])?);
    Ok([
        ("commands.md", "Commands", commands),
        ("options.md", "Options of jobs", options),
        ("devices.md", "Options of devices", devices),
        ("python.md", "Python", python),
    ])
}

/// Adds the help of a command and of those below it.
fn help(program: &Path, words: &mut Vec<String>, to: &mut String) -> io::Result<()> {
    let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
    arguments.push("--help");
    let text = output(program, &arguments)?;
    write!(to, "## {}\n\n```text\n{text}```\n\n", ["zonal", &words.join(" ")].join(" ").trim())
        .expect("a string");
    for name in commands_below(&text) {
        words.push(name.to_owned());
        help(program, words, to)?;
        words.pop();
    }
    Ok(())
}

/// The commands that a help lists, but for `help` itself. They stand before the options; other lists of commands,
/// such as that of `zonal ctl` for the server, after them.
fn commands_below(help: &str) -> Vec<&str> {
    let Some((before, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    if before.contains("\nOptions:\n") {
        return Vec::new();
    }
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let names = lines.filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|&name| name != "help").collect()
}

fn output(program: &Path, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(arguments).env("ZONAL_CONFIG", "").output()?;
    let name = program.display();
    if !output.status.success() {
        return Err(io::Error::other(format!("{name} {}: {}", arguments.join(" "), output.status)));
    }
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

/// The links of a built book that lead nowhere, as `PAGE: LINK`.
///
/// # Errors
/// A page cannot be read.
pub fn broken_links(book: &Path) -> io::Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![book.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                pages.insert(path.clone(), fs::read_to_string(path)?);
            }
        }
    }
    // One has all others in it, the other is shown for any address.
    pages.retain(|path, _| !["print.html", "404.html"].iter().any(|name| path.ends_with(name)));
    let mut broken = Vec::new();
    for (page, text) in &pages {
        for link in text.split(" href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let folder = page.parent().expect("below the book");
            let to =
                if file.is_empty() { Some(page.clone()) } else { absolute(&folder.join(file)) };
            let has = |text: &String| place.is_empty() || text.contains(&format!("id=\"{place}\""));
            let leads = to.is_some_and(|to| pages.get(&to).map_or(to.is_file(), has));
            if !leads {
                broken
                    .push(format!("{}: {link}", page.strip_prefix(book).unwrap_or(page).display()));
            }
        }
    }
    Ok(broken)
}

fn absolute(path: &Path) -> Option<PathBuf> {
    let relative = path.strip_prefix("/").ok()?;
    Some(Path::new("/").join(normal(relative)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_files_of_the_repository() {
        let text = "[a](a.md#b), ![p](images/p.svg), [c](#d) and <https://x.example/>, [e](https://e.example), f[0](g h)";
        assert_eq!(targets(text).collect::<Vec<_>>(), ["a.md", "images/p.svg"]);
        assert_eq!(normal(Path::new("docs/../README.md")), Some("README.md".into()));
        assert_eq!(normal(Path::new("docs/../../x")), None);
    }

    #[test]
    fn table_of_contents_has_each_page_of_the_index_once() {
        let index = fs::read_to_string(root().join(INDEX)).expect("the index");
        let summary = summary(&index).expect("titles");
        let chapters = chapters(&summary);
        let once: BTreeSet<&PathBuf> = chapters.iter().collect();
        assert_eq!(once.len(), chapters.len(), "{summary}");
        assert!(summary.contains("\n# Serving a device\n\n- ["), "{summary}");
        assert!(once.contains(&PathBuf::from("docs/jobs.md")), "{summary}");
    }

    #[test]
    fn links_of_the_pages_lead_to_no_folder() {
        let mut pages: Vec<PathBuf> =
            ["README.md"].iter().chain(&PROJECT).map(PathBuf::from).collect();
        let mut folders = vec![PathBuf::from("docs")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(root().join(&folder)).expect("a folder") {
                let path = folder.join(entry.expect("a file").file_name());
                match root().join(&path).is_dir() {
                    true => folders.push(path),
                    false if path.extension().is_some_and(|it| it == "md") => pages.push(path),
                    false => {}
                }
            }
        }
        assert!(pages.len() > 30, "{pages:?}");
        for page in pages {
            let text = fs::read_to_string(root().join(&page)).expect("a page");
            for target in targets(&text) {
                let path = normal(&page.parent().expect("a page").join(target));
                let is_folder = path.is_some_and(|path| root().join(path).is_dir());
                assert!(!is_folder, "{}: {target}: a site has no page of a folder", page.display());
            }
        }
    }

    #[test]
    fn commands_are_those_that_have_a_help() {
        let program = "Usage: zonal image <COMMAND>\n\nCommands:\n  info  Show\n        more\n  help  Print\n\nOptions:\n  -h\n";
        assert_eq!(commands_below(program), ["info"]);
        let server = "Usage: zonal ctl\n\nOptions:\n  -h\n\nCommands:\n  status  the devices\n  help  these\n";
        assert_eq!(commands_below(server), Vec::<&str>::new());
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let book = std::env::temp_dir().join(format!("zonal-site-{}", std::process::id()));
        fs::create_dir_all(book.join("b")).expect("a folder");
        let a = "<h1 id=\"top\"><a href=\"b/b.html#there\"> <a href=\"#top\"> <a href=\"#no\"> <a href=\"c.html\">";
        fs::write(book.join("a.html"), a).expect("a page");
        fs::write(book.join("b/b.html"), "<p id=\"there\"> <a href=\"../a.html#no\">")
            .expect("a page");
        let broken = broken_links(&book);
        fs::remove_dir_all(&book).expect("it was made here");
        assert_eq!(
            broken.expect("pages"),
            ["a.html: #no", "a.html: c.html", "b/b.html: ../a.html#no"]
        );
    }
}
