//! Which files there are, and what may be done with them.
use super::support::*;
use rustix::io::Errno;
use std::time::{Duration, SystemTime};
use zonal_blk::{Bio, Nanos, Op, Status, ZoneCondition};
use zonal_frontend::zonefs::{FileOp, SetAttr};

const PAGE: usize = BLOCK as usize;

#[test]
fn attributes_are_those_of_zonefs() {
    let files = Files::new("");
    for (path, ino, size, blocks, perm) in [
        ("cnv", 10, 2, 0, 0o555),
        ("seq", 11, 6, 0, 0o555),
        ("cnv/0", 1, ZONE, ZONE / 512, 0o640),
        ("seq/0", 3, 0, CAPACITY / 512, 0o640),
        ("seq/5", 8, 0, CAPACITY / 512, 0o640),
    ] {
        let attr = files.attr(path).unwrap();
        assert_eq!(attr.ino, ino, "{path}");
        assert_eq!((attr.size, attr.blocks, attr.perm), (size, blocks, perm), "{path}");
        assert_eq!((attr.uid, attr.gid, attr.block_size), (0, 0, 4096), "{path}");
    }
    for path in ["seq/6", "cnv/2", "seq/00", "cns", "0", "seq/-1"] {
        assert_eq!(files.attr(path), Err(Errno::NOENT), "{path}");
    }
    assert_eq!(files.attr("seq/0/0"), Err(Errno::NOTDIR));
    assert_eq!(files.attr("cnv/0").unwrap().blocks, 2048);
}

#[test]
fn owner_permissions_and_aggregation_are_options() {
    let files = Files::new("aggr_cnv,uid=7,gid=8,perm=600");
    let attr = files.attr("cnv/0").unwrap();
    assert_eq!((attr.uid, attr.gid, attr.perm, attr.size), (7, 8, 0o600, 2 * ZONE));
    assert_eq!(files.size("cnv"), 1);
    // Across a zone boundary.
    let at = ZONE - BLOCK;
    assert_eq!(files.write("cnv/0", at, 2 * PAGE, DIRECT), Ok(Answer::Written(2 * PAGE)));
    assert_eq!(files.read("cnv/0", at, 2 * PAGE), Ok(Answer::Data(bytes(at, 2 * PAGE))));
}

#[test]
fn writes_follow_the_table() {
    let full = usize::try_from(CAPACITY).unwrap();
    // The file, its size, the offset and length of the write, the open mode, the result.
    for (path, before, offset, len, open_mode, expected) in [
        ("seq/0", 0, 0, PAGE, DIRECT, Ok(PAGE)),
        ("seq/0", 2 * PAGE, 2 * BLOCK, PAGE, DIRECT, Ok(PAGE)),
        ("seq/0", 2 * PAGE, BLOCK, PAGE, DIRECT, Err(Errno::INVAL)),
        ("seq/0", 2 * PAGE, 3 * BLOCK, PAGE, DIRECT, Err(Errno::INVAL)),
        ("seq/0", 0, 0, 512, DIRECT, Err(Errno::INVAL)),
        ("seq/0", 0, 0, PAGE + 512, DIRECT, Err(Errno::INVAL)),
        ("seq/0", PAGE, 512, PAGE, DIRECT, Err(Errno::INVAL)),
        ("seq/0", 0, 0, PAGE, BUFFERED, Err(Errno::IO)),
        ("seq/0", PAGE, 0, PAGE, APPEND, Ok(PAGE)),
        ("seq/0", PAGE, 5 * BLOCK, PAGE, APPEND, Ok(PAGE)),
        ("seq/0", 0, 0, 0, DIRECT, Ok(0)),
        ("seq/0", full - PAGE, CAPACITY - BLOCK, 2 * PAGE, DIRECT, Ok(PAGE)),
        ("seq/0", full, CAPACITY, PAGE, DIRECT, Err(Errno::FBIG)),
        ("seq/0", full, CAPACITY, PAGE, APPEND, Err(Errno::FBIG)),
        ("seq/0", 0, u64::MAX, PAGE, DIRECT, Err(Errno::FBIG)),
        ("cnv/0", 0, 7 * BLOCK, PAGE, DIRECT, Ok(PAGE)),
        ("cnv/0", 0, 7 * BLOCK, 512, DIRECT, Err(Errno::INVAL)),
        ("cnv/0", 0, 5, 9000, BUFFERED, Ok(9000)),
        ("cnv/0", 0, ZONE - BLOCK, 2 * PAGE, BUFFERED, Ok(PAGE)),
        ("cnv/0", 0, ZONE - 3, 9, BUFFERED, Ok(3)),
        ("cnv/0", 0, ZONE, PAGE, BUFFERED, Err(Errno::FBIG)),
        ("cnv/0", 0, 0, PAGE, APPEND, Err(Errno::INVAL)),
    ] {
        let files = Files::new("");
        let case = format!("{path} of {before}, {len} at {offset}, {open_mode:?}");
        if before > 0 {
            assert_eq!(files.write(path, 0, before, DIRECT), Ok(Answer::Written(before)), "{case}");
        }
        let size = files.size(path);
        assert_eq!(
            files.write(path, offset, len, open_mode),
            expected.map(Answer::Written),
            "{case}"
        );
        let grown = if path == "seq/0" { expected.unwrap_or(0) as u64 } else { 0 };
        assert_eq!(files.size(path), size + grown, "{case}");
        assert!(files.said.lock().unwrap().is_empty(), "{case}: no error of the device");
        if let (Ok(len), "cnv/0") = (expected, path) {
            let there = files.read(path, offset, len);
            assert_eq!(there, Ok(Answer::Data(bytes(offset, len))), "{case}");
        }
    }
}

