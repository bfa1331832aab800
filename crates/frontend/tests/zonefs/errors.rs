//! The behaviour after I/O errors: the table of zonefs' documentation, on a device that fails.
use super::support::*;
use rustix::io::Errno;
use zonal_blk::ZoneCondition;
use zonal_frontend::zonefs::{FileOp, SetAttr};
use zonal_torture::fault::Effect;

const PAGE: usize = BLOCK as usize;

/// The columns of the table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    size: u64,
    perm: u16,
    read: Result<(), Errno>,
    write: Result<(), Errno>,
    open: Result<(), Errno>,
}

fn row(files: &Files, path: &str) -> Row {
    let size = files.size(path);
    Row {
        size,
        perm: files.perm(path),
        read: files.read(path, 0, PAGE).map(|_| ()),
        open: files.open(path).map(|_| files.close(path)),
        write: files.write(path, size, PAGE, DIRECT).map(|_| ()),
    }
}

#[test]
fn failed_writes_follow_the_table() {
    let no = Err(Errno::PERM);
    let rofs = Err(Errno::ROFS);
    let (good, readonly, offline) =
        (ZoneCondition::ImplicitOpen, ZoneCondition::ReadOnly, ZoneCondition::Offline);
    // The option, the zone after the error; then the file's size in blocks, its permissions, whether
    // it can be read, written and opened for writing.
    for (on_error, zone, size, perm, read, write, open) in [
        ("remount-ro", good, 3, 0o640, Ok(()), rofs, rofs),
        ("remount-ro", readonly, 2, 0o440, Ok(()), no, rofs),
        ("remount-ro", offline, 0, 0, no, no, rofs),
        ("zone-ro", good, 3, 0o440, Ok(()), no, no),
        ("zone-ro", readonly, 2, 0o440, Ok(()), no, no),
        ("zone-ro", offline, 0, 0, no, no, no),
        ("zone-offline", good, 0, 0, no, no, no),
        ("zone-offline", readonly, 0, 0, no, no, no),
        ("zone-offline", offline, 0, 0, no, no, no),
        ("repair", good, 3, 0o640, Ok(()), Ok(()), Ok(())),
        ("repair", readonly, 2, 0o440, Ok(()), no, no),
        ("repair", offline, 0, 0, no, no, no),
    ] {
        let files = Files::new(&format!("errors={on_error}"));
        let case = format!("errors={on_error}, zone {zone:?}");
        files.write("seq/0", 0, 2 * PAGE, DIRECT).unwrap();
        if zone == good {
            // One block of two is written.
            files.inject(Effect::Part(1));
        } else {
            files.fail(0, zone);
        }
        let error = if zone == offline { Errno::NODEV } else { Errno::IO };
        assert_eq!(files.write("seq/0", 2 * BLOCK, 2 * PAGE, DIRECT), Err(error), "{case}");
        let expected = Row { size: size * BLOCK, perm, read, write, open };
        assert_eq!(row(&files, "seq/0"), expected, "{case}");
        // Other files change only if all become read-only.
        let others = if on_error == "remount-ro" { rofs } else { Ok(()) };
        let other = row(&files, "seq/1");
        assert_eq!((other.write, other.open, other.perm), (others, others, 0o640), "{case}");
        let attr = files.attr("seq/1").unwrap();
        assert_eq!(files.fs().setattr(attr.node, SetAttr::default()), others, "{case}");
        // A finish and a reset are writes.
        for size in [CAPACITY, 0] {
            assert_eq!(files.truncate("seq/1", size).map(|_| ()), others, "{case}: to {size}");
        }
        let said = files.said.lock().unwrap().join("; ");
        assert!(said.contains("seq/0: ") && said.contains("; the zone is "), "{case}: {said}");
    }
}

#[test]
fn failed_reads_of_a_good_zone_change_nothing() {
    let files = Files::new("errors=remount-ro");
    files.write("seq/0", 0, PAGE, DIRECT).unwrap();
    files.inject(Effect::Nothing);
    assert_eq!(files.read("seq/0", 0, PAGE), Err(Errno::IO));
    assert!(files.said.lock().unwrap().is_empty());
    assert_eq!(files.write("seq/0", BLOCK, PAGE, DIRECT), Ok(Answer::Written(PAGE)));
}

