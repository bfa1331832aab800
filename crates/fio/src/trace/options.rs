//! What jobs say of traces and patterns.
use std::fmt;
use std::str::FromStr;

/// The lines of blkparse's output that are replayed (`replay_action`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// `Q`: what came into the block layer, which is what Zonal's block layer takes.
    #[default]
    Queued,
    /// `D`: what went to the driver, after merges, splits and the scheduler.
    Issued,
}

/// Options for `read_iolog`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// The traces, between colons: those of the clones, in turn.
    pub read_iolog: Option<String>,
    /// The lines of blkparse's output to take.
    pub action: Action,
    /// The device for all files of the trace.
    pub redirect: Option<String>,
    /// Devices for files of the trace: `NAME=SPEC`, between blanks.
    pub devices: Option<String>,
    /// As fast as possible instead of at the trace's times.
    pub no_stall: bool,
    /// Speed in percent of the trace's.
    pub time_scale: u64,
    /// Offsets are rounded down to multiples of this many bytes; 0 for not at all.
    pub align: u64,
    /// Offsets are divided by this.
    pub scale: u64,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        ReplayOptions {
            read_iolog: None,
            action: Action::Queued,
            redirect: None,
            devices: None,
            no_stall: false,
            time_scale: 100,
            align: 0,
            scale: 1,
        }
    }
}

/// What is written down of a run (`write_iolog_format`).
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

/// Which program's requests a job makes (`pattern`).
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
    /// Whose pattern.
    pub program: Option<PatternProgram>,
    /// A pattern file.
    pub file: Option<String>,
    /// Requests of all clones together.
    pub requests: Option<u64>,
    /// Bytes that offsets, and raidtest's lengths, are multiples of.
    pub align: Option<u64>,
    /// Bytes of raidtest's longest request.
    pub max_size: Option<u64>,
    /// The share of writes.
    pub writes: Option<Fraction>,
    /// The share of writes that a flush follows.
    pub fsyncs: Option<Fraction>,
}

/// A number from 0 to 1, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fraction(u32);

impl Fraction {
    /// One half.
    pub const HALF: Fraction = Fraction(500_000);
    /// So many millionths are one.
    pub const ONE: u64 = 1_000_000;

    /// Millionths.
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
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let well_formed = digits(decimals) && decimals.len() <= 6 && matches!(whole, "0" | "1");
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
    fn fractions_are_read_exactly_and_printed_as_short_as_can_be() {
        for (text, millionths, printed) in [
            ("0", 0, "0"),
            ("1", 1_000_000, "1"),
            ("1.000", 1_000_000, "1"),
            ("0.25", 250_000, "0.25"),
            ("0.000001", 1, "0.000001"),
        ] {
            let fraction: Fraction = text.parse().expect(text);
            assert_eq!(
                (fraction.millionths(), fraction.to_string().as_str()),
                (millionths, printed)
            );
        }
        for text in ["", ".5", "1.1", "2", "0.1234567", "0,5", "-0.5", "0.", "1e-3", "+0.5"] {
            assert!(text.parse::<Fraction>().is_err(), "{text}");
        }
    }
}
