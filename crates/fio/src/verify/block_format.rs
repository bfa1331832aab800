//! The contents of verified blocks: fills the buffer of a write, checks that of a read.
use super::finding::Mismatch;
use super::header::{HEADER_LEN, Header, MAGIC, kind_of};
use crate::job::{FillPattern, VerifyMethod, VerifyOptions};
use crate::rng::mix;
use std::cmp::Ordering;
use zonal_blk::Nanos;

/// The contents of the blocks of a clone.
pub(crate) struct BlockFormat {
    method: VerifyMethod,
    /// Bytes per header; `usize::MAX` for the whole I/O.
    interval: usize,
    /// Offset of the header in the interval.
    header_at: usize,
    pattern: Option<FillPattern>,
    /// Bytes after which the pattern starts anew; `usize::MAX` for the whole I/O.
    pattern_interval: usize,
    /// Seed of the clone.
    seed: u64,
    thread: u16,
    /// Whether the seed and the number of a write are checked.
    checks_seed: bool,
    checks_number: bool,
    /// One repetition of the pattern; kept for its capacity.
    period: Vec<u8>,
}

/// Identifies a write of a clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteId {
    /// First byte; for an append that of its zone.
    pub offset: u64,
    /// Number of the write, from 0.
    pub number: u32,
    /// Time of submission.
    pub time: Nanos,
}

/// The header expected of a block that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// As in [`WriteId`].
    pub offset: u64,
    /// As in [`WriteId`]; `None` if it is not known which write it was.
    pub number: Option<u32>,
}

/// Length of header and checksum in bytes.
fn header_len(method: VerifyMethod) -> usize {
    match method {
        VerifyMethod::Meta => HEADER_LEN,
        VerifyMethod::Checksum(sum) => HEADER_LEN + sum.len(),
        VerifyMethod::Pattern | VerifyMethod::Null => 0,
    }
}

/// Whether a header at offset `at` fits into blocks of `len` bytes.
pub(crate) fn header_fits(method: VerifyMethod, at: u64, len: u64) -> bool {
    // A header that is not at the start is swapped with the data there: they must not overlap.
    let header = header_len(method) as u64;
    (at == 0 || at >= header) && at + header <= len
}

impl BlockFormat {
    /// The format of clone number `clone` with its seed; `None` without verification.
    pub fn new(options: &VerifyOptions, seed: u64, clone: u32) -> Option<Self> {
        Some(BlockFormat {
            method: options.method?,
            interval: options.interval.map_or(usize::MAX, |interval| interval as usize),
            header_at: options.offset as usize,
            pattern: options.pattern.clone(),
            pattern_interval: match options.pattern_interval {
                0 => usize::MAX,
                interval => interval as usize,
            },
            seed,
            thread: u16::try_from(clone + 1).unwrap_or(u16::MAX),
            checks_seed: options.header_seed.unwrap_or(true),
            checks_number: options.write_sequence.unwrap_or(true),
            period: Vec::new(),
        })
    }

    /// Seed of the random bytes of a write; 0 with a pattern, as in fio.
    fn seed_of(&self, number: u32) -> u64 {
        if self.pattern.is_some() { 0 } else { mix(self.seed ^ mix(number.into())) }
    }

    /// Fills the buffer of a write.
    pub fn fill(&mut self, buf: &mut [u8], write: WriteId) {
        let seed = self.seed_of(write.number);
        match &self.pattern {
            Some(pattern) => {
                let mut offset = write.offset;
                for part in buf.chunks_mut(self.pattern_interval) {
                    pattern.render(offset, &mut self.period);
                    for piece in part.chunks_mut(self.period.len()) {
                        piece.copy_from_slice(&self.period[..piece.len()]);
                    }
                    offset += part.len() as u64;
                }
            }
            None => {
                for (number, word) in (1_u64..).zip(buf.chunks_mut(8)) {
                    let random = mix(seed.wrapping_add(number)).to_le_bytes();
                    word.copy_from_slice(&random[..word.len()]);
                }
            }
        }
        let header_len = header_len(self.method);
        if header_len == 0 {
            return;
        }
        let mut offset = write.offset;
        let interval = self.interval.min(buf.len());
        for block in buf.chunks_mut(interval) {
            let header = Header {
                magic: MAGIC,
                kind: kind_of(self.method),
                len: u32::try_from(block.len()).expect("a block is shorter than 4 GiB"),
                seed,
                offset,
                time: write.time,
                thread: self.thread,
                number: (write.number & 0xffff) as u16,
            };
            header.write(block);
            if let VerifyMethod::Checksum(sum) = self.method {
                let of_data = sum.of(&block[header_len..]);
                block[HEADER_LEN..header_len].copy_from_slice(&of_data[..sum.len()]);
            }
            swap(block, self.header_at, header_len);
            offset += block.len() as u64;
        }
    }

