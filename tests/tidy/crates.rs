//! The arrows between crates, which `docs/architecture.md` draws.
use super::check::{Fault, fault, without_comment};
use std::collections::BTreeMap;
use toml::Table;

/// Each crate, and the crates of the workspace that it may use. Tests may use more: a job is tried
/// on a device.
pub type Arrows = BTreeMap<String, Vec<String>>;

/// Reads the block of lines `user -> used, used` that follows the heading "What may use what".
pub fn arrows(page: &str) -> Arrows {
    let section = page.split("\n## What may use what\n").nth(1).expect("the heading");
    let block = section.split("```").nth(1).expect("a fenced block below the heading");
    let lines = block.lines().skip(1).filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let (user, used) = line.split_once("->").expect("user -> used, used");
            let used = used.split(',').map(|name| name.trim().to_owned());
            (user.trim().to_owned(), used.filter(|name| !name.is_empty()).collect())
        })
        .collect()
}

/// The block of a page in which each line is a folder and uses only folders below it.
fn tree(page: &str) -> &str {
    let block = page.split("each of which uses only parts listed below it").nth(1);
    block.and_then(|rest| rest.split("```").nth(1)).expect("the tree as a fenced block")
}

/// The tree that both pages show is the tree of the sources: all its folders are there, all crates
/// are among them, and no arrow points up.
pub fn pictured(readme: &str, page: &str, arrows: &Arrows, names: &[String]) -> Vec<String> {
    let (readme, picture) = (tree(readme), tree(page));
    let mut faults = Vec::new();
    if readme != picture {
        faults.push("README.md and docs/architecture.md show different trees".to_owned());
    }
    let mut order: Vec<&str> = Vec::new();
    let mut member = "";
    for line in picture.lines().filter(|line| line.contains('/')) {
        let folder = line.split_whitespace().next().unwrap_or_default().trim_end_matches('/');
        let indent = line.len() - line.trim_start().len();
        let path = match indent {
            0 => folder.to_owned(),
            2 => format!("crates/{folder}"),
            _ => format!("crates/{member}/src/{folder}"),
        };
        match (indent, folder) {
            (0, "src") => order.push("zonal"),
            (2, _) => {
                member = folder;
                order.push(folder);
            }
            _ => {}
        }
        if !names.iter().any(|name| name.starts_with(&format!("{path}/"))) {
            faults.push(format!("docs/architecture.md: no folder {path}"));
        }
    }
    let place = |name: &str| order.iter().position(|listed| *listed == name);
    for (user, used) in arrows {
        for used in used {
            if place(user).is_none_or(|user| place(used).is_none_or(|used| used <= user)) {
                faults.push(format!("docs/architecture.md: {used} is not below {user}"));
            }
        }
    }
    faults
}

