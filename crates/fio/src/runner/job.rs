//! Runs one clone of a job: keeps its queue full until its I/O is done.
//!
//! Invariants: at most `iodepth` I/Os are in flight; none after the last step.
use super::flow::Flow;
use super::order::CloneOrder;
use super::pace::Pace;
use super::run_state::RunState;
use super::slots::{IoRole, NO_ZONE, Slot, Slots};
use super::standstill::{Standstill, Waiter};
use super::verdict::Verdict;
use super::{ClockedRunner, Outcome, Progress, RunLimits, Runner, RunnerStep, StatusReports};
use crate::generate::{Generator, Io, NextIo};
use crate::job::{DataDir, ErrorKind, Job, ZoneMode};
use crate::logs::{LoggedIo, Logs};
use crate::stats::IoStats;
use crate::verify::{Finding, Findings, Mismatch};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Bio, Buf, Bytes, Channel, Clock, Completion, Nanos, Op, Sector, Status};

/// How often a job looks whether the one that it waits for has ended, in real time.
const WAIT_FOR_PERIOD: Nanos = Nanos(1_000_000);

/// How long before a sample, or the end of its run time, a job that waits for a zone in virtual time
/// follows the device's events again: longer than a thread takes to wake.
const BEFORE_SAMPLE: Nanos = Nanos(1_000_000);

/// A clone of a job, with its channel.
pub struct JobRunner {
    job: Arc<Job>,
    channel: Channel,
    generator: Generator,
    /// Whether bios carry data, for devices that store it.
    with_data: bool,
    pace: Pace,
    slots: Slots,
    /// By slot, the buffer of its last I/O.
    buffers: Vec<Option<Buf>>,
    depth: u32,
    /// Most completions to account for at a time.
    most_completions: usize,
    /// Bios to be submitted together, with `iodepth_batch` above 1.
    bios: Vec<Bio>,
    completions: Vec<Completion>,
    /// Zone management due after completions.
    zone_mgmt: Vec<Io>,
    refilling: bool,
    /// The previous step was one of several that fill the queue (virtual time).
    filling: bool,
    /// Completions to reap before anything more is submitted.
    owed: u32,
    /// The job waits for a zone, once nothing is in flight; with the zone it has its whole depth again.
    contended: bool,
    /// Nothing is submitted until nothing is in flight.
    drains: bool,
    order: Option<Box<CloneOrder>>,
    /// The job waits for another one.
    is_waiting: bool,
    flow: Option<Flow>,
    /// The job is ahead of its share of the flow.
    flow_waits: bool,
    /// In real time, the job's part in finding out that all wait.
    waiter: Option<Box<Waiter>>,
    stats: IoStats,
    error: Option<Status>,
    /// Why the job failed, if not by an I/O that failed.
    reason: Option<String>,
    /// When to look whether a sample of the statistics or of a log is due, or a status report.
    next_sample: Nanos,
    next_stats_sample: Nanos,
    status_reports: Option<StatusReports>,
    next_status_report: Nanos,
    /// Bytes of the I/Os of this step.
    step_bytes: u64,
    /// I/Os and bytes completed.
    done: (u64, u64),
    progress: Arc<Progress>,
    draining: bool,
    run_state: Option<Box<RunState>>,
    findings: Findings,
}

impl JobRunner {
    /// A runner for one clone, with its pace.
    pub fn new(
        job: Arc<Job>,
        mut channel: Channel,
        generator: Generator,
        pace: Pace,
        with_data: bool,
    ) -> Self {
        if let Some(weight) = job.weight {
            channel.set_weight(weight);
        }
        // One more than the depth, for a zone reset or finish.
        let nr_slots = job.iodepth + 1;
        let zones_go_by_completions = generator.goes_by_completions(job.iodepth);
        let most_completions = job.most_completions(zones_go_by_completions).max(1) as usize;
        JobRunner {
            pace,
            channel,
            generator,
            with_data,
            slots: Slots::new(nr_slots),
            buffers: (0..nr_slots).map(|_| None).collect(),
            depth: job.iodepth,
            most_completions,
            bios: Vec::with_capacity(if job.iodepth_batch > 1 { nr_slots as usize } else { 0 }),
            completions: Vec::with_capacity(nr_slots as usize),
            zone_mgmt: Vec::new(),
            refilling: true,
            filling: false,
            owed: 0,
            contended: false,
            drains: false,
            order: None,
            is_waiting: false,
            flow: None,
            flow_waits: false,
            waiter: None,
            stats: IoStats::of_job(&job),
            error: None,
            reason: None,
            next_sample: Nanos(0),
            next_stats_sample: Nanos(0),
            status_reports: None,
            next_status_report: Nanos(u64::MAX),
            step_bytes: 0,
            done: (0, 0),
            progress: Arc::default(),
            draining: false,
            run_state: None,
            findings: Findings::default(),
            job,
        }
    }

