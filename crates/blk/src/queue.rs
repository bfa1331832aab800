//! The queue of a device: what the channels of all threads share.
mod revalidate;
mod settings;

use crate::channel::Channel;
use crate::completion::ChannelMail;
use crate::device::Device;
use crate::failure::{Failure, Failures};
use crate::gate::{ChannelUsage, Gate};
use crate::hctx::{Hctx, HctxRef, IO_TIMEOUT};
use crate::iostat::{HctxTimes, IoCounters, IoHistograms, IoStat, IoTimes};
use crate::limits::Limits;
use crate::mailbox::Sleeper;
use crate::op::Op;
pub use crate::plug::AttachError;
use crate::plug::{
    self, PlugInfo, PlugResult, WpRecovery, ZonePhase, ZonePlugs, ZoneWrite, attach,
};
use crate::probe::mark;
use crate::request::{Request, RequestList};
use crate::sched::{MergeLimit, Scheduler};
use crate::split;
use crate::status::Status;
use crate::sync::{AtomicBool, AtomicU8, Mutex, MutexGuard, Ordering, fence, store_before_load};
use crate::trace::{HctxTrace, Tracer, Tracing};
use crate::units::{Nanos, Sector, ZoneNo};
use crate::zone::Zone;
pub(crate) use settings::ChannelConfig;
use settings::{Settings, zones_to_lock};
use std::sync::{Arc, OnceLock};

/// How a queue treats its I/O.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// How writes to sequential zones are kept in order; `None` for what suits the device
    /// ([`ZoneWrite::default_for`]).
    pub zone_write: Option<ZoneWrite>,
    /// The I/O scheduler.
    pub scheduler: Scheduler,
    /// Whether waiting bios that follow one another on the medium go out as one request (the
    /// kernel's `nomerges` turned round).
    pub merge: bool,
    /// Makes zone appends into writes also on a device that has appends of its own.
    pub emulate_append: bool,
    /// How a zone's write pointer is learned after a failed write.
    pub wp_recovery: WpRecovery,
    /// Refuses devices whose zone size is not a power of two, as the kernel does.
    pub power_of_two_zones: bool,
    /// Whether channels take turns on the device's hardware queues, each behind a lock, so that
    /// there can be more channels than queues.
    pub share_queues: bool,
    /// How long a request may be in flight before it is aborted ([`crate::HwQueue::abort`]).
    pub io_timeout: Nanos,
    /// Whether what the device does is counted (the kernel's `iostats`): see [`Queue::iostat`].
    pub iostats: bool,
    /// Whether it can be counted while somebody watches ([`Queue::watch`]), at some comparisons an I/O
    /// meanwhile.
    pub watchable: bool,
}

impl Default for QueueOptions {
    fn default() -> Self {
        QueueOptions {
            zone_write: None,
            scheduler: Scheduler::default(),
            merge: true,
            emulate_append: false,
            wp_recovery: WpRecovery::default(),
            power_of_two_zones: false,
            share_queues: false,
            io_timeout: IO_TIMEOUT,
            iostats: false,
            watchable: false,
        }
    }
}

/// A device with its block layer. Each thread that wants to do I/O opens a [`Channel`].
pub struct Queue {
    device: Arc<dyn Device>,
    limits: Limits,
    /// `None` on a device without zones.
    plugs: Option<ZonePlugs>,
    /// A [`ZoneWrite`]; changes only while nothing is inside.
    zone_write: AtomicU8,
    share_queues: bool,
    /// Counted from the start, not only while somebody watches.
    iostats: bool,
    merge: bool,
    /// Change only while nothing is inside.
    settings: Mutex<Settings>,
    /// Held while one of them is changed, zone reports and all.
    changing: Mutex<()>,
    gate: Gate,
    /// Channels may be asleep that have room for requests of the scheduler.
    sleepers_with_room: AtomicBool,
    failures: Failures,
    tracing: OnceLock<Tracing>,
    channels: Mutex<Channels>,
}

