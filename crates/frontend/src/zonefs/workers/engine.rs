//! The I/O of one worker: a state machine over its channel.
//!
//! Reads, aligned writes and flushes are in flight together. Any other operation waits until nothing
//! is in flight and then has the worker to itself, for up to two bios.
use super::{FileOp, Job, OnDone, Reply};
use crate::zonefs::fs::{OpenMode, ReadPlan, WritePlan, ZoneFs, errno};
use crate::zonefs::tree::FileNo;
use std::sync::Arc;
use zonal_blk::{
    Bio, BioFlags, Buf, BufPool, Channel, Completion, Nanos, Op, ReadBufs, Sector, Slab, Status,
};

/// Bytes of the buffers that a worker keeps for later operations.
const MAX_KEPT: usize = 16 << 20;

pub(super) struct Engine {
    fs: Arc<ZoneFs>,
    pub(super) channel: Channel,
    /// By `user_data`, what is in flight.
    in_flight: Slab<InFlight>,
    reads: ReadBufs,
    bufs: BufPool,
    /// An operation has the worker to itself.
    is_exclusive: bool,
    /// It has not begun.
    deferred: Option<Deferred>,
    completions: Vec<Completion>,
}

struct InFlight {
    file: FileNo,
    step: IoStep,
    on_done: OnDone,
}

/// The purpose of a bio.
enum IoStep {
    Read(ReadPlan),
    Write(WritePlan),
    Sync,
    /// The read of a read-modify-write; its data are at `skip` of what is read.
    ReadAround {
        plan: WritePlan,
        data: Buf,
        sector: Sector,
        skip: usize,
    },
    Truncate {
        size: u64,
    },
    /// Opens the zone again that was truncated.
    Reopen,
    Open,
    Close,
}

/// An operation that waits until nothing is in flight.
struct Deferred {
    file: FileNo,
    op: ExclusiveOp,
    on_done: OnDone,
}

enum ExclusiveOp {
    PartialWrite { plan: WritePlan, data: Buf },
    Truncate { size: u64 },
    Open { writes: bool },
    Close { wrote: bool },
}

impl Engine {
    pub fn new(fs: Arc<ZoneFs>, channel: Channel) -> Self {
        Engine {
            fs,
            reads: channel.queue().device().read_bufs(),
            channel,
            in_flight: Slab::default(),
            bufs: BufPool::default(),
            is_exclusive: false,
            deferred: None,
            completions: Vec::new(),
        }
    }

    /// Whether another job may begin.
    pub fn may_begin(&self) -> bool {
        !self.is_exclusive
    }

    /// Whether all jobs that began are done.
    pub fn is_idle(&self) -> bool {
        !self.is_exclusive && self.in_flight.is_empty()
    }

    /// Begins a job.
    pub fn begin(&mut self, now: Nanos, job: Job) {
        assert!(self.may_begin(), "an operation has the worker to itself");
        let Job { file, work, on_done } = job;
        match work {
            FileOp::Read { offset, len, open_mode } => {
                match self.fs.read(file, offset, len, open_mode) {
                    Ok(Some(plan)) => {
                        let bio = self.read(plan.sector, plan.nr_sectors);
                        self.submit(now, bio, InFlight { file, step: IoStep::Read(plan), on_done });
                    }
                    Ok(None) => on_done(Ok(Reply::Data(&[]))),
                    Err(errno) => on_done(Err(errno)),
                }
            }
            FileOp::Write { offset, data, open_mode } => {
                self.write(now, file, (offset, data, open_mode), on_done);
            }
            FileOp::Sync => match self.fs.sync(file) {
                Ok(()) => {
                    let bio = Bio::new(Op::Flush, Sector(0), 0, 0);
                    self.submit(now, bio, InFlight { file, step: IoStep::Sync, on_done });
                }
                Err(errno) => on_done(Err(errno)),
            },
            FileOp::Truncate { size } => {
                self.defer(now, file, ExclusiveOp::Truncate { size }, on_done);
            }
            FileOp::Open { writes } => {
                self.defer(now, file, ExclusiveOp::Open { writes }, on_done);
            }
            FileOp::Close { wrote } => {
                self.defer(now, file, ExclusiveOp::Close { wrote }, on_done);
            }
        }
    }

    fn write(
        &mut self,
        now: Nanos,
        file: FileNo,
        (offset, data, open_mode): (u64, Buf, OpenMode),
        on_done: OnDone,
    ) {
        let plan = match self.fs.write(file, offset, data.len(), open_mode) {
            Ok(plan) if plan.len == 0 => return on_done(Ok(Reply::Written(0))),
            Ok(plan) => plan,
            Err(errno) => return on_done(Err(errno)),
        };
        if plan.is_partial {
            return self.defer(now, file, ExclusiveOp::PartialWrite { plan, data }, on_done);
        }
        let data = if plan.len < data.len() { Buf::from(&data[..plan.len]) } else { data };
        let mut bio = Bio::write(self.fs.start(file) + Sector(plan.offset >> 9), data, 0);
        bio.flags = if open_mode.sync { BioFlags::FUA } else { BioFlags::NONE };
        self.submit(now, bio, InFlight { file, step: IoStep::Write(plan), on_done });
    }

    fn read(&mut self, sector: Sector, nr_sectors: u32) -> Bio {
        let buf = self.bufs.for_read(nr_sectors as usize * 512, self.reads);
        let buf = Some(buf.expect("memory for a data buffer"));
        Bio { buf, ..Bio::new(Op::Read, sector, nr_sectors, 0) }
    }

    fn submit(&mut self, now: Nanos, bio: Bio, entry: InFlight) {
        let user_data = self.in_flight.insert(entry) as u64;
        self.channel.submit(now, Bio { user_data, ..bio });
    }

