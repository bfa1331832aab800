//! A device that fails as it is told to, around one that does not.
//!
//! Takes the commands of the block layer and the wishes of whoever tests it; gives the commands to
//! the device inside when their time has come, or fails them. Keeps true: every command comes back
//! once; a command has its effect at one moment or not at all; the same wishes at the same commands
//! have the same outcome. Everything is written to a [`Log`], which the tester takes.
//!
//! ```text
//!   start --> busy? back to the layer
//!         --> pending until base + jitter + what its fault adds       any order
//!   abort --> given back undone, done or later; or it goes on        too late for the layer
//!   poll  --> due: the medium does all, a part or nothing of it      torn, lost
//!         --> the status of the medium, or that of its fault          denied, timed out
//! ```
//!
//! A volatile cache, if there is one, is accounted for here: what was written since the last flush
//! is rolled back, whole or in part, when the power is lost ([`FaultDevice::lose_power`]).
mod cache;
mod log;
mod queue;

use cache::Cache;
pub use log::{BioPart, Event, Log, Report};
use queue::FaultQueue;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use zonal_blk::{
    Device, HwQueue, Limits, Nanos, Op, Request, Sector, Status, Zone, ZoneCondition, ZoneKind,
    ZoneNo,
};
use zonal_device::control::{CommandObserver, FaultHooks};
use zonal_device::rng::Rng;

/// What the device is to be like while it does not fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultConfig {
    /// Every command takes this long before the medium does it.
    pub latency: Nanos,
    /// Up to this much longer, by what the command is.
    pub jitter: Nanos,
    /// Chooses the jitter and what a power loss spares.
    pub seed: u64,
    /// Writes are in a volatile cache until they are flushed.
    pub volatile_cache: bool,
    /// Length of the last zone, if it is to be shorter than the others. Its capacity is no larger.
    pub last_zone: Option<Sector>,
    /// Longest write zeroes in sectors, 0 for none, if shorter than the device's own.
    pub max_write_zeroes: Option<u32>,
    /// Whether seeks cost time, for the policy that goes by it.
    pub rotational: bool,
}

/// How much of a command the medium does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// All.
    All,
    /// The first LBAs of a write; all of other commands.
    Part(u32),
    /// Nothing.
    Nothing,
}

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultSpec {
    /// How much longer it takes; for ever if that is beyond the end of time.
    pub late: Nanos,
    /// How much of it is done.
    pub effect: Effect,
    /// What the device says of it, whatever was done; `None` for the truth.
    pub status: Option<Status>,
    /// What the device does if it is asked to stop it.
    pub stop: AbortResponse,
}

/// What a device does with a command that has taken too long for the layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbortResponse {
    /// Gives it back undone.
    #[default]
    NotExecuted,
    /// Does it, as far as its fault allows, and gives it back.
    Executed,
    /// Gives it back so much later; it does it then.
    Delayed(Nanos),
    /// Goes on with it so many times; then gives it back undone.
    ResetTimer(u32),
}

/// The device.
pub struct FaultDevice {
    inner: Arc<dyn FaultHooks>,
    limits: Limits,
    config: FaultConfig,
    /// Whether the device inside shows what it does; else it does it when it gives it back.
    observes: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    log: Log,
    /// Waiting for commands: of writes only, or any.
    faults: VecDeque<(bool, FaultSpec)>,
    /// So many starts will be refused.
    busy: u32,
    removed: bool,
    /// Counts losses of all commands in flight.
    epoch: u32,
    opened: u16,
    cache: Option<Cache>,
}

