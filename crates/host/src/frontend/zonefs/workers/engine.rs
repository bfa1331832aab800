//! The I/O of one worker.
//!
//! Takes work in order; gives replies. Keeps true: reads, aligned writes and flushes are in flight
//! together; anything else waits until nothing is, and has the worker for itself.
use super::{FileOp, Job, OnDone, Reply};
use crate::RealClock;
use crate::frontend::zonefs::tree::FileNo;
use crate::frontend::zonefs::view::{OpenMode, ReadPlan, View, WritePlan, errno};
use rustix::io::Errno;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use zonal_blk::Clock;
use zonal_blk::{Bio, Buf, Channel, Completion, Nanos, Op, Sector, Status};

/// A sleep ends this long before the event of the device that it is for.
const SLACK: Nanos = Nanos(20_000);
/// The longest sleep while another channel may have something for this one.
const LOOK: Duration = Duration::from_micros(100);
/// The longest sleep: what others do can bring an event forward.
const MOST: Duration = Duration::from_millis(1);
/// The `user_data` of what the worker itself waits for.
const AWAITED: u64 = u64::MAX;

/// How long there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Not at all.
    Not,
    /// So long.
    For(Duration),
    /// Until there is new work.
    Idle,
}

pub(super) struct Engine {
    view: Arc<View>,
    channel: Channel,
    /// By `user_data`, what is in flight.
    pending: Vec<Option<Pending>>,
    free: Vec<usize>,
    completions: Vec<Completion>,
}

struct Pending {
    file: FileNo,
    plan: Plan,
    on_done: OnDone,
}

enum Plan {
    Read(ReadPlan),
    Write(WritePlan),
    Sync,
}

impl Engine {
    pub fn new(view: Arc<View>, channel: Channel) -> Self {
        Engine { view, channel, pending: Vec::new(), free: Vec::new(), completions: Vec::new() }
    }

    /// Begins work, or does it to its end.
    pub fn begin(&mut self, clock: &RealClock, job: Job) {
        let Job { file, work, on_done } = job;
        match work {
            FileOp::Read { offset, len, open_mode } => {
                match self.view.read(file, offset, len, open_mode) {
                    Ok(Some(plan)) => {
                        let bio = Bio::read(plan.sector, plan.nr_sectors, 0);
                        self.submit(clock, bio, Pending { file, plan: Plan::Read(plan), on_done });
                    }
                    Ok(None) => on_done(Ok(Reply::Data(&[]))),
                    Err(errno) => on_done(Err(errno)),
                }
            }
            FileOp::Write { offset, data, open_mode } => {
                self.write(clock, file, (offset, data, open_mode), on_done)
            }
            FileOp::Sync => match self.view.sync(file) {
                Ok(()) => {
                    let bio = Bio::new(Op::Flush, Sector(0), 0, 0);
                    self.submit(clock, bio, Pending { file, plan: Plan::Sync, on_done });
                }
                Err(errno) => on_done(Err(errno)),
            },
            FileOp::Truncate { size } => {
                self.drain(clock);
                on_done(self.truncate(clock, file, size).map(|()| Reply::Done));
            }
            FileOp::Open { writes } => {
                self.drain(clock);
                on_done(self.open(clock, file, writes).map(|()| Reply::Done));
            }
            FileOp::Close { wrote } => {
                self.drain(clock);
                if let Some(op) = self.view.close(file, wrote) {
                    let status = self.manage(clock, op, file);
                    self.view.close_done(file, status);
                }
                on_done(Ok(Reply::Done));
            }
        }
    }

    fn write(
        &mut self,
        clock: &RealClock,
        file: FileNo,
        (offset, data, open_mode): (u64, Buf, OpenMode),
        on_done: OnDone,
    ) {
        let plan = match self.view.write(file, offset, data.len(), open_mode) {
            Ok(plan) if plan.len == 0 => return on_done(Ok(Reply::Written(0))),
            Ok(plan) => plan,
            Err(errno) => return on_done(Err(errno)),
        };
        if plan.is_partial {
            self.drain(clock);
            let status = self.read_modify_write(clock, file, plan, &data[..plan.len]);
            let ended = self.view.write_done(file, plan, status);
            return on_done(ended.map(|()| Reply::Written(plan.len)));
        }
        let data = if plan.len < data.len() { Buf::from(&data[..plan.len]) } else { data };
        let bio = Bio::write(self.view.start(file) + Sector(plan.offset >> 9), data, 0);
        self.submit(clock, bio, Pending { file, plan: Plan::Write(plan), on_done });
    }