/// The channels of a queue, open or closed. What a channel that has closed had is there for the next
/// one: nothing grows with the number of channels ever opened.
#[derive(Default)]
struct Channels {
    /// By channel number.
    slots: Vec<ChannelSlot>,
    /// The numbers of those that are closed.
    free: Vec<u32>,
    /// Channels opened so far; those that share hardware queues take turns by it.
    opened: usize,
    /// Hardware queues that belong to an open channel.
    owned: u16,
    /// Those that belonged to one that has closed.
    spare: Vec<Hctx>,
    shared: Vec<SharedHctx>,
    /// Hardware queues opened so far.
    hctxs: usize,
    /// Of each hardware queue opened; `None` unless anything is counted.
    times: Option<Vec<Arc<HctxTimes>>>,
    /// Those for whom is counted; one of them for [`QueueOptions::iostats`].
    watchers: usize,
}

/// The part of a channel that others use.
struct ChannelSlot {
    mailbox: Arc<ChannelMail>,
    usage: Arc<ChannelUsage>,
    /// `None` unless anything is counted.
    counters: Option<Arc<IoCounters>>,
}

/// A hardware queue that channels share.
struct SharedHctx {
    hctx: Arc<Mutex<Hctx>>,
    /// Open channels that have it.
    users: usize,
}

impl Channels {
    /// A hardware queue for one more channel, which nobody else has if possible.
    fn share_hctx(&mut self, device: &Arc<dyn Device>, tracing: Option<&Tracing>) -> HctxRef {
        let turn = self.opened % usize::from(device.limits().nr_queues);
        let is_unused = |at: usize| self.shared.get(at).is_some_and(|shared| shared.users == 0);
        let unused = if is_unused(turn) {
            Some(turn)
        } else {
            (0..self.shared.len()).find(|&at| is_unused(at))
        };
        let at = if let Some(at) = unused {
            self.shared[at].hctx.lock().expect("hardware queue lock").reopen();
            at
        } else if self.shared.len() < usize::from(device.limits().nr_queues) {
            let hctx = Arc::new(Mutex::new(self.open_hctx(device, tracing)));
            self.shared.push(SharedHctx { hctx, users: 0 });
            self.shared.len() - 1
        } else {
            turn
        };
        self.shared[at].users += 1;
        HctxRef::share(&self.shared[at].hctx)
    }

    /// A hardware queue for a channel alone.
    fn own_hctx(&mut self, device: &Arc<dyn Device>, tracing: Option<&Tracing>) -> HctxRef {
        self.owned += 1;
        HctxRef::Own(match self.spare.pop() {
            Some(mut hctx) => {
                hctx.reopen();
                hctx
            }
            None => self.open_hctx(device, tracing),
        })
    }

    fn open_hctx(&mut self, device: &Arc<dyn Device>, tracing: Option<&Tracing>) -> Hctx {
        let times = self.times.as_mut().map(|all| {
            let times = Arc::new(HctxTimes::new());
            times.switch(self.watchers > 0);
            all.push(Arc::clone(&times));
            times
        });
        let trace = tracing.map(|tracing| HctxTrace::open(tracing, self.hctxs));
        self.hctxs += 1;
        Hctx::open(device, times, trace)
    }
}

impl Channels {
    /// Changes the number of observers by `more`.
    fn watchers(&mut self, more: isize) {
        let before = self.watchers;
        self.watchers = before.strict_add_signed(more);
        let on = self.watchers > 0;
        if on != (before > 0) {
            self.times.iter().flatten().for_each(|times| times.switch(on));
            self.slots
                .iter()
                .filter_map(|slot| slot.counters.as_ref())
                .for_each(|of| of.switch(on));
        }
    }
}

/// Somebody for whom is counted what the device of a queue does. See [`Queue::watch`].
pub struct Watch(Arc<Queue>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.channels().watchers(-1);
    }
}

