//! The lines of logs, against those of fio 3.33.
use super::*;
use std::fs;
use std::path::PathBuf;

const MSEC: u64 = NANOS_PER_MSEC;

/// A directory of its own for each test, removed at the end; and the clock of the files in it.
struct Directory(PathBuf, Option<u64>);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("zonal-logs-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Directory(path, None)
    }

    fn files(&self, kinds: &[LogKind]) -> LogFiles {
        let mut files = LogFiles::default();
        for &kind in kinds {
            let path = self.0.join(kind.word());
            files[kind as usize] = Some(LogFile::create(path, self.1).expect("a file"));
        }
        files
    }

    fn text(&self, kind: LogKind) -> String {
        fs::read_to_string(self.0.join(kind.word())).expect("the log")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const ALL: [LogKind; 6] = [
    LogKind::Bandwidth,
    LogKind::Iops,
    LogKind::Slat,
    LogKind::Clat,
    LogKind::Lat,
    LogKind::Histogram,
];

fn job(options: LogOptions) -> Job {
    Job { logs: options, ..Job::default() }
}

fn io(dir: DataDir, clat: u64) -> LoggedIo {
    LoggedIo {
        dir,
        bytes: 65536,
        offset: 131072,
        slat: Nanos(230),
        clat: Nanos(clat),
        ioprio: None,
    }
}

/// The lines are those that fio 3.33 wrote for I/Os of these latencies.
#[test]
fn each_io_has_a_line_in_each_log() {
    let directory = Directory::new("each");
    let mut logs =
        Logs::new(&job(LogOptions::default()), &directory.files(&ALL[..5])).expect("logs");
    logs.record(Nanos(0), io(DataDir::Read, 1));
    logs.start(Nanos(7 * MSEC));
    logs.record(Nanos(7 * MSEC + 10), io(DataDir::Read, 9448));
    logs.record(Nanos(58 * MSEC + 10), io(DataDir::Write, 160));
    logs.finish(Nanos(60 * MSEC));
    let expected = [
        "0, 6936494, 0, 65536, 0\n51, 409600000, 1, 65536, 0\n",
        "0, 1, 0, 65536, 0\n51, 1, 1, 65536, 0\n",
        "0, 230, 0, 65536, 0\n51, 230, 1, 65536, 0\n",
        "0, 9448, 0, 65536, 0\n51, 160, 1, 65536, 0\n",
        "0, 9678, 0, 65536, 0\n51, 390, 1, 65536, 0\n",
    ];
    for (kind, expected) in ALL.into_iter().zip(expected) {
        assert_eq!(directory.text(kind), expected, "{}", kind.word());
    }
}

#[test]
fn lines_hold_offset_and_priority_if_wanted() {
    let directory = Directory::new("columns");
    let options = LogOptions { offset: true, prio: true, ioprio: 0x4003, ..LogOptions::default() };
    let files = directory.files(&[LogKind::Clat]);
    let mut logs = Logs::new(&job(options), &files).expect("logs");
    logs.start(Nanos(0));
    logs.record(Nanos(MSEC), io(DataDir::Trim, 50));
    logs.finish(Nanos(MSEC));
    assert_eq!(directory.text(LogKind::Clat), "1, 50, 2, 65536, 131072, 0x4003\n");
}

/// As fio 3.41 has them: only the logs of submission and completion know when an I/O was issued.
#[test]
fn lines_hold_the_time_of_issue_and_two_values_if_wanted() {
    let directory = Directory::new("issued");
    let options = LogOptions {
        offset: true,
        issue_time: true,
        window_value: WindowValue::Both,
        ..LogOptions::default()
    };
    let kinds = [LogKind::Slat, LogKind::Clat, LogKind::Lat, LogKind::Iops];
    let mut logs = Logs::new(&job(options), &directory.files(&kinds)).expect("logs");
    logs.start(Nanos(100));
    logs.record(Nanos(2 * MSEC), io(DataDir::Write, 50));
    logs.finish(Nanos(2 * MSEC));
    for (kind, line) in kinds.into_iter().zip([
        "1, 230, 0, 1, 65536, 131072, 0, 1999850\n",
        "1, 50, 0, 1, 65536, 131072, 0, 1999850\n",
        "1, 280, 0, 1, 65536, 131072, 0, 0\n",
        "1, 1, 0, 1, 65536, 131072, 0, 0\n",
    ]) {
        assert_eq!(directory.text(kind), line, "{}", kind.word());
    }
}

#[test]
fn times_of_a_clock_begin_with_the_job_in_all_logs() {
    let mut directory = Directory::new("clock");
    directory.1 = Some(1_000_000);
    let options = LogOptions { hist_msec: 5, ..LogOptions::default() };
    let mut logs = Logs::new(&job(options), &directory.files(&ALL)).expect("logs");
    logs.start(Nanos(500 * MSEC));
    logs.record(Nanos(510 * MSEC), io(DataDir::Write, 50));
    logs.record(Nanos(520 * MSEC), io(DataDir::Write, 50));
    logs.finish(Nanos(520 * MSEC));
    for kind in ALL {
        let text = directory.text(kind);
        let last = text.lines().last().and_then(|line| line.split(',').next());
        assert_eq!(last, Some("1000520"), "{}", kind.word());
    }
}

/// Windows end with an I/O, as in fio: with one each 30 ms those of 200 ms end at 210, 420, 600 ...
#[test]
fn windows_of_latencies_end_with_the_first_io_after_their_time() {
    for (window_value, values) in [
        (WindowValue::Mean, ["4", "11", "18", "20"]),
        (WindowValue::Max, ["7", "14", "20", "20"]),
        (WindowValue::Both, ["4, 7", "11, 14", "18, 20", "20, 20"]),
    ] {
        let directory = Directory::new(&format!("{window_value:?}"));
        let options = LogOptions { avg_msec: 200, window_value, ..LogOptions::default() };
        let files = directory.files(&[LogKind::Clat, LogKind::Bandwidth]);
        let mut logs = Logs::new(&job(options), &files).expect("logs");
        logs.start(Nanos(0));
        for k in 0..=20_u64 {
            logs.record(Nanos(k * 30 * MSEC), io(DataDir::Write, k.min(20)));
        }
        logs.record(Nanos(601 * MSEC), io(DataDir::Write, 20));
        logs.finish(Nanos(605 * MSEC));
        let expected: String = [210, 420, 600, 605]
            .into_iter()
            .zip(values)
            .map(|(time, value)| format!("{time}, {value}, 1, 0, 0\n"))
            .collect();
        assert_eq!(directory.text(LogKind::Clat), expected);
        assert_eq!(directory.text(LogKind::Bandwidth), "", "sampled, not recorded");
    }
}

#[test]
fn bandwidth_and_iops_are_those_of_each_period() {
    let directory = Directory::new("samples");
    let options = LogOptions { avg_msec: 200, ..LogOptions::default() };
    let files = directory.files(&[LogKind::Bandwidth, LogKind::Iops]);
    let mut logs = Logs::new(&job(options), &files).expect("logs");
    assert_eq!(logs.next_sample(), None, "before the start");
    logs.start(Nanos(1000 * MSEC));
    assert_eq!(logs.next_sample(), Some(Nanos(1200 * MSEC)));
    let counts =
        |reads, writes| IoCounts { ios: [reads, writes, 0], bytes: [reads << 16, writes << 16, 0] };
    logs.sample(Nanos(1199 * MSEC), || counts(1, 1));
    logs.sample(Nanos(1200 * MSEC), || counts(7, 0));
    // Noticed late, after idle periods.
    logs.sample(Nanos(1950 * MSEC), || counts(7, 8));
    assert_eq!(logs.next_sample(), Some(Nanos(2000 * MSEC)));
    logs.finish(Nanos(1960 * MSEC));
    assert_eq!(directory.text(LogKind::Bandwidth), "200, 2240, 0, 0, 0\n400, 2560, 1, 0, 0\n");
    assert_eq!(directory.text(LogKind::Iops), "200, 35, 0, 0, 0\n400, 40, 1, 0, 0\n");
}

#[test]
fn long_windows_are_means_of_samples() {
    let directory = Directory::new("long");
    let options = LogOptions { avg_msec: 1000, ..LogOptions::default() };
    let mut logs = Logs::new(&job(options), &directory.files(&[LogKind::Iops])).expect("logs");
    logs.start(Nanos(0));
    for (half, ios) in [(1, 100), (2, 300)] {
        let counts = IoCounts { ios: [ios, 0, 0], bytes: [ios * 512, 0, 0] };
        logs.sample(Nanos(half * 500 * MSEC), || counts);
    }
    logs.finish(Nanos(1000 * MSEC));
    assert_eq!(directory.text(LogKind::Iops), "1000, 300, 0, 0, 0\n", "of 200 and 400");
}

#[test]
fn histograms_hold_the_ios_of_their_window() {
    for (coarseness, bins) in [(0, BUCKETS), (6, BUCKETS / 64)] {
        let directory = Directory::new(&format!("hist-{coarseness}"));
        let options =
            LogOptions { hist_msec: 100, hist_coarseness: coarseness, ..LogOptions::default() };
        let mut logs =
            Logs::new(&job(options), &directory.files(&[LogKind::Histogram])).expect("logs");
        logs.start(Nanos(0));
        // As in fio, the first window begins with the first I/O after the first millisecond.
        for k in 0..10_u64 {
            logs.record(Nanos(k * 30 * MSEC), io(DataDir::Read, 2000));
        }
        logs.finish(Nanos(400 * MSEC));
        let text = directory.text(LogKind::Histogram);
        let lines: Vec<Vec<u64>> = text
            .lines()
            .map(|line| line.split(", ").map(|it| it.parse().expect("a number")).collect())
            .collect();
        let heads: Vec<_> = lines.iter().map(|line| &line[..3]).collect();
        assert_eq!(heads, [[150, 0, 65536], [240, 0, 65536]]);
        for (line, count) in lines.iter().zip([6, 3]) {
            assert_eq!((line.len() - 3, line[3..].iter().sum::<u64>()), (bins, count));
        }
    }
}

#[test]
fn without_log_hist_msec_there_are_no_histograms() {
    let directory = Directory::new("none");
    let files = directory.files(&[LogKind::Histogram]);
    assert!(Logs::new(&job(LogOptions::default()), &files).is_none());
    assert_eq!(directory.text(LogKind::Histogram), "");
}

#[test]
fn a_log_that_cannot_be_written_keeps_the_error() {
    let directory = Directory::new("gone");
    assert!(LogFile::create(directory.0.join("missing/bw.log"), None).is_err());
    let files = directory.files(&[LogKind::Clat]);
    let mut logs = Logs::new(&job(LogOptions::default()), &files).expect("logs");
    fs::remove_file(directory.0.join("clat")).expect("removed");
    logs.start(Nanos(0));
    logs.record(Nanos(0), io(DataDir::Read, 1));
    logs.finish(Nanos(1));
    let file = files[LogKind::Clat as usize].as_ref().expect("created");
    assert!(file.result().is_err());
}
