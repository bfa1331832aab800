//! Replays the requests of a trace, in order and no earlier than their times.
use super::{Io, NextIo};
use crate::job::DataDir;
use crate::trace::{Request, TraceSlice};
use zonal_blk::{Nanos, Op};

pub(super) struct Replay {
    trace_slice: TraceSlice,
    next: usize,
    /// Passes left, including the current one.
    passes: u64,
    /// Start of this pass.
    base: Nanos,
    /// The latest time that [`NextIo::Later`] was returned for.
    reached: Nanos,
}

impl Replay {
    /// Replays the slice `passes` times.
    pub(super) fn new(trace_slice: TraceSlice, passes: u64) -> Self {
        let next = trace_slice.range.start;
        Replay { trace_slice, next, passes, base: Nanos(0), reached: Nanos(0) }
    }

    #[inline]
    pub(super) fn next(&mut self) -> NextIo {
        if self.next == self.trace_slice.range.end {
            self.passes = self.passes.saturating_sub(1);
            if self.passes == 0 || self.trace_slice.range.is_empty() {
                return NextIo::Exhausted;
            }
            self.next = self.trace_slice.range.start;
            self.base = self.reached;
        }
        let request = &self.trace_slice.trace.requests[self.next];
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
            Op::Discard if self.trace_slice.zones.is_zone(offset, len) => {
                NextIo::Io(io(Op::ZoneReset, DataDir::Trim))
            }
            Op::Discard => NextIo::Io(io(op, DataDir::Trim)),
            _ => NextIo::Manage(io(op, DataDir::Write)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Generator;
    use crate::job::{BlkparseAction, Job};
    use crate::trace::read;
    use std::sync::Arc;

    #[test]
    fn replay_waits_for_request_times_and_repeats_for_each_loop() {
        let text = "fio version 3 iolog\n0 a add\n0 a open\n0 a read 0 512\n7 a write 512 512\n\
                    7 a sync 0 0\n7 a trim 0 512\n";
        let (_, trace) = read("t", &mut text.as_bytes(), BlkparseAction::Queue).expect("a trace");
        let slice = TraceSlice::new(Arc::new(trace), 0, 1);
        let job = Job { loops: 2, ..Job::default() };
        let mut generator = Generator::replay(&job, slice);
        let mut seen = Vec::new();
        loop {
            match generator.next_io() {
                NextIo::Later(at) => seen.push(format!("{at}")),
                NextIo::Io(Io { op, dir, .. }) => seen.push(format!("{op:?} {dir:?}")),
                NextIo::Manage(Io { op, .. }) => seen.push(format!("{op:?}")),
                NextIo::Exhausted => break,
                other => panic!("{other:?}"),
            }
        }
        let pass = ["Read Read", "", "Write Write", "Flush", "Discard Trim"];
        let expected =
            ["7000", "14000"].map(|time| pass.map(|it| if it.is_empty() { time } else { it }));
        assert_eq!(seen, expected.concat());
    }
}