/// The device has no hardware queue left for one more channel.
#[derive(Debug, thiserror::Error)]
#[error("the device has {0} hardware queues, all in use; share them to open more channels")]
pub struct NoQueueLeft(u16);

/// Why something about a queue could not be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// The queue is not frozen, or bios are still inside.
    #[error("the queue must be frozen and quiescent")]
    NotQuiescent,
    /// It needs what the queue does not have, or is not in the range that the device allows.
    #[error("{0}")]
    Unsuitable(&'static str),
    /// The zones could not be read anew.
    #[error("the device did not report its zones: {0}")]
    Report(Status),
    /// A zone that was read anew breaks a rule.
    #[error("zone {zone}: {rule}")]
    Zone {
        /// The zone.
        zone: u32,
        /// The rule that is broken.
        rule: &'static str,
    },
}

impl SwitchError {
    /// The same error of the policy that the queue is attached with.
    fn at_attach(self, scheduler: &Scheduler) -> AttachError {
        match self {
            SwitchError::Report(status) => AttachError::Report { zone: 0, status },
            SwitchError::Zone { zone, rule } => AttachError::Zone { zone, rule },
            SwitchError::NotQuiescent | SwitchError::Unsuitable(_) => {
                AttachError::Scheduler { scheduler: scheduler.name() }
            }
        }
    }
}

impl Queue {
    /// Attaches the block layer to a device: checks its limits and reads its zones.
    ///
    /// # Errors
    /// The rule that the device's limits or a zone of its report break.
    pub fn attach(
        device: Arc<dyn Device>,
        options: QueueOptions,
    ) -> Result<Arc<Self>, AttachError> {
        let found = device.limits().with_zones(device.nr_zones());
        attach::check_limits(&found, options.power_of_two_zones)?;
        let mut limits = attach::normalise(&found, options.emulate_append);
        let merge = MergeLimit { max_sectors: if options.merge { limits.max_sectors } else { 0 } };
        let plugs = if limits.nr_zones > 0 {
            let (plugs, sequential) = ZonePlugs::attach(
                Arc::clone(&device),
                &limits,
                merge.max_sectors,
                options.wp_recovery,
            )?;
            attach::drop_unreachable(&mut limits, sequential);
            Some(plugs)
        } else {
            None
        };
        let zone_write = options.zone_write.unwrap_or(ZoneWrite::default_for(&limits));
        let zones = zones_to_lock(&*device, &limits, zone_write, &options.scheduler)
            .map_err(|error| error.at_attach(&options.scheduler))?;
        let settings = Settings::new(&limits, &options, merge, zones);
        Ok(Arc::new(Queue {
            device,
            limits,
            plugs,
            zone_write: AtomicU8::new(zone_write as u8),
            share_queues: options.share_queues,
            iostats: options.iostats,
            merge: options.merge,
            settings: Mutex::new(settings),
            changing: Mutex::new(()),
            gate: Gate::new(),
            sleepers_with_room: AtomicBool::new(false),
            failures: Failures::default(),
            tracing: OnceLock::new(),
            channels: Mutex::new(Channels {
                times: (options.iostats || options.watchable).then(Vec::new),
                watchers: usize::from(options.iostats),
                ..Channels::default()
            }),
        }))
    }

    /// The limits of the device as the layer found them; [`Queue::max_sectors`],
    /// [`Queue::nr_requests`] and [`Queue::nr_zones`] may have been lowered since.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The device below.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Has `observer` learn why writes and zone management fail, on the thread that drives their
    /// channel: the first eight one by one, later ones when their number is a power of two. The zone is
    /// asked for at the device then. Only the first call has an effect.
    pub fn on_failure(&self, observer: impl Fn(&Failure) + Send + Sync + 'static) {
        self.failures.observe(Box::new(observer));
    }

    /// The first failure since [`Queue::on_failure`].
    pub fn first_failure(&self) -> Option<&Failure> {
        self.failures.first()
    }

