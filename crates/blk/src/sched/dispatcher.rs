//! What the channels of a queue share of its scheduler: whoever gets the lock dispatches.
//!
//! Takes what channels have for the scheduler; gives the one that dispatches as many requests as
//! its hardware queue has room for, in the scheduler's order. Keeps true: nobody waits for the
//! lock; what a thread leaves behind because another is at work, that one or a later one collects.
//!
//! ```text
//!   try_lock --> got it:   collect all intakes, order, take up to `room`
//!           \--> failed:   news into my intake, again = true, look once more, leave
//!   unlocked, again is true?  start over
//! ```
//!
//! A lost wake-up would need a thread that finds the lock taken and a holder that does not find
//! `again`. The one exchanges `again` before it looks at the lock, the other after it has let go
//! the lock: the later of the two exchanges sees what the other thread did before. Only a holder
//! takes `again` back, before it collects.
use super::counters::{ClassCounters, Totals};
use super::elevator::{Elevator, Ended, InFlight};
use super::intake::{Intake, News};
use super::mq_deadline::ZoneLocks;
use crate::probe::{contended, mark};
use crate::request::Request;
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Mutex, MutexGuard, Ordering};
use crate::units::Nanos;
use std::sync::{Arc, TryLockError};

/// In place of the set of classes: every request goes through the scheduler.
const NOT_STRAIGHT: u8 = 1 << 7;

/// What every submission reads, apart from what dispatching writes.
#[repr(align(128))]
struct Signs {
    /// Something waits in the scheduler. What is in an intake, somebody is about to collect.
    has_work: AtomicBool,
    /// The priority classes that are about, as a set of bits, or [`NOT_STRAIGHT`].
    classes: AtomicU8,
    /// Writes go through the scheduler even when nothing waits.
    keeps_writes: AtomicBool,
    wants_ends: AtomicBool,
}

/// A scheduler with its lock and its signs.
pub(crate) struct Dispatcher {
    signs: Signs,
    /// Somebody left news while the lock was taken.
    again: AtomicBool,
    /// A channel has gone; its list is to go too.
    closing: AtomicBool,
    /// When there will be something to dispatch though nothing happens; 0 for now.
    stalled_until: AtomicU64,
    core: Mutex<Core>,
}

struct Core {
    elevator: Box<dyn Elevator>,
    /// The newest request, for [`Elevator::pass`] when there is room for it.
    newest: Option<Box<Request>>,
    intakes: Vec<Arc<Intake>>,
    /// What went through here, and the tallies of channels that have gone.
    totals: Totals,
    /// The writes that may be with the device are counted.
    limits_writes: bool,
    /// Whether one class at a time may go past the waiting line.
    straight: bool,
    /// For collecting; kept for its capacity.
    news: News,
    arrivals: Vec<Box<Request>>,
    ends: Vec<Ended>,
}

/// How requests may get past the waiting line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passing {
    /// A request may go straight to a device with room if nothing waits: the order of one request
    /// needs no scheduler.
    pub(super) straight: bool,
    /// ... but writes are counted, so they may not.
    pub(super) limits_writes: bool,
}

impl Dispatcher {
    pub(super) fn new(elevator: Box<dyn Elevator>, passing: Passing) -> Self {
        let classes = if passing.straight { 0 } else { NOT_STRAIGHT };
        let wants_ends = elevator.wants_ends();
        Dispatcher {
            signs: Signs {
                has_work: AtomicBool::new(false),
                classes: AtomicU8::new(classes),
                keeps_writes: AtomicBool::new(passing.limits_writes || wants_ends),
                wants_ends: AtomicBool::new(wants_ends),
            },
            again: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            stalled_until: AtomicU64::new(0),
            core: Mutex::new(Core {
                elevator,
                newest: None,
                intakes: Vec::new(),
                totals: Totals::default(),
                limits_writes: passing.limits_writes,
                straight: passing.straight,
                news: News::default(),
                arrivals: Vec::new(),
                ends: Vec::new(),
            }),
        }
    }

    /// Opens the insertion list of one more channel.
    pub(super) fn open(&self) -> Arc<Intake> {
        let intake = Arc::new(Intake::new());
        self.with_core(|core| core.intakes.push(Arc::clone(&intake)));
        intake
    }

    /// A channel goes.
    pub(super) fn close(&self, intake: &Intake) {
        intake.close();
        self.closing.store(true, Ordering::Release);
    }

    /// Waits for the lock: not for use in the I/O path. Who finds it taken meanwhile leaves its news
    /// to a holder that dispatches; this one does not, so it shows that there is something to do.
    fn with_core<R>(&self, f: impl FnOnce(&mut Core) -> R) -> R {
        let result = f(&mut self.core.lock().expect("scheduler lock"));
        if self.again.fetch_or(false, Ordering::AcqRel) {
            self.stalled_until.store(0, Ordering::Relaxed);
            self.signs.has_work.store(true, Ordering::SeqCst);
        }
        result
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Core>> {
        match self.core.try_lock() {
            Ok(core) => Some(core),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => panic!("a thread died while it dispatched"),
        }
    }

    /// Whether something waits.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        self.signs.has_work.load(Ordering::SeqCst)
    }

