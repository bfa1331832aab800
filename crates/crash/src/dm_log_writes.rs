//! Logs of dm-log-writes, which Linux and QEMU (`blklogwrites`) write for disks without zones.
//!
//! The format, as in the kernel's description of the target: all numbers are little-endian. The first
//! sector has a magic number, the version, the number of entries and the size of a sector; each entry
//! has a sector with its place, length, flags and the length of its text, then the data.
//!
//! ```text
//!  super  | entry | data ... | entry (flush) | entry (mark, text) | entry | data ...
//! ```
//!
//! The target logs a write when a flush has covered it, so before the entry of a flush are the writes
//! that had completed when it was sent, in the order of their completion.
use crate::log::{Command, Event, Header, Totals, Writer};
use std::collections::HashSet;
use std::io::{self, Read};
use std::path::Path;
use zonal_blk::{BioFlags, Op, Sector, Status};

const MAGIC: u64 = 0x6a_7366_7773_6872;
const VERSION: u64 = 1;
/// Flags of an entry.
const FLUSH: u64 = 1;
const FUA: u64 = 1 << 1;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;
/// Longest write in bytes. Linux writes have a few MiB.
const MAX_WRITE: u64 = 256 << 20;
/// Data are known to have been written in pieces of this many sectors of 512 bytes.
const PIECE: u64 = 2048;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DmLogError {
    /// The file cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("found another kind of file, expected a log of dm-log-writes")]
    NotALog,
    /// It cannot be what the target wrote.
    #[error("{what}: found {found}, expected {expected}")]
    Bad {
        /// The field, and the entry.
        what: String,
        /// The data found there.
        found: String,
        /// The value that should be there.
        expected: String,
    },
}

/// An entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DmEntry {
    /// First sector, of 512 bytes.
    pub sector: u64,
    /// Sectors of 512 bytes that are written or discarded.
    pub nr_sectors: u64,
    /// Everything that had completed was flushed before.
    pub flush: bool,
    /// It is durable itself.
    pub fua: bool,
    /// It discards.
    pub discard: bool,
    /// A mark.
    pub mark: Option<String>,
    /// The data written.
    pub data: Vec<u8>,
}

/// The entries of a log.
pub struct DmLog<R> {
    input: R,
    /// Bytes in a sector of the log.
    sector: u64,
    entries: u64,
    read: u64,
}

impl<R: Read> DmLog<R> {
    /// Reads the start of a log.
    ///
    /// # Errors
    /// It is something else.
    pub fn open(mut input: R) -> Result<Self, DmLogError> {
        let mut start = [0; 512];
        input.read_exact(&mut start).map_err(|_| DmLogError::NotALog)?;
        if u64_at(&start, 0) != MAGIC {
            return Err(DmLogError::NotALog);
        }
        let bad = |what: &str, found: u64, expected: &str| {
            Err(DmLogError::Bad {
                what: what.to_owned(),
                found: found.to_string(),
                expected: expected.to_owned(),
            })
        };
        let (version, entries) = (u64_at(&start, 8), u64_at(&start, 16));
        let sector = u64_at(&start, 24) & u64::from(u32::MAX);
        if version != VERSION {
            return bad("version", version, "1");
        }
        if !sector.is_power_of_two() || !(512..=65536).contains(&sector) {
            return bad("sector size", sector, "a power of two from 512 to 65536");
        }
        let mut log = DmLog { input, sector, entries, read: 0 };
        log.skip(sector - 512)?;
        Ok(log)
    }

    /// Entries in all, as its start says, and those read so far.
    pub fn count(&self) -> (u64, u64) {
        (self.entries, self.read)
    }

    fn skip(&mut self, len: u64) -> io::Result<bool> {
        Ok(io::copy(&mut (&mut self.input).take(len), &mut io::sink())? == len)
    }