    /// Has the job issue its share of a flow.
    pub fn set_flow(&mut self, flow: Flow) {
        self.flow = Some(flow);
    }

    /// Has the clone notice if all that share `standstill` wait for one another, in real time.
    pub fn set_standstill(&mut self, standstill: &Arc<Standstill>) {
        self.waiter = Some(Box::new(Waiter::new(standstill)));
    }

    /// Has the clone begin and end by others.
    pub(crate) fn set_order(&mut self, order: Option<CloneOrder>) {
        self.order = order.map(Box::new);
    }

    /// Has the clone publish its statistics while it runs.
    pub(crate) fn set_status(&mut self, reports: Option<StatusReports>) {
        self.status_reports = reports;
    }

    /// Adds what the clone has besides the I/O of its generator.
    pub(crate) fn set_run_state(&mut self, run_state: Option<Box<RunState>>) {
        self.run_state = run_state;
        let limits = self.run_state.as_ref().and_then(|run_state| run_state.limits.as_ref());
        self.depth = limits.and_then(|limits| limits.depth()).unwrap_or(self.depth);
        if self.job.verify.only
            && let Some(run_state) = &mut self.run_state
        {
            run_state.dry_run(&mut self.generator, &mut self.pace);
        }
    }

    /// Start delay, ramp and samples; returns how to wait for the start.
    #[inline(always)]
    fn begin(&mut self, now: Nanos, is_virtual: bool) -> Option<RunnerStep> {
        // The first sample is due from the beginning and starts the job.
        if now >= self.next_sample
            && let Some(wait) = self.begin_sample(now, is_virtual)
        {
            return Some(wait);
        }
        if self.pace.ramp_ends(now, self.done.1) {
            self.stats.reset(now);
            self.start_samples(now);
        }
        None
    }

    /// Takes the samples that are due, unless the job is still to start.
    #[cold]
    fn begin_sample(&mut self, now: Nanos, is_virtual: bool) -> Option<RunnerStep> {
        if now < self.pace.start_after() {
            return Some(RunnerStep::Wait(Some(self.pace.start_after())));
        }
        if self.waits_for_job() {
            if let Some(waiter) = &mut self.waiter {
                // If all wait, another one has to end: this one has not begun.
                waiter.waits();
            }
            // In virtual time the end of that job wakes this one.
            return Some(RunnerStep::Wait((!is_virtual).then_some(now + WAIT_FOR_PERIOD)));
        }
        self.sample(now);
        None
    }

    fn waits_for_job(&mut self) -> bool {
        let waits = |order: &CloneOrder| order.waits();
        self.is_waiting = self.pace.is_pending() && self.order.as_deref().is_some_and(waits);
        self.is_waiting
    }

    /// Samples what is due. The first call starts the job.
    fn sample(&mut self, now: Nanos) {
        if self.pace.begin(now) {
            self.stats.start(now);
            if let Some(reports) = &self.status_reports {
                reports.sink.start(reports.clone);
                self.next_status_report = reports.next(now);
            }
            return self.start_samples(now);
        }
        if now >= self.next_stats_sample {
            self.stats.sample(now);
            self.next_stats_sample += self.stats.sample_period();
        }
        self.stats.halve(now);
        let counts = self.stats.counts();
        if let Some(logs) = self.logs() {
            logs.sample(now, || counts);
        }
        let verdict = self.limits().map(|limits| limits.sample(now, counts));
        self.apply_verdict(now, verdict);
        if let Some(reports) =
            self.status_reports.as_ref().filter(|_| now >= self.next_status_report)
        {
            reports.publish(now, &self.stats);
            self.next_status_report = reports.next(now);
        }
        self.set_next_sample();
    }

    fn start_samples(&mut self, now: Nanos) {
        self.next_stats_sample = now + self.stats.sample_period();
        let is_measured = !self.pace.is_ramping();
        if let Some(logs) = self.logs().filter(|_| is_measured) {
            logs.start(now);
        }
        if let Some(limits) = self.limits().filter(|_| is_measured) {
            limits.start(now);
        }
        self.set_next_sample();
    }

    fn set_next_sample(&mut self) {
        let log = self.logs().and_then(|logs| logs.next_sample());
        let limits = self.limits().and_then(|limits| limits.next_sample());
        let other = self.next_stats_sample.min(self.next_status_report);
        let due = log.into_iter().chain(limits).chain(self.stats.halfway());
        self.next_sample = due.fold(other, Nanos::min);
    }