#[test]
fn reads_end_where_the_file_does() {
    let files = Files::new("");
    files.write("seq/0", 0, 2 * PAGE, DIRECT).unwrap();
    let data = |offset: u64, len| Ok(Answer::Data(bytes(offset, len)));
    for (offset, len, expected) in [
        (0, 3 * PAGE, data(0, 2 * PAGE)),
        (BLOCK, PAGE, data(BLOCK, PAGE)),
        (5000, 100, data(5000, 100)),
        (5000, 9000, data(5000, 2 * PAGE - 5000)),
        (2 * BLOCK, PAGE, data(0, 0)),
        (u64::MAX, PAGE, data(0, 0)),
    ] {
        assert_eq!(files.read("seq/0", offset, len), expected, "{len} at {offset}");
    }
    let direct = |offset, len| files.ask("seq/0", FileOp::Read { offset, len, open_mode: DIRECT });
    assert_eq!(direct(0, PAGE), data(0, PAGE));
    assert_eq!(direct(0, 8 * PAGE), data(0, 2 * PAGE), "short at the end of the file");
    assert_eq!(direct(512, PAGE), Err(Errno::INVAL));
    assert_eq!(direct(0, 512), Err(Errno::INVAL));
}

#[test]
fn truncating_resets_and_finishes_and_nothing_else() {
    let files = Files::new("");
    files.write("seq/0", 0, PAGE, DIRECT).unwrap();
    for size in [1, BLOCK, CAPACITY - 1, CAPACITY + 1, ZONE, u64::MAX] {
        assert_eq!(files.truncate("seq/0", size), Err(Errno::PERM), "{size}");
        assert_eq!(files.truncate("cnv/0", size), Err(Errno::PERM), "{size}");
    }
    assert_eq!(files.truncate("cnv/0", 0), Err(Errno::PERM));
    assert_eq!(files.truncate("seq/0", CAPACITY), Ok(Answer::Done));
    assert_eq!((files.condition(0), files.size("seq/0")), (ZoneCondition::Full, CAPACITY));
    assert_eq!(files.read("seq/0", BLOCK, 3), Ok(Answer::Data(vec![0; 3])));
    assert_eq!(files.truncate("seq/0", 0), Ok(Answer::Done));
    assert_eq!((files.condition(0), files.size("seq/0")), (ZoneCondition::Empty, 0));
    assert_eq!(files.truncate("seq/0", 0), Ok(Answer::Done), "nothing to do");
}

#[test]
fn attributes_of_files_can_be_changed_and_directories_stay_unwritable() {
    let files = Files::new("");
    let file = files.attr("seq/3").unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(9);
    let change = SetAttr {
        perm: Some(0o604),
        uid: Some(1),
        gid: Some(2),
        accessed: Some(then),
        modified: Some(then),
    };
    files.fs().setattr(file.node, change).unwrap();
    let changed = files.attr("seq/3").unwrap();
    assert_eq!((changed.perm, changed.uid, changed.gid), (0o604, 1, 2));
    assert_eq!((changed.accessed, changed.modified), (then, then));
    assert!(changed.changed >= file.changed);
    let dir = files.attr("seq").unwrap().node;
    let perm = |perm| SetAttr { perm: Some(perm), ..SetAttr::default() };
    assert_eq!(files.fs().setattr(dir, perm(0o755)), Err(Errno::PERM));
    assert_eq!(files.fs().setattr(dir, perm(0o500)), Ok(()));
    assert_eq!(files.perm("seq"), 0o500);
}

