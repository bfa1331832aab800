//! The stage at work between channels and a device.
use super::testing::Spec;
use super::*;
use crate::bio::{Bio, Prio, PrioClass};
use crate::device::{Device, HwQueue};
use crate::hctx::{Hctx, IO_TIMEOUT};
use crate::limits::Limits;
use crate::op::Op;
use crate::queue::{AttachError, Queue, QueueOptions};
use crate::request::Request;
use crate::status::Status;
use crate::testing::{Alarm, ScriptedDevice, limits, outcomes};
use crate::units::{Nanos, Sector};
use crate::wake::Wake;
use crate::{Channel, ZoneWrite};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const NOW: Nanos = Nanos(0);

fn plain_limits(queue_depth: u16) -> Limits {
    Limits { nr_zones: 0, zone_size: Sector(0), queue_depth, ..limits(4, 4096) }
}

fn queue(device: &Arc<ScriptedDevice>, scheduler: Scheduler) -> Arc<Queue> {
    let device = Arc::clone(device) as Arc<dyn Device>;
    Queue::attach(device, QueueOptions { scheduler, ..QueueOptions::default() }).unwrap()
}

fn mq_deadline() -> Scheduler {
    "mq-deadline".parse().unwrap()
}

fn read(sector: u64) -> Bio {
    Bio::new(Op::Read, Sector(sector), 8, sector)
}

fn sectors(device: &ScriptedDevice) -> Vec<u64> {
    device.started().iter().map(|&(_, sector, _)| sector).collect()
}

/// Ends what is in flight and polls until the channel has nothing outstanding.
fn finish(device: &ScriptedDevice, hw: usize, channel: &mut Channel) -> Vec<u64> {
    let mut all = Vec::new();
    while channel.outstanding() > 0 {
        let mut out = Vec::new();
        device.end(hw, Status::Ok);
        channel.poll(NOW, &mut out);
        all.extend(out.iter().map(|c| c.user_data));
    }
    all
}

#[test]
fn what_the_device_has_room_for_goes_straight_and_the_rest_in_order() {
    let device = ScriptedDevice::new(plain_limits(2));
    let queue = queue(&device, mq_deadline());
    let mut channel = queue.channel().unwrap();
    for sector in [800, 400, 500, 700, 600, 100] {
        channel.submit(NOW, read(sector));
    }
    assert_eq!(sectors(&device), [800, 400]);
    assert_eq!(finish(&device, 0, &mut channel).len(), 6);
    // Nothing lies ahead of where the scheduler stands, so it goes on from the oldest.
    assert_eq!(sectors(&device), [500, 600, 700, 100]);
    let counters = queue.sched_counters().unwrap();
    let expected = ClassCounters { inserted: 6, merged: 0, dispatched: 6, completed: 6 };
    assert_eq!(counters[PrioClass::BestEffort.index()], expected);
    assert_eq!(counters[PrioClass::Idle.index()], ClassCounters::default());
}

#[test]
fn a_batch_is_sorted_also_when_the_device_takes_all_of_it() {
    let device = ScriptedDevice::new(plain_limits(64));
    let queue = queue(&device, mq_deadline());
    let mut channel = queue.channel().unwrap();
    for _ in 0..2 {
        let mut bios = [800, 400, 408, 600].map(read).into();
        channel.submit_batch(NOW, &mut bios);
        let order = device.started();
        let expected = [(Op::Read, 400, 16), (Op::Read, 600, 8), (Op::Read, 800, 8)];
        if order[0].1 == 800 {
            // The second batch begins where the first ended.
            assert_eq!(order, [expected[2], expected[0], expected[1]]);
        } else {
            assert_eq!(order, expected);
        }
    }
    finish(&device, 0, &mut channel);
    let total = queue.sched_counters().unwrap()[1];
    let expected = ClassCounters { inserted: 8, merged: 2, dispatched: 6, completed: 6 };
    assert_eq!(total, expected);
}

