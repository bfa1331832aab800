//! The observation of a program: exit code, the I/Os of each clone in order, and its report.
use serde_json::Value;
use std::collections::BTreeSet;

/// A direction, as in fio's logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dir {
    /// Also of verification.
    Read,
    /// Any write.
    Write,
    /// A discard, or with zones a reset.
    Trim,
}

impl Dir {
    /// All, in the order of fio's numbers.
    pub const ALL: [Dir; 3] = [Dir::Read, Dir::Write, Dir::Trim];

    /// The name in iologs and in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Dir::Read => "read",
            Dir::Write => "write",
            Dir::Trim => "trim",
        }
    }
}

/// An I/O as logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// The direction.
    pub dir: Dir,
    /// First byte.
    pub offset: u64,
    /// In bytes.
    pub len: u64,
    /// When it was issued, in microseconds since the start.
    pub at: u64,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit code, or -1 after a signal.
    Code(i32),
    /// It did not end in time.
    Hung,
}

/// What a program did with a case.
#[derive(Clone, Debug)]
pub struct Observation {
    /// How it ended.
    pub end: End,
    /// The I/Os of each clone, in the order of sections and clones.
    pub clones: Vec<Vec<Io>>,
    /// The report; null if there is none.
    pub report: Value,
    /// The last line on standard error.
    pub message: String,
    /// All that it said there.
    pub said: String,
}

/// The I/Os of an iolog of fio's version 3.
pub fn iolog(text: &str) -> Vec<Io> {
    let io = |line: &str| {
        let mut words = line.split_whitespace().rev();
        let (len, offset, dir) = (words.next()?, words.next()?, words.next()?);
        let dir = Dir::ALL.into_iter().find(|known| known.name() == dir)?;
        let at = line.split_whitespace().next()?.parse().ok()?;
        Some(Io { dir, offset: offset.parse().ok()?, len: len.parse().ok()?, at })
    };
    text.lines().filter_map(io).collect()
}

/// The I/Os of a log of bandwidths with `log_offset`: time, value, direction, length, offset, priority.
pub fn bandwidth_log(text: &str) -> Vec<Io> {
    let io = |line: &str| {
        let mut columns = line.split(',').map(|column| column.trim().parse::<u64>());
        let mut next = || columns.next()?.ok();
        let (at, _, dir, len, offset) = (next()?, next()?, next()?, next()?, next()?);
        let dir = *Dir::ALL.get(usize::try_from(dir).ok()?)?;
        Some(Io { dir, offset, len, at: at * 1000 })
    };
    text.lines().filter_map(io).collect()
}

/// The paths of all keys of a report, without those that depend on numbers: percentiles and bins.
pub fn keys(report: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect_keys(report, "", &mut found);
    found
}

fn collect_keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let is_free = key.starts_with(|first: char| first.is_ascii_digit() || first == '>');
                if is_free || path.ends_with("job options") || path.ends_with("global options") {
                    continue;
                }
                let path = format!("{path}/{key}");
                collect_keys(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect_keys(value, path, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_logs_give_the_same_ios() {
        let ios = iolog(
            "fio version 3 iolog\n17 f add\n380 f write 0 65536\n649 f close\n657 f read 4096 512\n",
        );
        let expected = [
            Io { dir: Dir::Write, offset: 0, len: 65536, at: 380 },
            Io { dir: Dir::Read, offset: 4096, len: 512, at: 657 },
        ];
        assert_eq!(ios, expected);
        // In milliseconds.
        let log = bandwidth_log("0, 427197, 1, 65536, 0, 0\n1, 2, 0, 512, 4096, 0\n");
        let at = |io: &Io, at| Io { at, ..*io };
        assert_eq!(log, [at(&expected[0], 0), at(&expected[1], 1000)]);
    }

    #[test]
    fn keys_are_paths_without_numbers() {
        let report = serde_json::json!({"jobs": [{"read": {"iops": 1, "percentile": {"1.000": 2}}, "job options": {"rw": "read"}}]});
        let found: Vec<_> = keys(&report).into_iter().collect();
        assert_eq!(
            found,
            [
                "/jobs",
                "/jobs/job options",
                "/jobs/read",
                "/jobs/read/iops",
                "/jobs/read/percentile"
            ]
        );
    }
}