    fn logs(&mut self) -> Option<&mut Logs> {
        self.run_state.as_mut()?.logs.as_mut()
    }

    fn limits(&mut self) -> Option<&mut RunLimits> {
        self.run_state.as_mut()?.limits.as_deref_mut()
    }

    /// Does what limits ask for.
    #[cold]
    fn apply_verdict(&mut self, now: Nanos, verdict: Option<Verdict>) {
        match verdict.unwrap_or(Verdict::Continue) {
            Verdict::Continue => {}
            Verdict::Depth { depth, drains } => {
                self.depth = depth;
                self.drains |= drains;
                self.refilling = true;
            }
            Verdict::Remeasure => {
                self.stats.reset(now);
                self.start_samples(now);
            }
            Verdict::End => self.stop(),
            Verdict::Fail(status, why) => self.fail(status, why),
        }
    }

    /// Ends the job with an error.
    #[cold]
    fn fail(&mut self, status: Status, why: String) {
        self.error.get_or_insert(status);
        self.reason.get_or_insert(why);
        self.stop();
    }

    /// The job waits for others with nothing in flight, in real time: whether it goes on doing so. If all
    /// wait for one another, one of them has to end.
    #[cold]
    fn keeps_waiting(&mut self) -> bool {
        let in_vain = self.waiter.as_mut().is_some_and(|waiter| waiter.waits());
        !in_vain || !self.give_up()
    }

    #[inline(always)]
    fn take_completions(&mut self, now: Nanos) -> u32 {
        let max = self.most_completions;
        if self.completions.len() < max {
            self.channel.poll(now, &mut self.completions);
        }
        let count = match self.completions.len() {
            0 => return 0,
            // At depth 1 it always is.
            1 => {
                if let Some(only) = self.completions.pop() {
                    self.account(now, only);
                }
                1
            }
            all => {
                let count = all.min(max);
                self.account_first(now, count);
                count
            }
        };
        self.progress.ios.store(self.done.0, Ordering::Relaxed);
        self.progress.bytes.store(self.done.1, Ordering::Relaxed);
        let count = u32::try_from(count).expect("at most the depth");
        self.owed = self.owed.saturating_sub(count);
        self.stats.completed(count);
        count
    }

    /// Accounts for this many of the completions.
    #[inline(never)]
    fn account_first(&mut self, now: Nanos, count: usize) {
        let mut completions = std::mem::take(&mut self.completions);
        completions.drain(..count).for_each(|completion| self.account(now, completion));
        self.completions = completions;
    }

    #[inline(always)]
    fn account(&mut self, now: Nanos, completion: Completion) {
        let Completion { user_data, mut status, sector: landed, buf, .. } = completion;
        let index = u32::try_from(user_data).expect("the user data is a slot");
        self.slots.free(index);
        if buf.is_some() {
            self.buffers[index as usize] = buf;
        }
        let &Slot { start, issued, len, zone, op, dir, role } = self.slots.get(index);
        self.step_bytes += moved(dir, len);
        if role != IoRole::Plain {
            status = self.finish_non_plain(now, index, status, landed);
        }
        if status != Status::Ok {
            self.failed(index, status, landed);
            if zone != NO_ZONE {
                self.generator.failed(op, zone);
            }
        } else if !matches!(role, IoRole::ZoneMgmt | IoRole::Flush) {
            let issued = issued.min(now);
            if self.stats.is_early(start) {
                self.stats.record_early(dir, len, now - issued);
            } else {
                self.stats.record(dir, len, issued - start, now - issued, 1);
            }
            self.pace.completed(now, self.slots.in_use());
            self.done.0 += 1;
            self.done.1 += len;
        }
        if op == Op::ZoneReset {
            self.stats.zone_resets(1);
        }
        if zone != NO_ZONE
            && let Some(mgmt) = self.generator.done(op, zone)
        {
            self.zone_mgmt.push(mgmt);
        }
    }