/// The same batch three times, each of which the scheduler sends as expected and counts.
fn sends_batches(scheduler: &str, orders: [[(Op, u64, u32); 3]; 3]) {
    let device = ScriptedDevice::new(plain_limits(64));
    let queue = queue(&device, scheduler.parse().unwrap());
    let mut channel = queue.channel().unwrap();
    for expected in orders {
        channel.submit_batch(NOW, &mut [800, 400, 408, 600].map(read).into());
        assert_eq!(device.started(), expected);
        assert_eq!(finish(&device, 0, &mut channel).len(), 4);
    }
    let total = queue.sched_counters().unwrap()[1];
    let expected = ClassCounters { inserted: 12, merged: 3, dispatched: 9, completed: 9 };
    assert_eq!(total, expected);
}

#[test]
fn bfq_sends_the_batches_of_a_process_in_its_slot_sorted_and_counts_them() {
    let sorted = [(Op::Read, 400, 16), (Op::Read, 600, 8), (Op::Read, 800, 8)];
    // The next one begins where the last ended: with 800, which is the oldest when nothing lies ahead.
    let next = [sorted[2], sorted[0], sorted[1]];
    sends_batches("bfq", [sorted, next, next]);
}

#[test]
fn kyber_sends_batches_in_the_order_of_arrival_merged_and_counts_them() {
    let arrival = [(Op::Read, 800, 8), (Op::Read, 400, 16), (Op::Read, 600, 8)];
    sends_batches("kyber", [arrival; 3]);
}

#[test]
fn kyber_sends_a_batch_with_nothing_to_merge_as_it_came_and_counts_it() {
    let device = ScriptedDevice::new(plain_limits(64));
    let queue = queue(&device, "kyber".parse().unwrap());
    let mut channel = queue.channel().unwrap();
    for _ in 0..2 {
        channel.submit_batch(NOW, &mut [800, 400, 600].map(read).into());
        assert_eq!(sectors(&device), [800, 400, 600]);
        assert_eq!(finish(&device, 0, &mut channel).len(), 3);
    }
    let total = queue.sched_counters().unwrap()[1];
    let expected = ClassCounters { inserted: 6, merged: 0, dispatched: 6, completed: 6 };
    assert_eq!(total, expected);
}

#[test]
fn a_batch_whose_tags_another_channel_has_taken_meanwhile_waits() {
    let device = ScriptedDevice::new(plain_limits(2));
    let mut hctx = Hctx::open(&(Arc::clone(&device) as Arc<dyn Device>), None, None);
    let mut batch = hctx.begin_batch(NOW, 3);
    for id in 0..3 {
        batch.dispatch(Spec { id, sector: id * 64, ..Spec::default() }.build());
    }
    assert_eq!(sectors(&device), [0, 64]);
    assert!(!hctx.is_idle() && hctx.room() == 0);
    // Requests that are dropped would be lost bios.
    std::mem::forget((hctx, device));
}

#[test]
fn a_batch_that_the_device_is_too_busy_for_keeps_its_order() {
    for scheduler in ["mq-deadline", "kyber"] {
        let device = ScriptedDevice::new(plain_limits(64));
        let queue = queue(&device, scheduler.parse().unwrap());
        let mut channel = queue.channel().unwrap();
        device.set_busy(true);
        channel.submit_batch(NOW, &mut [100, 300, 500].map(read).into());
        assert_eq!(sectors(&device), []);
        device.set_busy(false);
        channel.poll(NOW, &mut Vec::new());
        assert_eq!(sectors(&device), [100, 300, 500], "{scheduler}");
        assert_eq!(finish(&device, 0, &mut channel).len(), 3);
    }
}

#[test]
fn without_a_scheduler_a_batch_is_merged_before_it_enters_the_plugs() {
    let device = ScriptedDevice::new(limits(4, 4096));
    let queue = queue(&device, Scheduler::None);
    let mut channel = queue.channel().unwrap();
    let write = |sector| Bio::new(Op::Write, Sector(sector), 8, sector);
    let mut bios: Vec<_> = [0, 8, 16, 4096, 4104].map(write).into();
    bios.push(read(0));
    bios.push(read(8));
    // Not at the write pointer: both bios of the command fail.
    bios.extend([8192 + 80, 8192 + 88].map(write));
    channel.submit_batch(NOW, &mut bios);
    let expected = [(Op::Write, 0, 24), (Op::Write, 4096, 16), (Op::Read, 0, 16)];
    assert_eq!(device.started(), expected);
    for _ in 0..3 {
        device.end(0, Status::Ok);
    }
    let mut out = Vec::new();
    assert_eq!(channel.poll(NOW, &mut out), 9);
    let failed = outcomes(&out).iter().filter(|(_, status)| *status != Status::Ok).count();
    assert_eq!(failed, 2);
}

