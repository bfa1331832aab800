//! Which frontends and backends this machine can use, and what provides those that it cannot.
use nix::sys::resource::{Resource, getrlimit};
use serde::Serialize;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use zonal_frontend::ublk;

/// Descriptors that thousands of jobs or connections need.
const DESCRIPTORS: u64 = 8192;

/// A part of Zonal, and whether it can be used here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The part, one word.
    pub name: &'static str,
    /// Its purpose.
    pub purpose: &'static str,
    /// Whether it can be used.
    pub usable: bool,
    /// The value found.
    pub found: String,
    /// The remedy, if it cannot be used or could be better.
    pub remedy: Option<String>,
}

/// The names of all checks.
pub const NAMES: [&str; 8] =
    ["ublk", "fuse", "tls", "io_uring", "nvme", "zoned", "clock", "descriptors"];

/// Examines this machine.
pub fn examine() -> Vec<Check> {
    examine_below(Path::new("/"))
}

/// Examines the files below `root`.
fn examine_below(root: &Path) -> Vec<Check> {
    vec![
        ublk_driver(root),
        fuse(root),
        tls(),
        io_uring(),
        nvme(root),
        zoned(root),
        clock(root),
        descriptors(),
    ]
}

/// Whether a file can be opened to be read and written, and what to do if not.
fn opens(path: &Path, missing: &str) -> (bool, String, Option<String>) {
    let shown = path.display();
    match File::options().read(true).write(true).open(path) {
        Ok(_) => (true, format!("{shown}"), None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            (false, format!("no {shown}"), Some(missing.to_owned()))
        }
        Err(error) => {
            let remedy = format!("run as root, or give your user the right to open {shown}");
            (false, format!("{shown}: {error}"), Some(remedy))
        }
    }
}

fn ublk_driver(root: &Path) -> Check {
    let path = root.join(ublk::CONTROL_PATH.trim_start_matches('/'));
    let missing = "modprobe ublk_drv, in Linux 6.0 and later (CONFIG_BLK_DEV_UBLK)";
    let (usable, found, remedy) = opens(&path, missing);
    let purpose = "zonal serve --ublk: a block device of this machine";
    Check { name: "ublk", purpose, usable, found, remedy }
}

fn fuse(root: &Path) -> Check {
    let purpose = "zonal serve --fuse: a file for each zone";
    let check = |usable, found, remedy| Check { name: "fuse", purpose, usable, found, remedy };
    if !cfg!(feature = "fuse") {
        let remedy = "cargo build --release --locked --features fuse".to_owned();
        return check(false, "built without the feature fuse".to_owned(), Some(remedy));
    }
    let (usable, found, remedy) = opens(&root.join("dev/fuse"), "modprobe fuse");
    check(usable, found, remedy)
}

fn tls() -> Check {
    let purpose = "NVMe/TCP over TLS, as a target and as a host";
    let check = |usable, found, remedy| Check { name: "tls", purpose, usable, found, remedy };
    match zonal_os::tls::version() {
        Some(version) => check(true, version.to_owned(), None),
        None => {
            let remedy = "cargo build --release --locked --features tls".to_owned();
            check(false, "built without the feature tls".to_owned(), Some(remedy))
        }
    }
}

fn io_uring() -> Check {
    let (usable, found, remedy) = match <zonal_os::poll::uring::Uring>::new(1) {
        Ok(_) => (true, "the kernel has it".to_owned(), None),
        Err(error) => {
            let remedy = "sysctl kernel.io_uring_disabled=0, or a container that allows io_uring";
            (false, error.to_string(), Some(remedy.to_owned()))
        }
    };
    let purpose = "images, /dev/NAME and /dev/ngXnY as devices; ublk";
    Check { name: "io_uring", purpose, usable, found, remedy }
}

/// The names in a directory that `wanted` accepts, in order.
fn names(directory: &Path, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| wanted(name)).collect();
    names.sort_unstable();
    names
}

