//! Where the I/Os of a job with `zonemode=zbd` would be if the device had no zones.
//!
//! As in fio, offsets come first: sequential ones, runs after a random one, the random map,
//! distributions. What the zones allow then moves the I/O: a write to the write pointer, a read below
//! it.
use crate::generate::addresses::Addresses;
use crate::generate::linear::Linear;
use crate::generate::{Io, Region};
use crate::job::{DataDir, Job, Rw};
use crate::rng::Rng;

/// From this many blocks on a job that only writes has no random map: the map says no more than how
/// often each zone comes, and a run reaches a small part of the region.
const MAX_MAPPED_WRITES: u64 = 1 << 22;
/// Most blocks of a map for several block sizes, which has a bit for each.
const MAX_MAP: u64 = 1 << 27;

pub(super) enum Source {
    /// Any zone, each as likely as the others.
    Zones,
    Linear(Box<Linear>),
    Addresses(Box<Addresses>),
}

impl Source {
    /// The offsets of a job in its region. `offsets` and `lengths` are streams of random numbers.
    pub(super) fn new(job: &Job, region: Region, offsets: Rng, lengths: Rng) -> Self {
        if Addresses::needed(job) {
            let mut addresses = Addresses::new(job, region, offsets, lengths);
            addresses.limit_map(MAX_MAP);
            return Source::Addresses(Box::new(addresses));
        }
        let largest = job.bs.into_iter().max().expect("three directions");
        let has_map = (job.address.lfsr || !job.norandommap)
            && (job.rw != Rw::Write || region.len() / largest <= MAX_MAPPED_WRITES);
        match job.random && job.rw_modifier <= 1 && !has_map {
            true => Source::Zones,
            false => Source::Linear(Box::new(Linear::new(job, region, offsets))),
        }
    }

    /// The next I/O; `None` at the end of the region.
    pub(super) fn next(&mut self, dir: DataDir, len: u64) -> Option<Io> {
        match self {
            Source::Zones => unreachable!("zones are drawn by the job"),
            Source::Linear(linear) => linear.next(dir, len),
            Source::Addresses(addresses) => addresses.next(dir),
        }
    }

    /// The last I/O of a direction is shorter than it was drawn.
    pub(super) fn shortened(&mut self, dir: DataDir, len: u64) {
        if let Source::Addresses(addresses) = self {
            addresses.shortened(dir, len);
        }
    }

    /// The next sequential offset of a direction, from the start of the region.
    pub(super) fn position(&self, dir: DataDir) -> u64 {
        match self {
            Source::Zones => 0,
            Source::Linear(linear) => linear.position(dir),
            Source::Addresses(addresses) => addresses.position(dir),
        }
    }

    /// The last I/O of a direction was moved and ended here, from the start of the region.
    pub(super) fn moved(&mut self, dir: DataDir, end: u64) {
        match self {
            Source::Zones => {}
            Source::Linear(linear) => linear.moved(dir, end),
            Source::Addresses(addresses) => addresses.moved(dir, end),
        }
    }

    /// Starts at the begin of the region again.
    pub(super) fn rewind(&mut self) {
        match self {
            Source::Zones => {}
            Source::Linear(linear) => linear.rewind(),
            Source::Addresses(addresses) => addresses.rewind(),
        }
    }
}
