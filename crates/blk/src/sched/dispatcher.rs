//! The scheduler of a queue, shared by its channels: the one that gets the lock dispatches for all.
//!
//! The thread that dispatches collects the updates of all channels and takes as many requests from
//! the scheduler as its hardware queue has room for. No thread waits for the lock: updates that are
//! left in an insertion list while another thread holds it are collected by that thread or by a
//! later one.
//!
//! ```text
//!   try_lock --> got it:   collect all insertion lists, order, take up to `room`
//!           \--> failed:   updates into my insertion list, rerun = true, look once more, leave
//!   unlocked, rerun is true?  start over
//! ```
//!
//! A wake-up could be lost only if a thread finds the lock taken and the holder does not see its
//! `rerun`. The thread exchanges `rerun` before it tries the lock again, the holder after it has
//! released the lock: the later of the two exchanges sees what the other thread did before. Only a
//! holder clears `rerun`, before it collects.
use super::elevator::{BatchKind, BatchOrder, CompletedRequest, Elevator, InFlight};
use crate::bio::PrioClass;
use crate::lock::{SpinLock, SpinLockGuard};
use crate::op::Op;
use crate::probe::{contended, mark, mutant};
use crate::request::{Request, RequestList};
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Mutex, Ordering};
use crate::units::{Nanos, Sector};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Instead of a set of classes: no request may bypass the scheduler.
const NO_BYPASS: u8 = 1 << 7;

/// Read by every submission, so kept apart from what dispatching writes.
#[repr(align(128))]
struct SharedFlags {
    /// Something waits in the scheduler. What is in an insertion list is about to be collected.
    has_work: AtomicBool,
    /// The priority classes in use: those with requests in the scheduler or in flight, as a set of
    /// bits; or [`NO_BYPASS`].
    classes: AtomicU8,
    /// Writes go through the scheduler even when nothing waits.
    no_write_bypass: bool,
    /// [`Elevator::wants_completions`].
    wants_completions: bool,
    /// Dispatching depends on the commands in flight that the channels count.
    counts_in_flight: bool,
    /// [`Elevator::can_take_batches`].
    can_take_batches: bool,
    /// [`Elevator::is_by_process`].
    is_by_process: bool,
}

/// A scheduler with its lock and its flags.
pub(crate) struct Dispatcher {
    flags: SharedFlags,
    /// Updates were left while the lock was held: dispatch again.
    rerun: AtomicBool,
    /// A channel was dropped; its list is to be removed.
    closing: AtomicBool,
    /// When there will be something to dispatch without a further request or completion; 0 for now.
    stalled_until: AtomicU64,
    /// Not a mutex: releasing it is a plain store, and the exchange of `rerun` comes after it.
    core: SpinLock<Core>,
}

struct Core {
    elevator: Box<dyn Elevator>,
    /// A thread panicked while it had the lock.
    abandoned: bool,
    /// The newest request, for [`Elevator::insert_and_dispatch`] when there is room for it.
    newest: Option<Box<Request>>,
    insert_lists: Vec<Arc<InsertList>>,
    /// The requests inserted and dispatched here, and the counters of channels that have closed.
    totals: CounterSums,
    /// The number of writes in flight is limited.
    limits_writes: bool,
    /// Whether requests may bypass the scheduler while a single class is in use.
    bypass_allowed: bool,
    /// For collecting; kept for its capacity.
    updates: PendingUpdates,
    arrivals: Vec<Box<Request>>,
    completions: Vec<CompletedRequest>,
}

/// Which requests may bypass the scheduler.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BypassPolicy {
    /// A request may go straight to a device with room if nothing waits: the order of one request
    /// needs no scheduler.
    pub(super) bypass_allowed: bool,
    /// ... except writes, whose number in flight is limited.
    pub(super) limits_writes: bool,
}

