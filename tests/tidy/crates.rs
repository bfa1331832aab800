//! The direction of imports between crates.
//!
//! ```text
//! blk <- device, nvme <- fio <- fsmodel, sim, torture, host <- zonal
//! ```
use super::check::{Fault, fault, without_comment};
use toml::Table;

/// Each crate, and the crates of the workspace that it may use. Tests may use more: a workload is
/// tried on a device.
const MAY_USE: [(&str, &[&str]); 9] = [
    ("blk", &[]),
    ("device", &["blk"]),
    ("nvme", &["blk", "device"]),
    ("fio", &["blk", "device"]),
    ("fsmodel", &["blk", "fio"]),
    ("torture", &["blk", "device"]),
    ("sim", &["blk", "fio"]),
    ("host", &["blk", "device", "fio", "nvme"]),
    ("zonal", &["blk", "device", "fio", "fsmodel", "host", "nvme", "sim", "torture"]),
];
fn may_use(user: &str) -> Option<&'static [&'static str]> {
    MAY_USE.iter().find(|(name, _)| *name == user).map(|(_, used)| *used)
}

/// Checks the `[dependencies]` of each crate, given by name and manifest.
pub fn dependencies(members: &[(String, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (user, manifest) in members {
        let Some(allowed) = may_use(user) else {
            faults.push(format!("{user}: a new crate; say in MAY_USE what it may use"));
            continue;
        };
        let manifest: Table = manifest.parse().expect("a manifest is TOML");
        for section in ["dependencies", "build-dependencies"] {
            let Some(entries) = manifest.get(section).and_then(|entries| entries.as_table()) else {
                continue;
            };
            for used in entries.keys().filter_map(|name| name.strip_prefix("zonal-")) {
                if !allowed.contains(&used) {
                    faults.push(format!("{user}: must not depend on {used}"));
                }
            }
        }
    }
    faults
}

/// Checks the paths to other crates in a source file of a crate, given by its path and text. That
/// also finds what a test drags into the library.
pub fn uses(path: &str, text: &str) -> Vec<Fault> {
    let mut parts = path.split('/');
    let user = match (parts.next(), parts.next(), parts.next()) {
        (Some("crates"), Some(member), Some("src")) => member,
        (Some("src"), ..) => "zonal",
        _ => return Vec::new(),
    };
    let allowed = may_use(user).unwrap_or_default();
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for after in without_comment(line).split("zonal_").skip(1) {
            let used = after.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
            if after[used.len()..].starts_with("::") && !allowed.contains(&used) {
                faults.push(fault(number, format!("{user} must not use {used}")));
            }
        }
    }
    faults
}

mod tests {
    use super::*;

    fn member(name: &str, manifest: &str) -> (String, String) {
        (name.to_owned(), manifest.to_owned())
    }

    #[test]
    fn dependency_against_the_direction_is_found() {
        let blk = |lines: &str| vec![member("blk", lines)];
        assert!(dependencies(&blk("[dependencies]\nthiserror = \"2\"\n")).is_empty());
        let dev = "[dev-dependencies]\nzonal-device.workspace = true\n";
        assert!(dependencies(&blk(dev)).is_empty());
        let bad = "[dependencies]\nzonal-device.workspace = true\n";
        assert_eq!(dependencies(&blk(bad)), ["blk: must not depend on device"]);
        for (user, used) in [("sim", "host"), ("host", "sim"), ("device", "fio")] {
            let manifest = format!("[dependencies.zonal-{used}]\npath = \"../{used}\"\n");
            assert_eq!(
                dependencies(&[member(user, &manifest)]),
                [format!("{user}: must not depend on {used}")]
            );
        }
    }

    #[test]
    fn new_crate_must_be_put_in_its_place() {
        assert_eq!(dependencies(&[member("cache", "")]).len(), 1);
    }

    #[test]
    fn use_against_the_direction_is_found() {
        let path = "crates/sim/src/lib.rs";
        assert!(uses(path, "use zonal_blk::Nanos;\n// as zonal_host::run does\n").is_empty());
        assert!(uses("crates/sim/tests/x.rs", "use zonal_host::run;\n").is_empty());
        let bad = uses(path, "//! Doc.\nuse zonal_host::run;\n");
        assert_eq!(bad, [fault(2, "sim must not use host")]);
        let inline = uses("crates/blk/src/plug/mod.rs", "fn f() -> zonal_device::Zones {}\n");
        assert_eq!(inline, [fault(1, "blk must not use device")]);
    }
}
