//! Operations on a device through the block layer, one after another, as blkzone(8) issues them.
use anyhow::{Context, Result};
use std::fmt;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use zonal_backend::Stack;
use zonal_blk::{
    Bio, Channel, Completion, Failure, Nanos, Op, Queue, Sector, Status, Wake, ZoneKind, ZoneNo,
};

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptStep {
    /// The action.
    pub op: Op,
    /// The first sector.
    pub sector: Sector,
    /// The number of sectors; 0 for zone management. For a ZRWA flush, those before the new write
    /// pointer.
    pub length: u64,
}

impl ScriptStep {
    /// The operations.
    pub const OPS: [Op; 8] = [
        Op::Write,
        Op::ZoneAppend,
        Op::ZoneOpen,
        Op::ZoneClose,
        Op::ZoneFinish,
        Op::ZoneReset,
        Op::ZoneOpenZrwa,
        Op::ZrwaFlush,
    ];

    /// The name of an operation.
    pub fn name(op: Op) -> &'static str {
        match op {
            Op::ZoneOpenZrwa => "open-zrwa",
            Op::ZrwaFlush => "commit",
            _ => op.info().name,
        }
    }

    /// Whether an operation has a length.
    pub fn has_length(op: Op) -> bool {
        op.has_range() || op == Op::ZrwaFlush
    }
}

impl fmt::Display for ScriptStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", ScriptStep::name(self.op), self.sector)?;
        if ScriptStep::has_length(self.op) { write!(f, " {}", self.length) } else { Ok(()) }
    }
}

/// A channel for one operation after another, or for several in flight. Nothing else happens meanwhile,
/// so time is virtual: it jumps to the device's next event.
pub struct SyncChannel {
    channel: Channel,
    now: Nanos,
    completions: Vec<Completion>,
    /// Kept for its capacity.
    wait_fds: Vec<RawFd>,
    /// Why operations failed, oldest first.
    failures: Arc<Mutex<Vec<Failure>>>,
}

/// What a channel does until something completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// Virtual time has passed.
    Passed,
    /// The operating system or a peer has an operation: its time cannot be skipped.
    Outside,
}

/// An operation that failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {status}{}", .why.as_ref().map_or_else(String::new, |why| format!(": {why}")))]
pub struct OpError {
    what: String,
    status: Status,
    /// The rule that was broken and what the zone was like, if known.
    why: Option<String>,
}

/// Sectors of the longest single write; longer ones are split.
const MAX_WRITE_SECTORS: u64 = 1 << 20;

impl SyncChannel {
    /// A channel of a device.
    ///
    /// # Errors
    /// The device has no free hardware queue.
    pub fn new(device: &Stack) -> Result<Self> {
        let failures = Arc::<Mutex<Vec<Failure>>>::default();
        let all = Arc::clone(&failures);
        device.queue.on_failure(move |failure: &Failure| {
            all.lock().unwrap_or_else(PoisonError::into_inner).push(failure.clone());
        });
        let channel = device.queue.channel().with_context(|| format!("device {}", device.name))?;
        let (completions, wait_fds) = (Vec::new(), Vec::new());
        Ok(SyncChannel { channel, now: Nanos(0), completions, wait_fds, failures })
    }

    /// The block layer of the device.
    pub fn queue(&self) -> &Arc<Queue> {
        self.channel.queue()
    }

    /// The time, which starts at 0.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Lets this much time pass, in which the device may finish what it does on its own.
    pub fn pass(&mut self, time: Nanos) {
        self.now += time;
    }

    /// Runs one step.
    ///
    /// # Errors
    /// The operation failed.
    pub fn run_step(&mut self, step: &ScriptStep) -> Result<(), OpError> {
        let failed = |status, why| OpError { what: step.to_string(), status, why };
        let (mut sector, mut left) = (step.sector, step.length);
        loop {
            let whole = matches!(step.op, Op::ZoneAppend | Op::ZrwaFlush);
            let part = if whole { left } else { left.min(MAX_WRITE_SECTORS) };
            let nr_sectors = u32::try_from(part).map_err(|_| failed(Status::Invalid, None))?;
            let done = self.submit_and_wait(step.op, sector, nr_sectors);
            done.map_err(|status| failed(status, self.why()))?;
            left -= part;
            if left == 0 {
                return Ok(());
            }
            sector += Sector(part);
        }
    }

    /// Issues a zone management operation for each of `zones`. A reset of `all` zones is a single
    /// operation, which skips conventional zones.
    ///
    /// # Errors
    /// The operation failed on a zone; the zones after it are not touched.
    pub fn manage(
        &mut self,
        op: Op,
        zones: std::ops::Range<u32>,
        all: bool,
    ) -> Result<(), OpError> {
        if op == Op::ZoneReset && all {
            let what = "reset of all zones".to_owned();
            let failed = |status| OpError { what, status, why: None };
            return self.submit_and_wait(Op::ZoneResetAll, Sector(0), 0).map_err(failed);
        }
        for zone in zones {
            let start = self.queue().limits().zone_start(ZoneNo(zone));
            let done = self.submit_and_wait(op, start, 0);
            let what = || format!("zone {zone} at sector {start}");
            done.map_err(|status| OpError { what: what(), status, why: self.why() })?;
        }
        Ok(())
    }

    /// Why the last write or zone management failed, if it did and the device knows.
    fn failure(&self) -> Option<Failure> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).last().cloned()
    }

    /// Why writes and zone management failed since this was called last, oldest first, as far as the
    /// device knows.
    pub fn take_failures(&mut self) -> Vec<Failure> {
        std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why the last operation failed.
    fn why(&self) -> Option<String> {
        let failure = self.failure()?;
        let found = failure.found.map(|zone| match zone.kind {
            ZoneKind::Conventional => format!(" (zone {}: {})", failure.zone, zone.cond),
            ZoneKind::SequentialRequired => {
                format!(" (zone {}: {}, write pointer {})", failure.zone, zone.cond, zone.wp)
            }
        });
        Some(failure.rule + &found.unwrap_or_default())
    }

    fn submit_and_wait(&mut self, op: Op, sector: Sector, nr_sectors: u32) -> Result<(), Status> {
        match self.run(Bio::new(op, sector, nr_sectors, 0)).status {
            Status::Ok => Ok(()),
            status => Err(status),
        }
    }

    /// Submits a bio and waits for its completion; no other may be in flight.
    pub fn run(&mut self, bio: Bio) -> Completion {
        self.take_failures();
        self.submit(bio);
        let mut completions = std::mem::take(&mut self.completions);
        let completion = loop {
            self.poll(&mut completions);
            if let Some(completion) = completions.pop() {
                break completion;
            }
            if self.advance() == Advance::Outside {
                thread::yield_now();
            }
        };
        self.completions = completions;
        completion
    }

    /// Submits a bio.
    pub fn submit(&mut self, bio: Bio) {
        self.channel.submit(self.now, bio);
    }

    /// Adds what has completed by now to `completions`.
    pub fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.channel.poll(self.now, completions);
    }

    /// Goes to the next event, with a bio in flight.
    pub fn advance(&mut self) -> Advance {
        self.wait_fds.clear();
        self.channel.wait_fds(&mut self.wait_fds);
        match self.channel.next_event() {
            Wake::Now => Advance::Passed,
            Wake::At(at) if self.wait_fds.is_empty() => {
                self.now = self.now.max(at);
                Advance::Passed
            }
            Wake::At(_) | Wake::External => Advance::Outside,
            Wake::Idle => panic!("a bio in flight is outstanding"),
        }
    }
}
