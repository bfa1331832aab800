//! A stack: the order of its wrappers, and why one cannot be made.
use zonal_backend::{OpenError, Stack, StackError};
use zonal_blk::{Bio, Buf, Channel, Nanos, QueueOptions, Sector, Status};

const DEVICE: &str = "null:zones=4,zone_size=64K,lba=4K,memory=true";

/// Writes a block, and returns how that went.
fn write(channel: &mut Channel, sector: u64) -> Status {
    channel.submit(Nanos(0), Bio::write(Sector(sector), Buf::zeroed(4096), 0));
    let mut done = Vec::new();
    while done.is_empty() {
        channel.poll(Nanos(1_000_000_000), &mut done);
    }
    done[0].status
}

#[test]
fn recorder_is_below_the_faults_whatever_the_order_of_the_calls() {
    let dir = tempfile::tempdir().expect("a directory");
    let rule = || vec!["fail=write,zone=1".parse().expect("a rule")];
    let open = || Stack::open(DEVICE).expect("a device");
    let path = |name: &str| dir.path().join(name);
    for stack in [
        open().record(path("a")).inject(0, rule()),
        open().inject(0, rule()).record(path("b")).write_cache(1024),
        open().write_cache(1024).inject(0, rule()).record(path("c")),
    ] {
        let stack = stack.attach(QueueOptions::default()).expect("a queue");
        let recording = stack.recording.as_ref().expect("it is recorded");
        recording.start().expect("a log");
        let mut channel = stack.queue.channel().expect("a channel");
        assert_eq!(write(&mut channel, 0), Status::Ok);
        assert_eq!(write(&mut channel, 128), Status::IoError);
        let totals = recording.recorder.finish().expect("a log").expect("it was started");
        assert_eq!(totals.written, 1, "the write that failed is not in the log");
    }
}

#[test]
fn unnamed_log_leaves_an_older_one_until_it_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    std::fs::write(&log, "older").expect("a file");
    let stack = Stack::open(DEVICE).expect("a device").record(&log);
    let stack = stack.attach(QueueOptions::default()).expect("a queue");
    let recording = stack.recording.expect("it is recorded");
    let unnamed = recording.start_unnamed().expect("a log");
    assert_eq!(std::fs::read(&log).expect("the older log"), b"older");
    unnamed.keep().expect("a name");
    recording.finish().expect("it is whole");
    assert_ne!(std::fs::read(&log).expect("the log"), b"older");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1);
}

#[test]
fn errors_can_be_matched_and_name_the_device() {
    let error = |name: &str| Stack::open(name).err().expect("it cannot be opened");
    let missing = error("/nowhere/disk.img");
    assert_eq!(missing.to_string(), "image /nowhere/disk.img");
    let StackError::Open { source, .. } = missing else { panic!("{missing}") };
    assert!(matches!(*source, OpenError::Image(zonal_backend::image::OpenError::Missing)));
    assert_eq!(error("/dev/nowhere").to_string(), "device /dev/nowhere");
    let empty = Stack::open("null:zones=4,zone_size=64K,lba=4K").expect("a device");
    let refused = empty.record("log").attach(QueueOptions::default()).err();
    assert!(matches!(refused, Some(StackError::NothingToRecord { .. })));
}