impl Dispatcher {
    pub(super) fn new(elevator: Box<dyn Elevator>, bypass: BypassPolicy) -> Self {
        let classes = if bypass.bypass_allowed { 0 } else { NO_BYPASS };
        let wants_completions = elevator.wants_completions();
        let can_take_batches = elevator.can_take_batches();
        let is_by_process = elevator.is_by_process();
        Dispatcher {
            flags: SharedFlags {
                has_work: AtomicBool::new(false),
                classes: AtomicU8::new(classes),
                no_write_bypass: bypass.limits_writes || wants_completions,
                wants_completions,
                counts_in_flight: bypass.bypass_allowed || bypass.limits_writes,
                can_take_batches,
                is_by_process,
            },
            rerun: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            stalled_until: AtomicU64::new(0),
            core: SpinLock::new(Core {
                elevator,
                abandoned: false,
                newest: None,
                insert_lists: Vec::new(),
                totals: CounterSums::default(),
                limits_writes: bypass.limits_writes,
                bypass_allowed: bypass.bypass_allowed,
                updates: PendingUpdates::default(),
                arrivals: Vec::new(),
                completions: Vec::new(),
            }),
        }
    }

    /// Adds the insertion list of a new channel, whose number may have been that of a closed one.
    pub(super) fn open(&self, process: u32) -> Arc<InsertList> {
        let insert_list = Arc::new(InsertList::new());
        self.with_core(|core| {
            // The last completions of a channel that has closed may not have been counted yet.
            let classes = core.collect(&mut PendingUpdates::default(), false);
            self.flags.classes.fetch_or(classes, Ordering::Relaxed);
            if core.has_work() && !self.has_work() {
                self.stalled_until.store(0, Ordering::SeqCst);
                self.flags.has_work.store(true, Ordering::SeqCst);
            }
            if self.closing.load(Ordering::Relaxed) {
                core.drop_closed(self);
            }
            core.elevator.forget(process);
            core.insert_lists.push(Arc::clone(&insert_list));
        });
        insert_list
    }

    /// A channel is dropped.
    pub(super) fn close(&self, insert_list: &InsertList) {
        insert_list.close();
        self.closing.store(true, Ordering::Release);
    }

    /// Waits for the lock, so not for the I/O path. A channel that finds it taken leaves its
    /// updates to the holder; this one does not dispatch, so it announces them as work.
    fn with_core<R>(&self, f: impl FnOnce(&mut Core) -> R) -> R {
        let result = f(&mut CoreGuard::new(self.core.lock()));
        self.announce_rerun();
        result
    }