#[test]
fn usage_counts_what_is_written() {
    let files = Files::new("");
    let before = files.fs().statfs();
    let total = (2 * ZONE + 6 * CAPACITY) / BLOCK;
    let free = 6 * CAPACITY / BLOCK;
    assert_eq!((before.blocks, before.free, before.files), (total, free, 8 + 2));
    files.write("seq/1", 0, 3 * PAGE, DIRECT).unwrap();
    assert_eq!(files.fs().statfs().free, free - 3);
}

#[test]
fn changes_through_other_exports_are_visible_at_once() {
    let files = Files::new("");
    let start = files.queue.limits().zone_start(zonal_blk::ZoneNo(CONVENTIONAL));
    let mut channel = files.queue.channel().unwrap();
    let mut other = |bio: Bio| {
        let mut ended = Vec::new();
        channel.submit(Nanos(0), bio);
        while ended.is_empty() {
            channel.poll(Nanos(0), &mut ended);
        }
        assert_eq!(ended[0].status, Status::Ok);
    };
    other(Bio::new(Op::Write, start, 16, 0));
    assert_eq!(files.size("seq/0"), 2 * BLOCK);
    assert_eq!(files.write("seq/0", 0, PAGE, DIRECT), Err(Errno::INVAL));
    assert_eq!(files.write("seq/0", 2 * BLOCK, PAGE, DIRECT), Ok(Answer::Written(PAGE)));
    other(Bio::new(Op::Write, start + zonal_blk::Sector(24), 8, 0));
    assert_eq!(files.write("seq/0", 0, PAGE, APPEND), Ok(Answer::Written(PAGE)));
    assert_eq!(files.size("seq/0"), 5 * BLOCK);
    other(Bio::new(Op::ZoneReset, start, 0, 0));
    assert_eq!(files.size("seq/0"), 0);
    assert_eq!(files.write("seq/0", 0, PAGE, DIRECT), Ok(Answer::Written(PAGE)));
    channel.drain();
}

#[test]
fn explicit_open_opens_zones_and_counts_them() {
    let files = Files::new("explicit-open");
    for file in 0..3 {
        assert_eq!(files.open(&format!("seq/{file}")), Ok(Answer::Done));
        assert_eq!(files.condition(file), ZoneCondition::ExplicitOpen);
    }
    assert_eq!(files.open("seq/0"), Ok(Answer::Done), "open already");
    assert_eq!(files.open("seq/3"), Err(Errno::BUSY));
    assert_eq!(files.ask("seq/3", FileOp::Open { writes: false }), Ok(Answer::Done));
    assert_eq!(files.open("cnv/0"), Ok(Answer::Done));
    assert_eq!(files.fs().open_for_writing(), 3);
    // It stays open when truncated to 0, but not when truncated to its capacity.
    files.write("seq/0", 0, PAGE, DIRECT).unwrap();
    files.truncate("seq/0", 0).unwrap();
    assert_eq!(files.condition(0), ZoneCondition::ExplicitOpen);
    files.truncate("seq/1", CAPACITY).unwrap();
    assert_eq!(files.condition(1), ZoneCondition::Full);
    files.close("seq/0");
    assert_eq!(files.condition(0), ZoneCondition::ExplicitOpen, "the other one has it open");
    files.close("seq/0");
    assert_eq!(files.condition(0), ZoneCondition::Empty, "not closed: that would keep it active");
    files.write("seq/2", 0, PAGE, DIRECT).unwrap();
    files.close("seq/2");
    assert_eq!(files.condition(2), ZoneCondition::Closed);
    files.close("seq/1");
    assert_eq!(files.fs().open_for_writing(), 0);
    assert_eq!(files.open("seq/3"), Ok(Answer::Done));
    files.close("seq/3");
}

#[test]
fn full_zone_is_not_closed() {
    let files = Files::new("explicit-open");
    files.open("seq/0").unwrap();
    let full = usize::try_from(CAPACITY).unwrap();
    assert_eq!(files.write("seq/0", 0, full, DIRECT), Ok(Answer::Written(full)));
    files.close("seq/0");
    assert_eq!(files.condition(0), ZoneCondition::Full);
    assert_eq!(files.fs().open_for_writing(), 0);
    assert!(files.said.lock().unwrap().is_empty(), "no error of the device");
    assert_eq!(files.open("seq/1"), Ok(Answer::Done), "files can be written still");
    files.close("seq/1");
}

#[test]
fn without_explicit_open_the_device_opens_and_closes_zones() {
    let files = Files::new("");
    for file in 0..6 {
        let path = format!("seq/{file}");
        assert_eq!(files.open(&path), Ok(Answer::Done));
        assert_eq!(files.write(&path, 0, PAGE, DIRECT), Ok(Answer::Written(PAGE)));
    }
    assert_eq!(files.fs().open_for_writing(), 6);
}