    /// Whether requests of the class may go past the waiting line: nothing waits, and no other
    /// class is about that they would have to wait for or that would have to wait for them.
    #[inline]
    pub(super) fn lets_pass(&self, class: usize, read: bool) -> bool {
        !self.has_work()
            && self.signs.classes.load(Ordering::Relaxed) == 1 << class
            && (read || !self.signs.keeps_writes.load(Ordering::Relaxed))
    }

    /// The class of everything that is with the device, if there is but one and nobody asks what
    /// is a read. Another class is about from before its first command is sent until after the end
    /// of its last was counted.
    #[inline]
    pub(super) fn only_class(&self) -> Option<usize> {
        let classes = self.signs.classes.load(Ordering::Relaxed);
        let one = classes.is_power_of_two()
            && classes != NOT_STRAIGHT
            && !self.signs.keeps_writes.load(Ordering::Relaxed);
        one.then(|| classes.trailing_zeros() as usize)
    }

    #[inline]
    pub(super) fn wants_ends(&self) -> bool {
        self.signs.wants_ends.load(Ordering::Relaxed)
    }

    /// When to dispatch next, with room to send; `None` if that depends on what happens.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        let at = self.stalled_until.load(Ordering::Relaxed);
        (self.has_work() && at != u64::MAX).then_some(Nanos(at))
    }

    /// Brings the scheduler the channel's news and takes up to `room` requests from it, unless
    /// another thread is at it: that one finds the news, and dispatches for all.
    pub(super) fn dispatch(
        &self,
        now: Nanos,
        room: usize,
        intake: &Intake,
        news: &mut News,
        out: &mut Vec<Box<Request>>,
    ) {
        let first_try = if contended!() { None } else { self.try_lock() };
        mark!(SchedContended if first_try.is_none());
        let mut holds = first_try.or_else(|| {
            if !news.is_empty() {
                intake.put(news);
            }
            self.again.swap(true, Ordering::AcqRel);
            // The other may have gone before it could see.
            self.try_lock()
        });
        while let Some(mut core) = holds {
            if self.again.load(Ordering::Relaxed) {
                self.again.swap(false, Ordering::AcqRel);
            }
            if self.closing.load(Ordering::Relaxed) {
                core.forget_closed(self);
            }
            core.work(self, now, room, news, out);
            drop(core);
            // An exchange that changes nothing: a load could miss what is just being said.
            if !self.again.fetch_or(false, Ordering::AcqRel) {
                return;
            }
            holds = self.try_lock();
        }
    }

    /// Sets a process's share of the device.
    pub(super) fn set_weight(&self, process: u32, weight: u16) {
        self.with_core(|core| core.elevator.set_weight(process, weight));
    }

    /// Changes whether writes are held back by zone. Nothing may be inside.
    pub(super) fn lock_zones(&self, zones: Option<ZoneLocks>) {
        let (wants_ends, limits_writes) = self.with_core(|core| {
            core.collect(&mut News::default(), false);
            core.elevator.lock_zones(zones);
            (core.elevator.wants_ends(), core.limits_writes)
        });
        let keeps = limits_writes || wants_ends;
        self.signs.keeps_writes.store(keeps, Ordering::Relaxed);
        self.signs.wants_ends.store(wants_ends, Ordering::Relaxed);
    }

    /// The counters of each class, the most urgent first.
    pub(super) fn counters(&self) -> [ClassCounters; 3] {
        self.with_core(|core| core.counted().classes)
    }
}

impl Core {
    fn work(
        &mut self,
        shared: &Dispatcher,
        now: Nanos,
        room: usize,
        news: &mut News,
        out: &mut Vec<Box<Request>>,
    ) {
        let signs = &shared.signs;
        let has_room = out.len() < room;
        let classes = self.collect(news, has_room) | signs.classes.load(Ordering::Relaxed);
        signs.classes.store(classes, Ordering::Relaxed);
        let mixed = self.straight && !classes.is_power_of_two();
        let mut flight = if mixed || self.limits_writes {
            if self.has_work() && !shared.has_work() {
                // Who counts an end after this sum sees that something waits for it.
                signs.has_work.store(true, Ordering::SeqCst);
            }
            self.counted().in_flight()
        } else {
            InFlight::default()
        };
        let has_work = self.send(shared, now, room, &mut flight, out);
        if mixed && !has_work {
            let about = flight.by_class.map(|n| u8::from(n > 0));
            let about = about[0] | about[1] << 1 | about[2] << 2;
            signs.classes.store(about, Ordering::Relaxed);
        }
        if has_work != shared.has_work() {
            signs.has_work.store(has_work, Ordering::SeqCst);
        }
    }