    /// Writes to a conventional file what does not fill its blocks: with what is there around it.
    fn read_modify_write(
        &mut self,
        clock: &RealClock,
        file: FileNo,
        plan: WritePlan,
        data: &[u8],
    ) -> Status {
        let whole = OpenMode::default();
        let around = match self.view.read(file, plan.offset, plan.len, whole) {
            Ok(Some(around)) => around,
            // Its size was read when the write was planned.
            _ => return Status::IoError,
        };
        let read = self.run(clock, Bio::read(around.sector, around.nr_sectors, AWAITED));
        let (Status::Ok, Some(mut buf)) = (read.status, read.buf) else {
            return read.status;
        };
        buf[around.skip..][..data.len()].copy_from_slice(data);
        self.run(clock, Bio::write(around.sector, buf, AWAITED)).status
    }

    fn truncate(&mut self, clock: &RealClock, file: FileNo, size: u64) -> Result<(), Errno> {
        let Some(op) = self.view.truncate(file, size)? else {
            return Ok(());
        };
        let status = self.manage(clock, op, file);
        if self.view.truncate_done(file, size, status)? {
            let status = self.manage(clock, Op::ZoneOpen, file);
            if status != Status::Ok {
                return Err(self.view.reopen_failed(file, status));
            }
        }
        Ok(())
    }

    fn open(&mut self, clock: &RealClock, file: FileNo, writes: bool) -> Result<(), Errno> {
        if self.view.open(file, writes)? {
            let status = self.manage(clock, Op::ZoneOpen, file);
            self.view.open_done(file, status)?;
        }
        Ok(())
    }

    fn manage(&mut self, clock: &RealClock, op: Op, file: FileNo) -> Status {
        self.run(clock, Bio::new(op, self.view.start(file), 0, AWAITED)).status
    }

    fn submit(&mut self, clock: &RealClock, mut bio: Bio, pending: Pending) {
        let slot = self.free.pop().unwrap_or(self.pending.len());
        bio.user_data = slot as u64;
        if slot == self.pending.len() {
            self.pending.push(None);
        }
        self.pending[slot] = Some(pending);
        self.channel.submit(clock.now(), bio);
    }

    /// Does one thing to its end. Others that are in flight may end meanwhile.
    fn run(&mut self, clock: &RealClock, bio: Bio) -> Completion {
        self.channel.submit(clock.now(), bio);
        loop {
            let (awaited, wait) = self.step(clock);
            if let Some(completion) = awaited {
                return completion;
            }
            sleep(wait);
        }
    }

    /// Sees what is in flight to its end.
    fn drain(&mut self, clock: &RealClock) {
        while self.channel.outstanding() > 0 {
            let (_, wait) = self.step(clock);
            sleep(wait);
        }
    }

    /// Replies to what has ended.
    pub fn poll(&mut self, clock: &RealClock) -> Wait {
        self.step(clock).1
    }

    fn step(&mut self, clock: &RealClock) -> (Option<Completion>, Wait) {
        let now = clock.now();
        let mut ended = std::mem::take(&mut self.completions);
        self.channel.poll(now, &mut ended);
        let mut awaited = None;
        for completion in ended.drain(..) {
            if completion.user_data == AWAITED {
                awaited = Some(completion);
            } else {
                self.reply(completion);
            }
        }
        self.completions = ended;
        (awaited, self.wait(now))
    }

    fn wait(&mut self, now: Nanos) -> Wait {
        match self.channel.next_event().at() {
            Some(at) if at <= now + SLACK => Wait::Not,
            Some(at) => Wait::For(Duration::from_nanos((at - now - SLACK).0).min(MOST)),
            // The writes of others that wait for the device are seen to as well.
            None if self.channel.is_idle() => Wait::Idle,
            None => Wait::For(LOOK),
        }
    }

    fn reply(&mut self, completion: Completion) {
        let Completion { user_data, status, buf, .. } = completion;
        let slot = usize::try_from(user_data).expect("a slot's number");
        let pending = self.pending[slot].take();
        let Pending { file, plan, on_done } = pending.expect("what ends has begun");
        self.free.push(slot);
        match plan {
            Plan::Write(plan) => {
                let ended = self.view.write_done(file, plan, status);
                on_done(ended.map(|()| Reply::Written(plan.len)));
            }
            _ if status != Status::Ok => {
                self.view.recover(file, status, matches!(plan, Plan::Sync));
                on_done(Err(errno(status)));
            }
            Plan::Read(plan) => {
                let buf = buf.expect("a read brings its buffer");
                on_done(Ok(Reply::Data(&buf[plan.skip..][..plan.len])));
            }
            Plan::Sync => on_done(Ok(Reply::Done)),
        }
    }

    /// Ends the worker's channel.
    pub fn finish(&mut self, clock: &RealClock) {
        self.channel.retire();
        while !self.channel.is_idle() {
            let (_, wait) = self.step(clock);
            sleep(wait);
        }
    }
}

fn sleep(wait: Wait) {
    match wait {
        Wait::For(time) => thread::sleep(time),
        Wait::Not | Wait::Idle => thread::yield_now(),
    }
}
