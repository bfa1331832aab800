//! What a clone does besides the I/O of its generator: it writes down what it does, flushes, and
//! checks what it wrote.
//!
//! ```text
//!  Work   the job's I/O, with flushes and checks between      loops of jobs that check
//!    v                                                              ^
//!  Flush  end_fsync, fsync_on_close                                 |
//!    v                                                              |
//!  Check  all that was written and not yet checked  ----------------+
//! ```
//!
//! A clone without such duties has none of this: no memory, and one look at a pointer for each I/O.
use super::pace::Pace;
use super::verifier::Verifier;
use crate::generate::{Generator, Io, NextIo};
use crate::job::{DataDir, Job};
use crate::stats::IoStats;
use crate::trace::{Recorder, Recording};
use crate::verify::{SyncOptions, VerifyOptions};
use std::sync::Arc;
use zonal_blk::{Bio, BioFlags, Nanos, Op};

/// What an I/O in flight is to the runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoRole {
    /// An I/O of the job.
    Plain,
    /// Prepares or closes a zone: does not count.
    ZoneMgmt,
    /// A flush of `fsync`: counts as such.
    Flush,
    /// A write of the job that will be checked.
    Write,
    /// A read that is checked.
    Check,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    Fsyncing,
    Verifying,
}

pub(crate) struct RunState {
    recorder: Option<Box<Recorder>>,
    pub verifier: Option<Verifier>,
    sync: SyncOptions,
    /// Reads back what it wrote.
    checks: bool,
    /// Writes submitted, and those that the last flush came after.
    writes: u64,
    flushed: u64,
    /// A flush of `fsync` is in flight: as in a process that calls it, nothing else begins.
    flushing: bool,
    /// The flush of the stage of that name is still to be submitted.
    flush_left: bool,
    stage: Stage,
    /// Times the job's amount is still to be done, this time included.
    loops: u64,
    /// The amount.
    bytes: u64,
    stopped: bool,
}

const FLUSH: Io =
    Io { op: Op::Flush, dir: DataDir::Write, offset: 0, len: 0, zone: None, flags: BioFlags::NONE };

impl RunState {
    /// The duties of a clone; `bytes` is the amount of one of `loops`. `None` if it has none.
    pub fn new(
        job: &Job,
        recording: Option<&Arc<Recording>>,
        verifier: Option<Verifier>,
        bytes: u64,
        loops: u64,
    ) -> Option<Box<Self>> {
        let (sync, recorder) = (job.sync, recording.and_then(Recording::take));
        let &VerifyOptions { do_verify, only, .. } = &job.verify;
        if recorder.is_none() && verifier.is_none() && sync == SyncOptions::default() {
            return None;
        }
        Some(Box::new(RunState {
            recorder,
            checks: verifier.is_some() && (do_verify || only),
            verifier,
            sync,
            writes: 0,
            flushed: 0,
            flushing: false,
            flush_left: false,
            stage: Stage::Running,
            loops,
            bytes,
            stopped: false,
        }))
    }

    /// Nothing more is to be begun.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// The next thing to do while the job works.
    pub fn next(&mut self, generator: &mut Generator) -> NextIo {
        if self.flushing {
            return NextIo::Wait;
        }
        let due = |every: u32| every > 0 && self.writes.is_multiple_of(every.into());
        if self.writes > self.flushed && (due(self.sync.fsync) || due(self.sync.fdatasync)) {
            self.flushed = self.writes;
            self.flushing = true;
            return NextIo::Manage(FLUSH);
        }
        let check = self.verifier.as_mut().and_then(Verifier::next_of_backlog);
        check.map_or_else(|| generator.next_io(), NextIo::Manage)
    }

    /// Whether the job's own work is done.
    pub fn is_past_running(&self) -> bool {
        self.stage != Stage::Running
    }

    /// The next thing to do after the job's own work; no more checks if the run time is `over`.
    pub fn next_past_running(&mut self, over: bool) -> Option<Io> {
        match self.stage {
            Stage::Running => None,
            Stage::Fsyncing => std::mem::take(&mut self.flush_left).then_some(FLUSH),
            Stage::Verifying if over || self.stopped => None,
            Stage::Verifying => self.verifier.as_mut()?.next(),
        }
    }

    /// An I/O is about to be submitted, `since` the job's begin. Gives its role.
    pub fn submit(
        &mut self,
        (now, since): (Nanos, Nanos),
        slot: u32,
        io: &Io,
        bio: &mut Bio,
        role: IoRole,
    ) -> IoRole {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(since, io);
        }
        if io.op.is_write() {
            self.writes += 1;
            if self.sync.sync {
                bio.flags = bio.flags | BioFlags::FUA;
            }
            if self.sync.barrier > 0 && self.writes.is_multiple_of(self.sync.barrier.into()) {
                bio.flags = bio.flags | BioFlags::PREFLUSH | BioFlags::FUA;
            }
        }
        if io.op == Op::Flush && self.flushing {
            return IoRole::Flush;
        }
        match &mut self.verifier {
            Some(verifier) => verifier.submit(now, slot, bio, role),
            None => role,
        }
    }

    /// The flush of `fsync` has ended.
    pub fn flushed(&mut self) {
        self.flushing = false;
    }

    /// Nothing is in flight and the stage is over. Whether there is another one.
    pub fn advance(&mut self, now: Nanos, pace: &mut Pace, stats: &mut IoStats) -> bool {
        if self.stage == Stage::Running {
            self.stage = Stage::Fsyncing;
            let wanted = self.sync.end_fsync || self.sync.on_close;
            self.flush_left = wanted && self.writes > 0 && !self.stopped;
            if self.flush_left {
                return true;
            }
        }
        let over = self.stopped || pace.deadline().is_some_and(|end| now >= end);
        let has_more = self.checks && self.verifier.as_ref().is_some_and(Verifier::has_more);
        if has_more && !over {
            if self.stage == Stage::Fsyncing {
                self.stage = Stage::Verifying;
                stats.end_part(now);
            }
            return true;
        }
        if over || self.loops <= 1 || !pace.restart(self.bytes) {
            return false;
        }
        self.loops -= 1;
        self.stage = Stage::Running;
        stats.end_part(now);
        true
    }

    /// Notes what the job would write as if it had (`verify_only`). Its own work is done after
    /// that.
    pub fn dry_run(&mut self, generator: &mut Generator, pace: &mut Pace) {
        let Some(verifier) = &mut self.verifier else { return };
        for _ in 0..std::mem::replace(&mut self.loops, 1) {
            pace.restart(self.bytes);
            while !pace.is_over(Nanos(0)) {
                let mut io = match generator.next_io() {
                    NextIo::Io(io) => {
                        pace.submitted(io.dir, io.len);
                        io
                    }
                    NextIo::Manage(io) => io,
                    NextIo::Later(_) => continue,
                    NextIo::Wait | NextIo::Contended | NextIo::Exhausted => break,
                };
                loop {
                    verifier.dry_run(&io);
                    let mgmt = io.zone.and_then(|zone| generator.done(io.op, zone));
                    let Some(mgmt) = mgmt else { break };
                    io = mgmt;
                }
            }
        }
        pace.stop();
    }

    /// The last I/O has completed.
    pub fn finish(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            recorder.finish();
        }
    }
}
