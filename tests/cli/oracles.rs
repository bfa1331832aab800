//! `zonal crash --oracle`: each oracle finds what was planted, and passes the same without it.
use crate::support::{RunOutput, TestDir};
use std::sync::Arc;
use zonal_backend::Stack;
use zonal_blk::{Bio, BioFlags, Buf, Channel, Nanos, Op, QueueOptions, Sector, Status};
use zonal_crash::Recorder;

/// 4 zones of 16 blocks, the first of them conventional.
const DEVICE: &str = "null:zones=4,zone_size=64K,lba=4K,conventional=1,memory=true";
const ZONE: u64 = 128;
const LBA: u64 = 8;

/// A program that records what it writes, one command after the other.
struct Program {
    channel: Channel,
    recorder: Arc<Recorder>,
}

impl Program {
    fn start(dir: &TestDir) -> Self {
        let device = Stack::open(DEVICE).expect("a device").record(dir.path().join("p.zlog"));
        let attached = device.attach(QueueOptions::default()).expect("a queue");
        let recording = attached.recording.as_ref().expect("it is recorded");
        recording.start().expect("a log");
        let channel = attached.queue.channel().expect("a channel");
        Program { channel, recorder: Arc::clone(&recording.recorder) }
    }

    fn run(&mut self, bio: Bio) {
        self.channel.submit(Nanos(0), bio);
        let (mut now, mut done) = (0, Vec::new());
        while done.is_empty() {
            now += 1_000_000;
            self.channel.poll(Nanos(now), &mut done);
        }
        assert_eq!(done[0].status, Status::Ok, "sector {}", done[0].sector);
    }

    fn write(&mut self, sector: u64, data: &[u8]) {
        self.run(Bio::write(Sector(sector), Buf::from(data), 0));
    }

    fn flush(&mut self) {
        self.run(Bio::new(Op::Flush, Sector(0), 0, 0));
    }

    fn mark(&self, text: &str) {
        self.recorder.mark(text);
    }

    fn end(self) {
        self.recorder.finish().expect("the log is written");
    }
}

fn write(dir: &TestDir, name: &str, text: &str) {
    std::fs::write(dir.path().join(name), text).expect("a file is written");
}

fn crash(dir: &TestDir, args: &[&str]) -> RunOutput {
    dir.zonal(&[&["crash", "p.zlog"], args].concat())
}

fn expect_passed(dir: &TestDir, args: &[&str]) {
    let report = crash(dir, args).expect_ok();
    assert!(report.ends_with(" states checked, 0 failed\n"), "{report}");
}

fn expect_failed(dir: &TestDir, args: &[&str], why: &str) {
    let output = crash(dir, args);
    assert_eq!(output.code, 1, "{output:?}");
    let (_, first) = output.out.split_once("with the fewest changes:\n").expect("a failure");
    assert!(first.contains(why), "expected {why:?} in {}", output.out);
    // One command replays it.
    let state = first.split(':').next().and_then(|text| text.strip_prefix("state "));
    let (_, again) = first.split_once("--state ").expect("how to replay it");
    let again = again.lines().next().expect("a state");
    assert!(state.is_some_and(|state| again.starts_with(state)), "{first}");
    let replayed = crash(dir, &[args, &["--state", again]].concat());
    assert_eq!(replayed.code, 1, "{replayed:?}");
    assert!(replayed.out.contains(why), "{}", replayed.out);
}

fn refused(dir: &TestDir, args: &[&str]) -> String {
    let output = crash(dir, args);
    assert_eq!(output.code, 2, "{args:?}: {output:?}");
    output.err
}

const ZONEFS: [&str; 2] = ["--oracle", "zonefs"];

/// Writes two files (zones 1 and 2) and a part of the conventional one, and says that they are synced.
fn files(dir: &TestDir, flushed: bool, mark: &str) {
    let mut program = Program::start(dir);
    program.write(2 * LBA, &[1; 4096]);
    program.flush();
    program.write(2 * LBA, &[2; 8192]);
    program.write(ZONE, &[3; 8192]);
    program.write(2 * ZONE, &[4; 16384]);
    if flushed {
        program.flush();
    }
    program.mark(mark);
    program.write(ZONE + 2 * LBA, &[5; 4096]);
    program.write(2 * LBA, &[6; 4096]);
    program.run(Bio::new(Op::ZoneReset, Sector(2 * ZONE), 0, 0));
    program.write(2 * ZONE, &[7; 4096]);
    program.end();
}

#[test]
fn zonefs_finds_files_that_were_not_flushed_before_they_were_called_synced() {
    let dir = TestDir::new();
    files(&dir, true, "synced");
    expect_passed(&dir, &ZONEFS);
    files(&dir, false, "synced zone 1");
    expect_failed(&dir, &ZONEFS, "zone 1: found 1 blocks, expected the 2 that were synced");
    files(&dir, false, "synced zone 2 4096");
    expect_failed(&dir, &ZONEFS, "zone 2: found 0 blocks, expected the 1 that were synced");
    files(&dir, false, "synced zone 0");
    expect_failed(&dir, &ZONEFS, "sector 16: found something older than what was synced");
}