#[test]
fn a_channel_with_room_sends_what_another_had_none_for() {
    let device = ScriptedDevice::new(plain_limits(1));
    let queue = queue(&device, mq_deadline());
    let (mut a, mut b) = (queue.channel().unwrap(), queue.channel().unwrap());
    a.submit(NOW, read(100));
    a.submit(NOW, read(200));
    assert_eq!(b.next_event(), Wake::Now, "there is work that b has room for");
    let mut out = Vec::new();
    b.poll(NOW, &mut out);
    assert_eq!(sectors(&device), [100, 200]);
    assert_eq!(b.next_event(), Wake::At(NOW + IO_TIMEOUT), "the I/O timeout");
    device.end(1, Status::Ok);
    b.poll(NOW, &mut out);
    assert!(out.is_empty() && a.has_mail());
    a.poll(NOW, &mut out);
    assert_eq!(outcomes(&out), [(200, Status::Ok)]);
    finish(&device, 0, &mut a);
}

#[test]
fn a_channel_that_sleeps_is_woken_for_what_another_has_no_room_for() {
    let device = ScriptedDevice::new(plain_limits(1));
    let queue = queue(&device, mq_deadline());
    let (mut a, mut b) = (queue.channel().unwrap(), queue.channel().unwrap());
    let alarm = Alarm::of(&mut b);
    assert!(b.prepare_to_sleep());
    let mut out = Vec::new();
    a.submit(NOW, read(100));
    a.poll(NOW, &mut out);
    assert_eq!(alarm.rings(), 0, "nothing waits");
    a.submit(NOW, read(200));
    a.poll(NOW, &mut out);
    assert_eq!(alarm.rings(), 1);
    b.awake();
    assert!(!b.prepare_to_sleep());
    b.poll(NOW, &mut out);
    assert_eq!(sectors(&device), [100, 200]);
    assert!(b.prepare_to_sleep());
    a.submit(NOW, read(300));
    a.poll(NOW, &mut out);
    assert_eq!(alarm.rings(), 1, "it has no room either");
    b.awake();
    device.end(1, Status::Ok);
    b.poll(NOW, &mut out);
    device.end(1, Status::Ok);
    b.poll(NOW, &mut out);
    assert_eq!(finish(&device, 0, &mut a).len(), 3);
}

#[test]
fn a_channel_that_sleeps_is_woken_for_what_one_that_drains_leaves_to_it() {
    let device = ScriptedDevice::new(plain_limits(1));
    let queue = queue(&device, mq_deadline());
    let [mut a, mut b, mut c] = [(); 3].map(|()| queue.channel().unwrap());
    let alarm = Alarm::of(&mut a);
    assert!(a.prepare_to_sleep());
    b.submit(NOW, read(100));
    b.submit(NOW, read(200));
    c.drain();
    assert_eq!(alarm.rings(), 1);
    a.awake();
    assert!(!a.prepare_to_sleep());
    assert_eq!(finish(&device, 1, &mut b), [100, 200]);
}

#[test]
fn a_channel_that_drains_takes_no_more_work_and_strands_none() {
    let device = ScriptedDevice::new(plain_limits(1));
    let queue = queue(&device, mq_deadline());
    let (mut a, mut b) = (queue.channel().unwrap(), queue.channel().unwrap());
    a.submit(NOW, read(100));
    a.submit(NOW, read(200));
    b.drain();
    let mut out = Vec::new();
    b.poll(NOW, &mut out);
    assert_eq!(b.next_event(), Wake::Idle);
    assert!(b.is_idle());
    drop(b);
    assert_eq!(finish(&device, 0, &mut a), [100, 200]);
}