    /// Completes an I/O that is not plain. Returns its status after verification.
    #[cold]
    fn finish_non_plain(
        &mut self,
        now: Nanos,
        slot: u32,
        status: Status,
        landed: Sector,
    ) -> Status {
        let Slot { start, issued, len, dir, role, op, .. } = *self.slots.get(slot);
        let Some(run_state) = &mut self.run_state else { return status };
        run_state.completed(slot);
        if op == Op::Flush {
            let verifier = run_state.verifier.iter_mut();
            verifier.for_each(|verifier| verifier.flushed(status == Status::Ok));
        }
        let status = match (role, &mut run_state.verifier) {
            (IoRole::Flush, _) => {
                if self.job.iodepth > 1 {
                    let left = self.slots.in_use();
                    self.pace.flushed(now, left, left + 1 >= self.depth);
                }
                if status == Status::Ok {
                    self.stats.synced(now - start);
                }
                status
            }
            (IoRole::Write | IoRole::Trim | IoRole::Verify, Some(verifier)) => {
                let buf = self.buffers[slot as usize].as_mut();
                verifier.completed(slot, role, status, landed, buf, &mut self.findings)
            }
            (IoRole::Watched, Some(verifier)) if op == Op::Read => {
                verifier.has_read();
                status
            }
            _ => status,
        };
        let is_logged = status == Status::Ok && !matches!(role, IoRole::ZoneMgmt | IoRole::Flush);
        let issued = issued.min(now);
        let (slat, clat) = (issued - start, now - issued);
        let ioprio = run_state.prios.as_ref().map(|prios| prios.of_slot(slot));
        if let Some(ioprio) = ioprio.filter(|_| is_logged) {
            self.stats.record_prio(dir, ioprio, clat);
        }
        if let Some(logs) = run_state.logs.as_mut().filter(|_| is_logged) {
            let offset = landed.to_bytes().0;
            logs.record(now, LoggedIo { dir, bytes: len, offset, slat, clat, ioprio });
        }
        let limits = run_state.limits.as_mut().filter(|_| is_logged);
        let verdict = limits.map(|limits| limits.completed(start, now, dir, now - start));
        self.apply_verdict(now, verdict);
        status
    }

    /// Counts an error, and ends the job if it is fatal.
    #[cold]
    fn failed(&mut self, slot: u32, status: Status, at: Sector) {
        let Slot { len, op, dir, role, .. } = *self.slots.get(slot);
        self.stats.error(dir, status);
        self.error.get_or_insert(status);
        let mismatch = role == IoRole::Verify && status == Status::Protection;
        let kind = match (mismatch, op) {
            (true, _) => ErrorKind::Verify,
            (_, Op::Read) => ErrorKind::Read,
            _ => ErrorKind::Write,
        };
        let errors = &self.job.errors;
        if errors.dump && !mismatch {
            let what = ["read", "write", "trim"][dir as usize];
            let offset = at.to_bytes().0;
            let (io, mismatch) = ((offset, len), Mismatch::Failed { what, status });
            self.findings.add(|| Finding { offset, len, io, mismatch, dump: None });
        }
        if mismatch {
            // It was read, so it counts towards the amount until which the job starts over.
            (self.done.0, self.done.1) = (self.done.0 + 1, self.done.1 + len);
        }
        if mismatch && self.job.verify.fatal || !errors.is_non_fatal(kind, status.errno()) {
            self.stop();
        }
    }

    /// Nothing is in flight and the stage is over: the step of the job if it ends. As in fio, it makes the pause
    /// that follows the last I/O before.
    #[cold]
    fn end_of_stage(&mut self, now: Nanos) -> Option<RunnerStep> {
        if let Some(until) = self.pace.pauses_until(now) {
            return Some(RunnerStep::Wait(Some(until)));
        }
        if self.generator.is_prepared()
            && let Some(step) = self.submit_prepared(now)
        {
            return Some(step);
        }
        (!self.has_more_work(now)).then(|| self.end(now))
    }

    /// Submits the write for which a zone was reset or finished when the runtime ended. As in fio, the two are one
    /// step, which the runtime does not cut.
    #[cold]
    fn submit_prepared(&mut self, now: Nanos) -> Option<RunnerStep> {
        if !self.pace.is_cut(now) || self.is_past_running() {
            return None;
        }
        match self.next_io() {
            NextIo::Io(io) => {
                self.pace.submitted(io.dir, io.len);
                self.submit(now, &io, IoRole::Plain);
                self.submit_batch(now);
            }
            NextIo::Manage(io) => self.submit_besides(now, &io),
            _ => return None,
        }
        let bytes = std::mem::take(&mut self.step_bytes);
        Some(RunnerStep::Busy { submitted: 1, completed: 0, bytes })
    }

    /// The next action of the generator, and of what the clone has besides.
    #[inline(always)]
    fn next_io(&mut self) -> NextIo {
        match &mut self.run_state {
            None => self.generator.next_io(),
            Some(run_state) => run_state.next(&mut self.generator),
        }
    }

    fn is_past_running(&self) -> bool {
        self.run_state.as_ref().is_some_and(|run_state| run_state.is_past_running())
    }

