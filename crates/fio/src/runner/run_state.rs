//! The state of a clone that does more than the I/O of its generator: recording, logs, limits,
//! flushes and verification.
//!
//! ```text
//!  Running     the job's I/O, with flushes and backlog verification    loops with verification
//!    v                                                                   ^
//!  Fsyncing    end_fsync, fsync_on_close                                 |
//!    v                                                                   |
//!  Verifying   all writes not yet verified  -----------------------------+
//! ```
//!
//! Other clones have no such state: they pay one test of a pointer per I/O.
use super::RunLimits;
use super::command_prio::CommandPrios;
use super::contents::Contents;
use super::overlaps::Overlaps;
use super::pace::Pace;
use super::record::{Recorder, Recording};
use super::slots::IoRole;
use super::verifier::Verifier;
use super::write_streams::WriteStreams;
use crate::generate::{Generator, Io, NextIo};
use crate::job::{DataDir, Job, SyncOptions, VerifyOptions};
use crate::logs::Logs;
use crate::stats::IoStats;
use std::sync::Arc;
use zonal_blk::{Bio, BioFlags, Nanos, Op};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    Fsyncing,
    Verifying,
}

/// The parts of a clone besides the I/O of its generator.
pub(crate) struct RunParts<'a> {
    pub recording: Option<&'a Arc<Recording>>,
    pub logs: Option<Logs>,
    pub limits: Option<Box<RunLimits>>,
    pub prios: Option<Box<CommandPrios>>,
    pub streams: Option<Box<WriteStreams>>,
    pub contents: Option<Box<Contents>>,
    pub verifier: Option<Verifier>,
}

pub(crate) struct RunState {
    recorder: Option<Box<Recorder>>,
    pub logs: Option<Logs>,
    pub limits: Option<Box<RunLimits>>,
    /// Fills the buffers of writes, unless they are verified.
    contents: Option<Box<Contents>>,
    pub prios: Option<Box<CommandPrios>>,
    streams: Option<Box<WriteStreams>>,
    pub verifier: Option<Verifier>,
    overlaps: Option<Overlaps>,
    sync: SyncOptions,
    /// Whether to read back and verify writes.
    verifies: bool,
    /// Writes submitted.
    writes: u64,
    /// Writes submitted before the last flush.
    flushed: u64,
    /// A flush of `fsync` is in flight: as in a process that calls it, nothing else is submitted.
    flushing: bool,
    /// The flush of [`Stage::Fsyncing`] has not been submitted yet.
    flush_pending: bool,
    stage: Stage,
    /// The job starts over after verification, until its runtime is over.
    time_based: bool,
    /// Loops left, including the current one.
    loops: u64,
    /// Bytes of one loop.
    bytes: u64,
    /// Bytes of further loops, where they are fewer than what these loops could do.
    rest: Option<u64>,
    /// Bytes of all loops, if only ends of the region part them: a job that reads, writes and verifies in
    /// sequence.
    all: Option<u64>,
    /// `io_size`, or `size` for a job that verifies: the job begins again until it has done as much,
    /// verification included, as in fio. 0 otherwise.
    amount: u64,
    /// Bytes done before the current loop.
    done: u64,
    /// The largest block: with less left of the amount the job does not begin again.
    largest: u64,
    stopped: bool,
}

const FLUSH: Io =
    Io { op: Op::Flush, dir: DataDir::Write, offset: 0, len: 0, zone: None, flags: BioFlags::NONE };

/// The bytes of the next loop, each of which has `bytes` for as long as there are as many.
fn next_bytes(bytes: u64, rest: &mut Option<u64>) -> u64 {
    let Some(rest) = rest else { return bytes };
    let bytes = bytes.min(*rest);
    *rest -= bytes;
    bytes
}

