//! Loops of several threads at the same time, on zones of their own and on zones that they share.
use super::{BLOCK, DEVICE, per_io, queue};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use zonal_blk::lock::SpinLock;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Bio, Nanos, Op, Queue, QueueOptions, Sector, Status, ZoneWrite};

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

/// A number in cache lines of its own.
#[repr(align(128))]
struct Line(SpinLock<u64>);

/// What writers of a zone take from each other.
struct ZoneLines {
    /// Where the next write goes.
    offset: Line,
    /// Stands for the plug, with [`Sharing::Order`] and [`Sharing::Plug`].
    plug: Line,
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
            Sharing::Order | Sharing::Plug | Sharing::Zones => Self::ZONES,
        };
        let line = || Line(SpinLock::new(0));
        let zone = |_| ZoneLines { offset: line(), plug: line() };
        let lines: Vec<ZoneLines> = (0..count).map(zone).collect();
        let time = at_once(self.threads, |id| self.write(&queue, &lines, id));
        per_io(time, self.threads * Self::WRITES)
    }

    fn write(self, queue: &Arc<Queue>, lines: &[ZoneLines], id: u64) {
        let mut channel = queue.channel().expect("a hardware queue");
        let own = id * Self::ZONES;
        let append = self.op == Op::ZoneAppend;
        let (first, first_line, own_offset, locks_plug) = match self.sharing {
            Sharing::Nothing => (own, own, false, false),
            Sharing::Order => (own, 0, true, append),
            Sharing::Plug => (own, 0, true, true),
            Sharing::Zones => (0, 0, false, false),
        };
        let lines = &lines[first_line as usize..];
        // The offsets in zones of one's own.
        let mut private = [0; Self::ZONES as usize];
        let mut random = id * 2 + 1;
        let (mut left, mut in_flight) = (Self::WRITES, 0);
        let mut done = Vec::with_capacity(self.depth);
        while left > 0 || in_flight > 0 {
            let mut moved = false;
            while left > 0 && in_flight < self.depth {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let zone = (random >> 33) % Self::ZONES;
                let start = (first + zone) * queue.limits().zone_size.0;
                let line = &lines[zone as usize];
                let mut agreed = (!append).then(|| line.offset.0.lock());
                if locks_plug {
                    *line.plug.0.lock() += 1;
                }
                let at = agreed.as_deref_mut().map_or(start, |agreed| {
                    let offset = if own_offset { &mut private[zone as usize] } else { agreed };
                    *offset += BLOCK;
                    start + *offset - BLOCK
                });
                channel.submit(Nanos(0), Bio::new(self.op, Sector(at), BLOCK as u32, zone));
                left -= 1;
                in_flight += 1;
                moved = true;
            }
            channel.poll(Nanos(0), &mut done);
            moved |= !done.is_empty();
            in_flight -= done.len();
            for completion in done.drain(..) {
                assert_eq!(completion.status, Status::Ok);
                if self.sharing == Sharing::Plug {
                    *lines[completion.user_data as usize].plug.0.lock() += 1;
                }
            }
            if !moved {
                thread::yield_now();
            }
        }
        channel.drain();
        while !channel.is_idle() {
            channel.poll(Nanos(0), &mut done);
            thread::yield_now();
        }
    }
}