#[test]
fn zonefs_finds_more_synced_than_was_written() {
    let dir = TestDir::new();
    files(&dir, true, "synced zone 1 12288");
    expect_failed(&dir, &ZONEFS, "zone 1: found 2 blocks, expected the 3 that were synced");
}

#[test]
fn fio_verify_finds_blocks_that_are_lost_or_in_another_place() {
    let dir = TestDir::new();
    // Blocks as a job writes them to zone 1.
    let job = ["--name=w", "--rw=write", "--bs=8k", "--size=64k", "--io_size=32k", "--offset=64k"];
    let verify = ["--verify=crc32c", "--do_verify=0", "--zonemode=zbd", "--fsync=2"];
    let record = ["run", "--clock", "virtual", "--device", DEVICE, "--record", "p.zlog"];
    dir.zonal(&[&record[..], &job, &verify].concat()).expect_ok();
    let args = ["--oracle", "fio-verify"];
    expect_passed(&dir, &args);
    let last = crash(&dir, &["--list"]).expect_ok();
    let last = last.lines().last().expect("a state");
    crash(&dir, &["--materialise", last, "w.img"]).expect_ok();
    let log = zonal_crash::log::Log::open(&dir.path().join("p.zlog")).expect("a log");
    let mut image =
        zonal_crash::content::Content::open(&dir.path().join("w.img"), log.header()).expect("it");
    let blocks = image.read(Sector(ZONE), 64).expect("data");

    let program = |place: u64, flushed: bool| {
        let mut program = Program::start(&dir);
        program.write(place, &blocks[..8192]);
        program.write(place + 16, &blocks[8192..16384]);
        if flushed {
            program.flush();
        }
        program.mark("synced");
        program.write(place + 32, &blocks[16384..]);
        program.end();
    };
    program(ZONE, true);
    expect_passed(&dir, &args);
    program(ZONE, false);
    expect_failed(&dir, &args, "zone 1: found 3 blocks, expected the 4 that were synced");
    program(2 * ZONE, true);
    expect_failed(
        &dir,
        &args,
        "sector 256: found the block of offset 65536, expected that of 131072",
    );
    // A block of which a part is another's.
    let mut torn = blocks.to_vec();
    torn[4096..8192].copy_from_slice(&blocks[12288..16384]);
    let mut program = Program::start(&dir);
    program
        .run(Bio { flags: BioFlags::FUA, ..Bio::write(Sector(ZONE), Buf::from(&torn[..8192]), 0) });
    program.mark("synced");
    program.end();
    expect_failed(&dir, &args, "found a block of 8192 bytes that does not match its header");
}

#[test]
fn marks_run_the_commands_of_a_script_after_their_marks() {
    let dir = TestDir::new();
    let mut program = Program::start(&dir);
    program.write(ZONE, &[1; 4096]);
    program.flush();
    program.mark("saved 1");
    program.write(ZONE + LBA, &[2; 4096]);
    program.mark("saved 2");
    program.end();
    let zonal = env!("CARGO_BIN_EXE_zonal");
    let more_than = |bytes: u32| {
        format!("{zonal} check {{image}} | grep -q ' {bytes} bytes written' && exit 1 || exit 0")
    };
    let all = "saved * => test {mark} && test -s {image}";
    write(&dir, "good", &format!("# one\nsaved 1 => {}\n{all}\n", more_than(0)));
    expect_passed(&dir, &["--oracle", "marks", "--script", "good"]);
    write(&dir, "bad", &format!("saved 2 => {}\n", more_than(4096)));
    let args = ["--oracle", "marks", "--script", "bad"];
    expect_failed(&dir, &args, "after mark `saved 2`, line 1: exit code 1");
    write(&dir, "other", "saved 3 => test -s {image}\n");
    let why = refused(&dir, &["--oracle", "marks", "--script", "other"]);
    assert!(
        why.contains(
            "line 1: found `saved 3`, expected a mark that the log has, such as `saved 2`"
        ),
        "{why}"
    );
}

#[test]
fn oracles_that_have_nothing_to_judge_by_are_refused() {
    let dir = TestDir::new();
    let mut program = Program::start(&dir);
    program.write(ZONE, &[1; 4096]);
    program.mark("fsync returned");
    program.end();
    let why = refused(&dir, &ZONEFS);
    assert!(
        why.contains("found a log without a mark `synced`, expected one after each sync"),
        "{why}"
    );
    let why = refused(&dir, &["--oracle", "fio-verify"]);
    assert!(why.contains("found no block with a header in any state"), "{why}");
    assert!(refused(&dir, &["--oracle", "marks"]).contains("--script"));
    let why = refused(&dir, &["--oracle", "zonefs", "--script", "x"]);
    assert!(why.contains("expected --oracle marks"), "{why}");
    let why = refused(&dir, &["--oracle", "marks", "--script", "no-such-file"]);
    assert!(why.contains("--script no-such-file: "), "{why}");
    let program = Program::start(&dir);
    program.mark("synced zone 4");
    program.end();
    let why = refused(&dir, &ZONEFS);
    assert!(why.contains("mark `synced zone 4`: the device has 4 zones, from 0"), "{why}");
}