#[test]
fn a_lower_class_waits_for_a_higher_one_that_went_straight_to_the_device() {
    let device = ScriptedDevice::new(plain_limits(8));
    let queue = queue(&device, mq_deadline());
    let mut channel = queue.channel().unwrap();
    let in_class = |class, sector| Bio { prio: Prio::new(class, 0), ..read(sector) };
    for sector in [100, 200] {
        channel.submit(NOW, in_class(PrioClass::Realtime, sector));
    }
    channel.submit(NOW, in_class(PrioClass::Idle, 300));
    assert_eq!(sectors(&device), [100, 200]);
    let aging = MqDeadlineOptions::default().prio_aging_expire;
    assert_eq!(channel.next_event(), Wake::At(aging));
    device.end(0, Status::Ok);
    let mut out = Vec::new();
    channel.poll(NOW, &mut out);
    assert_eq!(sectors(&device), []);
    device.end(0, Status::Ok);
    channel.poll(NOW, &mut out);
    assert_eq!(sectors(&device), [300]);
    finish(&device, 0, &mut channel);
    // Nothing of another class is about any more: the way is open again.
    channel.submit(NOW, in_class(PrioClass::Idle, 400));
    assert_eq!(sectors(&device), [400]);
    finish(&device, 0, &mut channel);
}

#[test]
fn aged_requests_are_sent_at_the_time_that_next_event_says() {
    let device = ScriptedDevice::new(plain_limits(8));
    let queue = queue(&device, mq_deadline());
    let mut channel = queue.channel().unwrap();
    let in_class = |class, sector| Bio { prio: Prio::new(class, 0), ..read(sector) };
    channel.submit(NOW, in_class(PrioClass::Realtime, 100));
    channel.submit(Nanos(7), in_class(PrioClass::BestEffort, 200));
    let at = channel.next_event().at().unwrap();
    assert_eq!(at, MqDeadlineOptions::default().prio_aging_expire + Nanos(7));
    let mut out = Vec::new();
    channel.poll(at - Nanos(1), &mut out);
    assert_eq!(sectors(&device), [100]);
    channel.poll(at, &mut out);
    assert_eq!(sectors(&device), [200]);
    finish(&device, 0, &mut channel);
}

#[test]
fn zone_write_locking_sends_one_write_a_zone() {
    let device = ScriptedDevice::new(limits(4, 4096));
    let options = QueueOptions {
        zone_write: Some(ZoneWrite::Lock),
        scheduler: mq_deadline(),
        merge: false,
        ..QueueOptions::default()
    };
    let queue = Queue::attach(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
    let mut channel = queue.channel().unwrap();
    let write = |sector| Bio::new(Op::Write, Sector(sector), 8, sector);
    for sector in [0, 8, 4096, 16, 4104] {
        channel.submit(NOW, write(sector));
    }
    assert_eq!(sectors(&device), [0, 4096]);
    let timeout = Wake::At(NOW + IO_TIMEOUT);
    assert_eq!(channel.next_event(), timeout, "nothing happens before a write completes");
    let mut out = Vec::new();
    device.end(0, Status::Ok);
    channel.poll(NOW, &mut out);
    assert_eq!(sectors(&device), [8]);
    finish(&device, 0, &mut channel);
    assert_eq!(sectors(&device), [4104, 16]);
}

#[test]
fn only_mq_deadline_can_lock_zones() {
    let device = ScriptedDevice::new(limits(4, 4096));
    let attach = |scheduler, zone_write| {
        let options = QueueOptions { scheduler, zone_write, ..QueueOptions::default() };
        Queue::attach(Arc::clone(&device) as Arc<dyn Device>, options)
    };
    for name in ["none", "bfq", "kyber"] {
        let error = attach(name.parse().unwrap(), Some(ZoneWrite::Lock)).err().unwrap();
        assert!(matches!(error, AttachError::Scheduler { scheduler } if scheduler == name));
        assert!(error.to_string().contains("needs the scheduler mq-deadline"));
    }
    let queue = attach(mq_deadline(), None).unwrap();
    queue.freeze();
    queue.set_zone_write(ZoneWrite::Lock).unwrap();
    queue.set_zone_write(ZoneWrite::Plug).unwrap();
    queue.unfreeze();
    let queue = attach(Scheduler::None, None).unwrap();
    queue.freeze();
    assert!(queue.set_zone_write(ZoneWrite::Lock).is_err());
}

#[test]
fn an_unknown_attribute_is_answered_with_those_there_are() {
    let mut scheduler = mq_deadline();
    scheduler.set("read_expire", "250ms").unwrap();
    scheduler.set("fifo_batch", "4").unwrap();
    let Scheduler::MqDeadline(options) = scheduler else { unreachable!() };
    assert_eq!((options.read_expire, options.fifo_batch), (Nanos(250_000_000), 4));
    let value = |name| scheduler.attributes().into_iter().find(|a| a.name == name).unwrap().value;
    assert_eq!(value("read_expire"), "250ms");
    assert_eq!(value("write_expire"), "5s");
    let error = scheduler.set("read_expired", "1").unwrap_err().to_string();
    assert!(error.starts_with(
        "the scheduler mq-deadline has no attribute `read_expired`; it has read_expire,"
    ));
    let error = scheduler.set("fifo_batch", "0").unwrap_err().to_string();
    assert_eq!(error, "fifo_batch: found `0`, expected a number from 1 to 2147483647");
    assert!(Scheduler::None.set("x", "1").unwrap_err().to_string().contains("it has none"));
    assert!("deadline".parse::<Scheduler>().is_err());
}

/// A device that ends everything at the next poll, and counts.
struct Quick {
    limits: Limits,
    started: AtomicU64,
}

struct QuickQueue(Arc<Quick>, Vec<Box<Request>>);

impl Device for Quick {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(QuickQueue(self, Vec::new()))
    }
}

