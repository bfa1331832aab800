//! What was found to be wrong, and how it is told.
use super::checksum::Checksum;
use zonal_blk::Status;

/// Findings that are kept; of the others there is the number.
const MAX_KEPT: usize = 100;

/// What is wrong with a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// There is no header.
    Magic {
        /// What stands in its place.
        found: u16,
        /// What should.
        wanted: u16,
    },
    /// The header says something else.
    Header {
        /// The field.
        what: &'static str,
        /// What stands there.
        found: u64,
        /// What should.
        wanted: u64,
    },
    /// The header is damaged.
    HeaderCrc {
        /// The checksum that it has.
        found: u32,
        /// The one that is right.
        calculated: u32,
    },
    /// What follows the header is damaged.
    Checksum {
        /// The kind of checksum.
        sum: Checksum,
        /// The one that was stored.
        expected: Vec<u8>,
        /// That of the data.
        received: Vec<u8>,
    },
    /// Not the pattern.
    Pattern {
        /// Bytes before the first that is wrong.
        at: usize,
        /// It.
        found: u8,
        /// What it should be.
        wanted: u8,
    },
    /// The I/O failed.
    Failed {
        /// The direction, as fio names it.
        what: &'static str,
        /// Why.
        status: Status,
    },
}

/// The bytes of an I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    /// As they were read.
    pub received: Box<[u8]>,
    /// As they should have been, if that is known.
    pub expected: Option<Box<[u8]>>,
}

/// A block that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// First byte and length of the I/O that it was read by.
    pub io: (u64, u64),
    /// What is wrong.
    pub mismatch: Mismatch,
    /// What is to be kept of it (`verify_dump`).
    pub dump: Option<Dump>,
}

/// All that a clone found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    kept: Vec<Finding>,
    total: u64,
}

impl Findings {
    /// Takes a finding. The first hundred are kept.
    pub(crate) fn add(&mut self, finding: impl FnOnce() -> Finding) {
        self.total += 1;
        if self.kept.len() < MAX_KEPT {
            self.kept.push(finding());
        }
    }

    /// The first ones.
    pub fn kept(&self) -> &[Finding] {
        &self.kept
    }

    /// How many more there were.
    pub fn not_kept(&self) -> u64 {
        self.total - self.kept.len() as u64
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Finding {
    /// As fio 3.33 tells it of `file`.
    pub fn text(&self, file: &str) -> String {
        let Finding { offset, len, io: (io_offset, io_len), .. } = self;
        let place = format!(
            "at file {file} offset {offset}, length {len} \
             (requested block: offset={io_offset}, length={io_len})"
        );
        match &self.mismatch {
            Mismatch::Magic { found, wanted } => {
                format!("verify: bad magic header {found:x}, wanted {wanted:x} {place}")
            }
            Mismatch::Header { what, found, wanted } => {
                format!("verify: bad header {what} {found}, wanted {wanted} {place}")
            }
            Mismatch::HeaderCrc { found, calculated } => {
                format!("verify: bad header crc {found:x}, calculated {calculated:x} {place}")
            }
            Mismatch::Checksum { sum, expected, received } => format!(
                "{}: verify failed {place}\n       Expected CRC: {}\n       Received CRC: {}",
                sum.name(),
                hex(expected),
                hex(received)
            ),
            Mismatch::Pattern { at, found, wanted } => format!(
                "got pattern '{found:02x}', wanted '{wanted:02x}'. Bad bits {}\n\
                 bad pattern block offset {at}\npattern: verify failed {place}",
                (found ^ wanted).count_ones()
            ),
            Mismatch::Failed { what, status } => format!(
                "io_u error on file {file}: {status}: {what} offset={io_offset}, buflen={io_len}"
            ),
        }
    }
}
