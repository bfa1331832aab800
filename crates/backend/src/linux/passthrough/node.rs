//! The attributes of a generic node in sysfs. A node is found by its device number, whatever its name.
use super::error::NodeError;
use crate::linux::sysfs::{self, Attributes};
use crate::linux::users;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Whether this is the path of a generic node: `/dev/ng` and a number.
pub fn is_name(name: &str) -> bool {
    name.strip_prefix("/dev/ng").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The name of the block device that belongs to a generic node's name.
pub(super) fn block_name(generic: &str) -> Result<String, NodeError> {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match generic.strip_prefix("ng").and_then(|rest| rest.split_once('n')) {
        Some((controller, namespace)) if number(controller) && number(namespace) => {
            Ok(format!("nvme{controller}n{namespace}"))
        }
        _ => Err(NodeError::Name(generic.to_owned())),
    }
}

/// A generic node in sysfs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// The name of the block device, and its number as sysfs writes it. `None` if it is hidden, as
    /// the kernel does with namespaces that it cannot use, such as with zones of odd sizes.
    pub block: Option<(String, String)>,
    /// The longest command that the driver accepts in any case, in sectors.
    pub max_sectors: u32,
    pub depth: u16,
    pub rotational: bool,
    /// In memory, for data transferred in place, in bytes; `None` if the kernel does not tell.
    pub alignment: Option<u32>,
}

impl Node {
    /// Finds the character device of this number in `sys`, which is `/sys`.
    pub fn find(sys: &Path, major: u32, minor: u32) -> Result<Node, NodeError> {
        let place = sys.join(format!("dev/char/{major}:{minor}"));
        let name_of = |path: io::Result<std::path::PathBuf>| {
            Some(path.ok()?.file_name()?.to_str()?.to_owned())
        };
        if name_of(fs::read_link(place.join("subsystem"))).as_deref() != Some("nvme-generic") {
            return Err(NodeError::NotGeneric);
        }
        let name = name_of(fs::canonicalize(&place)).ok_or(NodeError::NotGeneric)?;
        let block = block_name(&name)?;
        let directory = sys.join("block").join(&block);
        let attributes = Attributes(&directory);
        let hidden = attributes.number::<u8>("hidden")? != 0;
        let number = if hidden { None } else { Some(attributes.text("dev")?.1) };
        // In the worst case every page of a command is a segment.
        let page = u32::try_from(rustix::param::page_size()).expect("pages of less than 4 GiB");
        let segments: u32 = attributes.number("queue/max_segments")?;
        let longest: u32 = attributes.number("queue/max_hw_sectors_kb")?;
        Ok(Node {
            block: number.map(|number| (block, number)),
            max_sectors: segments.saturating_mul(page / 512).min(longest.saturating_mul(2)),
            depth: attributes.depth()?,
            rotational: attributes.number::<u8>("queue/rotational")? != 0,
            alignment: sysfs::alignment(&directory),
        })
    }

