//! Loops of several threads at the same time, on zones of their own and on zones that they share.
use super::{BLOCK, DEVICE, per_io, queue};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use zonal_blk::lock::SpinLock;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Bio, Mailbox, Nanos, Op, Queue, QueueOptions, Sector, Status, ZoneWrite};

/// Runs `work` for each of `threads` threads at the same time. Gives the time from the first one's start to
/// the last one's end, as they saw it: with more threads than CPUs nobody else has a good view.
pub fn at_once(threads: u64, work: impl Fn(u64) + Sync) -> Duration {
    let barrier = Barrier::new(usize::try_from(threads).expect("a few"));
    let times: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let spawn = |id| {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                let start = Instant::now();
                work(id);
                (start, Instant::now())
            })
        };
        let handles: Vec<_> = (0..threads).map(spawn).collect();
        handles.into_iter().map(|handle| handle.join().expect("no thread fails")).collect()
    });
    let start = times.iter().map(|&(start, _)| start).min().expect("a thread");
    let end = times.iter().map(|&(_, end)| end).max().expect("a thread");
    end - start
}

/// Nanoseconds for a word that two threads take from each other, to the other CPU and back. The line is
/// fetched four times: each thread fetches it to see that it is its turn, and again to write.
pub fn line_round_trip() -> f64 {
    const TURNS: u64 = 100_000;
    let word = AtomicU64::new(0);
    let time = at_once(2, |id| {
        for turn in (id..2 * TURNS).step_by(2) {
            while word.load(Ordering::Acquire) != turn {
                std::hint::spin_loop();
            }
            word.store(turn + 1, Ordering::Release);
        }
    });
    time.as_nanos() as f64 / TURNS as f64
}

/// A lock in cache lines of its own.
#[repr(align(128))]
struct Line<T>(SpinLock<T>);

/// What writers of a zone take from each other.
struct ZoneLines {
    /// Where the next write goes.
    offset: Line<u64>,
    /// Stands for the plug: the writes that wait in it, with [`Sharing::Handover`].
    plug: Line<Vec<Box<Waiting>>>,
}

/// Stands for a write that waits in a plug: a cache line.
#[repr(align(64))]
struct Waiting {
    owner: usize,
    /// Whether a thread has completed it.
    completed: bool,
}

/// A thread's part of handing writes over, as the layer does it: a write waits in its plug, and whoever
/// completes a write of that zone completes those that wait as well, and leaves them in the mailboxes of
/// those that they are of.
struct Handover<'a> {
    id: usize,
    mailboxes: &'a [Mailbox<Box<Waiting>>],
    outboxes: Vec<Vec<Box<Waiting>>>,
    pool: Vec<Box<Waiting>>,
    mail: Vec<Box<Waiting>>,
    /// How many of this thread's writes have been completed.
    back: u64,
}

impl<'a> Handover<'a> {
    fn new(id: u64, mailboxes: &'a [Mailbox<Box<Waiting>>]) -> Self {
        let outboxes = mailboxes.iter().map(|_| Vec::new()).collect();
        let id = usize::try_from(id).expect("a few threads");
        Handover { id, mailboxes, outboxes, pool: Vec::new(), mail: Vec::new(), back: 0 }
    }

    /// A write of this thread waits in `plug`.
    fn park(&mut self, plug: &mut Vec<Box<Waiting>>) {
        let new = || Box::new(Waiting { owner: self.id, completed: false });
        let mut waiting = self.pool.pop().unwrap_or_else(new);
        waiting.completed = false;
        plug.push(waiting);
    }

    /// Completes what waits in `plug`, after a write of this thread.
    fn complete(&mut self, plug: &Line<Vec<Box<Waiting>>>) {
        for mut waiting in plug.0.lock().drain(..) {
            waiting.completed = true;
            match waiting.owner {
                owner if owner == self.id => self.take_back(waiting),
                owner => self.outboxes[owner].push(waiting),
            }
        }
    }

    /// At the end of a poll: leaves mail, and takes this thread's.
    fn exchange(&mut self) {
        for (mailbox, outbox) in self.mailboxes.iter().zip(&mut self.outboxes) {
            if !outbox.is_empty() {
                mailbox.push_all(outbox);
            }
        }
        let mut mail = std::mem::take(&mut self.mail);
        self.mailboxes[self.id].take(&mut mail);
        mail.drain(..).for_each(|waiting| self.take_back(waiting));
        self.mail = mail;
    }

    fn take_back(&mut self, waiting: Box<Waiting>) {
        assert!(waiting.completed);
        self.back += 1;
        self.pool.push(waiting);
    }
}

