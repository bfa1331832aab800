//! The requests of a trace, in their order.
//!
//! Takes a share of a trace; gives its I/Os, each after the word that it is not due before its time.
//! Keeps true: nothing is allocated for an I/O.
use super::{Io, NextIo};
use crate::job::DataDir;
use crate::trace::{Request, TraceSlice};
use std::sync::Arc;
use zonal_blk::{Device, Nanos, Op, Status, ZoneKind, ZoneNo};

pub(super) struct Replay {
    share: TraceSlice,
    next: usize,
    /// Times the trace is still to be done, this time included.
    passes: u64,
    /// When this pass began.
    base: Nanos,
    /// All that is due up to here has been said to be.
    reached: Nanos,
}

/// The zones of a device that a trim of the whole zone resets.
#[derive(Clone, Debug, Default)]
pub struct SequentialZones {
    /// Bytes; 0 for a device without zones.
    zone_size: u64,
    /// By zone.
    sequential: Arc<[bool]>,
}

impl SequentialZones {
    /// The zones of `device`.
    ///
    /// # Errors
    /// The status with which the device refused the report.
    pub fn of(device: &dyn Device) -> Result<Self, Status> {
        let limits = device.limits();
        let mut zones = Vec::new();
        if limits.nr_zones > 0 {
            device.report_zones(ZoneNo(0), limits.nr_zones as usize, &mut zones)?;
        }
        let is_sequential = |kind| kind == ZoneKind::SequentialRequired;
        let sequential = zones.iter().map(|zone| is_sequential(zone.kind)).collect();
        Ok(SequentialZones { zone_size: limits.zone_size.to_bytes().0, sequential })
    }

    /// Whether the range is the whole of a sequential zone.
    fn is_zone(&self, offset: u64, len: u64) -> bool {
        let zone = || usize::try_from(offset / self.zone_size).ok();
        self.zone_size > 0
            && len == self.zone_size
            && offset.is_multiple_of(self.zone_size)
            && zone().and_then(|zone| self.sequential.get(zone)).is_some_and(|&yes| yes)
    }
}

impl Replay {
    /// The requests of a share, so many times.
    pub(super) fn new(share: TraceSlice, passes: u64) -> Self {
        let next = share.range.start;
        Replay { share, next, passes, base: Nanos(0), reached: Nanos(0) }
    }

    #[inline]
    pub(super) fn next(&mut self) -> NextIo {
        if self.next == self.share.range.end {
            self.passes = self.passes.saturating_sub(1);
            if self.passes == 0 || self.share.range.is_empty() {
                return NextIo::Exhausted;
            }
            self.next = self.share.range.start;
            self.base = self.reached;
        }
        let request = &self.share.trace.requests[self.next];
        let at = self.base.saturating_add(request.at);
        if at > self.reached {
            self.reached = at;
            return NextIo::Later(at);
        }
        self.next += 1;
        self.io(request)
    }

    fn io(&self, request: &Request) -> NextIo {
        let &Request { op, offset, len, flags, .. } = request;
        let io = |op, dir| Io { op, dir, offset, len, zone: None, flags };
        match op {
            Op::Read => NextIo::Io(io(op, DataDir::Read)),
            Op::Write | Op::WriteZeroes | Op::ZoneAppend => NextIo::Io(io(op, DataDir::Write)),
            // As fio does in zonemode=zbd.
            Op::Discard if self.share.zones.is_zone(offset, len) => {
                NextIo::Io(io(Op::ZoneReset, DataDir::Trim))
            }
            Op::Discard => NextIo::Io(io(op, DataDir::Trim)),
            _ => NextIo::Manage(io(op, DataDir::Write)),
        }
    }
}