impl FaultDevice {
    /// A device that behaves as `inner`, until it is told otherwise.
    pub fn new(inner: Arc<dyn FaultHooks>, config: FaultConfig) -> Arc<Self> {
        let mut limits = inner.limits().clone();
        limits.rotational |= config.rotational;
        if let Some(longest) = config.max_write_zeroes {
            limits.max_write_zeroes_sectors = limits.max_write_zeroes_sectors.min(longest);
        }
        if let Some(last) = config.last_zone.filter(|_| limits.nr_zones > 0) {
            limits.capacity = limits.zone_start(ZoneNo(limits.nr_zones - 1)) + last;
        }
        let cache = config.volatile_cache.then(|| Cache::new(&limits, &*inner));
        let state = Mutex::new(State { cache, ..State::default() });
        Arc::new_cyclic(|this| {
            let observer: Weak<FaultDevice> = Weak::clone(this);
            let observes = inner.set_observer(observer);
            FaultDevice { inner, limits, config, observes, state }
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a thread died while it held the device")
    }

    /// The device inside.
    pub fn medium(&self) -> &Arc<dyn FaultHooks> {
        &self.inner
    }

    /// Exchanges the log for `empty`, which is to be an empty one.
    pub fn swap_log(&self, empty: &mut Log) {
        std::mem::swap(&mut self.state().log, empty);
    }

    /// The next command that is started, or the next write, has this fault.
    pub fn inject(&self, writes_only: bool, fault: FaultSpec) {
        self.state().faults.push_back((writes_only, fault));
    }

    /// Refuses the next starts.
    pub fn refuse_starts(&self, starts: u32) {
        self.state().busy += starts;
    }

    /// No more faults for commands to come, and no more refusals.
    pub fn clear_faults(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.busy = 0;
    }

    /// The device is gone: commands fail with [`Status::Offline`], those in flight too, and so do
    /// zone reports. What the device inside is at, it goes on with, and nobody hears how it ends.
    pub fn remove(&self) {
        let mut state = self.state();
        state.removed = true;
        state.epoch += 1;
    }

    /// The device is back, as it went.
    pub fn reattach(&self) {
        self.state().removed = false;
    }

    /// Appends the zones to `zones` as the device would report them, also while it is gone; not
    /// logged. None without zones.
    pub fn describe_zones(&self, zones: &mut Vec<Zone>) {
        if self.inner.report_zones(ZoneNo(0), usize::MAX, zones).is_ok() {
            for (number, zone) in (0..).zip(zones) {
                self.shorten(number, zone);
            }
        }
    }

    /// Whether the device is gone.
    pub fn is_removed(&self) -> bool {
        self.state().removed
    }

    /// The power fails for a moment: commands in flight are lost, and of what is in the volatile
    /// cache whatever `draw` chooses. What the device inside is at counts as done just before.
    pub fn lose_power(&self, draw: u64) {
        self.inner.drain();
        let mut state = self.state();
        state.epoch += 1;
        self.inner.close_all();
        if let Some(cache) = &mut state.cache {
            let mut rng = Rng::new(self.config.seed ^ draw);
            cache.lose(&*self.inner, &mut rng);
        }
    }

    /// Makes a zone fail, or mends it.
    ///
    /// # Errors
    /// As [`FaultHooks::set_condition`].
    pub fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        self.inner.set_condition(zone, to)?;
        if let Some(cache) = &mut self.state().cache
            && to == ZoneCondition::Empty
        {
            cache.moved(zone, Sector(0));
        }
        Ok(())
    }

    /// Somebody resets a zone past the block layer.
    ///
    /// # Errors
    /// What the device says.
    pub fn reset_past_layer(&self, zone: ZoneNo) -> Result<(), Status> {
        self.inner.rewind(zone, Sector(0))?;
        if let Some(cache) = &mut self.state().cache {
            cache.moved(zone, Sector(0));
        }
        Ok(())
    }

    /// The zone as the device with its shorter last zone reports it.
    fn shorten(&self, number: u32, zone: &mut Zone) {
        let Some(last) = self.config.last_zone.filter(|_| number + 1 == self.limits.nr_zones)
        else {
            return;
        };
        zone.len = last;
        zone.capacity = zone.capacity.min(last);
        let has_wp = zone.kind == ZoneKind::SequentialRequired && zone.cond.is_active();
        if has_wp && zone.wp >= zone.writable_end() {
            zone.cond = ZoneCondition::Full;
        }
        zone.wp = zone.wp.min(zone.writable_end());
        if zone.cond == ZoneCondition::Full || zone.kind == ZoneKind::Conventional {
            zone.wp = zone.start + zone.len;
        }
    }

    /// A pseudo-random number below `bound` that depends on what the command is and not on what
    /// came before it, so that dropping one operation of a history leaves the others alone.
    fn jitter_of(&self, request: &Request) -> u64 {
        let bound = self.config.jitter.0;
        if bound == 0 {
            return 0;
        }
        let mut x = self.config.seed ^ request.sector().0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x ^= (request.op() as u64) << 56 | u64::from(request.nr_sectors()) << 40;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % bound
    }
}

impl State {
    fn take_fault(&mut self, request: &Request) -> Option<FaultSpec> {
        if self.faults.is_empty() {
            return None;
        }
        let is_write = request.op().is_write();
        let at = self.faults.iter().position(|&(writes_only, _)| is_write || !writes_only)?;
        self.faults.remove(at).map(|(_, fault)| fault)
    }
}

impl CommandObserver for FaultDevice {
    fn before(&self, request: &Request) {
        if let Some(cache) = &mut self.state().cache {
            cache.before(&*self.inner, request);
        }
    }

    fn after(&self, queue: Option<u16>, request: &Request, status: Status) {
        let mut state = self.state();
        let nr_sectors = if status == Status::Ok { request.nr_sectors() } else { 0 };
        let sector = request.sector();
        if let Some(cache) = &mut state.cache
            && status == Status::Ok
        {
            note_effect(cache, request, nr_sectors, sector);
        }
        let queue = queue.unwrap_or(state.opened.saturating_sub(1));
        let tag = request.tag();
        state.log.events.push(Event::Executed { queue, tag, sector, nr_sectors, status });
    }
}

impl Device for FaultDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        let mut state = self.state();
        let from = zones.len();
        let result = if state.removed {
            Err(Status::Offline)
        } else {
            self.inner.report_zones(first, max, zones)
        };
        for (number, zone) in (first.0..).zip(&mut zones[from..]) {
            self.shorten(number, zone);
        }
        let zones = result.map(|()| zones[from..].to_vec());
        state.log.reports.push_back(Report { first, zones });
        result
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let mut state = self.state();
        let number = state.opened;
        state.opened += 1;
        drop(state);
        let inner: Arc<dyn FaultHooks> = Arc::clone(&self.inner);
        Box::new(FaultQueue::new(self, inner.open_queue(), number))
    }
}

/// What a command leaves behind in a cache and on the medium.
fn note_effect(cache: &mut Cache, request: &Request, nr_sectors: u32, landed: Sector) {
    match request.op() {
        op if op.is_write() => cache.wrote(request, landed, nr_sectors),
        Op::ZoneReset => cache.moved(request.zone(), Sector(0)),
        Op::ZoneFinish => cache.finished(request.zone()),
        Op::ZoneResetAll => cache.reset_all(),
        Op::Flush => cache.flush(),
        _ => {}
    }
}