/// State that threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Nothing.
    Nothing,
    /// The cache line of a zone that its writers take from each other anyhow: that of the offset on
    /// which they agree, or with appends that of the order in which they land. The zones are their own,
    /// so a layer that orders each write as it comes can do no better.
    Order,
    /// That line, and one that is locked when a write is submitted and when it has completed, as a plug
    /// is by a layer that keeps one write in flight in a zone; with appends it is the same line.
    Plug,
    /// The same, and the lines of the writes: each waits in the plug, where a thread that completes
    /// another one may complete it, and comes back by mail. It costs the cache lines that the layer's
    /// threads take from each other at great depths, and what it takes to do all this beside the layer.
    Handover,
    /// The zones.
    Zones,
}

/// Random 4 KiB writes to 16 zones for each thread, or to 16 that all share. Writers of a zone agree
/// on the offset under a lock, as writers of a file do, and submit under it; with appends the layer
/// says where they land.
#[derive(Clone, Copy)]
pub struct RandomWrites {
    /// [`Op::Write`] or [`Op::ZoneAppend`].
    pub op: Op,
    /// Threads at the same time.
    pub threads: u64,
    /// The state that they share.
    pub sharing: Sharing,
    /// Each thread's queue depth.
    pub depth: usize,
    /// The queue's scheduler.
    pub scheduler: Scheduler,
}

impl RandomWrites {
    const ZONES: u64 = 16;
    const WRITES: u64 = 250_000;

    /// Nanoseconds a write, all threads together.
    pub fn ns_per_write(self) -> f64 {
        let (zone_write, scheduler) = (Some(ZoneWrite::Plug), self.scheduler);
        let options = QueueOptions { zone_write, scheduler, ..QueueOptions::default() };
        let queue = queue(&format!("{DEVICE},append_max=0"), options);
        let count = match self.sharing {
            Sharing::Nothing => Self::ZONES * self.threads,
            _ => Self::ZONES,
        };
        let zone =
            |_| ZoneLines { offset: Line(SpinLock::new(0)), plug: Line(SpinLock::new(Vec::new())) };
        let lines: Vec<ZoneLines> = (0..count).map(zone).collect();
        let mailboxes: Vec<_> = (0..self.threads).map(|_| Mailbox::default()).collect();
        let time = at_once(self.threads, |id| {
            self.write(&queue, &lines, id, Handover::new(id, &mailboxes));
        });
        per_io(time, self.threads * Self::WRITES)
    }

    fn write(self, queue: &Arc<Queue>, lines: &[ZoneLines], id: u64, mut handover: Handover) {
        let mut channel = queue.channel().expect("a hardware queue");
        let own = id * Self::ZONES;
        let append = self.op == Op::ZoneAppend;
        let hands_over = self.sharing == Sharing::Handover;
        let (first, first_line, own_offset, locks_plug) = match self.sharing {
            Sharing::Nothing => (own, own, false, false),
            Sharing::Order => (own, 0, true, append),
            Sharing::Plug | Sharing::Handover => (own, 0, true, true),
            Sharing::Zones => (0, 0, false, false),
        };
        let lines = &lines[first_line as usize..];
        // The offsets in zones of one's own.
        let mut private = [0; Self::ZONES as usize];
        let mut random = id * 2 + 1;
        let (mut submitted, mut completed) = (0, 0);
        let mut done = Vec::with_capacity(self.depth);
        loop {
            let ended = if hands_over { handover.back.min(completed) } else { completed };
            if ended == Self::WRITES {
                break;
            }
            let before = submitted;
            while submitted < Self::WRITES && submitted - ended < self.depth as u64 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let zone = (random >> 33) % Self::ZONES;
                let start = (first + zone) * queue.limits().zone_size.0;
                let line = &lines[zone as usize];
                let mut agreed = (!append).then(|| line.offset.0.lock());
                if locks_plug {
                    let mut plug = line.plug.0.lock();
                    if hands_over {
                        handover.park(&mut plug);
                    }
                }
                let at = agreed.as_deref_mut().map_or(start, |agreed| {
                    let offset = if own_offset { &mut private[zone as usize] } else { agreed };
                    *offset += BLOCK;
                    start + *offset - BLOCK
                });
                channel.submit(Nanos(0), Bio::new(self.op, Sector(at), BLOCK as u32, zone));
                submitted += 1;
            }
            channel.poll(Nanos(0), &mut done);
            if submitted == before && done.is_empty() {
                thread::yield_now();
            }
            completed += done.len() as u64;
            for completion in done.drain(..) {
                assert_eq!(completion.status, Status::Ok);
                let plug = &lines[completion.user_data as usize].plug;
                match self.sharing {
                    Sharing::Plug => drop(plug.0.lock()),
                    Sharing::Handover => handover.complete(plug),
                    _ => {}
                }
            }
            if hands_over {
                handover.exchange();
            }
        }
        channel.drain();
        while !channel.is_idle() {
            channel.poll(Nanos(0), &mut done);
            thread::yield_now();
        }
    }
}