    /// The next entry; `None` at the end, and where the file ends early.
    ///
    /// # Errors
    /// The file cannot be read, or the entry is malformed.
    pub fn next_entry(&mut self) -> Result<Option<DmEntry>, DmLogError> {
        if self.read == self.entries {
            return Ok(None);
        }
        let mut block = vec![0; usize::try_from(self.sector).expect("at most 64 KiB")];
        if !fill(&mut self.input, &mut block)? {
            return Ok(None);
        }
        let [sector, nr_sectors, flags, len] = [0, 8, 16, 24].map(|at| u64_at(&block, at));
        let bad = |what: &str, found: u64, expected: String| DmLogError::Bad {
            what: format!("entry {}: {what}", self.read + 1),
            found: found.to_string(),
            expected,
        };
        let ends = sector.checked_add(nr_sectors).and_then(|end| end.checked_mul(self.sector));
        if ends.is_none_or(|end| end >= 1 << 60) {
            return Err(bad("sector", sector, "one below 1 EiB".to_owned()));
        }
        let per_sector = self.sector / 512;
        let mut entry = DmEntry {
            sector: sector * per_sector,
            nr_sectors: nr_sectors * per_sector,
            flush: flags & FLUSH != 0,
            fua: flags & FUA != 0,
            discard: flags & DISCARD != 0,
            ..DmEntry::default()
        };
        if flags & MARK != 0 {
            let text =
                usize::try_from(len).ok().and_then(|len| block.get(32..32 + len.min(1 << 20)));
            let most = self.sector - 32;
            let text = text.ok_or_else(|| bad("mark", len, format!("at most {most} bytes")))?;
            let text = String::from_utf8_lossy(text);
            entry.mark = Some(text.trim_end_matches('\0').replace(['\n', '\r'], " "));
        } else if !entry.discard {
            let bytes = nr_sectors * self.sector;
            if bytes > MAX_WRITE {
                let most = MAX_WRITE / self.sector;
                return Err(bad("sectors", nr_sectors, format!("at most {most}")));
            }
            (&mut self.input).take(bytes).read_to_end(&mut entry.data)?;
            if (entry.data.len() as u64) < bytes {
                return Ok(None);
            }
        }
        self.read += 1;
        Ok(Some(entry))
    }
}

/// Fills a buffer. False if the input ends before.
fn fill(input: &mut impl Read, to: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(to) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        other => other.map(|()| true),
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The result of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The totals of the log of the crash lab.
    pub totals: Totals,
    /// Entries that the start of the log promises.
    pub expected: u64,
    /// Entries that were there.
    pub entries: u64,
}

/// Writes the entries of a log of dm-log-writes as a log of the crash lab. `header` describes the disk.
///
/// A discard gives zeroes where the log has written before, and leaves everything else as it was: a
/// drive may do either.
///
/// # Errors
/// A file cannot be used, an entry is malformed, or beyond the end of the disk.
pub fn import<R: Read>(
    log: &mut DmLog<R>,
    header: &Header,
    to: &Path,
) -> Result<Imported, DmLogError> {
    let size = header.geometry().zone_size.0 * u64::from(header.geometry().zones);
    let mut import =
        Import { writer: Writer::create(to, header)?, commands: 0, written: HashSet::new() };
    while let Some(entry) = log.next_entry()? {
        let end = entry.sector + entry.nr_sectors;
        if entry.mark.is_none() && end > size {
            return Err(DmLogError::Bad {
                what: format!("entry {}: end", log.count().1),
                found: format!("sector {end}"),
                expected: format!("a disk of at least that size; it has {size} sectors"),
            });
        }
        import.entry(entry);
    }
    let totals = import.writer.finish()?;
    let (expected, entries) = log.count();
    Ok(Imported { totals, expected, entries })
}

struct Import {
    writer: Writer,
    commands: u64,
    /// Pieces of the disk that were written.
    written: HashSet<u64>,
}

impl Import {
    fn entry(&mut self, entry: DmEntry) {
        if let Some(text) = entry.mark {
            return self.writer.add(Event::Mark(text));
        }
        let flag = |is_set, flag| if is_set { flag } else { BioFlags::NONE };
        let flags = flag(entry.flush, BioFlags::PREFLUSH) | flag(entry.fua, BioFlags::FUA);
        let end = entry.sector + entry.nr_sectors;
        if entry.nr_sectors == 0 {
            if entry.flush {
                self.command(Op::Flush, BioFlags::NONE, 0, 0, &[]);
            }
        } else if entry.discard {
            let mut at = entry.sector;
            while at < end {
                let to = end.min((at / PIECE + 1) * PIECE);
                if self.written.contains(&(at / PIECE)) {
                    self.command(Op::Discard, flags, at, to - at, &[]);
                }
                at = to;
            }
        } else {
            self.written.extend(entry.sector / PIECE..=(end - 1) / PIECE);
            self.command(Op::Write, flags, entry.sector, entry.nr_sectors, &entry.data);
        }
    }

