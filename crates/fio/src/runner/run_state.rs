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
use super::references::References;
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
    /// The flush that is about to be submitted is accounted as one of `fsync`.
    is_fsync: bool,
    /// The flush of [`Stage::Fsyncing`] has not been submitted yet.
    flush_pending: bool,
    /// fio's references to the file.
    references: References,
    /// The flush of [`Stage::Fsyncing`] is one of a file that stays open.
    is_of_open_file: bool,
    /// No further pass begins.
    is_last_pass: bool,
    /// The next I/O is one of the job's own: whether a batch of verification begins was decided before.
    own_next: bool,
    stage: Stage,
    stopped: bool,
}

const FLUSH: Io =
    Io { op: Op::Flush, dir: DataDir::Write, offset: 0, len: 0, zone: None, flags: BioFlags::NONE };

impl RunState {
    /// The state of a clone; `None` if it needs none.
    pub fn new(job: &Job, parts: RunParts<'_>) -> Option<Box<Self>> {
        let RunParts { recording, logs, limits, prios, streams, contents, verifier } = parts;
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
            is_fsync: false,
            flush_pending: false,
            references: References::default(),
            is_of_open_file: false,
            is_last_pass: false,
            own_next: false,
            stage: Stage::Running,
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
        let due = |every: u32| every > 0 && self.writes.is_multiple_of(every.into());
        if self.writes > self.flushed && (due(self.sync.fsync) || due(self.sync.fdatasync)) {
            self.flushed = self.writes;
            // As in fio, which looks whether a flush is due after a write only.
            self.is_fsync = !self.verifier.as_ref().is_some_and(Verifier::begins_batch);
            if self.is_fsync {
                return NextIo::Manage(FLUSH);
            }
        }
        let own_next = std::mem::take(&mut self.own_next);
        let next = |it: &mut Verifier| it.next_trim().or_else(|| it.next_of_backlog());
        let (verifier, verifies, references) =
            (&mut self.verifier, self.verifies, &mut self.references);
        let mut next = || match verifier.as_mut().filter(|_| !own_next).and_then(next) {
            Some(io) => NextIo::Manage(io),
            None => match generator.next_io() {
                NextIo::Verify => {
                    let read = verifier.as_mut().filter(|_| verifies).and_then(Verifier::next);
                    generator.verified(read.as_ref());
                    read.iter().for_each(|_| references.verifies_early());
                    read.map_or_else(|| generator.next_io(), NextIo::Manage)
                }
                next => next,
            },
        };
        let next = match &mut self.overlaps {
            Some(overlaps) => overlaps.next(next),
            None => next(),
        };
        self.own_next = matches!(next, NextIo::Wait | NextIo::Contended | NextIo::Later(_));
        next
    }

    /// The pass ends at the end of the region, where fio closes the file.
    pub fn meet_end(&mut self) {
        self.references.close();
    }

    /// The rate allows no I/O of the job now: whether a read of `verify_backlog` is next. As in fio, those are not
    /// held back, and if there is none one of the job's own follows, whatever completes meanwhile.
    #[cold]
    pub fn reads_before_rate(&mut self) -> bool {
        let next = self.verifier.as_ref().is_some_and(Verifier::has_next_of_backlog);
        self.own_next |= !next;
        !self.own_next
    }

    /// A pass is over: whether no further one begins. As in fio, none does if it has the file still open.
    pub fn is_last_pass(&mut self) -> bool {
        self.is_last_pass |= !self.references.reopen();
        self.is_last_pass
    }

    /// Whether the job's own I/O is done.
    pub fn is_past_running(&self) -> bool {
        self.stage != Stage::Running
    }

    /// The next I/O after the job's own; nothing more to verify if the runtime is `over`.
    pub fn next_past_running(&mut self, over: bool) -> Option<Io> {
        match self.stage {
            Stage::Running => None,
            Stage::Fsyncing if std::mem::take(&mut self.flush_pending) => {
                self.is_fsync = std::mem::take(&mut self.is_of_open_file);
                Some(FLUSH)
            }
            Stage::Fsyncing => None,
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
            if std::mem::take(&mut self.is_fsync) {
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

    /// Nothing is in flight and the stage is over. Returns whether there is another one in this pass.
    pub fn advance(&mut self, now: Nanos, deadline: Option<Nanos>, stats: &mut IoStats) -> bool {
        if self.stage == Stage::Running {
            self.stage = Stage::Fsyncing;
            let end_flush = self.sync.end_fsync || self.sync.end_syncfs || self.sync.on_close;
            self.is_of_open_file = self.references.close();
            self.flush_pending =
                (end_flush && self.writes > 0 || self.is_of_open_file) && !self.stopped;
            if self.flush_pending {
                return true;
            }
        }
        let over = self.stopped || deadline.is_some_and(|end| now >= end);
        let has_more = self.verifies && self.verifier.as_ref().is_some_and(Verifier::has_more);
        if has_more && !over && self.stage == Stage::Fsyncing {
            self.stage = Stage::Verifying;
            // As in fio, a flush that is due is not submitted if the pass ends with its bytes, as it does unless
            // some have been verified meanwhile: a read comes before the next pass.
            if !self.verifier.as_ref().is_some_and(Verifier::has_backlog) {
                self.flushed = self.writes;
            }
            stats.end_phase(now);
        }
        has_more && !over
    }

    /// The job begins again at the start of its region.
    pub fn begin_pass(&mut self, now: Nanos, stats: &mut IoStats) {
        self.stage = Stage::Running;
        if self.verifier.is_some() {
            stats.end_phase(now);
        }
    }

    /// Whether a batch of `verify_backlog` has reads left.
    pub fn is_amid_batch(&self) -> bool {
        self.verifier.as_ref().is_some_and(Verifier::is_amid_batch)
    }

    /// Logs the writes of the job as if they had been done (`verify_only`) and ends its own I/O.
    pub fn dry_run(&mut self, generator: &mut Generator, pace: &mut Pace) {
        let Some(verifier) = &mut self.verifier else { return };
        pace.set_untimed();
        let mut done = (0, 0);
        loop {
            while !pace.is_over(Nanos(0)) {
                let mut io = match generator.next_io() {
                    NextIo::Io(io) => {
                        pace.submitted(io.dir, io.len);
                        done = (done.0 + 1, done.1 + io.len);
                        io
                    }
                    NextIo::Manage(io) => io,
                    NextIo::Later(_) => continue,
                    NextIo::Verify => {
                        generator.verified(None);
                        continue;
                    }
                    NextIo::EndOfPass => {
                        pace.end_of_region(false);
                        break;
                    }
                    NextIo::Wait | NextIo::Contended | NextIo::Exhausted => {
                        return pace.stop();
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
            if !pace.next_pass(Nanos(0), done) {
                return pace.stop();
            }
            generator.rewind();
        }
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