impl HwQueue for QuickQueue {
    fn start(&mut self, _now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        self.0.started.fetch_add(1, Ordering::Relaxed);
        self.1.push(request);
        Ok(())
    }

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Box<Request>>) {
        for mut request in self.1.drain(..) {
            request.set_status(Status::Ok);
            done.push(request);
        }
    }

    fn next_event(&self) -> Wake {
        if self.1.is_empty() { Wake::Idle } else { Wake::Now }
    }
}

/// Many threads, few tags, all kinds of requests: everything completes once, on its own channel.
#[test]
fn threads_lose_nothing() {
    for scheduler in Scheduler::NAMES {
        let limits = Limits { nr_queues: 3, ..plain_limits(2) };
        let device = Arc::new(Quick { limits, started: AtomicU64::new(0) });
        let options = QueueOptions {
            scheduler: scheduler.parse().unwrap(),
            share_queues: true,
            ..QueueOptions::default()
        };
        let queue = Queue::attach(device, options).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..5 {
                let queue = &queue;
                scope.spawn(move || drive(queue, thread));
            }
        });
        let Some(counters) = queue.sched_counters() else { continue };
        for class in counters {
            assert_eq!(class.inserted, class.merged + class.dispatched, "{scheduler} {class:?}");
            assert_eq!(class.dispatched, class.completed, "{scheduler} {class:?}");
        }
        // Neighbours in a batch come as one.
        let inserted = counters.iter().map(|class| class.inserted).sum::<u64>();
        assert!(inserted <= 5 * 3000 && inserted > 5 * 2900, "{inserted}");
    }
}

fn drive(queue: &Arc<Queue>, thread: u64) {
    let mut channel = queue.channel().unwrap();
    let (mut seen, mut out, mut bios) = (vec![false; 3000], Vec::new(), Vec::new());
    let mut random = thread + 1;
    let mut next = 0;
    let mut now = 0;
    while next < 3000 || channel.outstanding() > 0 {
        now += 1000;
        while next < 3000 && channel.outstanding() + bios.len() < 16 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let op = match random >> 8 & 7 {
                0..4 => Op::Read,
                4 | 5 => Op::Write,
                6 => Op::Discard,
                _ => Op::Flush,
            };
            let class = PrioClass::ALL[usize::from(random >> 40 & 63 == 0) + 1];
            let sector = (random >> 20) % 2000 * 8;
            let bio = Bio { prio: Prio::new(class, 4), ..Bio::new(op, Sector(sector), 8, next) };
            if random >> 33 & 1 == 0 {
                channel.submit(Nanos(now), bio);
            } else {
                bios.push(bio);
            }
            next += 1;
        }
        channel.submit_batch(Nanos(now), &mut bios);
        if channel.poll(Nanos(now), &mut out) == 0 {
            std::thread::yield_now();
        }
        for completion in out.drain(..) {
            let id = usize::try_from(completion.user_data).unwrap();
            assert!(!std::mem::replace(&mut seen[id], true), "bio {id} completed twice");
        }
    }
    channel.drain();
    while !channel.is_idle() {
        now += 1000;
        channel.poll(Nanos(now), &mut out);
        std::thread::yield_now();
    }
    assert!(seen.iter().all(|&seen| seen));
}