    /// Nothing is in flight and the stage is over: whether there is another one, or another pass.
    #[cold]
    fn has_more_work(&mut self, now: Nanos) -> bool {
        let advances = |run_state: &mut Box<RunState>| {
            run_state.advance(now, self.pace.deadline(), &mut self.stats)
        };
        let is_same_pass = self.run_state.as_mut().is_some_and(advances);
        if !is_same_pass {
            let is_last = self.run_state.as_mut().is_some_and(|run_state| run_state.is_last_pass());
            if is_last || !self.pace.next_pass(now, self.done) {
                return false;
            }
            if let Some(run_state) = &mut self.run_state {
                run_state.begin_pass(now, &mut self.stats);
                if run_state.is_amid_batch() {
                    self.generator.leave_zones();
                }
            }
            self.generator.rewind();
        }
        (self.contended, self.refilling, self.owed) = (false, true, 0);
        true
    }

    /// Submits the zone management that is due.
    #[cold]
    fn submit_zone_mgmt(&mut self, now: Nanos) -> u32 {
        let mut submitted = 0;
        while let Some(mgmt) = self.zone_mgmt.pop() {
            // That is the job's own work if it is accounted as a trim.
            let is_work = mgmt.dir == DataDir::Trim;
            self.submit(now, &mgmt, if is_work { IoRole::Plain } else { IoRole::ZoneMgmt });
            submitted += 1;
        }
        submitted
    }

    /// Submits until the queue is full or nothing may be submitted; with `once`, one I/O or batch.
    #[inline(always)]
    fn fill(&mut self, now: Nanos, once: bool) -> u32 {
        let mut submitted = 0;
        if !self.zone_mgmt.is_empty() {
            submitted += self.submit_zone_mgmt(now);
        }
        if self.is_past_running() {
            return submitted + self.fill_past_running(now, once);
        }
        if self.slots.in_use() <= self.job.iodepth_low {
            self.refilling = true;
        }
        if self.slots.in_use() == 0 {
            (self.drains, self.contended) = (false, false);
            self.pace.drained(now);
        }
        if self.owed > 0 || !self.refilling || self.slots.in_use() > 0 && self.waits_to_drain() {
            return submitted;
        }
        while self.slots.in_use() < self.depth
            && (self.pace.may_submit(now) || self.reads_before_rate(now))
        {
            self.flow_waits = self.flow.as_mut().is_some_and(|flow| !flow.issue());
            if self.flow_waits {
                break;
            }
            if let Some(due) = self.pace.due(now) {
                self.generator.set_due(due);
            }
            let next = self.next_io();
            // By reference: a copy made before the stores of its fields have retired stalls.
            match &next {
                NextIo::Io(io) => {
                    self.pace.submitted(io.dir, io.len);
                    self.submit_inline(now, io, IoRole::Plain);
                    self.pace.issued(now, self.slots.in_use() >= self.depth);
                    submitted += 1;
                    if once && self.bios.is_empty() {
                        break;
                    }
                }
                NextIo::Manage(io) => {
                    self.submit_besides(now, io);
                    submitted += 1;
                    break;
                }
                NextIo::Later(at) => self.pace.hold(*at),
                NextIo::Wait if self.slots.in_use() > 0 => break,
                NextIo::Contended => {
                    self.contended = true;
                    break;
                }
                nothing => {
                    let nothing = *nothing;
                    if !self.goes_on_after(nothing) {
                        break;
                    }
                }
            }
        }
        self.submit_batch(now);
        if self.slots.in_use() >= self.depth {
            self.refilling = false;
            self.owed = self.job.iodepth_batch_complete_min.min(self.slots.in_use());
        }
        submitted
    }

    /// Submits what is no I/O of the job itself. What is read for verification counts as one all the same.
    #[inline(never)]
    fn submit_besides(&mut self, now: Nanos, io: &Io) {
        let is_read = io.op == Op::Read;
        if is_read {
            self.pace.verified(io.len);
        }
        self.submit(now, io, IoRole::ZoneMgmt);
        if is_read {
            self.pace.issued(now, self.slots.in_use() >= self.depth);
        }
    }

    /// The job may not submit I/O of its own: whether it may verify, as only the rate holds it back.
    #[cold]
    fn reads_before_rate(&mut self, now: Nanos) -> bool {
        let is_held = self.pace.is_held_by_rate(now);
        let run_state = self.run_state.as_mut().filter(|_| is_held);
        run_state.is_some_and(|run_state| run_state.reads_before_rate())
    }

    /// The generator has nothing more: whether it has after this call.
    #[cold]
    fn goes_on_after(&mut self, nothing: NextIo) -> bool {
        match nothing {
            NextIo::EndOfPass => {
                let again = self.pace.end_of_region(self.generator.has_visited_all());
                if again {
                    self.generator.rewind();
                } else if let Some(run_state) = &mut self.run_state {
                    run_state.meet_end();
                }
                return again;
            }
            NextIo::Wait => {
                self.fail(Status::Again, "waits for its own I/O, and has none".to_owned());
            }
            _ => match self.generator.problem().map(str::to_owned) {
                Some(problem) => self.fail(Status::Invalid, problem),
                None => self.pace.stop(),
            },
        }
        false
    }