    fn defer(&mut self, now: Nanos, file: FileNo, op: ExclusiveOp, on_done: OnDone) {
        self.is_exclusive = true;
        self.deferred = Some(Deferred { file, op, on_done });
        self.advance_exclusive(now);
    }

    /// Begins the exclusive operation, or ends its exclusiveness, once nothing is in flight.
    fn advance_exclusive(&mut self, now: Nanos) {
        while self.is_exclusive && self.in_flight.is_empty() {
            match self.deferred.take() {
                Some(deferred) => self.begin_exclusive(now, deferred),
                None => self.is_exclusive = false,
            }
        }
    }

    fn begin_exclusive(&mut self, now: Nanos, deferred: Deferred) {
        let Deferred { file, op, on_done } = deferred;
        match op {
            ExclusiveOp::PartialWrite { plan, data } => {
                self.read_around(now, file, (plan, data), on_done);
            }
            ExclusiveOp::Truncate { size } => match self.fs.truncate(file, size) {
                Ok(Some(op)) => self.manage(now, op, file, IoStep::Truncate { size }, on_done),
                Ok(None) => on_done(Ok(Reply::Done)),
                Err(errno) => on_done(Err(errno)),
            },
            ExclusiveOp::Open { writes } => match self.fs.open(file, writes) {
                Ok(true) => self.manage(now, Op::ZoneOpen, file, IoStep::Open, on_done),
                Ok(false) => on_done(Ok(Reply::Done)),
                Err(errno) => on_done(Err(errno)),
            },
            ExclusiveOp::Close { wrote } => match self.fs.close(file, wrote) {
                Some(op) => self.manage(now, op, file, IoStep::Close, on_done),
                None => on_done(Ok(Reply::Done)),
            },
        }
    }

    fn manage(&mut self, now: Nanos, op: Op, file: FileNo, step: IoStep, on_done: OnDone) {
        let bio = Bio::new(op, self.fs.start(file), 0, 0);
        self.submit(now, bio, InFlight { file, step, on_done });
    }

    /// A write to a conventional file that does not fill its blocks reads them first.
    fn read_around(
        &mut self,
        now: Nanos,
        file: FileNo,
        (plan, mut data): (WritePlan, Buf),
        on_done: OnDone,
    ) {
        if plan.len < data.len() {
            data = Buf::from(&data[..plan.len]);
        }
        match self.fs.read(file, plan.offset, plan.len, OpenMode::default()) {
            Ok(Some(ReadPlan { sector, nr_sectors, skip, .. })) => {
                let step = IoStep::ReadAround { plan, data, sector, skip };
                let bio = self.read(sector, nr_sectors);
                self.submit(now, bio, InFlight { file, step, on_done });
            }
            // The file's size was checked when the write was planned.
            _ => self.write_done(file, plan, Status::IoError, on_done),
        }
    }

    fn write_done(&mut self, file: FileNo, plan: WritePlan, status: Status, on_done: OnDone) {
        let result = self.fs.write_done(file, plan, status);
        on_done(result.map(|()| Reply::Written(plan.len)));
    }

    /// Polls the channel and replies to what has completed. Returns the number of completions.
    pub fn poll(&mut self, now: Nanos) -> usize {
        let mut completions = std::mem::take(&mut self.completions);
        let count = self.channel.poll(now, &mut completions);
        for completion in completions.drain(..) {
            self.complete(now, completion);
        }
        self.completions = completions;
        self.advance_exclusive(now);
        count
    }

    fn complete(&mut self, now: Nanos, completion: Completion) {
        let Completion { user_data, status, mut buf, .. } = completion;
        let slot = usize::try_from(user_data).expect("a slot's number");
        let entry = self.in_flight.remove(slot);
        let InFlight { file, step, on_done } = entry.expect("a bio completes once");
        match step {
            IoStep::Read(plan) if status == Status::Ok => {
                let buf = buf.as_ref().expect("a read has its buffer");
                on_done(Ok(Reply::Data(&buf[plan.skip..][..plan.len])));
            }
            IoStep::Sync if status == Status::Ok => on_done(Ok(Reply::Done)),
            IoStep::Read(_) | IoStep::Sync => {
                self.fs.recover(file, status, matches!(step, IoStep::Sync));
                on_done(Err(errno(status)));
            }
            IoStep::Write(plan) => self.write_done(file, plan, status, on_done),
            IoStep::ReadAround { plan, data, sector, skip } => match (status, buf.take()) {
                (Status::Ok, Some(mut buf)) => {
                    buf[skip..][..data.len()].copy_from_slice(&data);
                    let entry = InFlight { file, step: IoStep::Write(plan), on_done };
                    self.submit(now, Bio::write(sector, buf, 0), entry);
                }
                _ => self.write_done(file, plan, status, on_done),
            },
            IoStep::Truncate { size } => match self.fs.truncate_done(file, size, status) {
                Ok(true) => self.manage(now, Op::ZoneOpen, file, IoStep::Reopen, on_done),
                Ok(false) => on_done(Ok(Reply::Done)),
                Err(errno) => on_done(Err(errno)),
            },
            IoStep::Reopen if status == Status::Ok => on_done(Ok(Reply::Done)),
            IoStep::Reopen => on_done(Err(self.fs.reopen_failed(file, status))),
            IoStep::Open => on_done(self.fs.open_done(file, status).map(|()| Reply::Done)),
            IoStep::Close => {
                self.fs.close_done(file, status);
                on_done(Ok(Reply::Done));
            }
        }
        if let Some(buf) = buf {
            self.bufs.put(buf, MAX_KEPT);
        }
    }
}