    /// Whether something waits.
    fn has_work(&self) -> bool {
        self.newest.is_some() || !self.elevator.is_empty()
    }

    /// Takes requests from the scheduler while there is room. Whether something waits still.
    fn send(
        &mut self,
        shared: &Dispatcher,
        now: Nanos,
        room: usize,
        flight: &mut InFlight,
        out: &mut Vec<Box<Request>>,
    ) -> bool {
        let mut stalled_until = 0;
        let mut has_work = self.has_work();
        while has_work && out.len() < room {
            let next = match self.newest.take() {
                Some(newest) => self.elevator.pass(now, newest, flight),
                None => self.elevator.dispatch(now, flight),
            };
            let Some(mut request) = next else {
                let next = self.elevator.next_event();
                mark!(SchedWaited if next.is_some());
                stalled_until = next.map_or(u64::MAX, |at| at.0);
                break;
            };
            request.sent_at = now;
            flight.sent(&request);
            let class = request.prio().class.index();
            self.totals.classes[class].dispatched += 1;
            self.totals.not_reads =
                self.totals.not_reads.wrapping_add(u64::from(request.op() != crate::Op::Read));
            out.push(request);
            has_work = !self.elevator.is_empty();
        }
        if shared.stalled_until.load(Ordering::Relaxed) != stalled_until {
            shared.stalled_until.store(stalled_until, Ordering::Relaxed);
        }
        has_work
    }

    /// Brings the scheduler the news of all channels, in the order of time. Gives the classes of
    /// the requests as a set of bits.
    fn collect(&mut self, mine: &mut News, has_room: bool) -> u8 {
        if !self.intakes.iter().any(|intake| intake.is_filled()) {
            return self.tell(mine, has_room);
        }
        let mut sources = usize::from(!mine.is_empty());
        for i in 0..self.intakes.len() {
            if self.intakes[i].is_filled() {
                self.intakes[i].take(&mut self.news);
                sources += 1;
                Self::unpack(&mut self.news, &mut self.arrivals, &mut self.ends);
            }
        }
        Self::unpack(mine, &mut self.arrivals, &mut self.ends);
        if sources > 1 {
            self.arrivals.sort_by_key(|request| request.queued_at);
            self.ends.sort_by_key(|end| end.at);
        }
        let mut all = std::mem::take(&mut self.news);
        self.arrivals.drain(..).for_each(|request| all.requests.push_back(request));
        std::mem::swap(&mut all.ends, &mut self.ends);
        let classes = self.tell(&mut all, has_room);
        self.ends = std::mem::take(&mut all.ends);
        self.news = all;
        classes
    }

    /// Tells the scheduler what has ended and what has come, in the order of time. With room at the
    /// device the newest request is kept for [`Core::send`].
    fn tell(&mut self, news: &mut News, has_room: bool) -> u8 {
        let (mut classes, mut told) = (0, 0);
        while let Some(request) = news.requests.pop_front() {
            while let Some(end) = news.ends.get(told).filter(|end| end.at <= request.queued_at) {
                self.elevator.completed(end);
                told += 1;
            }
            let class = request.prio().class.index();
            self.totals.classes[class].inserted += 1;
            classes |= 1 << class;
            if has_room && news.requests.is_empty() && told == news.ends.len() {
                self.newest = Some(request);
            } else {
                self.elevator.insert(request.queued_at, request);
            }
        }
        news.ends[told..].iter().for_each(|end| self.elevator.completed(end));
        news.ends.clear();
        classes
    }

    fn unpack(news: &mut News, arrivals: &mut Vec<Box<Request>>, ends: &mut Vec<Ended>) {
        while let Some(request) = news.requests.pop_front() {
            arrivals.push(request);
        }
        ends.append(&mut news.ends);
    }

    /// Lets go the lists of channels that have gone.
    fn forget_closed(&mut self, shared: &Dispatcher) {
        shared.closing.store(false, Ordering::Relaxed);
        let totals = &mut self.totals;
        self.intakes.retain(|intake| {
            let closed = intake.is_closed();
            let gone = closed && !intake.is_filled();
            if gone {
                totals.add(&intake.tally);
            } else if closed {
                shared.closing.store(true, Ordering::Relaxed);
            }
            !gone
        });
    }

    fn counted(&self) -> Totals {
        let mut totals = self.totals;
        let merged = self.elevator.merged();
        for (class, merged) in totals.classes.iter_mut().zip(merged) {
            class.merged += merged;
        }
        for intake in &self.intakes {
            totals.add(&intake.tally);
        }
        totals
    }
}