    /// Whether the queue is full, and there is nothing else to do.
    #[inline(always)]
    fn only_waits(&self) -> bool {
        self.slots.in_use() >= self.depth && self.zone_mgmt.is_empty() && self.run_state.is_none()
    }

    /// Whether nothing may be submitted before what is in flight has completed.
    #[inline]
    fn waits_to_drain(&self) -> bool {
        self.contended || self.drains || self.flow_waits && self.job.zonemode == ZoneMode::Zbd
    }

    /// The same after the job's own I/O.
    #[cold]
    fn fill_past_running(&mut self, now: Nanos, once: bool) -> u32 {
        let mut submitted = 0;
        let over = self.pace.deadline().is_some_and(|end| now >= end);
        while self.slots.in_use() < self.depth
            && let Some(io) =
                self.run_state.as_mut().and_then(|run_state| run_state.next_past_running(over))
        {
            if io.op == Op::Read {
                self.pace.rated(DataDir::Read, io.len);
            }
            self.submit(now, &io, IoRole::ZoneMgmt);
            submitted += 1;
            if once {
                break;
            }
        }
        self.submit_batch(now);
        submitted
    }

    /// [`JobRunner::submit_inline`] for what is rare.
    #[inline(never)]
    fn submit(&mut self, now: Nanos, io: &Io, role: IoRole) {
        self.submit_inline(now, io, role);
    }

    #[inline(always)]
    fn submit_inline(&mut self, now: Nanos, io: &Io, role: IoRole) {
        let slot = self.slots.next_free();
        match self.run_state {
            // Each has a bio of its own: where one is lent out, both would be built in memory.
            None => {
                let bio = self.bio(slot, io);
                self.start(now, io, bio, role);
            }
            Some(_) => self.start_noted(now, slot, io, role),
        }
    }

    #[inline(always)]
    fn bio(&mut self, slot: u32, io: &Io) -> Bio {
        let &Io { op, offset, len, flags, .. } = io;
        let sectors = if op.has_range() { Bytes(len).to_sectors().0 } else { 0 };
        let sectors = u32::try_from(sectors).expect("a block is shorter than 2 TiB");
        let carries_data = matches!(op, Op::Read | Op::Write | Op::ZoneAppend);
        let has_buf = self.with_data && carries_data;
        Bio {
            op,
            flags,
            prio: self.job.prio,
            stream: 0,
            sector: Bytes(offset).to_sectors(),
            nr_sectors: sectors,
            user_data: slot.into(),
            buf: has_buf.then(|| self.buffer(slot, sectors as usize * 512)),
        }
    }

    /// Starts an I/O of a job that keeps account of more than its generator does.
    #[inline(never)]
    fn start_noted(&mut self, now: Nanos, slot: u32, io: &Io, mut role: IoRole) {
        let mut bio = self.bio(slot, io);
        if let Some(run_state) = &mut self.run_state {
            let times = (now, self.pace.since_start(now));
            role = run_state.submit(times, slot, io, &mut bio, role);
        }
        if role == IoRole::Flush && self.job.iodepth > 1 {
            self.pace.flushes();
        }
        self.start(now, io, bio, role);
    }

    #[inline(always)]
    fn start(&mut self, now: Nanos, io: &Io, bio: Bio, role: IoRole) {
        let &Io { op, dir, len, zone, .. } = io;
        let zone = zone.unwrap_or(NO_ZONE);
        self.step_bytes += moved(dir, len);
        self.slots.take(Slot { start: now, issued: now, len, zone, op, dir, role });
        let counts = !matches!(role, IoRole::ZoneMgmt | IoRole::Flush);
        if self.job.iodepth_batch > 1 && counts {
            self.bios.push(bio);
            if self.bios.len() >= self.job.iodepth_batch as usize {
                self.submit_batch(now);
            }
            return;
        }
        self.channel.submit(now, bio);
        if counts {
            self.stats.submitted(1, self.slots.in_use());
        }
    }

    /// Submits the bios of the batch.
    #[inline]
    fn submit_batch(&mut self, now: Nanos) {
        if !self.bios.is_empty() {
            self.submit_bios(now);
        }
    }

    #[inline(never)]
    fn submit_bios(&mut self, now: Nanos) {
        let count = u32::try_from(self.bios.len()).expect("at most the depth");
        self.channel.submit_batch(now, &mut self.bios);
        self.stats.submitted(count, self.slots.in_use());
    }

