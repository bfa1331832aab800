//! Three and four threads with dozens of bios, in schedules that shuttle draws:
//! `RUSTFLAGS="--cfg shuttle" cargo test -p zonal-blk --release --lib shuttle`.
//!
//! Loom tries every schedule of two threads with three bios; these are too large for that. Threads
//! are switched at every lock and atomic operation. What is checked of each schedule: every bio ends
//! once, on its thread; the device never has two writes to a zone (to the disk with QD=1), and sees
//! none off the write pointer; appends of a thread lie in the order of their submission, where their
//! completions say; tags are used by one command at a time; nothing is left of plugs and bios.
mod device;

use crate::bio::Bio;
use crate::channel::Channel;
use crate::limits::Limits;
use crate::op::Op;
use crate::plug::ZoneWrite;
use crate::queue::{Queue, QueueOptions};
use crate::sched::Scheduler;
use crate::status::Status;
use crate::testing::limits;
use crate::units::{Nanos, Sector, ZoneNo};
use device::{Slow, percent};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread as threads};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const ZONES: u32 = 3;
const SIZE: u64 = 64;
/// Bios of each thread.
const BIOS: u64 = 12;
/// Schedules of each test, drawn with even chances.
const EVEN: usize = 400;
/// ... and with few switches at places that matter (Burckhardt and others, 2010).
const FEW: usize = 200;
const TIMEOUT: Nanos = Nanos(20_000_000);

/// The plan of a test's threads.
#[derive(Clone, Copy)]
struct Plan {
    workers: u64,
    policy: ZoneWrite,
    scheduler: &'static str,
    share_queues: bool,
    depth: u16,
    faults: u32,
    /// Appends only, else reads, resets, finishes and long writes as well.
    appends_only: bool,
    /// Changes of the queue meanwhile.
    changes: u32,
}

const PLAN: Plan = Plan {
    workers: 3,
    policy: ZoneWrite::Plug,
    scheduler: "none",
    share_queues: false,
    depth: 4,
    faults: 0,
    appends_only: true,
    changes: 0,
};

struct World {
    plan: Plan,
    device: Arc<Slow>,
    queue: Arc<Queue>,
    /// Time passes as the threads look at it.
    clock: AtomicU64,
    working: AtomicUsize,
}

impl World {
    fn new(plan: Plan) -> Arc<Self> {
        let limits = Limits {
            queue_depth: plan.depth,
            nr_queues: if plan.share_queues { 2 } else { 8 },
            max_sectors: 8,
            ..limits(ZONES, SIZE)
        };
        let device = Slow::new(limits, plan.faults, plan.appends_only && plan.faults == 0);
        let options = QueueOptions {
            zone_write: Some(plan.policy),
            scheduler: plan.scheduler.parse().unwrap(),
            share_queues: plan.share_queues,
            io_timeout: TIMEOUT,
            ..QueueOptions::default()
        };
        device.expect_qd1(plan.policy == ZoneWrite::Qd1);
        let queue = Queue::attach(Arc::clone(&device) as _, options).unwrap();
        let workers = usize::try_from(plan.workers).unwrap();
        let (clock, working) = (AtomicU64::new(0), AtomicUsize::new(workers));
        Arc::new(World { plan, device, queue, clock, working })
    }

    fn now(&self) -> Nanos {
        Nanos(self.clock.fetch_add(200_000, Ordering::Relaxed))
    }

    fn bio(&self, id: u64) -> Bio {
        let zone = thread_rng().gen_range(0..u64::from(ZONES)) * SIZE;
        let draw = if self.plan.appends_only { 0 } else { thread_rng().gen_range(0..10) };
        match draw {
            0..6 => Bio::new(Op::ZoneAppend, Sector(zone), 1, id),
            6 => Bio::new(Op::Read, Sector(zone), 20, id),
            7 => Bio::new(Op::Write, Sector(zone), 20, id),
            8 => Bio::new(Op::ZoneReset, Sector(zone), 0, id),
            _ => Bio::new(Op::ZoneFinish, Sector(zone), 0, id),
        }
    }

    /// A thread: submits, polls until all is done, and until it may go.
    fn work(&self, mut channel: Channel, first: u64) {
        let mut ended: Vec<Option<(Status, Sector)>> = vec![None; usize::try_from(BIOS).unwrap()];
        let (mut next, mut done) = (0, Vec::new());
        while next < BIOS || channel.outstanding() > 0 {
            while next < BIOS && channel.outstanding() < 6 && !percent(30) {
                channel.submit(self.now(), self.bio(first + next));
                next += 1;
            }
            channel.poll(self.now(), &mut done);
            for end in done.drain(..) {
                let slot = &mut ended[usize::try_from(end.user_data - first).unwrap()];
                assert!(slot.replace((end.status, end.sector)).is_none(), "a bio ends once");
            }
            threads::yield_now();
        }
        self.working.fetch_sub(1, Ordering::Relaxed);
        channel.drain();
        while !channel.is_idle() {
            channel.poll(self.now(), &mut done);
            threads::yield_now();
        }
        assert!(done.is_empty() && ended.iter().all(Option::is_some), "all have ended");
        if self.plan.appends_only {
            self.check_appends(first, &ended);
        }
    }

