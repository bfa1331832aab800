//! The state that the link and the head of a drive share: commands, buffers and counters. Times are in
//! nanoseconds, addresses in bytes.
use super::buffer::{Buffer, Segments};
use super::config::HddConfig;
use crate::storage::{ModelStorage, Storage};
use std::collections::VecDeque;
use zonal_blk::{Limits, Nanos, Op, Request, Sector, Status};

/// The bytes that a request covers: its start and its end.
pub(super) fn byte_range(request: &Request) -> (u64, u64) {
    (request.sector().to_bytes().0, request.end().to_bytes().0)
}

/// State shared by the link and the head.
pub(super) struct DiskShared {
    pub(super) now: u64,
    /// Reads that need the head, with their arrival times.
    pub(super) reads: Vec<(u64, Box<Request>)>,
    /// Completed commands that wait for the link, reads with their data.
    pub(super) responses: VecDeque<Box<Request>>,
    /// Commands that the host can collect.
    pub(super) done: Vec<Box<Request>>,
    pub(super) buffer: Buffer,
    pub(super) segments: Segments,
    pub(super) counters: Counters,
}

impl DiskShared {
    pub(super) fn new(config: &HddConfig) -> Self {
        let depth = usize::from(config.queue_depth());
        DiskShared {
            now: 0,
            reads: Vec::with_capacity(depth),
            responses: VecDeque::with_capacity(depth),
            done: Vec::with_capacity(depth),
            buffer: Buffer::new(config.cache.0, config.cache_commands),
            segments: segments(config),
            counters: Counters::default(),
        }
    }

    /// The disk was formatted: what had been read is gone.
    pub(super) fn forget_reads(&mut self, config: &HddConfig) {
        self.segments = segments(config);
    }
}

fn segments(config: &HddConfig) -> Segments {
    Segments::new(config.segments as usize, config.read_ahead.0)
}

/// The zones and data of the disk; access to them takes no time.
pub(super) struct Medium {
    pub(super) storage: ModelStorage,
    zone_size: Sector,
    /// The unit in which sequential zones are written, a power of two in sectors, minus 1.
    unit_mask: u64,
}

impl Medium {
    pub(super) fn new(storage: ModelStorage, limits: &Limits) -> Self {
        let unit_mask = u64::from(limits.zone_write_sectors()) - 1;
        Medium { storage, zone_size: limits.zone_size, unit_mask }
    }

    /// Whether a write to a sequential zone is not of whole units.
    #[inline]
    fn is_too_fine(&self, request: &Request) -> bool {
        (request.sector().0 | u64::from(request.nr_sectors())) & self.unit_mask != 0
            && self
                .storage
                .get()
                .and_then(Storage::zones)
                .is_ok_and(|zones| !zones.is_conventional(request.zone()))
    }

    /// Executes a command and sets its status.
    pub(super) fn execute(&self, request: &mut Request) {
        let result = match (request.op(), self.storage.unobserved()) {
            (Op::Write, _) if self.is_too_fine(request) => Err(Status::IoError),
            (Op::Write, Some(storage)) => storage.write(request),
            (Op::Read, Some(storage)) => storage.read(request),
            _ => self.execute_any(request),
        };
        match result {
            Ok(()) => request.set_status(Status::Ok),
            Err(status) => request.refuse(status),
        }
    }

    /// The same for every kind of command.
    #[inline(never)]
    fn execute_any(&self, request: &mut Request) -> Result<(), Status> {
        self.storage.observed(None, request, |storage, request| {
            storage.map_or(Ok(()), |storage: &Storage| storage.apply(request, |_| {}))
        })
    }

    /// Whether a write would surely be executed now.
    #[inline]
    pub(super) fn would_write(&self, request: &Request) -> bool {
        match self.storage.get().and_then(Storage::zones) {
            Ok(zones) => zones.accepts(request.zone(), request.sector(), request.nr_sectors()),
            // A regular disk, or a model of time.
            Err(_) => true,
        }
    }

    /// The bytes of a request's zone: their start and end.
    pub(super) fn zone_range(&self, request: &Request) -> (u64, u64) {
        let start = Sector(u64::from(request.zone().0) * self.zone_size.0);
        (start.to_bytes().0, (start + self.zone_size).to_bytes().0)
    }
}

/// The drive's counts since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Seeks.
    pub seeks: u64,
    /// Time spent seeking.
    pub seek_time: Nanos,
    /// Time spent waiting for sectors.
    pub rotate_time: Nanos,
    /// Time spent reading and writing.
    pub transfer_time: Nanos,
    /// Time spent idle.
    pub idle_time: Nanos,
    /// Reads that needed no access to the medium.
    pub cache_hits: u64,
    /// Writes that found the buffer full.
    pub full_waits: u64,
    /// Revolutions spent on retries.
    pub retries: u64,
}
