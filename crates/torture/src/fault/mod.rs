//! A device with injected faults, around a device that does not fail.
//!
//! Commands wait here until they are due; then the device inside executes them, unless their fault
//! says otherwise. Everything is recorded in a [`Log`], which the tester takes.
//!
//! ```text
//!   start --> busy: back to the layer
//!         --> pending for latency + jitter + delay of its fault        any order
//!   abort --> completed unexecuted, executed or later; or ignored      timed out
//!   poll  --> due: the medium executes all, a part or nothing of it    torn, lost
//!         --> the status of the medium, or that of its fault           failed, timed out
//! ```
//!
//! Invariants: every command completes once; a command takes effect at one moment or not at all; the
//! same faults for the same commands have the same outcome.
//!
//! The volatile cache, if there is one, is modelled here: a power loss
//! ([`FaultDevice::lose_power`]) rolls back what was written since the last flush, all or part of it.
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
    ZoneNo, ZrwaLimits,
};
use zonal_device::control::{CommandObserver, FaultHooks};
use zonal_device::rng::Rng;

/// The device while it does not fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultConfig {
    /// Time before the medium executes a command.
    pub latency: Nanos,
    /// Maximum additional time, which depends on the command alone.
    pub jitter: Nanos,
    /// Seed of the jitter and of what a power loss keeps.
    pub seed: u64,
    /// Whether writes are volatile until they are flushed.
    pub volatile_cache: bool,
    /// Length of the last zone if it is shorter than the others. Limits its capacity too.
    pub last_zone: Option<Sector>,
    /// Longest write zeroes in sectors, 0 for none, if shorter than the device's own.
    pub max_write_zeroes: Option<u32>,
    /// Whether the device is rotational, which selects the default zone-write policy.
    pub rotational: bool,
    /// Unit of writes to sequential zones in bytes; 0 for an LBA.
    pub write_granularity: u32,
}

/// How much of a command the medium executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// All.
    All,
    /// The first LBAs of a write; all of other commands.
    Part(u32),
    /// Nothing.
    Nothing,
}

/// A fault of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultSpec {
    /// Additional time; [`u64::MAX`] for a command that never completes by itself.
    pub delay: Nanos,
    /// How much of it is executed.
    pub effect: Effect,
    /// The status that the device reports, whatever was executed; `None` for the real one.
    pub status: Option<Status>,
    /// The device's reaction when the layer aborts it.
    pub on_abort: AbortResponse,
}

/// How the device treats a command that the layer aborts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbortResponse {
    /// Completes it without executing it.
    #[default]
    NotExecuted,
    /// Executes it, as far as its fault allows, and completes it.
    Executed,
    /// Executes and completes it after this time.
    Delayed(Nanos),
    /// Ignores this many aborts; completes it without executing it at the next.
    ResetTimer(u32),
}

/// A device with injected faults.
pub struct FaultDevice {
    inner: Arc<dyn FaultHooks>,
    limits: Limits,
    config: FaultConfig,
    /// Whether the device inside reports when it executes a command; else that counts as the moment
    /// of its completion.
    observes: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    log: Log,
    /// Faults of commands to come; the flag is for writes only.
    faults: VecDeque<(bool, FaultSpec)>,
    /// Number of starts that will be refused.
    busy: u32,
    removed: bool,
    /// Zones at the end of the device that it does not have at present.
    zones_lost: u32,
    /// Number of times that all commands in flight were lost.
    epoch: u32,
    opened: u16,
    cache: Option<Cache>,
}

impl FaultDevice {
    /// A device that behaves as `inner` until faults are injected.
    pub fn new(inner: Arc<dyn FaultHooks>, config: FaultConfig) -> Arc<Self> {
        let mut limits = inner.limits().clone();
        limits.rotational |= config.rotational;
        limits.write_granularity = config.write_granularity;
        // A loss of power is modelled for zones that are written in order.
        limits.zrwa = ZrwaLimits::NONE;
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
        self.state.lock().expect("another thread panicked with the device locked")
    }

