//! The plug under every interleaving of two threads, as far as loom knows them:
//! `RUSTFLAGS="--cfg loom" cargo test -p zonal-blk --release --lib loom`.
//!
//! Each thread submits its bios and ends what it was told to issue, as a channel does. Loom switches
//! threads at every lock and atomic operation, also while a command is with the device.
#![allow(clippy::cast_possible_truncation, reason = "the numbers of these tests are small")]
use super::{PlugInfo, PlugResult, WpRecovery, ZonePlugs, ZoneWrite};
use crate::bio::Bio;
use crate::channel::Channel;
use crate::device::{Device, HwQueue};
use crate::limits::Limits;
use crate::op::Op;
use crate::queue::{Queue, QueueOptions};
use crate::request::{Request, RequestList};
use crate::status::Status;
use crate::testing::{limits, sequential_zones};
use crate::units::{Nanos, Sector, ZoneNo};
use crate::wake::{Wake, WakeUp};
use crate::zone::{Zone, ZoneCondition};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread as threads;
use std::sync::{Arc, Mutex};

const SIZE: u64 = 4;

/// A device that completes what it can immediately and notices two writes to a zone in flight.
struct Strict {
    limits: Limits,
    zones: Mutex<Vec<Zone>>,
    writing: Vec<AtomicU32>,
    /// Zones that it has left.
    left: Mutex<u32>,
    /// Fails the first write, although it executes it. Its queues and its reports share this lock.
    fails: Option<loom::sync::Mutex<bool>>,
}

impl Device for Strict {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn nr_zones(&self) -> u32 {
        *self.left.lock().unwrap()
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        let _busy = self.fails.as_ref().map(|fails| fails.lock().unwrap());
        zones.extend(self.zones.lock().unwrap().iter().skip(first.index()).take(max));
        Ok(())
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(Immediate { device: self, started: Vec::new() })
    }
}

struct Immediate {
    device: Arc<Strict>,
    started: Vec<Box<Request>>,
}

impl HwQueue for Immediate {
    fn start(&mut self, _now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        self.started.push(request);
        Ok(())
    }

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Box<Request>>) {
        for mut request in self.started.drain(..) {
            self.device.execute(&mut request);
            done.push(request);
        }
    }

    fn next_event(&self) -> Wake {
        if self.started.is_empty() { Wake::Idle } else { Wake::Now }
    }
}

impl Strict {
    fn new(zones: u32) -> Arc<Self> {
        let limits = limits(zones, SIZE);
        Arc::new(Strict {
            zones: Mutex::new(sequential_zones(&limits)),
            writing: (0..zones).map(|_| AtomicU32::new(0)).collect(),
            left: Mutex::new(zones),
            limits,
            fails: None,
        })
    }

    /// One zone, and a first write that fails.
    fn failing() -> Arc<Self> {
        let mut device = Arc::into_inner(Strict::new(1)).expect("it is new");
        device.fails = Some(loom::sync::Mutex::new(true));
        Arc::new(device)
    }