/// Checks the `[dependencies]` of each crate, given by name and manifest.
pub fn dependencies(arrows: &Arrows, members: &[(String, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (user, manifest) in members {
        let Some(allowed) = arrows.get(user) else {
            faults.push(format!("{user}: docs/architecture.md does not say what it may use"));
            continue;
        };
        let manifest: Table = manifest.parse().expect("a manifest is TOML");
        for section in ["dependencies", "build-dependencies"] {
            let Some(entries) = manifest.get(section).and_then(|entries| entries.as_table()) else {
                continue;
            };
            for used in entries.keys().filter_map(|name| name.strip_prefix("zonal-")) {
                if !allowed.iter().any(|name| name == used) {
                    faults.push(format!("{user}: must not depend on {used}"));
                }
            }
        }
    }
    faults
}

/// What a registry shows of each crate is there, and what it must not have is not.
pub fn metadata(members: &[(String, String)], names: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    for (member, manifest) in members {
        let manifest: Table = manifest.parse().expect("a manifest is TOML");
        let package = &manifest["package"];
        let count =
            |key: &str| package.get(key).and_then(|list| list.as_array()).map_or(0, Vec::len);
        for key in ["description", "repository", "license", "readme"] {
            if package.get(key).is_none() {
                faults.push(format!("{member}: the manifest has no {key}"));
            }
        }
        for key in ["keywords", "categories"] {
            if !(1..=5).contains(&count(key)) {
                faults.push(format!("{member}: {} {key}, expected 1 to 5", count(key)));
            }
        }
        let folder = if member == "zonal" { String::new() } else { format!("crates/{member}/") };
        if !names.contains(&format!("{folder}README.md")) {
            faults.push(format!("{member}: no README.md"));
        }
    }
    faults
}

/// Checks the paths to other crates in a source file of a crate, given by its path and text. That
/// also finds what a test drags into the library, unless it is a file of tests.
pub fn uses(arrows: &Arrows, path: &str, text: &str) -> Vec<Fault> {
    let mut parts = path.split('/');
    let user = match (parts.next(), parts.next(), parts.next()) {
        (Some("crates"), Some(member), Some("src")) => member,
        (Some("src"), ..) => "zonal",
        _ => return Vec::new(),
    };
    if path.ends_with("/tests.rs") || path.contains("/tests/") {
        return Vec::new();
    }
    let allowed = arrows.get(user).map(Vec::as_slice).unwrap_or_default();
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for after in without_comment(line).split("zonal_").skip(1) {
            let used = after.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
            if after[used.len()..].starts_with("::") && !allowed.iter().any(|name| name == used) {
                faults.push(fault(number, format!("{user} must not use {used}")));
            }
        }
    }
    faults
}

mod tests {
    use super::*;

    const PAGE: &str = "# Page\n\n## What may use what\n\nText.\n\n```text\nblk    ->\ndevice -> \
                        blk\nsim    -> blk\nos     -> blk, device\n```\n";

    fn member(name: &str, manifest: &str) -> (String, String) {
        (name.to_owned(), manifest.to_owned())
    }

    #[test]
    fn arrows_are_read_from_the_page() {
        let arrows = arrows(PAGE);
        assert_eq!(arrows["os"], ["blk", "device"]);
        assert!(arrows["blk"].is_empty());
        assert_eq!(arrows.len(), 4);
    }

    #[test]
    fn dependency_against_the_arrows_is_found() {
        let arrows = arrows(PAGE);
        let check = |name: &str, manifest: &str| dependencies(&arrows, &[member(name, manifest)]);
        assert!(check("blk", "[dependencies]\nthiserror = \"2\"\n").is_empty());
        let dev = "[dev-dependencies]\nzonal-device.workspace = true\n";
        assert!(check("blk", dev).is_empty());
        for (user, used) in [("sim", "os"), ("os", "sim"), ("blk", "device")] {
            let manifest = format!("[dependencies.zonal-{used}]\npath = \"../{used}\"\n");
            assert_eq!(check(user, &manifest), [format!("{user}: must not depend on {used}")]);
        }
    }

    #[test]
    fn tree_that_is_not_the_sources_is_found() {
        let tree = |lines: &str| {
            format!("each of which uses only parts listed below it:\n```text\n{lines}```\n")
        };
        let names = ["src/main.rs", "crates/os/src/poll/mod.rs", "crates/blk/src/lib.rs"];
        let names = names.map(str::to_owned);
        let arrows: Arrows = [
            ("os".to_owned(), vec!["blk".to_owned()]),
            ("zonal".to_owned(), vec!["os".to_owned(), "blk".to_owned()]),
        ]
        .into();
        let check = |page: &str| pictured(page, page, &arrows, &names).len();
        let good = tree("src/  main\ncrates/\n  os/  real time\n    poll/  sleeps\n  blk/\n");
        assert_eq!(check(&good), 0);
        assert_eq!(pictured(&good, &tree("src/\n"), &arrows, &names).len(), 4);
        let turned = tree("src/\ncrates/\n  blk/\n  os/\n");
        assert_eq!(check(&turned), 1);
        let gone = tree("src/\ncrates/\n  os/\n    wait/\n  blk/\n");
        assert_eq!(check(&gone), 1);
    }

    #[test]
    fn new_crate_must_be_put_in_its_place() {
        assert_eq!(dependencies(&arrows(PAGE), &[member("cache", "")]).len(), 1);
    }

    #[test]
    fn crate_without_metadata_is_found() {
        let good = "[package]\ndescription = \"x\"\nrepository.workspace = true\nlicense = \"x\"\n\
                    readme = \"README.md\"\nkeywords = [\"a\"]\ncategories = [\"b\"]\n";
        let names = ["crates/blk/README.md".to_owned()];
        assert!(metadata(&[member("blk", good)], &names).is_empty());
        assert_eq!(metadata(&[member("blk", good)], &[]).len(), 1);
        assert_eq!(metadata(&[member("blk", "[package]\n")], &names).len(), 6);
    }

    #[test]
    fn use_against_the_arrows_is_found() {
        let arrows = arrows(PAGE);
        let path = "crates/sim/src/lib.rs";
        assert!(uses(&arrows, path, "use zonal_blk::Nanos;\n// as zonal_os::run\n").is_empty());
        for tests in ["crates/sim/tests/x.rs", "crates/sim/src/run/tests.rs"] {
            assert!(uses(&arrows, tests, "use zonal_os::run;\n").is_empty());
        }
        let bad = uses(&arrows, path, "//! Doc.\nuse zonal_os::run;\n");
        assert_eq!(bad, [fault(2, "sim must not use os")]);
        let inline =
            uses(&arrows, "crates/blk/src/plug/mod.rs", "fn f() -> zonal_device::Zones {}\n");
        assert_eq!(inline, [fault(1, "blk must not use device")]);
    }
}