    #[inline]
    fn try_lock(&self) -> Option<CoreGuard<'_>> {
        self.core.try_lock().map(CoreGuard::new)
    }

    /// After the lock was released without dispatching: announces what others have left meanwhile as
    /// work.
    #[inline]
    fn announce_rerun(&self) {
        // An exchange that changes nothing: a load could miss a `rerun` that is just being set.
        if self.rerun.fetch_or(false, Ordering::AcqRel) {
            self.stalled_until.store(0, Ordering::SeqCst);
            self.flags.has_work.store(true, Ordering::SeqCst);
        }
    }

    /// Whether something waits.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        self.flags.has_work.load(Ordering::SeqCst)
    }

    /// Whether requests of the class may bypass the scheduler: nothing waits, and no other class is
    /// in use, which they would have to wait for or which would have to wait for them.
    #[inline]
    pub(super) fn may_bypass(&self, class: usize, read: bool) -> bool {
        !self.has_work()
            && self.flags.classes.load(Ordering::Relaxed) == 1 << class
            && (read || !self.flags.no_write_bypass)
    }

    /// The class of all commands in flight, if there is only one and reads need not be counted apart
    /// from the rest. Another class is in use from before its first command is sent until after the
    /// completion of its last was counted.
    #[inline]
    pub(super) fn only_class(&self) -> Option<usize> {
        let classes = self.flags.classes.load(Ordering::Relaxed);
        let one = classes.is_power_of_two() && classes != NO_BYPASS && !self.flags.no_write_bypass;
        one.then(|| classes.trailing_zeros() as usize)
    }

    #[inline]
    pub(super) fn wants_completions(&self) -> bool {
        self.flags.wants_completions
    }

    /// Whether dispatching depends on the commands in flight that the channels count.
    #[inline]
    pub(super) fn counts_in_flight(&self) -> bool {
        self.flags.counts_in_flight
    }

    #[inline]
    pub(super) fn is_by_process(&self) -> bool {
        self.flags.is_by_process
    }

    /// Whether [`Dispatcher::send_batch`] may succeed.
    #[inline]
    pub(super) fn may_take_batch(&self) -> bool {
        self.flags.can_take_batches && !self.has_work()
    }

    /// Passes the completions in `updates` to the scheduler and asks it whether a batch, for which the
    /// device has room, may go to it as it is. Then `sort` takes the requests out of the batch in the
    /// order that it is given, and returns the number of commands and where the last one ends.
    /// Returns false if another thread has the lock, or something else would be sent before: the batch
    /// then goes through [`Dispatcher::dispatch`].
    pub(super) fn send_batch(
        &self,
        now: Nanos,
        kind: &BatchKind,
        updates: &mut PendingUpdates,
        sort: impl FnOnce(BatchOrder) -> (u32, Sector),
    ) -> bool {
        let Some(mut core) = self.try_lock() else { return false };
        core.collect(updates, false);
        if core.has_work() {
            return false;
        }
        let Some(order) = core.elevator.takes_batch(now, kind) else { return false };
        let (commands, end) = sort(order);
        core.elevator.sent_batch(kind, commands, end);
        drop(core);
        self.announce_rerun();
        true
    }

    /// Passes completions to the scheduler while nothing waits, so that nothing is to be dispatched. Does
    /// not if another thread has the lock or has left something: [`Dispatcher::dispatch`] then has to
    /// follow. Only for a scheduler that keeps its own count of what is in flight.
    #[inline]
    pub(super) fn count_completions(&self, updates: &mut PendingUpdates) -> bool {
        if self.has_work() || !updates.requests.is_empty() || self.flags.counts_in_flight {
            return false;
        }
        let Some(mut core) = self.try_lock() else { return false };
        if core.is_left_something() || core.has_work() {
            return false;
        }
        updates.completions.iter().for_each(|end| core.elevator.completed(end));
        updates.completions.clear();
        drop(core);
        self.announce_rerun();
        true
    }

    /// When to dispatch next, given room; `None` if that depends on further requests and
    /// completions.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        let at = self.stalled_until.load(Ordering::SeqCst);
        (self.has_work() && at != u64::MAX).then_some(Nanos(at))
    }

    /// Passes the channel's updates to the scheduler and takes up to `room` requests from it,
    /// unless another thread holds the lock: that one finds the updates, and dispatches for all.
    pub(super) fn dispatch(
        &self,
        now: Nanos,
        room: usize,
        insert_list: &InsertList,
        updates: &mut PendingUpdates,
        out: &mut Vec<Box<Request>>,
    ) {
        let first_try = if contended!() { None } else { self.try_lock() };
        mark!(SchedContended if first_try.is_none());
        let mut holds = first_try.or_else(|| {
            if !updates.is_empty() {
                insert_list.put(updates);
            }
            self.rerun.swap(true, Ordering::AcqRel);
            // The holder may have released the lock before it could see `rerun`.
            self.try_lock()
        });
        while let Some(mut core) = holds {
            if self.rerun.load(Ordering::Relaxed) {
                self.rerun.swap(false, Ordering::AcqRel);
            }
            if self.closing.load(Ordering::Relaxed) {
                core.drop_closed(self);
            }
            core.run(self, now, room, updates, out);
            drop(core);
            // An exchange that changes nothing: a load could miss a `rerun` that is just being set.
            if !self.rerun.fetch_or(false, Ordering::AcqRel) {
                return;
            }
            holds = self.try_lock();
        }
    }

    /// Sets the weight of a process.
    pub(super) fn set_weight(&self, process: u32, weight: u16) {
        self.with_core(|core| core.elevator.set_weight(process, weight));
    }

    /// The counters of each class, the most urgent first.
    pub(super) fn counters(&self) -> [ClassCounters; 3] {
        self.with_core(|core| core.counted().classes)
    }
}