impl RunState {
    /// The state of a clone with `loops` of `bytes` each, of which the loops after the first have no more than
    /// `rest` together, and of `amount` bytes in all; `None` if it needs none.
    pub fn new(
        job: &Job,
        parts: RunParts<'_>,
        (bytes, rest, amount): (u64, Option<u64>, u64),
        loops: u64,
    ) -> Option<Box<Self>> {
        let RunParts { recording, logs, limits, prios, streams, contents, verifier } = parts;
        let time_based = job.time_based && job.verifies_each_pass();
        let (sync, recorder) = (job.sync, recording.and_then(Recording::take));
        let &VerifyOptions { do_verify, only, .. } = &job.verify;
        let overlaps = (job.serialize_overlap && job.iodepth > 1).then(Overlaps::default);
        let watches =
            recorder.is_some() || logs.is_some() || limits.is_some() || overlaps.is_some();
        let changes =
            verifier.is_some() || contents.is_some() || prios.is_some() || streams.is_some();
        if !watches && !changes && sync == SyncOptions::default() {
            return None;
        }
        let verifies = verifier.is_some() && (do_verify || only);
        Some(Box::new(RunState {
            recorder,
            logs,
            limits,
            prios,
            streams,
            contents,
            verifies,
            verifier,
            overlaps,
            sync,
            writes: 0,
            flushed: 0,
            flushing: false,
            flush_pending: false,
            stage: Stage::Running,
            time_based,
            loops,
            bytes,
            rest,
            all: job.verifies_in_passes().then_some(bytes),
            amount: if job.io_size.is_some() || verifies { amount } else { 0 },
            done: 0,
            largest: job.bs.into_iter().max().expect("three directions"),
            stopped: false,
        }))
    }

    /// Submits nothing more.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// The next action while running.
    #[inline(never)]
    pub fn next(&mut self, generator: &mut Generator) -> NextIo {
        if self.flushing {
            return NextIo::Wait;
        }
        let due = |every: u32| every > 0 && self.writes.is_multiple_of(every.into());
        if self.writes > self.flushed && (due(self.sync.fsync) || due(self.sync.fdatasync)) {
            self.flushed = self.writes;
            // As in fio, which looks whether a flush is due after a write only.
            self.flushing = !self.verifier.as_ref().is_some_and(Verifier::begins_batch);
            if self.flushing {
                return NextIo::Manage(FLUSH);
            }
        }
        let next = |it: &mut Verifier| it.next_trim().or_else(|| it.next_of_backlog());
        let verifier = &mut self.verifier;
        let mut next = || {
            let io = verifier.as_mut().and_then(next);
            io.map_or_else(|| generator.next_io(), NextIo::Manage)
        };
        match &mut self.overlaps {
            Some(overlaps) => overlaps.next(next),
            None => next(),
        }
    }

    /// Whether the job's own I/O is done.
    pub fn is_past_running(&self) -> bool {
        self.stage != Stage::Running
    }

    /// The next I/O after the job's own; nothing more to verify if the runtime is `over`.
    pub fn next_past_running(&mut self, over: bool) -> Option<Io> {
        match self.stage {
            Stage::Running => None,
            Stage::Fsyncing => std::mem::take(&mut self.flush_pending).then_some(FLUSH),
            Stage::Verifying if over || self.stopped => None,
            Stage::Verifying => self.verifier.as_mut()?.next(),
        }
    }

