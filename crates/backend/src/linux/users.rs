//! The users of a block device that cannot be opened exclusively, and who may open one at all: for error
//! messages.
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The uses that a device may have where the kernel does not tell: in another mount namespace, or by a
/// program that has opened it exclusively.
const UNKNOWN: &str = "mounted, part of another device, or opened exclusively by another program";

/// How the block device of a number (`259:4`) is used, after "it is". `root` is `/`.
pub(super) fn of(root: &Path, number: &str) -> String {
    let directory = root.join("sys/dev/block").join(number);
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
    let swaps = fs::read_to_string(root.join("proc/swaps")).unwrap_or_default();
    // The device itself, then its partitions, which are directories in its own.
    let partitions = fs::read_dir(&directory).into_iter().flatten().flatten();
    let paths = partitions.map(|entry| entry.path()).filter(|path| path.join("partition").exists());
    for path in std::iter::once(directory.clone()).chain(paths) {
        let own = fs::read_to_string(path.join("dev")).unwrap_or_else(|_| number.to_owned());
        let name = fs::canonicalize(&path).ok();
        let name = name.as_ref().and_then(|path| path.file_name()?.to_str()).unwrap_or_default();
        if let Some(place) = mounted_on(&mounts, own.trim(), name) {
            return format!("mounted on {place}");
        }
        if swaps.lines().any(|line| line.split_whitespace().next() == Some(&format!("/dev/{name}")))
        {
            return "used as swap".to_owned();
        }
        let mut holders = fs::read_dir(path.join("holders")).into_iter().flatten().flatten();
        if let Some(holder) = holders.next() {
            return format!("part of {}", holder.file_name().to_string_lossy());
        }
    }
    UNKNOWN.to_owned()
}

/// Where the device of a number or a name is mounted first. A file system on several devices has a number
/// of its own, and one of their names.
fn mounted_on(mountinfo: &str, number: &str, name: &str) -> Option<String> {
    let place = mountinfo.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (own, place) = (fields.nth(2)?, fields.nth(1)?);
        let source = line.split_once(" - ")?.1.split(' ').nth(1)?;
        (own == number || source.strip_prefix("/dev/") == Some(name)).then_some(place)
    })?;
    // The characters that would end the field are written in octal.
    Some(place.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"))
}

/// Who may open a device that this process may not. `root` is `/`.
pub(super) fn allowed(root: &Path, device: &Metadata) -> String {
    let groups = fs::read_to_string(root.join("etc/group")).unwrap_or_default();
    allowed_by(&groups, device.mode(), device.gid())
}

/// The same by the text of /etc/group.
fn allowed_by(groups: &str, mode: u32, gid: u32) -> String {
    let name = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(gid)).then_some(name)
    });
    match name {
        Some(group) if mode & 0o060 == 0o060 && gid != 0 => {
            format!("expected root, or a member of the group {group}")
        }
        _ => "expected root".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A machine with the disk 8:16, which has a partition 8:17.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for directory in ["proc/self", "sys/dev/block", "sys/block/sdb/sdb1", "etc"] {
            fs::create_dir_all(root.path().join(directory)).expect("a directory");
        }
        for (file, text) in
            [("sdb/dev", "8:16\n"), ("sdb/sdb1/dev", "8:17\n"), ("sdb/sdb1/partition", "1\n")]
        {
            fs::write(root.path().join("sys/block").join(file), text).expect("a file");
        }
        symlink(root.path().join("sys/block/sdb"), root.path().join("sys/dev/block/8:16"))
            .expect("a link");
        root
    }

    #[test]
    fn the_use_of_a_disk_is_that_of_it_or_of_a_partition() {
        let root = machine();
        let of = || super::of(root.path(), "8:16");
        assert_eq!(of(), UNKNOWN);
        fs::create_dir_all(root.path().join("sys/block/sdb/holders/dm-0")).expect("a directory");
        assert_eq!(of(), "part of dm-0");
        let mount = |line: &str| {
            fs::write(root.path().join("proc/self/mountinfo"), line).expect("a file");
        };
        mount("36 1 8:17 / /data\\040of\\040all rw shared:1 - ext4 /dev/other rw\n");
        fs::remove_dir(root.path().join("sys/block/sdb/holders/dm-0")).expect("it is empty");
        assert_eq!(of(), "mounted on /data of all");
        mount("37 1 0:42 / /pool rw - btrfs /dev/sdb rw\n");
        assert_eq!(of(), "mounted on /pool");
        mount("38 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
        fs::write(root.path().join("proc/swaps"), "Filename Type\n/dev/sdb1 partition 1 0 -2\n")
            .expect("a file");
        assert_eq!(of(), "used as swap");
    }

    #[test]
    fn who_may_open_a_device_is_its_group() {
        let groups = "root:x:0:\nother:x:60:a,b\ndisk:x:6:\n";
        let root = "expected root";
        let disk = "expected root, or a member of the group disk";
        for (mode, gid, expected) in [
            (0o660, 6, disk),
            (0o600, 6, root),
            (0o640, 6, root),
            (0o660, 0, root),
            (0o660, 7, root),
        ] {
            assert_eq!(allowed_by(groups, mode, gid), expected, "{mode:o} {gid}");
        }
    }
}