impl Core {
    fn run(
        &mut self,
        shared: &Dispatcher,
        now: Nanos,
        room: usize,
        updates: &mut PendingUpdates,
        out: &mut Vec<Box<Request>>,
    ) {
        let flags = &shared.flags;
        let has_room = out.len() < room;
        let classes = self.collect(updates, has_room) | flags.classes.load(Ordering::Relaxed);
        flags.classes.store(classes, Ordering::Relaxed);
        let mixed = self.bypass_allowed && !classes.is_power_of_two();
        let mut flight = if mixed || self.limits_writes {
            if self.has_work() && !shared.has_work() {
                // A channel that counts a completion after this sum sees that there is work.
                flags.has_work.store(true, Ordering::SeqCst);
            }
            self.counted().in_flight()
        } else {
            InFlight::default()
        };
        let has_work = self.send(shared, now, room, &mut flight, out);
        if mixed && !has_work {
            let in_use = flight.by_class.map(|n| u8::from(n > 0));
            let in_use = in_use[0] | in_use[1] << 1 | in_use[2] << 2;
            flags.classes.store(in_use, Ordering::Relaxed);
        }
        if has_work != shared.has_work() {
            flags.has_work.store(has_work, Ordering::SeqCst);
        }
    }

    /// Whether something waits.
    fn has_work(&self) -> bool {
        self.newest.is_some() || !self.elevator.is_empty()
    }

    /// Takes requests from the scheduler while there is room. Returns whether something still
    /// waits.
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
                Some(newest) => self.elevator.insert_and_dispatch(now, newest, flight),
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
            let class = request.prio().class().index();
            self.totals.classes[class].dispatched += 1;
            self.totals.not_reads =
                self.totals.not_reads.wrapping_add(u64::from(request.op() != Op::Read));
            out.push(request);
            has_work = !self.elevator.is_empty();
        }
        if shared.stalled_until.load(Ordering::Relaxed) != stalled_until {
            // Sequentially consistent, as `has_work` is, for a channel that falls asleep meanwhile.
            shared.stalled_until.store(stalled_until, Ordering::SeqCst);
        }
        has_work
    }

    /// Passes the updates of all channels to the scheduler, in the order of time. Returns the classes of
    /// the requests as a set of bits.
    fn collect(&mut self, mine: &mut PendingUpdates, has_room: bool) -> u8 {
        if !self.is_left_something() {
            return self.deliver(mine, has_room);
        }
        let mut sources = usize::from(!mine.is_empty());
        for i in 0..self.insert_lists.len() {
            if self.insert_lists[i].is_filled() {
                self.insert_lists[i].take(&mut self.updates);
                sources += 1;
                Self::unpack(&mut self.updates, &mut self.arrivals, &mut self.completions);
            }
        }
        Self::unpack(mine, &mut self.arrivals, &mut self.completions);
        if sources > 1 {
            self.arrivals.sort_by_key(|request| request.queued_at);
            self.completions.sort_by_key(|end| end.at);
        }
        let mut all = std::mem::take(&mut self.updates);
        self.arrivals.drain(..).for_each(|request| all.requests.push_back(request));
        std::mem::swap(&mut all.completions, &mut self.completions);
        let classes = self.deliver(&mut all, has_room);
        self.completions = std::mem::take(&mut all.completions);
        self.updates = all;
        classes
    }

    /// Whether there is something in an insertion list.
    fn is_left_something(&self) -> bool {
        self.insert_lists.iter().any(|insert_list| insert_list.is_filled())
    }

    /// Passes completions and requests to the scheduler, in the order of time. If the device has
    /// room, the newest request is kept for [`Core::send`].
    fn deliver(&mut self, updates: &mut PendingUpdates, has_room: bool) -> u8 {
        let (mut classes, mut passed) = (0, 0);
        while let Some(request) = updates.requests.pop_front() {
            while let Some(end) =
                updates.completions.get(passed).filter(|end| end.at <= request.queued_at)
            {
                self.elevator.completed(end);
                passed += 1;
            }
            let class = request.prio().class().index();
            self.totals.classes[class].inserted += 1;
            classes |= 1 << class;
            if has_room && updates.requests.is_empty() && passed == updates.completions.len() {
                self.newest = Some(request);
            } else {
                self.elevator.insert(request.queued_at, request);
            }
        }
        updates.completions[passed..].iter().for_each(|end| self.elevator.completed(end));
        updates.completions.clear();
        classes
    }

    fn unpack(
        updates: &mut PendingUpdates,
        arrivals: &mut Vec<Box<Request>>,
        completions: &mut Vec<CompletedRequest>,
    ) {
        while let Some(request) = updates.requests.pop_front() {
            arrivals.push(request);
        }
        completions.append(&mut updates.completions);
    }

    /// Removes the lists of channels that were dropped.
    fn drop_closed(&mut self, shared: &Dispatcher) {
        shared.closing.store(false, Ordering::Relaxed);
        let totals = &mut self.totals;
        self.insert_lists.retain(|insert_list| {
            let closed = insert_list.is_closed();
            let gone = closed && !insert_list.is_filled();
            if gone {
                totals.add(&insert_list.counters);
            } else if closed {
                shared.closing.store(true, Ordering::Relaxed);
            }
            !gone
        });
    }

    fn counted(&self) -> CounterSums {
        let mut totals = self.totals;
        let merged = self.elevator.merged();
        for (class, merged) in totals.classes.iter_mut().zip(merged) {
            class.merged += merged;
        }
        for insert_list in &self.insert_lists {
            totals.add(&insert_list.counters);
        }
        totals
    }
}