    /// Has `tracer` learn what happens to every `one_in`-th bio of each channel. Channels that are open
    /// already are not traced; only the first call has an effect.
    ///
    /// # Panics
    /// If `one_in` is 0.
    pub fn trace(&self, tracer: Arc<dyn Tracer>, one_in: u64) {
        assert!(one_in > 0, "one bio in 0 cannot be traced");
        let _ = self.tracing.set(Tracing::new(tracer, one_in));
    }

    pub(crate) fn tracing(&self) -> Option<&Tracing> {
        self.tracing.get()
    }

    /// A command failed.
    #[cold]
    pub(crate) fn failed(&self, (op, sector, nr_sectors): (Op, Sector, u32), status: Status) {
        if let Some(plugs) = &self.plugs
            && matches!(op, Op::Write | Op::WriteZeroes)
            && sector < self.limits.capacity
        {
            plugs.unordered_failed(self.limits.zone_of(sector));
        }
        let about_zone = op.is_write() || op.is_zone_management();
        if !about_zone || self.limits.nr_zones == 0 || sector >= self.limits.capacity {
            return;
        }
        let Some(number) = self.failures.count() else { return };
        let mut zones = Vec::new();
        // A device that cannot be reached would not answer.
        if !matches!(status, Status::Timeout | Status::Transport) {
            let zone = self.limits.zone_of(sector);
            // Without a report the failure is told without the zone's condition.
            let _ = self.device.report_zones(zone, 1, &mut zones);
        }
        let command = (op, sector, nr_sectors);
        let found = zones.first().copied();
        self.failures.report(Failure::new(&self.limits, command, status, found, number));
    }

    /// The zone-write policy in force.
    pub fn zone_write(&self) -> ZoneWrite {
        match self.zone_write.load(Ordering::Relaxed) {
            policy if policy == ZoneWrite::Plug as u8 => ZoneWrite::Plug,
            policy if policy == ZoneWrite::Qd1 as u8 => ZoneWrite::Qd1,
            policy if policy == ZoneWrite::Lock as u8 => ZoneWrite::Lock,
            _ => ZoneWrite::Off,
        }
    }

    /// Keeps new bios out until [`Queue::unfreeze`]; those inside drain. Channels hold what is submitted
    /// meanwhile. Freezes nest.
    pub fn freeze(&self) {
        self.gate.freeze();
    }

    /// Whether no bio is inside. Once true on a frozen queue, it stays so until that is unfrozen.
    pub fn is_quiescent(&self) -> bool {
        self.gate.is_quiescent(self.channels().slots.iter().map(|slot| &*slot.usage))
    }

    /// Lets bios in again and wakes the channels that hold some.
    pub fn unfreeze(&self) {
        self.gate.unfreeze();
        self.wake_all();
    }