    fn execute(&self, request: &mut Request) {
        let zone = request.zone().index();
        let writes = request.op() == Op::Write;
        if writes {
            let others = self.writing[zone].fetch_add(1, Ordering::Relaxed);
            assert_eq!(others, 0, "one write in flight per zone");
        }
        let mut fails = self.fails.as_ref().map(|fails| fails.lock().unwrap());
        let failed = fails.as_mut().is_some_and(|fails| std::mem::take(&mut **fails) && writes);
        let status = self.judge(request);
        request.set_status(if failed { Status::IoError } else { status });
        drop(fails);
        if writes {
            self.writing[zone].fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn judge(&self, request: &Request) -> Status {
        let zone = &mut self.zones.lock().unwrap()[request.zone().index()];
        match request.op() {
            Op::ZoneReset => zone.wp = zone.start,
            Op::ZoneFinish => zone.wp = zone.writable_end(),
            Op::Write if request.sector() != zone.wp => return Status::IoError,
            Op::Write if request.end() > zone.writable_end() => return Status::IoError,
            Op::Write => zone.wp = request.end(),
            op => unreachable!("{op:?}"),
        }
        zone.cond = match zone.wp {
            wp if wp == zone.start => ZoneCondition::Empty,
            wp if wp == zone.writable_end() => ZoneCondition::Full,
            _ => ZoneCondition::ImplicitOpen,
        };
        Status::Ok
    }
}

struct Layer {
    plugs: ZonePlugs,
    device: Arc<Strict>,
    one_per_disk: bool,
    /// How the bios ended, by number.
    ended: Mutex<Vec<(u64, Status)>>,
}

impl Layer {
    fn new(zones: u32, one_per_disk: bool) -> Arc<Self> {
        let device = Strict::new(zones);
        // Without merging.
        let (plugs, _) =
            ZonePlugs::attach(Arc::clone(&device) as _, &device.limits, 0, WpRecovery::Report)
                .unwrap();
        Arc::new(Layer { plugs, device, one_per_disk, ended: Mutex::default() })
    }

    /// Submits a bio and executes it and all that its completion issues.
    fn submit(&self, id: u64, op: Op, zone: u32, at: u64, len: u32) {
        let sector = Sector(u64::from(zone) * SIZE + at);
        let mut request = Box::new(Request::empty());
        request.init(Bio::new(op, sector, len, id), 0, ZoneNo(zone), None);
        let mut aborted = RequestList::new();
        let entered = self.plugs.enter(Nanos(0), request, self.one_per_disk, &mut aborted);
        let mut turn = match entered {
            PlugResult::Issue(request) => Some(request),
            PlugResult::Parked => None,
            PlugResult::Failed(mut request, status) => {
                request.set_status(status);
                self.end(request);
                None
            }
        };
        while let Some(mut request) = turn {
            self.device.execute(&mut request);
            turn = self.plugs.complete(Nanos(0), &request, self.one_per_disk, &mut aborted);
            self.end(request);
            while let Some(request) = aborted.pop_front() {
                self.end(request);
            }
        }
    }

    fn end(&self, mut request: Box<Request>) {
        let status = request.status();
        let id = request.take_bio().0.user_data;
        self.ended.lock().unwrap().push((id, status));
    }

    /// With all threads done: each bio has ended once, and no plug is held by anybody but the table.
    fn check(&self, bios: u64) -> Vec<Status> {
        let mut ended = self.ended.lock().unwrap().clone();
        ended.sort_unstable_by_key(|&(id, _)| id);
        let ids: Vec<u64> = ended.iter().map(|&(id, _)| id).collect();
        assert_eq!(ids, (0..bios).collect::<Vec<_>>(), "every bio ends once");
        let plugs: Vec<PlugInfo> = self.plugs.dump(true);
        let mut live = 0;
        for plug in &plugs {
            let zone = self.device.zones.lock().unwrap()[plug.zone.index()];
            let partial = zone.wp > zone.start && zone.wp < zone.writable_end();
            assert_eq!(plug.references, u32::from(partial), "a full or empty zone has no plug");
            assert_eq!(plug.wp_offset, zone.wp - zone.start);
            assert!(!plug.flags.plugged && !plug.flags.listed);
            live += u32::from(partial);
        }
        assert_eq!(self.plugs.alive(), live);
        ended.into_iter().map(|(_, status)| status).collect()
    }
}

fn explore(
    zones: u32,
    one_per_disk: bool,
    threads: [fn(&Layer); 2],
    check: impl Fn(&[Status]) + Sync + Send + 'static,
) {
    loom::model(move || {
        let layer = Layer::new(zones, one_per_disk);
        let [here, there] = threads;
        let other = Arc::clone(&layer);
        let thread = threads::spawn(move || there(&other));
        here(&layer);
        thread.join().unwrap();
        check(&layer.check(3));
    });
}

#[test]
fn loom_submit_against_complete_against_reset() {
    for one_per_disk in [false, true] {
        explore(
            1,
            one_per_disk,
            [
                |layer| {
                    layer.submit(0, Op::Write, 0, 0, 2);
                    layer.submit(1, Op::Write, 0, 2, 2);
                },
                |layer| layer.submit(2, Op::ZoneReset, 0, 0, 0),
            ],
            |statuses| assert_eq!(statuses[2], Status::Ok),
        );
    }
}

#[test]
fn loom_last_write_of_a_zone_completes_while_others_are_submitted() {
    for one_per_disk in [false, true] {
        explore(
            1,
            one_per_disk,
            [
                |layer| {
                    layer.submit(0, Op::ZoneAppend, 0, 0, 2);
                    layer.submit(1, Op::ZoneAppend, 0, 0, 2);
                },
                |layer| layer.submit(2, Op::ZoneAppend, 0, 0, 2),
            ],
            |statuses| {
                let failed = statuses.iter().filter(|&&status| status != Status::Ok).count();
                assert_eq!(failed, 1, "two of the three fit");
            },
        );
    }
}

#[test]
fn loom_no_write_is_lost_between_two_submitters() {
    for one_per_disk in [false, true] {
        explore(
            1,
            one_per_disk,
            [
                |layer| {
                    layer.submit(0, Op::ZoneAppend, 0, 0, 1);
                    layer.submit(1, Op::ZoneAppend, 0, 0, 1);
                },
                |layer| layer.submit(2, Op::ZoneAppend, 0, 0, 1),
            ],
            |statuses| assert_eq!(statuses, [Status::Ok; 3]),
        );
    }
}

#[test]
fn loom_qd1_plug_joins_the_line_while_another_is_drained() {
    explore(
        2,
        true,
        [
            |layer| {
                layer.submit(0, Op::ZoneAppend, 0, 0, 4);
                layer.submit(1, Op::ZoneAppend, 1, 0, 2);
            },
            |layer| layer.submit(2, Op::ZoneAppend, 1, 0, 2),
        ],
        |statuses| assert_eq!(statuses, [Status::Ok; 3]),
    );
}

#[test]
fn loom_qd1_plug_is_aborted_while_its_turn_comes() {
    explore(
        2,
        true,
        [
            |layer| layer.submit(0, Op::ZoneAppend, 0, 0, 4),
            |layer| {
                layer.submit(1, Op::ZoneAppend, 1, 0, 2);
                layer.submit(2, Op::ZoneFinish, 1, 0, 0);
            },
        ],
        |statuses| assert_eq!((statuses[0], statuses[2]), (Status::Ok, Status::Ok)),
    );
}

/// Submits appends on a channel and polls until all bios of all channels have completed: writes of
/// the other channel may be here.
fn drive(channel: &mut Channel, bios: std::ops::Range<u64>, all: u32, done: &AtomicU32) {
    for id in bios {
        channel.submit(Nanos(0), Bio::new(Op::ZoneAppend, Sector(0), 1, id));
    }
    let mut completions = Vec::new();
    while done.load(Ordering::Acquire) < all {
        let count = channel.poll(Nanos(0), &mut completions);
        if count > 0 {
            done.fetch_add(count as u32, Ordering::Release);
        } else {
            threads::yield_now();
        }
    }
    assert!(completions.iter().all(|completion| completion.status == Status::Ok));
}

#[test]
fn loom_channels_issue_and_complete_each_others_writes() {
    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
        loom::model(move || {
            let options =
                QueueOptions { zone_write: Some(policy), merge: false, ..QueueOptions::default() };
            let queue = Queue::attach(Strict::new(1), options).unwrap();
            let (mut here, mut there) = (queue.channel().unwrap(), queue.channel().unwrap());
            let done = loom::sync::Arc::new(AtomicU32::new(0));
            let other = loom::sync::Arc::clone(&done);
            let thread = threads::spawn(move || drive(&mut there, 2..3, 3, &other));
            drive(&mut here, 0..2, 3, &done);
            thread.join().unwrap();
            assert_eq!(queue.live_plugs(), 1);
            assert_eq!(queue.dump_plugs(true)[0].references, 1);
        });
    }
}

/// Wakes a loom thread.
struct Bell(loom::sync::Arc<loom::sync::Notify>);

impl WakeUp for Bell {
    fn wake(&self) {
        self.0.notify();
    }
}

/// Submits an append on a channel and polls until it has completed and the channel can go, asleep
/// whenever there is nothing to poll. Loom reports a thread that nobody wakes as a deadlock.
fn drive_asleep(channel: &mut Channel, id: u64) {
    let bell = loom::sync::Arc::new(loom::sync::Notify::new());
    channel.set_waker(Arc::new(Bell(loom::sync::Arc::clone(&bell))));
    channel.submit(Nanos(0), Bio::new(Op::ZoneAppend, Sector(0), 1, id));
    let mut completions = Vec::new();
    loop {
        channel.poll(Nanos(0), &mut completions);
        match channel.next_event() {
            Wake::Idle => break,
            Wake::External if channel.prepare_to_sleep() => {
                bell.wait();
                channel.awake();
            }
            _ => {}
        }
    }
    assert_eq!(completions.len(), 1);
}

#[test]
fn loom_a_channel_that_sleeps_is_woken_when_another_finishes_its_write() {
    loom::model(|| {
        let options =
            QueueOptions { zone_write: Some(ZoneWrite::Plug), merge: false, ..Default::default() };
        let queue = Queue::attach(Strict::new(1), options).unwrap();
        let (mut here, mut there) = (queue.channel().unwrap(), queue.channel().unwrap());
        let thread = threads::spawn(move || drive_asleep(&mut there, 1));
        drive_asleep(&mut here, 0);
        thread.join().unwrap();
    });
}

#[test]
fn loom_a_channel_that_sleeps_is_woken_when_the_queue_is_unfrozen() {
    loom::model(|| {
        let queue = Queue::attach(Strict::new(1), QueueOptions::default()).unwrap();
        let mut channel = queue.channel().unwrap();
        queue.freeze();
        let thread = threads::spawn(move || drive_asleep(&mut channel, 0));
        queue.unfreeze();
        thread.join().unwrap();
    });
}

#[test]
fn loom_policy_changes_while_a_channel_writes() {
    loom::model(|| {
        let options =
            QueueOptions { zone_write: Some(ZoneWrite::Plug), merge: false, ..Default::default() };
        let queue = Queue::attach(Strict::new(1), options).unwrap();
        let mut channel = queue.channel().unwrap();
        let switched = Arc::clone(&queue);
        let thread = threads::spawn(move || {
            switched.freeze();
            // Else it is left as it is: waiting for the channel would add nothing but turns.
            if switched.is_quiescent() {
                switched.set_zone_write(ZoneWrite::Qd1).expect("once quiescent, always");
            }
            switched.unfreeze();
        });
        drive(&mut channel, 0..2, 2, &AtomicU32::new(0));
        thread.join().unwrap();
        assert!(!channel.has_held_bios() && channel.is_idle());
        assert_eq!(queue.dump_plugs(true)[0].references, 1);
    });
}

/// A write fails while another channel's write waits for it, the queue is being frozen, and the
/// device's report needs a lock that its queues take: Linux's CVE-2024-55642. Loom would report a
/// deadlock.
#[test]
fn loom_write_fails_while_the_queue_is_frozen() {
    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
        loom::model(move || {
            let options =
                QueueOptions { zone_write: Some(policy), merge: false, ..Default::default() };
            let queue = Queue::attach(Strict::failing(), options).unwrap();
            let (mut here, mut there) = (queue.channel().unwrap(), queue.channel().unwrap());
            there.submit(Nanos(0), Bio::new(Op::ZoneAppend, Sector(0), 1, 0));
            here.submit(Nanos(0), Bio::new(Op::ZoneAppend, Sector(0), 1, 1));
            let thread = threads::spawn(move || {
                let mut done = Vec::new();
                while there.outstanding() > 0 {
                    there.poll(Nanos(0), &mut done);
                    threads::yield_now();
                }
                assert_eq!(done[0].status, Status::IoError);
            });
            queue.freeze();
            let mut done = Vec::new();
            while !queue.is_quiescent() {
                here.poll(Nanos(0), &mut done);
                threads::yield_now();
            }
            queue.unfreeze();
            assert_eq!(done[0].status, Status::IoError, "aborted");
            thread.join().unwrap();
            assert_eq!(queue.dump_plugs(true)[0].references, 1, "a block was written");
        });
    }
}

/// Each change reads all settings and stores them with its own.
#[test]
fn loom_two_revalidations_and_changes_of_a_frozen_queue_come_one_after_the_other() {
    loom::model(|| {
        let device = Strict::new(2);
        let options = QueueOptions { zone_write: Some(ZoneWrite::Plug), ..Default::default() };
        let queue = Queue::attach(Arc::clone(&device) as _, options).unwrap();
        queue.freeze();
        *device.left.lock().unwrap() = 1;
        let other = Arc::clone(&queue);
        let thread = threads::spawn(move || {
            assert_eq!(other.set_nr_requests(7), Ok(()));
            assert_eq!(other.revalidate(), Ok(1));
        });
        assert_eq!(queue.revalidate(), Ok(1));
        assert_eq!(queue.set_io_timeout(Nanos(5)), Ok(()));
        thread.join().unwrap();
        let found = (queue.nr_zones(), queue.nr_requests(), queue.io_timeout());
        assert_eq!(found, (1, 7, Nanos(5)));
        queue.unfreeze();
    });
}