/// Access to what the lock protects. Others do not go on with a scheduler that a panic left as it was.
struct CoreGuard<'a>(SpinLockGuard<'a, Core>);

impl<'a> CoreGuard<'a> {
    #[inline]
    fn new(core: SpinLockGuard<'a, Core>) -> Self {
        assert!(!core.abandoned, "a thread panicked while it dispatched");
        CoreGuard(core)
    }
}

impl Deref for CoreGuard<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.0
    }
}

impl DerefMut for CoreGuard<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.0
    }
}

impl Drop for CoreGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.abandoned |= std::thread::panicking();
    }
}

/// Requests and completions of a channel that the scheduler does not know yet, each in the order of
/// time.
#[derive(Debug, Default)]
pub(super) struct PendingUpdates {
    pub(super) requests: RequestList,
    pub(super) completions: Vec<CompletedRequest>,
}

impl PendingUpdates {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.completions.is_empty()
    }
}

/// The insertion list of one channel, and its counters. Its thread adds updates, whichever thread
/// dispatches takes them; the lock is held only to append a list or to take one. A cache line of
/// its own: each channel writes its counters with every I/O.
#[repr(align(128))]
#[derive(Debug)]
pub(super) struct InsertList {
    pub(super) counters: ChannelCounters,
    /// Read without the lock.
    filled: AtomicBool,
    /// The channel was dropped and adds nothing more.
    closed: AtomicBool,
    updates: Mutex<PendingUpdates>,
}

impl InsertList {
    pub(super) fn new() -> Self {
        InsertList {
            counters: ChannelCounters::new(),
            filled: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            updates: Mutex::new(PendingUpdates::default()),
        }
    }

    /// Appends the channel's updates.
    pub(super) fn put(&self, updates: &mut PendingUpdates) {
        let mut here = self.updates.lock().expect("insertion list lock");
        while let Some(request) = updates.requests.pop_front() {
            here.requests.push_back(request);
        }
        here.completions.append(&mut updates.completions);
        self.filled.store(!mutant!(InsertListUnseen), Ordering::Release);
    }