    /// Opens the block device, if there is one, exclusively: while it is open nobody can mount it or
    /// make it part of another device.
    pub fn claim_block_device(&self, dev: &Path) -> Result<Option<File>, NodeError> {
        let Some((name, number)) = &self.block else { return Ok(None) };
        let path = dev.join(name).display().to_string();
        let open = File::options().read(true).custom_flags(libc::O_EXCL).open(&path);
        let file = match open {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                let by = users::of(Path::new("/"), number);
                return Err(NodeError::InUse { path, by });
            }
            Err(source) => return Err(NodeError::Claim { path, source }),
        };
        let found = match file.metadata() {
            Ok(metadata) => metadata.rdev(),
            Err(source) => return Err(NodeError::Claim { path, source }),
        };
        let found = format!("{}:{}", libc::major(found), libc::minor(found));
        if found != *number {
            let source = io::Error::other(format!("found device {found}, expected {number}"));
            return Err(NodeError::Claim { path, source });
        }
        Ok(Some(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn write(directory: &Path, name: &str, value: &str) {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, format!("{value}\n")).expect("a file");
    }

    /// A sysfs with the character device 250:7, which is ng3n2, of a class.
    fn sys(class: &str) -> tempfile::TempDir {
        let sys = tempfile::tempdir().expect("a directory");
        let place = sys.path().join("devices/nvme3/ng3n2");
        for directory in ["class", "dev/char", "block", "devices/nvme3/ng3n2"] {
            fs::create_dir_all(sys.path().join(directory)).expect("a directory");
        }
        symlink(sys.path().join("class").join(class), place.join("subsystem")).expect("a link");
        symlink(&place, sys.path().join("dev/char/250:7")).expect("a link");
        for (name, value) in [
            ("hidden", "0"),
            ("dev", "259:4"),
            ("queue/max_segments", "128"),
            ("queue/max_hw_sectors_kb", "1280"),
            ("queue/nr_requests", "1023"),
            ("queue/rotational", "0"),
            ("queue/dma_alignment", "3"),
        ] {
            write(&sys.path().join("block/nvme3n2"), name, value);
        }
        sys
    }

    #[test]
    fn names_of_generic_nodes_are_those_of_namespaces() {
        assert!(is_name("/dev/ng0n1") && is_name("/dev/ng0"));
        for other in ["/dev/nvme0n1", "/dev/nbd0", "/dev/ngx", "ng0n1", "/dev/disk/ng0n1"] {
            assert!(!is_name(other), "{other}");
        }
        assert_eq!(block_name("ng12n34").expect("a namespace"), "nvme12n34");
        for wrong in ["ng0", "ng0n", "ngn1", "ng0n1p1", "nvme0n1", "ng0c1n1", "ng-1n1", ""] {
            let error = block_name(wrong).expect_err(wrong).to_string();
            assert!(error.starts_with(&format!("found `{wrong}`, expected")), "{error}");
        }
    }

    #[test]
    fn block_device_and_longest_command_are_found_in_sysfs() {
        let sys = sys("nvme-generic");
        let node = Node::find(sys.path(), 250, 7).expect("a node");
        let pages = u32::try_from(rustix::param::page_size()).expect("a page") / 512;
        assert_eq!(node.block, Some(("nvme3n2".to_owned(), "259:4".to_owned())));
        assert_eq!((node.max_sectors, node.depth), ((128 * pages).min(2560), 1023));
        let place = sys.path().join("block/nvme3n2");
        write(&place, "hidden", "1");
        assert_eq!(Node::find(sys.path(), 250, 7).expect("a node").block, None);
        fs::remove_file(place.join("queue/max_segments")).expect("it was there");
        let error = Node::find(sys.path(), 250, 7).expect_err("an attribute is missing");
        assert!(error.to_string().contains("queue/max_segments"), "{error}");
    }

    #[test]
    fn other_character_devices_are_refused() {
        let error = |sys: tempfile::TempDir, minor| {
            Node::find(sys.path(), 250, minor).expect_err("no node").to_string()
        };
        assert!(error(sys("mem"), 7).contains("of another kind"));
        assert!(error(sys("nvme-generic"), 8).contains("of another kind"));
    }

    #[test]
    fn block_device_must_exist_and_have_the_right_number() {
        let dev = tempfile::tempdir().expect("a directory");
        let node = Node::find(sys("nvme-generic").path(), 250, 7).expect("a node");
        let error = || node.claim_block_device(dev.path()).expect_err("not claimed").to_string();
        assert!(error().contains("nvme3n2: No such file"), "{}", error());
        symlink("/dev/null", dev.path().join("nvme3n2")).expect("a link");
        assert!(error().ends_with("found device 1:3, expected 259:4"), "{}", error());
        let hidden = Node { block: None, ..node };
        assert!(hidden.claim_block_device(dev.path()).expect("nothing to claim").is_none());
    }
}