    /// An I/O is about to be submitted, `since` the start of the job. Returns its role.
    #[inline(never)]
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
        if let Some(prios) = self.prios.as_mut().filter(|_| role == IoRole::Plain) {
            prios.set(slot, io, bio);
        }
        if io.op.is_write() {
            self.writes += 1;
            if let Some(streams) = &mut self.streams {
                streams.set(io, bio);
            }
            if let (Some(contents), Some(buf)) = (&mut self.contents, &mut bio.buf) {
                contents.fill(io.offset, buf);
            }
            if self.sync.is_fua() {
                bio.flags = bio.flags | BioFlags::FUA;
            }
            if self.sync.barrier > 0 && self.writes.is_multiple_of(self.sync.barrier.into()) {
                bio.flags = bio.flags | BioFlags::PREFLUSH | BioFlags::FUA;
            }
        }
        if io.op == Op::Flush {
            self.verifier.iter_mut().for_each(Verifier::flushes);
            if self.flushing {
                return IoRole::Flush;
            }
        }
        if let Some(overlaps) = &mut self.overlaps {
            overlaps.submit(slot, io);
        }
        let role = match &mut self.verifier {
            Some(verifier) => verifier.submit(now, slot, bio, role),
            None => role,
        };
        let watches = self.logs.is_some()
            || self.limits.is_some()
            || self.overlaps.is_some()
            || self.prios.is_some();
        if role == IoRole::Plain && watches { IoRole::Watched } else { role }
    }

    /// An I/O has completed.
    pub fn completed(&mut self, slot: u32) {
        if let Some(overlaps) = &mut self.overlaps {
            overlaps.completed(slot);
        }
    }

    /// The flush of `fsync` has completed.
    pub fn flushed(&mut self) {
        self.flushing = false;
    }

    /// Nothing is in flight and the stage is over, after this many I/Os and bytes of them. Returns whether
    /// there is another one.
    pub fn advance(
        &mut self,
        now: Nanos,
        (ios, done): (u64, u64),
        pace: &mut Pace,
        stats: &mut IoStats,
    ) -> bool {
        if self.stage == Stage::Running {
            self.stage = Stage::Fsyncing;
            let end_flush = self.sync.end_fsync || self.sync.end_syncfs || self.sync.on_close;
            self.flush_pending = end_flush && self.writes > 0 && !self.stopped;
            if self.flush_pending {
                return true;
            }
        }
        let over = self.stopped || pace.deadline().is_some_and(|end| now >= end);
        let has_more = self.verifies && self.verifier.as_ref().is_some_and(Verifier::has_more);
        if has_more && !over {
            if self.stage == Stage::Fsyncing {
                self.stage = Stage::Verifying;
                stats.end_phase(now);
            }
            return true;
        }
        let did_any = done > std::mem::replace(&mut self.done, done);
        let is_left = self.amount >= done.saturating_add(self.largest);
        let has_more = did_any && is_left && self.verifier.is_some() && pace.has_ios(ios);
        let left = self.all.map(|all| pace.left_of(all));
        let loops = match left {
            Some(left) => did_any && left >= self.largest,
            None => self.loops > 1 && self.rest != Some(0),
        };
        let goes_on = loops || has_more || self.time_based && did_any;
        let bytes = left.unwrap_or_else(|| next_bytes(self.bytes, &mut self.rest));
        if over || !goes_on || !pace.restart(bytes, ios) {
            return false;
        }
        self.loops = self.loops.saturating_sub(1);
        self.stage = Stage::Running;
        if let Some(verifier) = &mut self.verifier {
            verifier.begin_pass();
        }
        stats.end_phase(now);
        true
    }

    /// Logs the writes of the job as if they had been done (`verify_only`) and ends its own I/O.
    pub fn dry_run(&mut self, generator: &mut Generator, pace: &mut Pace) {
        let Some(verifier) = &mut self.verifier else { return };
        let more = self.amount.saturating_sub(self.largest) / self.bytes.max(1);
        for pass in 0..std::mem::replace(&mut self.loops, 1).max(1 + more) {
            let bytes = match pass {
                0 => self.bytes,
                _ => next_bytes(self.bytes, &mut self.rest),
            };
            pace.restart(bytes, 0);
            generator.rewind();
            while !pace.is_over(Nanos(0)) {
                let mut io = match generator.next_io() {
                    NextIo::Io(io) => {
                        pace.submitted(io.dir, io.len);
                        io
                    }
                    NextIo::Manage(io) => io,
                    NextIo::Later(_) => continue,
                    NextIo::EndOfPass | NextIo::Wait | NextIo::Contended | NextIo::Exhausted => {
                        break;
                    }
                };
                loop {
                    if !verifier.dry_run(&io) {
                        return pace.stop();
                    }
                    let mgmt = io.zone.and_then(|zone| generator.done(io.op, zone));
                    let Some(mgmt) = mgmt else { break };
                    io = mgmt;
                }
            }
        }
        pace.stop();
    }

    /// The last I/O has completed.
    pub fn finish(&mut self, now: Nanos) {
        if let Some(logs) = &mut self.logs {
            logs.finish(now);
        }
        if let Some(recorder) = self.recorder.take() {
            recorder.finish();
        }
    }
}