    /// A buffer of this length with arbitrary contents: the last one of the slot if it fits.
    #[inline(never)]
    fn buffer(&mut self, slot: u32, len: usize) -> Buf {
        let last = self.buffers[slot as usize].take();
        last.filter(|buf| buf.len() == len).unwrap_or_else(|| {
            let mut buf = Buf::zeroed(len);
            let pattern = (0..).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
            buf.chunks_exact_mut(8).zip(pattern).for_each(|(to, from)| to.copy_from_slice(&from));
            buf
        })
    }

    /// When to step again after a step without work.
    fn wait(&mut self, now: Nanos) -> RunnerStep {
        let pace = if self.slots.in_use() > 0 {
            self.pace.opens(now)
        } else if self.contended || self.flow_waits {
            self.pace.deadline()
        } else {
            Some(self.pace.next_submit())
        };
        let limits = self.limits().and_then(|limits| limits.next_sample());
        let own = pace.into_iter().chain(limits).min();
        self.wait_for_device(now, own)
    }

    /// The same for a job that waits for a zone in virtual time, until that is released, which wakes it.
    /// `None` if the device's events concern the job: samples are taken at the first of them that is due.
    fn wait_for_zone(&mut self, now: Nanos) -> Option<RunnerStep> {
        let only_waits = self.contended
            && self.slots.in_use() == 0
            && self.run_state.is_none()
            && self.flow.is_none()
            && !self.pace.is_ramping()
            && self.generator.is_blocked();
        // Without a scheduler, a job with I/O outstanding follows the events of the hardware queue.
        let others_poll = only_waits && !self.channel.has_scheduler() && self.channel.is_idle();
        let until = self.pace.deadline().map_or(self.next_sample, |end| end.min(self.next_sample));
        let until = Nanos(until.0.saturating_sub(BEFORE_SAMPLE.0));
        (others_poll && until > now).then_some(RunnerStep::Wait(Some(until)))
    }

    /// When to step again: at the device's next event, or at this time.
    #[inline]
    fn wait_for_device(&mut self, now: Nanos, or_at: Option<Nanos>) -> RunnerStep {
        let device = self.channel.next_event().at();
        let earlier = or_at.is_some_and(|at| device.is_none_or(|device| at < device));
        match if earlier { or_at } else { device } {
            Some(at) if at <= now => RunnerStep::NOTHING,
            at => RunnerStep::Wait(at),
        }
    }

    /// The job has finished; plugged writes of other channels may still need this one.
    #[cold]
    fn end(&mut self, now: Nanos) -> RunnerStep {
        if !self.draining {
            self.draining = true;
            if let Some(flow) = &mut self.flow {
                flow.leave();
            }
            if let Some(waiter) = &mut self.waiter {
                waiter.end();
            }
            self.channel.drain();
            self.generator.finish();
            self.stats.finish(now);
            if let Some(run_state) = &mut self.run_state {
                run_state.finish(now);
                if let Some(limits) = &mut run_state.limits {
                    self.stats.set_limits(limits.depth(), limits.finish());
                }
            }
            if let Some(order) = &self.order {
                order.end(self.error.is_some());
            }
            if let Some(reports) = &self.status_reports {
                reports.finish(&self.stats);
            }
        }
        if self.channel.is_idle() {
            return RunnerStep::Done;
        }
        match self.channel.next_event().at() {
            Some(at) if at <= now => RunnerStep::NOTHING,
            at => RunnerStep::Wait(at),
        }
    }
}

impl Runner for JobRunner {
    fn job(&self) -> &Arc<Job> {
        &self.job
    }

    fn scheduler(&self) -> Scheduler {
        self.channel.queue().scheduler()
    }

    fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    fn total(&self) -> Option<u64> {
        self.pace.total()
    }

    fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel)) {
        visit(&mut self.channel);
    }

    fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    fn releases(&self) -> u64 {
        let issued = self.flow.as_ref().map_or(0, Flow::issued);
        self.generator.releases() + issued + u64::from(self.draining)
    }

    fn give_up(&mut self) -> bool {
        if !self.is_contended() || self.error.is_some() {
            return false;
        }
        let what = match self.flow_waits {
            true => "waits for the other jobs of its flow, which wait for it".to_owned(),
            false => self.generator.waits_for().unwrap_or_default(),
        };
        (self.contended, self.flow_waits) = (false, false);
        self.fail(Status::Again, format!("{what}, and no other job can go on"));
        true
    }

    fn is_ended(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order.is_ended())
    }

    fn is_contended(&self) -> bool {
        (self.contended || self.flow_waits) && self.slots.in_use() == 0
    }

    fn is_scheduled(&self) -> bool {
        self.channel.outstanding() > 0 && self.channel.has_scheduler()
    }

    fn stays_blocked(&mut self, now: Nanos) -> bool {
        self.wait_for_zone(now).is_some()
    }

    fn is_woken(&mut self, now: Nanos) -> bool {
        self.channel.has_completed(now)
    }

    fn set_issued(&mut self, ios: u32, at: Nanos) {
        self.slots.set_issued(ios, at);
    }

    fn next_event(&mut self) -> Option<Nanos> {
        self.next_interrupt()
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.slots.in_use() == 0
    }

    fn interrupt(&mut self, now: Nanos) -> bool {
        self.channel.poll(now, &mut self.completions) > 0
    }

    #[inline(always)]
    fn next_interrupt(&mut self) -> Option<Nanos> {
        self.channel.next_event().at()
    }

    #[inline(always)]
    fn next_alone(&mut self, from: Nanos, skips: bool) -> Option<Nanos> {
        let waits = !self.filling
            && self.only_waits()
            && self.completions.is_empty()
            && from < self.next_sample
            && !self.pace.is_ramping();
        let completion = if waits && skips { self.channel.next_completion().at() } else { None };
        let device = match completion {
            // A sample is taken in the first step after its time, whatever that step is for.
            Some(at) if at < self.next_sample => at,
            _ => self.next_interrupt()?,
        };
        if device <= from || !waits {
            return (device < from).then_some(device);
        }
        Some(self.pace.opens(from).map_or(device, |opens| opens.min(device)))
    }

    fn stop(&mut self) {
        self.pace.stop();
        if let Some(run_state) = &mut self.run_state {
            run_state.stop();
        }
    }

    fn into_outcomes(self: Box<Self>) -> Vec<Outcome> {
        vec![Outcome {
            stats: self.stats,
            error: self.error,
            reason: self.reason,
            findings: self.findings,
            verify_state: self.run_state.as_ref().and_then(|it| it.verifier.as_ref()?.state()),
            thread_id: 0,
            file_system: None,
        }]
    }
}

/// The bytes of an I/O that the host moves: a discard or a reset has a length and no data.
#[inline(always)]
fn moved(dir: DataDir, len: u64) -> u64 {
    if dir == DataDir::Trim { 0 } else { len }
}

impl<C: Clock> ClockedRunner<C> for JobRunner {
    /// Reaps completions, then fills the queue. The latency of an I/O runs from the clock reading before
    /// its batch was prepared to the one after its completion.
    #[inline(always)]
    fn step(&mut self, clock: &C) -> RunnerStep {
        let now = clock.now();
        if let Some(wait) = self.begin(now, C::IS_VIRTUAL) {
            return wait;
        }
        let filling = std::mem::take(&mut self.filling);
        let completed = if filling { 0 } else { self.take_completions(now) };
        let bytes = std::mem::take(&mut self.step_bytes);
        if self.slots.in_use() == 0
            && !filling
            && self.pace.is_over(now)
            && self.zone_mgmt.is_empty()
            && let Some(step) = self.end_of_stage(now)
        {
            return step;
        }
        if C::IS_VIRTUAL && completed > 0 {
            self.filling = true;
            return RunnerStep::Busy { submitted: 0, completed, bytes };
        }
        if completed == 0 && !filling && self.only_waits() {
            return self.wait_for_device(now, self.pace.opens(now));
        }
        let submitted = self.fill(now, C::IS_VIRTUAL);
        // Limits may make room at any time.
        let has_room = self.slots.in_use() < self.depth || self.limits().is_some();
        self.filling = C::IS_VIRTUAL && submitted > 0 && has_room;
        if submitted > 0 && !C::IS_VIRTUAL {
            // Each I/O of the batch took its share of the time to submit it.
            let spent = clock.now() - now;
            if spent > Nanos(0) {
                self.slots.set_issued(submitted, now + Nanos(spent.0 / u64::from(submitted)));
            }
        }
        if !C::IS_VIRTUAL
            && let Some(waiter) = &mut self.waiter
        {
            if completed + submitted > 0 {
                waiter.goes_on();
            } else if self.is_contended() && !self.keeps_waiting() {
                return RunnerStep::NOTHING;
            }
        }
        if completed + submitted > 0 || filling {
            let bytes = bytes + std::mem::take(&mut self.step_bytes);
            return RunnerStep::Busy { submitted, completed, bytes };
        }
        let for_zone = if C::IS_VIRTUAL { self.wait_for_zone(now) } else { None };
        for_zone.unwrap_or_else(|| self.wait(now))
    }
}
