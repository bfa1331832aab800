//! Verification errors, and their text as printed by fio.
use crate::job::Checksum;
use zonal_blk::Status;

/// Limit of findings to keep; the others are only counted.
const MAX_KEPT: usize = 100;

/// An error in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// There is no header.
    Magic {
        /// The value found.
        found: u16,
        /// The value expected.
        wanted: u16,
    },
    /// A field of the header is wrong.
    Header {
        /// The field.
        what: &'static str,
        /// The value found.
        found: u64,
        /// The value expected.
        wanted: u64,
    },
    /// The header is damaged.
    HeaderCrc {
        /// The stored CRC.
        found: u32,
        /// The calculated CRC.
        calculated: u32,
    },
    /// The data after the header is damaged.
    Checksum {
        /// The kind of checksum.
        sum: Checksum,
        /// The stored checksum.
        expected: Vec<u8>,
        /// The checksum of the data.
        received: Vec<u8>,
    },
    /// The data is not the pattern.
    Pattern {
        /// Position of the first wrong byte.
        at: usize,
        /// The byte found.
        found: u8,
        /// The byte expected.
        wanted: u8,
    },
    /// A trimmed block is not zero.
    NotTrimmed {
        /// Position of the first wrong byte.
        at: usize,
    },
    /// The I/O failed.
    Failed {
        /// The direction, as fio names it.
        what: &'static str,
        /// Its status.
        status: Status,
    },
}

/// The data of an I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    /// As read.
    pub received: Box<[u8]>,
    /// As expected, if known.
    pub expected: Option<Box<[u8]>>,
}

/// A block with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset and length of the I/O that read it.
    pub io: (u64, u64),
    /// The mismatch.
    pub mismatch: Mismatch,
    /// The data, with `verify_dump`.
    pub dump: Option<Dump>,
}

/// The findings of a clone.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    kept: Vec<Finding>,
    total: u64,
}

impl Findings {
    /// Adds a finding. The first hundred are kept.
    pub(crate) fn add(&mut self, finding: impl FnOnce() -> Finding) {
        self.total += 1;
        if self.kept.len() < MAX_KEPT {
            self.kept.push(finding());
        }
    }

    /// The findings that were kept.
    pub fn kept(&self) -> &[Finding] {
        &self.kept
    }

    /// Number of findings that were not kept.
    pub fn not_kept(&self) -> u64 {
        self.total - self.kept.len() as u64
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Finding {
    /// The text of fio 3.33 for this finding in `file`.
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
            Mismatch::NotTrimmed { at } => format!(
                "trim: verify failed at file {file} offset {offset}, length {len}, block offset {at}"
            ),
            Mismatch::Failed { what, status } => format!(
                "io_u error on file {file}: {status}: {what} offset={io_offset}, buflen={io_len}"
            ),
        }
    }
}