    /// A command that completes immediately.
    fn command(&mut self, op: Op, flags: BioFlags, sector: u64, nr_sectors: u64, data: &[u8]) {
        let nr_sectors = u32::try_from(nr_sectors).expect("at most 256 MiB");
        let sector = Sector(sector);
        let mut command = Command { op, flags, sector, nr_sectors, blocks: Vec::new() };
        if op == Op::Discard {
            self.writer.add_zeroes(&mut command, u64::from(nr_sectors) * 512);
        } else {
            self.writer.add_blocks(&mut command, data);
        }
        let id = self.commands;
        self.commands += 1;
        self.writer.add(Event::Started { id, command });
        self.writer.add(Event::Ended { id, status: Status::Ok, landed: sector });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A log in sectors of 512 bytes.
    pub(crate) fn log(entries: &[(u64, u64, u64, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut sector = |words: &[u64], text: &[u8]| {
            let start = bytes.len();
            words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
            if text.len() <= 480 {
                bytes.extend_from_slice(text);
            }
            bytes.resize(start + 512, 0);
            if text.len() > 480 {
                bytes.extend_from_slice(text);
            }
        };
        sector(&[MAGIC, VERSION, entries.len() as u64, 512], b"");
        for &(at, sectors, flags, data) in entries {
            sector(
                &[at, sectors, flags, if flags & MARK != 0 { data.len() as u64 } else { 0 }],
                data,
            );
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<DmEntry>, DmLogError> {
        let mut log = DmLog::open(bytes)?;
        let mut entries = Vec::new();
        while let Some(entry) = log.next_entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }

    #[test]
    fn entries_are_writes_flushes_discards_and_marks() {
        let data = [7; 1024];
        let bytes = log(&[
            (8, 2, FUA, &data),
            (0, 0, FLUSH, b""),
            (8, 2, DISCARD, b""),
            (0, 0, MARK, b"mkfs"),
        ]);
        let entries = read(&bytes).expect("a log");
        assert_eq!((entries[0].sector, entries[0].nr_sectors, entries[0].fua), (8, 2, true));
        assert_eq!(entries[0].data, data);
        assert!(entries[1].flush && entries[2].discard);
        assert_eq!(entries[3].mark.as_deref(), Some("mkfs"));
        assert_eq!(read(&bytes[..bytes.len() - 1]).expect("as far as it goes").len(), 3);
    }

    #[test]
    fn what_cannot_be_a_log_is_refused() {
        let error = |bytes: &[u8]| read(bytes).expect_err("malformed").to_string();
        assert!(error(b"x").contains("expected a log of dm-log-writes"));
        assert!(error(&[0; 512]).contains("expected a log of dm-log-writes"));
        let mut bytes = log(&[(u64::MAX, 1, 0, b"")]);
        assert!(error(&bytes).starts_with("entry 1: sector: found 18446744073709551615"));
        bytes[8] = 2;
        assert_eq!(error(&bytes), "version: found 2, expected 1");
        bytes[8] = 1;
        bytes[24] = 1;
        assert!(error(&bytes).starts_with("sector size: found 513, expected a power of two"));
        let long = log(&[(0, 1 << 40, 0, b"")]);
        assert!(error(&long).contains("entry 1: sectors: found 1099511627776, expected at most"));
    }

    proptest! {
        #[test]
        fn any_entries_are_read_or_refused(words in proptest::collection::vec(any::<u64>(), 0..64)) {
            let mut bytes = log(&[]);
            bytes[16] = 255;
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            bytes.resize(bytes.len() + 1024, 0);
            let _entries = read(&bytes);
        }
    }
}
