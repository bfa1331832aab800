//! The requests of FreeBSD's benchmarks/raidtest.
//!
//! Its `genfile` draws for each request a length from one sector to 128 KiB, each as likely as any
//! other, then a sector where it fits on the medium, then read or write. Its `test` forks processes,
//! each of which does one run of consecutive requests, one after another: its share. Here the
//! random numbers are Zonal's, and the last place on the medium can be drawn, too.
use super::{Fraction, Request};
use crate::generate::random::Rng;
use zonal_blk::{BioFlags, Nanos, Op};

/// Tells these random numbers from a job's.
const STREAM: u64 = u64::from_be_bytes(*b"raidtest");

/// What the requests are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raidtest {
    /// First byte of the region.
    pub start: u64,
    /// Bytes of the region (raidtest's `-s`).
    pub size: u64,
    /// Number of requests (`-n`).
    pub requests: u64,
    /// Bytes that offsets and lengths are multiples of (`-S`).
    pub align: u64,
    /// Bytes of the longest request.
    pub max_size: u64,
    /// Share of writes: 0 for `-r`, 1 for `-w`.
    pub writes: Fraction,
    /// Chooses the random numbers.
    pub seed: u64,
}

/// A pattern that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {problem}")]
pub struct PatternError {
    /// The property that is wrong: `size`, `requests`, `align` or `max_size`.
    pub option: &'static str,
    /// What was found and what was expected.
    pub problem: String,
}

impl Raidtest {
    /// Requests, unless told otherwise.
    pub const REQUESTS: u64 = 10_000;
    /// Bytes of the longest request, unless told otherwise.
    pub const MAX_SIZE: u64 = 128 << 10;
    /// Requests at the most: their lines are counted in 32 bits.
    pub const MAX_REQUESTS: u64 = 1 << 31;

    /// The requests.
    ///
    /// # Errors
    /// The property that is wrong.
    pub fn generate(&self) -> Result<Vec<Request>, PatternError> {
        let &Raidtest { start, size, requests, align, max_size, writes, seed } = self;
        let fail = |option, problem| Err(PatternError { option, problem });
        if align == 0 || align % 512 != 0 {
            return fail("align", format!("found {align}, expected a multiple of 512"));
        }
        if max_size == 0 || max_size % align != 0 {
            return fail("max_size", format!("found {max_size}, expected a multiple of {align}"));
        }
        if size < max_size {
            return fail("size", format!("found {size}, expected at least max_size={max_size}"));
        }
        if requests == 0 || requests > Self::MAX_REQUESTS {
            let most = Self::MAX_REQUESTS;
            return fail("requests", format!("found {requests}, expected 1 to {most}"));
        }
        let mut rng = Rng::new(seed, [STREAM, 0, 0, 0]);
        let (sectors, longest) = (size / align, max_size / align);
        let request = |line| {
            let len = 1 + rng.below(longest);
            let sector = rng.below(sectors - len + 1);
            let write = rng.below(Fraction::ONE) < writes.millionths();
            Request {
                at: Nanos(0),
                offset: start + sector * align,
                len: len * align,
                line,
                file: 0,
                op: if write { Op::Write } else { Op::Read },
                flags: BioFlags::NONE,
            }
        };
        let last = u32::try_from(requests).expect("2^31 at the most");
        // A pattern file's first request is in its third line.
        Ok((3..last + 3).map(request).collect())
    }

    /// How the requests are made, for pattern files.
    pub fn origin(&self) -> String {
        let Raidtest { size, requests, align, max_size, writes, seed, .. } = self;
        format!(
            "raidtest size={size} requests={requests} seed={seed} align={align} \
             max_size={max_size} writes={writes}"
        )
    }
}