#[test]
fn failed_reads_find_zones_that_failed() {
    for (zone, size, perm) in [(ZoneCondition::ReadOnly, 1, 0o440), (ZoneCondition::Offline, 0, 0)]
    {
        let files = Files::new("errors=repair");
        files.write("seq/0", 0, PAGE, DIRECT).unwrap();
        files.fail(0, zone);
        files.inject(Effect::Nothing);
        assert_eq!(files.read("seq/0", 0, PAGE), Err(Errno::IO));
        assert_eq!((files.size("seq/0"), files.perm("seq/0")), (size * BLOCK, perm));
    }
}

#[test]
fn failed_flush_counts_as_a_failed_write() {
    let files = Files::new("errors=zone-ro");
    files.write("seq/0", 0, PAGE, DIRECT).unwrap();
    assert_eq!(files.ask("seq/0", FileOp::Sync), Ok(Answer::Done));
    files.inject(Effect::Nothing);
    assert_eq!(files.ask("seq/0", FileOp::Sync), Err(Errno::IO));
    assert_eq!(files.perm("seq/0"), 0o440);
    assert_eq!(files.ask("seq/0", FileOp::Sync), Err(Errno::PERM));
}

#[test]
fn conventional_files_keep_their_size_until_they_are_offline() {
    let files = Files::new("errors=zone-ro");
    files.inject(Effect::Nothing);
    assert_eq!(files.write("cnv/0", 0, PAGE, DIRECT), Err(Errno::IO));
    assert_eq!((files.size("cnv/0"), files.perm("cnv/0")), (ZONE, 0o440));
    assert_eq!(files.write("cnv/0", 0, 3, BUFFERED), Err(Errno::PERM));
    let files = Files::new("errors=zone-offline");
    files.inject(Effect::Nothing);
    assert_eq!(files.write("cnv/0", 1, 3, BUFFERED), Err(Errno::IO), "the read around it");
    assert_eq!((files.size("cnv/0"), files.perm("cnv/0")), (0, 0));
}

#[test]
fn zones_that_have_failed_before_are_empty_files_without_permissions() {
    let files = Files::new("");
    files.write("seq/0", 0, PAGE, DIRECT).unwrap();
    files.fail(0, ZoneCondition::ReadOnly);
    files.fail(1, ZoneCondition::Offline);
    // A new file system cannot know how much a read-only zone holds.
    let files = Files::of(files.device.clone(), "");
    for path in ["seq/0", "seq/1"] {
        assert_eq!((files.size(path), files.perm(path)), (0, 0), "{path}");
        assert_eq!(files.read(path, 0, PAGE), Err(Errno::PERM), "{path}");
        assert_eq!(files.open(path), Err(Errno::PERM), "{path}");
        let node = files.attr(path).unwrap().node;
        assert_eq!(files.fs().setattr(node, SetAttr::default()), Err(Errno::PERM), "{path}");
    }
    assert_eq!(files.size("seq/2"), 0);
    assert_eq!(files.perm("seq/2"), 0o640);
}

#[test]
fn zone_management_that_fails_fails_its_caller() {
    let files = Files::new("explicit-open");
    files.inject(Effect::Nothing);
    assert_eq!(files.open("seq/0"), Err(Errno::IO));
    assert_eq!(files.fs().open_for_writing(), 0);
    assert_eq!(files.open("seq/0"), Ok(Answer::Done));
    files.write("seq/0", 0, PAGE, DIRECT).unwrap();
    files.inject(Effect::Nothing);
    assert_eq!(files.truncate("seq/0", 0), Err(Errno::IO));
    assert_eq!(files.size("seq/0"), BLOCK);
    // A zone that cannot be closed: all files become read-only.
    files.inject(Effect::Nothing);
    files.close("seq/0");
    assert_eq!(files.open("seq/1"), Err(Errno::ROFS));
    assert_eq!(files.fs().open_for_writing(), 0);
}

#[test]
fn removed_device_fails_every_operation_without_hanging() {
    let files = Files::new("errors=repair");
    files.write("seq/0", 0, PAGE, DIRECT).unwrap();
    files.device.remove();
    assert_eq!(files.write("seq/0", BLOCK, PAGE, DIRECT), Err(Errno::NODEV));
    assert_eq!(files.read("seq/0", 0, PAGE), Err(Errno::NODEV));
    assert_eq!(files.truncate("seq/0", 0), Err(Errno::NODEV));
    assert_eq!(files.size("seq/0"), BLOCK, "what was known");
    files.device.reattach();
    assert_eq!(files.read("seq/0", 0, PAGE), Ok(Answer::Data(bytes(0, PAGE))));
}
