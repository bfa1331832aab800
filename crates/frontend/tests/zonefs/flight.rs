//! Many operations in flight, on a slow device.
use super::support::*;
use rustix::io::Errno;
use std::sync::mpsc::Receiver;
use zonal_blk::Nanos;
use zonal_frontend::zonefs::FileOp;
use zonal_torture::FaultConfig;
use zonal_torture::fault::Effect;

const PAGE: usize = BLOCK as usize;

fn slow() -> FaultConfig {
    FaultConfig { latency: Nanos(200_000), jitter: Nanos(400_000), ..FaultConfig::default() }
}

type Working = Receiver<Result<Answer, Errno>>;

#[test]
fn consecutive_writes_may_all_be_in_flight() {
    let files = Files::on("", slow());
    // The third is too long to begin on the caller's thread.
    let lens = [PAGE, PAGE, 128 << 10, PAGE, PAGE];
    let mut at = 0;
    let mut begun: Vec<(Working, usize)> = Vec::new();
    for len in lens {
        begun.push((files.begin("seq/0", write(at, len, DIRECT)), len));
        at += len as u64;
    }
    let appended = files.begin("seq/0", write(0, PAGE, APPEND));
    let behind = files.begin("seq/0", write(at, PAGE, DIRECT));
    for (work, len) in begun {
        assert_eq!(ended(&work), Ok(Answer::Written(len)));
    }
    assert_eq!(ended(&appended), Ok(Answer::Written(PAGE)));
    assert_eq!(ended(&behind), Err(Errno::INVAL), "the append was there first");
    assert_eq!(files.size("seq/0"), at + BLOCK);
    let len = usize::try_from(at).unwrap();
    let mut read = bytes(0, len);
    read.extend(bytes(0, PAGE));
    assert_eq!(files.read("seq/0", 0, len + PAGE), Ok(Answer::Data(read)));
}

#[test]
fn many_files_are_written_at_once() {
    let files = Files::on("", slow());
    let rounds = 8;
    let mut begun: Vec<Working> = Vec::new();
    for round in 0..rounds {
        for file in 0..6 {
            let work = write(round * BLOCK, PAGE, DIRECT);
            begun.push(files.begin(&format!("seq/{file}"), work));
        }
        let work = write(round * BLOCK + 1, PAGE, BUFFERED);
        begun.push(files.begin("cnv/0", work));
    }
    for work in begun {
        assert_eq!(ended(&work), Ok(Answer::Written(PAGE)));
    }
    let len = usize::try_from(rounds).unwrap() * PAGE;
    for file in 0..6 {
        let path = format!("seq/{file}");
        assert_eq!(files.read(&path, 0, len), Ok(Answer::Data(bytes(0, len))), "{path}");
    }
    assert_eq!(files.read("cnv/0", 1, len), Ok(Answer::Data(bytes(1, len))));
}

#[test]
fn truncating_waits_for_writes_in_flight() {
    let files = Files::on("", slow());
    let first = files.begin("seq/0", write(0, PAGE, DIRECT));
    let reset = files.begin("seq/0", FileOp::Truncate { size: 0 });
    assert_eq!(ended(&first), Ok(Answer::Written(PAGE)));
    assert_eq!(ended(&reset), Ok(Answer::Done));
    assert_eq!(files.size("seq/0"), 0);
}

#[test]
fn open_waits_for_the_closes_before_it() {
    let files = Files::on("explicit-open", slow());
    for file in 0..3 {
        files.open(&format!("seq/{file}")).unwrap();
    }
    for file in 0..30 {
        let closed = files.begin(&format!("seq/{}", file % 6), FileOp::Close { wrote: true });
        let next = format!("seq/{}", (file + 3) % 6);
        let opened = files.begin(&next, FileOp::Open { writes: true });
        assert_eq!(ended(&closed), Ok(Answer::Done));
        assert_eq!(ended(&opened), Ok(Answer::Done), "three are open before and after");
    }
    assert_eq!(files.open("seq/4"), Err(Errno::BUSY));
}

#[test]
fn open_that_waits_is_replied_to_when_the_workers_stop() {
    let files = Files::on("explicit-open", slow());
    files.open("seq/0").unwrap();
    let closed = files.begin("seq/0", FileOp::Close { wrote: true });
    let opened = files.begin("seq/1", FileOp::Open { writes: true });
    drop(files);
    assert_eq!(ended(&closed), Ok(Answer::Done));
    assert_eq!(ended(&opened), Ok(Answer::Done));
}

#[test]
fn write_behind_one_that_fails_fails_as_well() {
    // The second begins before the first has failed.
    let slower = FaultConfig { latency: Nanos(100_000_000), ..slow() };
    let files = Files::on("errors=repair", slower);
    files.inject(Effect::Nothing);
    let first = files.begin("seq/0", write(0, PAGE, DIRECT));
    let second = files.begin("seq/0", write(BLOCK, PAGE, DIRECT));
    assert_eq!(ended(&first), Err(Errno::IO));
    assert_eq!(ended(&second), Err(Errno::IO));
    assert_eq!(files.size("seq/0"), 0);
    assert_eq!(files.write("seq/0", 0, PAGE, DIRECT), Ok(Answer::Written(PAGE)));
}

#[test]
fn dropped_workers_complete_their_operations() {
    let files = Files::on("", slow());
    let begun: Vec<Working> =
        (0..4).map(|at| files.begin("seq/0", write(at * BLOCK, PAGE, DIRECT))).collect();
    drop(files);
    for work in begun {
        assert_eq!(ended(&work), Ok(Answer::Written(PAGE)));
    }
}