    /// Wakes every channel that sleeps.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        self.wake_those(Sleeper::is_asleep);
    }

    /// A channel is about to sleep that could send what waits in the scheduler. It has to look for
    /// work after this.
    pub(crate) fn expect_work(&self) {
        self.sleepers_with_room.store(true, Ordering::SeqCst);
        store_before_load();
    }

    /// Wakes the channels that sleep and have room for what waits in the scheduler: the caller has
    /// none.
    pub(crate) fn wake_sleepers_with_room(&self) {
        store_before_load();
        if self.sleepers_with_room.load(Ordering::SeqCst)
            && self.sleepers_with_room.swap(false, Ordering::SeqCst)
        {
            self.wake_those(Sleeper::is_asleep_with_room);
        }
    }

    fn wake_those(&self, which: fn(&Sleeper) -> bool) {
        let mailboxes: Vec<Arc<ChannelMail>> = {
            let channels = self.channels();
            let mailboxes = channels.slots.iter().map(|slot| &slot.mailbox);
            mailboxes.filter(|mailbox| which(mailbox.sleeper())).cloned().collect()
        };
        mailboxes.iter().for_each(|mailbox| mailbox.sleeper().wake());
    }

    /// Changes the zone-write policy of a frozen, quiescent queue.
    ///
    /// # Errors
    /// [`SwitchError`] says what is missing; the policy is then unchanged.
    pub fn set_zone_write(&self, policy: ZoneWrite) -> Result<(), SwitchError> {
        let _alone = self.lock_changes();
        self.require_quiescent()?;
        if policy.plugs()
            && let Some(plugs) = &self.plugs
        {
            // Without plugs nothing kept track of the write pointers.
            plugs.resync_all().map_err(SwitchError::Report)?;
        }
        mark!(PolicyChanged if policy != self.zone_write());
        if [policy, self.zone_write()].contains(&ZoneWrite::Lock) {
            // The zone locks are the scheduler's.
            return self.rebuild_scheduler(policy, |_| ());
        }
        self.zone_write.store(policy as u8, Ordering::Relaxed);
        self.gate.changed();
        Ok(())
    }

    /// Opens a channel for the calling thread, with a hardware queue of its own unless they are
    /// shared.
    ///
    /// # Errors
    /// [`NoQueueLeft`] if every hardware queue has its channel.
    pub fn channel(self: &Arc<Self>) -> Result<Channel, NoQueueLeft> {
        let mut channels = self.channels();
        let hctx = if self.share_queues {
            channels.share_hctx(&self.device, self.tracing())
        } else if channels.owned < self.limits.nr_queues {
            channels.own_hctx(&self.device, self.tracing())
        } else {
            return Err(NoQueueLeft(self.limits.nr_queues));
        };
        channels.opened += 1;
        let id = channels.free.pop().unwrap_or_else(|| {
            let counters = channels.times.is_some().then(Arc::<IoCounters>::default);
            counters.iter().for_each(|counters| counters.switch(channels.watchers > 0));
            channels.slots.push(ChannelSlot {
                mailbox: Arc::default(),
                usage: Arc::new(ChannelUsage::new()),
                counters,
            });
            u32::try_from(channels.slots.len() - 1).expect("fewer than 2^32 channels")
        });
        let ChannelSlot { mailbox, usage, counters } = &channels.slots[id as usize];
        let (mailbox, usage) = (Arc::clone(mailbox), Arc::clone(usage));
        let iostat = counters.clone();
        drop(channels);
        let config = self.channel_config(id);
        Ok(Channel::new(Arc::clone(self), id, mailbox, usage, iostat, hctx, config))
    }

    /// A channel has closed, and nothing of it is left anywhere.
    pub(crate) fn close_channel(&self, id: u32, hctx: HctxRef) {
        let mut channels = self.channels();
        channels.slots[id as usize].mailbox.sleeper().clear_waker();
        channels.free.push(id);
        match hctx {
            HctxRef::Own(hctx) => {
                channels.owned -= 1;
                channels.spare.push(hctx);
            }
            HctxRef::Shared(hctx) => {
                let shared = channels.shared.iter_mut();
                let mut of_channel = shared.filter(|shared| Arc::ptr_eq(&shared.hctx, &hctx));
                of_channel.next().expect("it was shared here").users -= 1;
            }
            HctxRef::Closed => unreachable!("a channel closes once"),
        }
    }

    /// The hardware queue of a channel is lost.
    pub(crate) fn forget_hctx(&self) {
        self.channels().owned -= 1;
    }

    /// Has what the device does counted for as long as the value that is returned lives. Without
    /// [`QueueOptions::watchable`] nothing changes.
    pub fn watch(self: &Arc<Self>) -> Watch {
        self.channels().watchers(1);
        Watch(Arc::clone(self))
    }

    /// Whether what the device does is counted since the queue was attached, by any observer:
    /// [`QueueOptions::iostats`].
    pub fn counts_always(&self) -> bool {
        self.iostats
    }

    /// The device's counts for all channels, those that have closed among them; `None` unless
    /// [`QueueOptions::iostats`] or [`QueueOptions::watchable`] is set.
    pub fn iostat(&self) -> Option<IoStat> {
        let channels = self.channels();
        let counters = channels.slots.iter().filter_map(|slot| slot.counters.as_deref());
        channels.times.is_some().then(|| IoStat::sum(counters))
    }

    /// How long the device took for what it did; `None` as with [`Queue::iostat`].
    pub fn iotimes(&self) -> Option<IoTimes> {
        let channels = self.channels();
        let times = channels.times.as_ref()?;
        Some(HctxTimes::sum(times.iter().map(|times| &**times)))
    }

    /// The device's counts by the time that it took; `None` as with [`Queue::iostat`].
    pub fn histograms(&self) -> Option<IoHistograms> {
        let channels = self.channels();
        let times = channels.times.as_ref()?;
        Some(HctxTimes::histograms(times.iter().map(|times| &**times)))
    }

    fn channels(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().expect("channels lock")
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Passes a read, or a write at the write pointer, through the plug of its zone, if the policy has
    /// plugs. Returns the request to issue, or `None` if it waits. `Err` hands back what needs
    /// [`Queue::enter_unusual`].
    #[inline(always)]
    pub(crate) fn enter(
        &self,
        now: Nanos,
        request: Box<Request>,
    ) -> Result<Option<Box<Request>>, Box<Request>> {
        let Some(plugs) = &self.plugs else {
            return Ok(Some(request));
        };
        match request.op() {
            Op::Read => Ok(Some(request)),
            Op::Write => {
                let policy = self.zone_write.load(Ordering::Relaxed);
                if policy == ZoneWrite::Plug as u8 {
                    plugs.enter_write::<false>(now, request, || true)
                } else if policy == ZoneWrite::Qd1 as u8 {
                    plugs.enter_write::<true>(now, request, || true)
                } else {
                    Err(request)
                }
            }
            _ => Err(request),
        }
    }

    /// [`Queue::enter`] of the first write of a channel that has announced itself
    /// ([`ChannelUsage::announce`]): the lock of the plug stands between that and the look at the gate.
    /// `Err` hands back what needs another way, or finds the queue frozen or the configuration that was
    /// in use after `changes` changed.
    #[inline(always)]
    pub(crate) fn enter_first(
        &self,
        now: Nanos,
        request: Box<Request>,
        changes: u32,
    ) -> Result<Option<Box<Request>>, Box<Request>> {
        let Some(plugs) = &self.plugs else { return Err(request) };
        let is_open = || self.gate.is_open_for(changes);
        let policy = self.zone_write.load(Ordering::Relaxed);
        if policy == ZoneWrite::Plug as u8 {
            plugs.enter_write::<false>(now, request, is_open)
        } else if policy == ZoneWrite::Qd1 as u8 {
            plugs.enter_write::<true>(now, request, is_open)
        } else {
            Err(request)
        }
    }

    pub(crate) fn is_conventional(&self, zone: ZoneNo) -> bool {
        self.plugs.as_ref().is_some_and(|plugs| plugs.is_conventional(zone))
    }

    /// [`Queue::enter`] of any request.
    pub(crate) fn enter_unusual(
        &self,
        now: Nanos,
        request: Box<Request>,
        aborted: &mut RequestList,
    ) -> PlugResult {
        let Some(plugs) = &self.plugs else {
            return PlugResult::Issue(request);
        };
        let (op, policy) = (request.op(), self.zone_write());
        if !policy.plugs() {
            let lacking = op == Op::ZoneAppend && self.limits.append_max_sectors == 0;
            return if lacking {
                PlugResult::Failed(request, Status::NotSupported)
            } else {
                PlugResult::Issue(request)
            };
        }
        if plug::passes_through(op) {
            return plugs.enter(now, request, policy == ZoneWrite::Qd1, aborted);
        }
        if matches!(op, Op::ZoneOpen | Op::ZoneClose) && plugs.is_conventional(request.zone()) {
            return PlugResult::Failed(request, Status::IoError);
        }
        if op == Op::ZoneResetAll
            && let Err(status) = plugs.begin_reset_all()
        {
            return PlugResult::Failed(request, status);
        }
        PlugResult::Issue(request)
    }

    /// Releases what `request`, which has completed, held in its plug. Returns the write to issue next.
    #[inline(always)]
    pub(crate) fn release(
        &self,
        now: Nanos,
        request: &Request,
        aborted: &mut RequestList,
    ) -> Option<Box<Request>> {
        let plugs = self.plugs.as_ref()?;
        if request.plugged {
            let policy = self.zone_write.load(Ordering::Relaxed);
            return plugs.complete(now, request, policy == ZoneWrite::Qd1 as u8, aborted);
        }
        if request.op() == Op::ZoneResetAll {
            self.end_reset_all(plugs, request.status(), aborted);
        }
        None
    }

    #[cold]
    fn end_reset_all(&self, plugs: &ZonePlugs, status: Status, aborted: &mut RequestList) {
        if self.zone_write().plugs() {
            mark!(ResetAllCompleted if status == Status::Ok);
            plugs.end_reset_all(status, aborted);
        }
    }

    /// Reports up to `max` zones from `first` on, from the device, and updates plugs that do not know
    /// their write pointer (A31).
    ///
    /// # Errors
    /// The status with which the device refused; [`Status::NotSupported`] without zones.
    pub fn report_zones(
        &self,
        first: ZoneNo,
        max: usize,
        zones: &mut Vec<Zone>,
    ) -> Result<(), Status> {
        self.plugs.as_ref().ok_or(Status::NotSupported)?.report(first, max, zones)
    }

    /// A zone's phase and write pointer, relative to the zone's start, as the layer knows them. Reads
    /// the device only if appends or errors made them uncertain (A47). `None` without plugs or beyond
    /// the last zone.
    pub fn cached_zone(&self, zone: ZoneNo) -> Option<(ZonePhase, Sector)> {
        let known = |plugs: &&ZonePlugs| zone.0 < plugs.nr_zones();
        self.plugs_in_use().filter(known).map(|plugs| plugs.cached(zone))
    }

    /// The plugs in use and, with `all`, those that I/O has gone through. Empty with a policy that has
    /// no plugs.
    pub fn dump_plugs(&self, all: bool) -> Vec<PlugInfo> {
        self.plugs_in_use().map_or_else(Vec::new, |plugs| plugs.dump(all))
    }

    /// The number of plugs in use.
    pub fn live_plugs(&self) -> u32 {
        self.plugs_in_use().map_or(0, ZonePlugs::alive)
    }

    fn plugs_in_use(&self) -> Option<&ZonePlugs> {
        self.plugs.as_ref().filter(|_| self.zone_write().plugs())
    }

    /// The queue attributes of a zoned disk in the kernel's sysfs (A46), with their values.
    pub fn attributes(&self) -> Vec<(&'static str, String)> {
        let limits = &self.limits;
        if limits.nr_zones == 0 {
            return vec![("zoned", "none".to_owned()), ("nr_zones", "0".to_owned())];
        }
        let append_max = Sector(split::append_max(limits).into()).to_bytes();
        let qd1 = self.zone_write() == ZoneWrite::Qd1;
        vec![
            ("zoned", "host-managed".to_owned()),
            ("nr_zones", self.nr_zones().to_string()),
            ("chunk_sectors", limits.zone_size.to_string()),
            ("max_open_zones", limits.max_open_zones.to_string()),
            ("max_active_zones", limits.max_active_zones.to_string()),
            ("zone_append_max_bytes", append_max.to_string()),
            ("zone_write_granularity", limits.zone_write_granularity().to_string()),
            ("zoned_qd1_writes", u8::from(qd1).to_string()),
        ]
    }

    /// The mailbox of a channel.
    pub(crate) fn mailbox(&self, channel: u32) -> Arc<ChannelMail> {
        Arc::clone(&self.channels().slots[channel as usize].mailbox)
    }
}