    fn check_appends(&self, first: u64, ended: &[Option<(Status, Sector)>]) {
        let mut last = [None; ZONES as usize];
        for (id, &end) in (first..).zip(ended) {
            let Some((Status::Ok, sector)) = end else {
                assert!(self.plan.faults > 0, "nothing fails: {end:?}");
                continue;
            };
            assert_eq!(self.device.written_by(sector), Some(id), "the data are where it says");
            let zone = usize::try_from(sector.0 / SIZE).unwrap();
            assert!(last[zone].replace(sector) < Some(sector), "in the order of submission");
        }
    }

    /// Freezes the queue under load and changes something about it.
    fn disturb(&self) {
        for _ in 0..self.plan.changes {
            let queue = &self.queue;
            queue.freeze();
            while !queue.is_quiescent() {
                threads::yield_now();
            }
            match thread_rng().gen_range(0..Scheduler::NAMES.len()) {
                0 => {
                    let name = Scheduler::NAMES[thread_rng().gen_range(0..Scheduler::NAMES.len())];
                    queue.set_scheduler(name.parse().unwrap())
                }
                1 => {
                    let qd1 = percent(50);
                    self.device.expect_qd1(qd1);
                    queue.set_zone_write(if qd1 { ZoneWrite::Qd1 } else { ZoneWrite::Plug })
                }
                2 => queue.set_max_sectors(thread_rng().gen_range(1..=8)),
                _ => queue.set_nr_requests(thread_rng().gen_range(1..=self.plan.depth)),
            }
            .expect("the queue is frozen and quiescent");
            queue.unfreeze();
            if self.working.load(Ordering::Relaxed) == 0 {
                break;
            }
        }
    }

    fn check_end(&self) {
        assert!(self.queue.is_quiescent());
        // A report restores what a lost command left unknown.
        self.queue.report_zones(ZoneNo(0), ZONES as usize, &mut Vec::new()).unwrap();
        let references: u32 = self.queue.dump_plugs(true).iter().map(|p| p.references).sum();
        assert_eq!(references, self.queue.live_plugs(), "only the table holds plugs");
        for zone in 0..ZONES {
            let (_, wp) = self.queue.cached_zone(ZoneNo(zone)).unwrap();
            let there = self.device.zone(zone);
            let doubtful = !self.plan.appends_only;
            assert!(doubtful || wp == there.wp - there.start, "the write pointers agree");
        }
    }
}

fn run(plan: Plan) {
    let world = World::new(plan);
    let mut workers = Vec::new();
    for worker in 0..plan.workers {
        let world = Arc::clone(&world);
        let channel = world.queue.channel().unwrap();
        workers.push(threads::spawn(move || world.work(channel, worker * BIOS)));
    }
    world.disturb();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    world.check_end();
}

fn explore(plan: Plan) {
    let mut config = Config::new();
    // Atomic variables of shuttle are large, and the counters of a hardware queue are many.
    config.stack_size = 1 << 20;
    let run = move || run(plan);
    Runner::new(RandomScheduler::new(EVEN), config.clone()).run(run);
    Runner::new(PctScheduler::new(3, FEW), config).run(run);
}

#[test]
fn shuttle_plugs_live_and_go_under_appends_of_three_threads() {
    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
        explore(Plan { policy, ..PLAN });
    }
}

#[test]
fn shuttle_plugs_live_and_go_under_writes_resets_and_finishes() {
    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
        explore(Plan { policy, appends_only: false, ..PLAN });
    }
}

#[test]
fn shuttle_insertion_meets_dispatch() {
    for &scheduler in &crate::sched::Scheduler::NAMES[1..] {
        explore(Plan { scheduler, depth: 2, share_queues: true, appends_only: false, ..PLAN });
    }
}

#[test]
fn shuttle_completion_meets_submission_on_a_device_that_fails() {
    for appends_only in [true, false] {
        explore(Plan { workers: 4, faults: 12, share_queues: true, appends_only, ..PLAN });
    }
}

#[test]
fn shuttle_queue_changes_under_load() {
    for share_queues in [true, false] {
        explore(Plan { scheduler: "mq-deadline", share_queues, changes: 4, faults: 5, ..PLAN });
    }
}