    pub(super) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }

    /// Takes the updates, leaving `empty` in their place for its capacity.
    pub(super) fn take(&self, empty: &mut PendingUpdates) {
        debug_assert!(empty.is_empty());
        let mut here = self.updates.lock().expect("insertion list lock");
        std::mem::swap(&mut *here, empty);
        self.filled.store(false, Ordering::Relaxed);
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// The requests of one priority class. What was inserted and neither merged nor dispatched waits;
/// what was dispatched and has not completed is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Requests that came to the scheduler.
    pub inserted: u64,
    /// Requests that were merged after another.
    pub merged: u64,
    /// Commands sent to the device.
    pub dispatched: u64,
    /// Commands that have completed.
    pub completed: u64,
}

/// The requests that one channel sent to the device past the scheduler, and those completed on it. One thread
/// writes, any may read.
///
/// Completions are counted by sequentially consistent operations where the dispatcher goes by them: a
/// channel counts and then looks for waiting requests, the dispatcher announces them and then sums the
/// counters, so one of the two sees the other.
#[derive(Debug)]
pub(super) struct ChannelCounters {
    sent: [AtomicU64; 3],
    merged: [AtomicU64; 3],
    completed: [AtomicU64; 3],
    not_reads_sent: AtomicU64,
    not_reads_completed: AtomicU64,
}

fn zero() -> AtomicU64 {
    AtomicU64::new(0)
}

/// Adds without the cost of an atomic addition: no other thread writes.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

impl ChannelCounters {
    pub(super) fn new() -> Self {
        ChannelCounters {
            sent: std::array::from_fn(|_| zero()),
            merged: std::array::from_fn(|_| zero()),
            completed: std::array::from_fn(|_| zero()),
            not_reads_sent: zero(),
            not_reads_completed: zero(),
        }
    }

    /// Commands of one class went straight to the device.
    #[inline]
    pub(super) fn sent(&self, class: PrioClass, commands: u64, reads: bool) {
        add(&self.sent[class.index()], commands);
        if !reads {
            add(&self.not_reads_sent, commands);
        }
    }

    pub(super) fn merged(&self, class: PrioClass, requests: u64) {
        add(&self.merged[class.index()], requests);
    }

    /// Commands of one class have completed. Whether they were reads is not counted.
    #[inline]
    pub(super) fn completed_in(&self, class: usize, commands: u64) {
        self.completed[class].fetch_add(commands, Ordering::SeqCst);
    }

    /// The same for a scheduler that keeps its own count of what is in flight.
    #[inline]
    pub(super) fn note_completed(&self, class: PrioClass, commands: u64) {
        add(&self.completed[class.index()], commands);
    }

    /// Commands have completed.
    pub(super) fn completed(&self, done: &[Box<Request>]) {
        let (mut classes, mut not_reads) = ([0; 3], 0);
        for request in done {
            classes[request.prio().class().index()] += 1;
            not_reads += u64::from(request.op() != Op::Read);
        }
        self.not_reads_completed.fetch_add(not_reads, Ordering::SeqCst);
        for (counter, n) in self.completed.iter().zip(classes) {
            counter.fetch_add(n, Ordering::SeqCst);
        }
    }
}

/// The counters of the dispatcher and of all channels together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CounterSums {
    pub(super) classes: [ClassCounters; 3],
    pub(super) not_reads: u64,
}

impl CounterSums {
    pub(super) fn add(&mut self, counters: &ChannelCounters) {
        let get = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        for (class, total) in self.classes.iter_mut().enumerate() {
            let (sent, merged) = (get(&counters.sent[class]), get(&counters.merged[class]));
            total.inserted += sent + merged;
            total.merged += merged;
            total.dispatched += sent;
            total.completed += get(&counters.completed[class]);
        }
        let not_reads =
            get(&counters.not_reads_sent).wrapping_sub(get(&counters.not_reads_completed));
        self.not_reads = self.not_reads.wrapping_add(not_reads);
    }

    /// The commands in flight. One that is sent while another thread sums may be missing; its
    /// completion is never counted without it.
    pub(super) fn in_flight(&self) -> InFlight {
        let flying = |c: ClassCounters| c.dispatched.saturating_sub(c.completed);
        InFlight { by_class: self.classes.map(flying), not_reads: self.not_reads }
    }
}
