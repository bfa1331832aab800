//! Options for traces and patterns.
use std::fmt;
use std::str::FromStr;

/// The blkparse action whose events are replayed (`replay_action`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlkparseAction {
    /// `Q`: queued to the block layer.
    #[default]
    Queue,
    /// `D`: issued to the driver, after merges, splits and the scheduler.
    Issue,
}

/// Options for `read_iolog`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// The traces, separated by colons, for the clones in turn.
    pub read_iolog: Option<String>,
    /// The events of blkparse's output to replay.
    pub action: BlkparseAction,
    /// The device for all files of the trace.
    pub redirect: Option<String>,
    /// Devices for files of the trace: `NAME=SPEC`, separated by blanks.
    pub devices: Option<String>,
    /// Replay as fast as possible instead of at the times of the trace.
    pub no_stall: bool,
    /// Replay speed in percent.
    pub time_scale: u64,
    /// Offsets are rounded down to multiples of this many bytes; 0 for none.
    pub align: u64,
    /// Offsets are divided by this.
    pub scale: u64,
    /// The operations that are not replayed: reads, writes, trims, flushes.
    pub skip: [bool; 4],
}

impl Default for ReplayOptions {
    fn default() -> Self {
        ReplayOptions {
            read_iolog: None,
            action: BlkparseAction::Queue,
            redirect: None,
            devices: None,
            no_stall: false,
            time_scale: 100,
            align: 0,
            scale: 1,
            skip: [false; 4],
        }
    }
}

/// Format of a recorded trace (`write_iolog_format`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordFormat {
    /// fio's iolog, version 3.
    #[default]
    Iolog,
    /// blkparse's default output.
    Blkparse,
}

/// Options for `write_iolog`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordOptions {
    /// The file to write.
    pub write_iolog: Option<String>,
    /// Its format.
    pub format: RecordFormat,
}

/// A benchmark whose I/O pattern a job has (`pattern`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternProgram {
    /// FreeBSD's benchmarks/raidtest.
    Raidtest,
    /// Dean Gaudet's randomio.
    Randomio,
}

/// Options for patterns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatternOptions {
    /// The benchmark.
    pub program: Option<PatternProgram>,
    /// A pattern file.
    pub file: Option<String>,
    /// Number of requests, of all clones together.
    pub requests: Option<u64>,
    /// Alignment of offsets, and of raidtest's lengths, in bytes.
    pub align: Option<u64>,
    /// Size of raidtest's longest request in bytes.
    pub max_size: Option<u64>,
    /// Fraction of writes.
    pub writes: Option<Fraction>,
    /// Fraction of writes that are followed by a flush.
    pub fsyncs: Option<Fraction>,
}

/// A number from 0 to 1, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fraction(u32);

impl Fraction {
    /// One half.
    pub const HALF: Fraction = Fraction(500_000);
    /// One, in millionths.
    pub const ONE: u64 = 1_000_000;

    /// The fraction in millionths.
    pub fn millionths(self) -> u64 {
        u64::from(self.0)
    }
}

/// The text is not a number from 0 to 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {0:?}, expected a number from 0 to 1 with at most six decimals, such as 0.25")]
pub struct ParseFractionError(String);

impl FromStr for Fraction {
    type Err = ParseFractionError;

    fn from_str(text: &str) -> Result<Self, ParseFractionError> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        // As in fio, zeros before or after the point may be left out, but not both.
        let is_number = matches!(whole, "0" | "1") || whole.is_empty() && text.len() > 1;
        let well_formed = digits(decimals) && decimals.len() <= 6 && is_number;
        let millionths = format!("{whole}{decimals:0<6}").parse();
        match millionths {
            Ok(millionths @ 0..=1_000_000) if well_formed => Ok(Fraction(millionths)),
            _ => Err(ParseFractionError(text.to_owned())),
        }
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:06}", self.0 % 1_000_000);
        write!(f, "{}", self.0 / 1_000_000)?;
        match decimals.trim_end_matches('0') {
            "" => Ok(()),
            decimals => write!(f, ".{decimals}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_exact_and_printed_without_trailing_zeros() {
        for (text, millionths, printed) in [
            ("0", 0, "0"),
            ("1", 1_000_000, "1"),
            ("1.000", 1_000_000, "1"),
            ("0.25", 250_000, "0.25"),
            ("0.000001", 1, "0.000001"),
            (".9", 900_000, "0.9"),
            ("1.", 1_000_000, "1"),
        ] {
            let fraction: Fraction = text.parse().expect(text);
            assert_eq!(
                (fraction.millionths(), fraction.to_string().as_str()),
                (millionths, printed)
            );
        }
        for text in ["", ".", "1.1", "2", "0.1234567", "0,5", "-0.5", "1e-3", "+0.5"] {
            assert!(text.parse::<Fraction>().is_err(), "{text}");
        }
    }
}