    /// The device inside.
    pub fn medium(&self) -> &Arc<dyn FaultHooks> {
        &self.inner
    }

    /// Takes the log and leaves `empty` in its place.
    pub fn swap_log(&self, empty: &mut Log) {
        std::mem::swap(&mut self.state().log, empty);
    }

    /// Injects a fault into the next command, or the next write.
    pub fn inject(&self, writes_only: bool, fault: FaultSpec) {
        self.state().faults.push_back((writes_only, fault));
    }

    /// Refuses the next `starts` starts with busy.
    pub fn refuse_starts(&self, starts: u32) {
        self.state().busy += starts;
    }

    /// Clears faults of commands to come and refusals.
    pub fn clear_faults(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.busy = 0;
    }

    /// Removes the device: commands, also those in flight, and zone reports fail with
    /// [`Status::Offline`]. The device inside finishes what it has begun, but its status is lost.
    pub fn remove(&self) {
        let mut state = self.state();
        state.removed = true;
        state.epoch += 1;
    }

    /// Brings the device back as it was.
    pub fn reattach(&self) {
        self.state().removed = false;
    }

    /// Appends the zones as the device would report them, even while it is removed. Not logged.
    /// Appends nothing on a device without zones.
    pub fn describe_zones(&self, zones: &mut Vec<Zone>) {
        if self.inner.report_zones(ZoneNo(0), usize::MAX, zones).is_ok() {
            for (number, zone) in (0..).zip(zones) {
                self.shorten(number, zone);
            }
        }
    }

    /// Whether the device is removed.
    pub fn is_removed(&self) -> bool {
        self.state().removed
    }

    /// Power loss and return: commands in flight are lost, and a part of the volatile cache, which
    /// `draw` selects. What the device inside is executing counts as done just before.
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

    /// Makes a zone fail, or restores it.
    ///
    /// # Errors
    /// As [`DeviceControl::set_condition`](zonal_device::DeviceControl::set_condition).
    pub fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        self.inner.set_condition(zone, to)?;
        if let Some(cache) = &mut self.state().cache
            && to == ZoneCondition::Empty
        {
            cache.moved(zone, Sector(0));
        }
        Ok(())
    }

    /// Resets a zone without the block layer.
    ///
    /// # Errors
    /// As [`FaultHooks::rewind`].
    pub fn reset_externally(&self, zone: ZoneNo) -> Result<(), Status> {
        self.inner.rewind(zone, Sector(0))?;
        if let Some(cache) = &mut self.state().cache {
            cache.moved(zone, Sector(0));
        }
        Ok(())
    }

    /// Formats the device with its first `zones` zones, at most those that it was made with: all that can
    /// be reset are empty, which is returned of each. Commands in flight go on; those beyond the end
    /// fail.
    pub fn format(&self, zones: u32) -> Vec<ZoneNo> {
        self.state().zones_lost = self.limits.nr_zones.saturating_sub(zones);
        let all = (0..self.limits.nr_zones).map(ZoneNo);
        all.filter(|&zone| self.reset_externally(zone).is_ok()).collect()
    }

    /// Whether the device has lost the zone that a command is for.
    fn is_beyond_end(&self, request: &Request) -> bool {
        self.limits.nr_zones > 0 && request.zone().0 >= self.nr_zones()
    }

    /// Adjusts a zone report to the shorter last zone.
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

    /// Pseudo-random jitter that depends on the command and not on those before it, so that dropping
    /// an operation of a history does not change the others.
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

    fn nr_zones(&self) -> u32 {
        self.limits.nr_zones - self.state().zones_lost
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        let mut state = self.state();
        let from = zones.len();
        let left = self.limits.nr_zones - state.zones_lost;
        let max = max.min(left.saturating_sub(first.0) as usize);
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

/// Applies an executed command to the cache.
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