    /// Checks the data read; calls `report` with the position, the length and the error of each bad
    /// block. Changes the buffer.
    pub fn check(
        &mut self,
        buf: &mut [u8],
        expected: Expected,
        mut report: impl FnMut(usize, usize, Mismatch),
    ) {
        match self.method {
            VerifyMethod::Null => {}
            VerifyMethod::Pattern => {
                if let Some(mismatch) = self.check_pattern(buf, expected.offset) {
                    report(0, buf.len(), mismatch);
                }
            }
            VerifyMethod::Meta | VerifyMethod::Checksum(_) => {
                let interval = self.interval.min(buf.len());
                for (index, block) in buf.chunks_mut(interval).enumerate() {
                    let at = index * interval;
                    swap(block, self.header_at, header_len(self.method));
                    let offset = expected.offset + at as u64;
                    if let Err(mismatch) = self.check_block(block, Expected { offset, ..expected })
                    {
                        report(at, block.len(), mismatch);
                    }
                }
            }
        }
    }

    fn check_pattern(&mut self, buf: &[u8], offset: u64) -> Option<Mismatch> {
        let pattern = self.pattern.as_ref()?;
        let mut start = 0;
        for part in buf.chunks(self.pattern_interval) {
            pattern.render(offset + start as u64, &mut self.period);
            let wanted = self.period.iter().cycle();
            let mut bytes = part.iter().zip(wanted).enumerate();
            if let Some((at, (&found, &wanted))) = bytes.find(|(_, (is, should))| is != should) {
                return Some(Mismatch::Pattern { at: start + at, found, wanted });
            }
            start += part.len();
        }
        None
    }

    fn check_block(&self, block: &[u8], expected: Expected) -> Result<(), Mismatch> {
        let (header, [crc, calculated]) = Header::read(block);
        let differ = |what, found: u64, wanted: u64| match found.cmp(&wanted) {
            Ordering::Equal => Ok(()),
            _ => Err(Mismatch::Header { what, found, wanted }),
        };
        if header.magic != MAGIC {
            return Err(Mismatch::Magic { found: header.magic, wanted: MAGIC });
        }
        differ("length", header.len.into(), block.len() as u64)?;
        differ("type", header.kind.into(), kind_of(self.method).into())?;
        differ("offset", header.offset, expected.offset)?;
        if crc != calculated {
            return Err(Mismatch::HeaderCrc { found: crc, calculated });
        }
        if let Some(number) = expected.number.filter(|_| self.checks_seed) {
            differ("rand_seed", header.seed, self.seed_of(number))?;
        }
        if let Some(number) = expected.number.filter(|_| self.checks_number) {
            differ("numberio", header.number.into(), (number & 0xffff).into())?;
        }
        if let VerifyMethod::Checksum(sum) = self.method {
            let header_len = header_len(self.method);
            let (stored, received) = (&block[HEADER_LEN..header_len], sum.of(&block[header_len..]));
            let received = &received[..sum.len()];
            if stored != received {
                let (expected, received) = (stored.to_vec(), received.to_vec());
                return Err(Mismatch::Checksum { sum, expected, received });
            }
        }
        Ok(())
    }

    /// Time of the write, from the header of its first block.
    pub fn time_of(&self, buf: &[u8]) -> Nanos {
        let header = buf.get(self.header_at..).filter(|rest| rest.len() >= HEADER_LEN);
        header.map_or(Nanos(0), |bytes| Header::read(bytes).0.time)
    }
}

/// Swaps the header with the data at its offset, unless that is the start.
fn swap(block: &mut [u8], at: usize, len: usize) {
    if at > 0 {
        let (head, rest) = block.split_at_mut(at);
        head[..len].swap_with_slice(&mut rest[..len]);
    }
}