fn nvme(root: &Path) -> Check {
    let purpose = "NVMe namespaces of this machine, by pass-through";
    let check = |usable, found, remedy| Check { name: "nvme", purpose, usable, found, remedy };
    let is_generic = |name: &str| name.starts_with("ng") && name.contains('n');
    let nodes = names(&root.join("dev"), is_generic);
    let Some(first) = nodes.first() else {
        let remedy = "an NVMe drive, and Linux 5.13 or later, which makes /dev/ngXnY".to_owned();
        return check(false, "no /dev/ngXnY".to_owned(), Some(remedy));
    };
    match opens(&root.join("dev").join(first), "") {
        (true, ..) => check(true, nodes.join(", "), None),
        (false, found, remedy) => check(false, found, remedy),
    }
}

fn zoned(root: &Path) -> Check {
    let block = root.join("sys/block");
    let is_zoned = |name: &str| {
        let model = fs::read_to_string(block.join(name).join("queue/zoned"));
        model.is_ok_and(|model| model.trim() == "host-managed")
    };
    let found = names(&block, is_zoned);
    let purpose = "zoned block devices of this machine";
    if found.is_empty() {
        let remedy = "an SMR disk, or one made by zonal serve --ublk or null_blk (zoned=1)";
        let (found, remedy) = ("none in /sys/block".to_owned(), Some(remedy.to_owned()));
        return Check { name: "zoned", purpose, usable: false, found, remedy };
    }
    let found = found.iter().map(|name| format!("/dev/{name}")).collect::<Vec<_>>().join(", ");
    Check { name: "zoned", purpose, usable: true, found, remedy: None }
}

fn clock(root: &Path) -> Check {
    let path: PathBuf =
        root.join("sys/devices/system/clocksource/clocksource0/current_clocksource");
    let source = fs::read_to_string(path).unwrap_or_default();
    let source = source.trim();
    let remedy = "a processor, or a hypervisor, with an invariant time stamp counter: until then \
                  each reading of the time is a system call";
    // KVM's clock is read without a system call, too.
    let fast = ["tsc", "kvm-clock", "arch_sys_counter"].contains(&source);
    Check {
        name: "clock",
        purpose: "real time, read for each I/O",
        usable: true,
        found: if source.is_empty() { "unknown".to_owned() } else { source.to_owned() },
        remedy: (!fast).then(|| remedy.to_owned()),
    }
}

fn descriptors() -> Check {
    let (found, enough) = match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) => (format!("{soft}, up to {hard}"), hard >= DESCRIPTORS),
        Err(error) => (error.to_string(), true),
    };
    let remedy = format!("ulimit -Hn {DESCRIPTORS}, for thousands of jobs or connections");
    Check {
        name: "descriptors",
        purpose: "jobs, connections, queues: one each",
        usable: true,
        found,
        remedy: (!enough).then_some(remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(root: &Path, name: &str) -> Check {
        let mut all = examine_below(root).into_iter();
        all.find(|check| check.name == name).expect("a check")
    }

    #[test]
    fn checks_have_the_names_that_are_listed() {
        let names: Vec<&str> = examine().iter().map(|check| check.name).collect();
        assert_eq!(names, NAMES);
    }

    #[test]
    fn machine_without_anything_is_told_what_provides_it() {
        let empty = tempfile::tempdir().expect("a directory");
        for (name, remedy) in [
            ("ublk", "modprobe ublk_drv"),
            ("fuse", "fuse"),
            ("nvme", "an NVMe drive"),
            ("zoned", "null_blk"),
        ] {
            let found = check(empty.path(), name);
            assert!(!found.usable, "{found:?}");
            assert!(found.remedy.as_ref().is_some_and(|text| text.contains(remedy)), "{found:?}");
        }
    }

    #[test]
    fn drives_and_drivers_are_found() {
        let root = tempfile::tempdir().expect("a directory");
        let at = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        at("dev/ublk-control", "");
        at("dev/ng0n1", "");
        at("sys/block/sda/queue/zoned", "host-managed\n");
        at("sys/block/sdb/queue/zoned", "none\n");
        at("sys/devices/system/clocksource/clocksource0/current_clocksource", "acpi_pm\n");
        assert!(check(root.path(), "ublk").usable);
        assert_eq!(check(root.path(), "nvme").found, "ng0n1");
        assert_eq!(check(root.path(), "zoned").found, "/dev/sda");
        let clock = check(root.path(), "clock");
        assert_eq!((clock.usable, clock.found.as_str()), (true, "acpi_pm"));
        assert!(clock.remedy.is_some());
    }
}
