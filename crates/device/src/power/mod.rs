//! Loss of power on purpose: a device whose write cache is volatile, and which can be cut off from its
//! power while it is in use.
//!
//! ```text
//!  On --cut--> Failing   commands in flight end inside; nothing is answered, nothing new begins
//!                 |      the last one has ended: the cache loses what the plan says
//!                 v
//!               Off      until `restore`, or not at all if the plan says so
//!                 |
//!                 v
//!               On       what was held is answered: the way to the device failed
//! ```
//!
//! [`crate::power_loss`] has the rules of what may be lost. Sequential zones lose a part of their tails,
//! whose length is known without a copy of the data; in conventional zones and on devices without
//! zones, what a write replaces is read before and kept for as long as the write is not durable.
mod cache;
mod plan;

use crate::control::{DeviceControl, MediumAccess};
use crate::power_loss::FlushPoint;
use cache::Cache;
pub use plan::{CutPlan, CutReport, Keep, When};
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::{
    Abort, BioFlags, Device, HwQueue, Limits, Nanos, Op, Request, Sector, Status, Tag, Wake, Zone,
    ZoneCondition, ZoneExtensions, ZoneNo, ZrwaLimits,
};

/// How often a queue looks whether the power is back, while it holds commands.
const LOOK_AGAIN: Nanos = Nanos(1_000_000);

/// A device with a volatile write cache.
pub struct PowerDevice {
    inner: Arc<dyn DeviceControl>,
    limits: Limits,
    state: Mutex<State>,
}

struct State {
    power: Power,
    cache: Cache,
    in_flight: BTreeMap<u64, Flying>,
    commands: u64,
    armed: Option<(CutPlan, Option<Sender<CutReport>>)>,
    /// Writes that have completed since the plan was made.
    writes: u64,
    on_loss: Vec<Box<dyn Fn() + Send>>,
}

enum Power {
    On,
    /// The loss happens when nothing is in flight. `torn`: the write in whose middle the power fails.
    Failing {
        plan: CutPlan,
        report: Option<Sender<CutReport>>,
        torn: Option<u64>,
        in_flight: usize,
    },
    Off,
}

/// A command that the device inside has.
struct Flying {
    op: Op,
    flags: BioFlags,
    zone: ZoneNo,
    nr_sectors: u32,
    point: FlushPoint,
    /// The data that a write outside sequential zones replaces.
    replaced: Option<Vec<u8>>,
}

/// Why the power cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PowerError {
    /// It is off, or about to fail.
    #[error("the power has failed already, and is not back yet")]
    AlreadyOff,
}

impl PowerDevice {
    /// A device around `inner`, whose cache holds up to `cache_sectors`: what was written before that
    /// much is durable. It has no random write areas, since zones are taken back to a prefix. `None` if
    /// nothing can be taken back on the medium of `inner`.
    pub fn new(inner: Arc<dyn DeviceControl>, cache_sectors: u64) -> Option<Self> {
        inner.medium()?;
        let mut zones = Vec::new();
        let limits = Limits { zrwa: ZrwaLimits::NONE, ..inner.limits().clone() };
        if limits.nr_zones > 0 {
            inner.report_zones(ZoneNo(0), limits.nr_zones as usize, &mut zones).ok()?;
        }
        let cache = Cache::new(&limits, &zones, cache_sectors);
        let state = State {
            power: Power::On,
            cache,
            in_flight: BTreeMap::new(),
            commands: 0,
            armed: None,
            writes: 0,
            on_loss: Vec::new(),
        };
        Some(PowerDevice { inner, limits, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with the state locked")
    }

    fn medium(&self) -> &dyn MediumAccess {
        self.inner.medium().expect("it had one when the device was made")
    }

    /// Cuts the power now or later, as the plan says, instead of an earlier plan. `report` gets what
    /// was lost. With `stay_off` the power is off until [`PowerDevice::restore`].
    ///
    /// # Errors
    /// The power is off.
    pub fn cut(&self, plan: CutPlan, report: Option<Sender<CutReport>>) -> Result<(), PowerError> {
        let mut state = self.state();
        if !matches!(state.power, Power::On) {
            return Err(PowerError::AlreadyOff);
        }
        state.writes = 0;
        if plan.when == When::Now {
            state.armed = None;
            state.fail(plan, report, None);
            state.lose_when_idle(self.medium());
        } else {
            state.armed = Some((plan, report));
        }
        Ok(())
    }

    /// Has `observer` called at each loss of power, when what was not durable is lost. It must not call
    /// the device.
    pub fn on_loss(&self, observer: impl Fn() + Send + 'static) {
        self.state().on_loss.push(Box::new(observer));
    }

    /// Drops a plan whose moment has not come. False if there is none.
    pub fn disarm(&self) -> bool {
        self.state().armed.take().is_some()
    }

    /// A mark: the moment of a plan may have come.
    pub fn mark(&self, text: &str) {
        let mut state = self.state();
        if state.is_armed(|when| matches!(when, When::AtMark(mark) if mark == text)) {
            state.trigger(None);
            state.lose_when_idle(self.medium());
        }
    }

    /// The power is back, after a cut that stays off.
    pub fn restore(&self) {
        let mut state = self.state();
        if matches!(state.power, Power::Off) {
            state.power = Power::On;
        }
    }

    /// Copies stored data, whatever the state of their zone. For while the power is off.
    ///
    /// # Errors
    /// The error of the medium.
    pub fn peek(&self, sector: Sector, to: &mut [u8]) -> Result<(), Status> {
        self.medium().peek(sector, to)
    }

    /// The zones, also while the power is off; none of a device without zones.
    ///
    /// # Errors
    /// The error of the device inside.
    pub fn zones_inside(&self, zones: &mut Vec<Zone>) -> Result<(), Status> {
        match self.inner.limits().nr_zones {
            0 => Ok(()),
            count => self.inner.report_zones(ZoneNo(0), count as usize, zones),
        }
    }
}

impl State {
    fn is_armed(&self, at: impl FnOnce(&When) -> bool) -> bool {
        matches!(self.power, Power::On)
            && self.armed.as_ref().is_some_and(|(plan, _)| at(&plan.when))
    }

    fn trigger(&mut self, torn: Option<u64>) {
        if let Some((plan, report)) = self.armed.take() {
            self.fail(plan, report, torn);
        }
    }

    fn fail(&mut self, plan: CutPlan, report: Option<Sender<CutReport>>, torn: Option<u64>) {
        let in_flight = self.in_flight.len();
        self.power = Power::Failing { plan, report, torn, in_flight };
    }

    /// A command goes to the device inside. Returns its number.
    fn started(&mut self, medium: &dyn MediumAccess, request: &Request, unit: u32) -> u64 {
        let id = self.commands;
        self.commands += 1;
        let (op, zone, nr_sectors) = (request.op(), request.zone(), request.nr_sectors());
        let writes = op.is_write() || op == Op::Discard;
        let mut replaced = None;
        if writes && !self.cache.is_sequential(zone) {
            let mut old = vec![0; nr_sectors as usize * 512];
            replaced = medium.peek(request.sector(), &mut old).ok().map(|()| old);
        }
        let (flags, point) = (request.flags(), self.cache.flush_point());
        self.in_flight.insert(id, Flying { op, flags, zone, nr_sectors, point, replaced });
        if op.is_write() && nr_sectors > unit && self.is_armed(|when| *when == When::InWrite) {
            self.trigger(Some(id));
        }
        id
    }

    /// A command has come back from the device inside.
    fn ended(&mut self, id: u64, request: &Request) {
        let Some(command) = self.in_flight.remove(&id) else { return };
        if request.status() != Status::Ok {
            return;
        }
        // What was not answered is durable only by chance.
        let answered = matches!(self.power, Power::On);
        let flushes = command.op == Op::Flush || command.flags.contains(BioFlags::PREFLUSH);
        if flushes && answered {
            self.cache.flushed(command.point);
        }
        match command.op {
            op if op.is_write() || op == Op::Discard => {
                let fua = command.flags.contains(BioFlags::FUA) && answered;
                let part = (command.zone, request.sector(), command.nr_sectors);
                let number = self.cache.wrote(part, fua, command.replaced);
                if let Power::Failing { torn, plan, .. } = &mut self.power
                    && *torn == Some(id)
                {
                    plan.torn = Some((number, command.zone, request.sector(), command.nr_sectors));
                }
                self.writes += u64::from(answered);
                let writes = self.writes;
                if self.is_armed(|when| matches!(when, When::After(count) if writes >= *count)) {
                    self.trigger(None);
                }
            }
            Op::ZoneReset => self.cache.moved(command.zone, Sector(0)),
            Op::ZoneFinish => self.cache.finished(command.zone),
            Op::ZoneResetAll => self.cache.reset_all(),
            _ => {}
        }
    }

    fn lose_when_idle(&mut self, medium: &dyn MediumAccess) {
        if !self.in_flight.is_empty() {
            return;
        }
        let Power::Failing { plan, report, in_flight, .. } = &mut self.power else { return };
        let mut lost = self.cache.lose(medium, plan);
        lost.in_flight = *in_flight;
        self.on_loss.iter().for_each(|observer| observer());
        if let Some(report) = report.take() {
            // The receiver may be gone.
            let _gone = report.send(lost);
        }
        self.power = if plan.stay_off { Power::Off } else { Power::On };
    }
}

impl Device for PowerDevice {
    fn inner(&self) -> Option<&dyn Device> {
        Some(&*self.inner)
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        match self.state().power {
            Power::On => self.inner.report_zones(first, max, zones),
            _ => Err(Status::Offline),
        }
    }

    /// None without power: what a report would say, it does not know.
    fn zones_as_new(&self, first: ZoneNo, max: u32) -> u32 {
        match self.state().power {
            Power::On => self.inner.zones_as_new(first, max),
            _ => 0,
        }
    }

    /// None: a zone that is taken back would keep an extension that may not have been durable.
    fn zone_extensions(&self) -> Option<&dyn ZoneExtensions> {
        None
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let inner = (Arc::clone(&self.inner) as Arc<dyn Device>).open_queue();
        let unit = self.limits().zone_write_sectors();
        let (ids, held) = (Vec::new(), Vec::new());
        Box::new(PowerQueue { device: self, inner, unit, ids, held, seen: Nanos(0) })
    }
}

impl DeviceControl for PowerDevice {
    fn inner_control(&self) -> Option<&dyn DeviceControl> {
        Some(&*self.inner)
    }

    fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        self.inner.set_condition(zone, to)?;
        if to == ZoneCondition::Empty {
            self.state().cache.moved(zone, Sector(0));
        }
        Ok(())
    }

    /// Not supported: the cache could not say what of the commands in flight came before.
    fn format_without_head(&self, _head: u32) -> Result<u32, Status> {
        Err(Status::NotSupported)
    }
}

struct PowerQueue {
    device: Arc<PowerDevice>,
    inner: Box<dyn HwQueue>,
    /// Sectors that are written as a whole or not at all.
    unit: u32,
    /// Numbers of the commands inside, by tag.
    ids: Vec<Option<u64>>,
    /// Commands that are answered when the power is back.
    held: Vec<Box<Request>>,
    /// The time of the last call.
    seen: Nanos,
}

impl PowerQueue {
    /// Takes note of commands that came back, and holds them unless the power is on.
    fn returned(&mut self, from: usize, done: &mut Vec<Box<Request>>) {
        if done.len() > from {
            let mut state = self.device.state();
            for request in done.drain(from..).collect::<Vec<_>>() {
                let id = self.ids.get_mut(usize::from(request.tag().0)).and_then(Option::take);
                let was_on = matches!(state.power, Power::On);
                if let Some(id) = id {
                    state.ended(id, &request);
                }
                if was_on { done.push(request) } else { self.held.push(request) }
            }
            state.lose_when_idle(self.device.medium());
        }
        if !self.held.is_empty() && matches!(self.device.state().power, Power::On) {
            for mut request in self.held.drain(..) {
                request.set_status(Status::Transport);
                done.push(request);
            }
        }
    }
}

impl HwQueue for PowerQueue {
    fn inner(&self) -> Option<&dyn HwQueue> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn HwQueue> {
        Some(&mut *self.inner)
    }

    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        self.seen = now;
        let tag = usize::from(request.tag().0);
        if self.ids.len() <= tag {
            self.ids.resize(tag + 1, None);
        }
        let mut state = self.device.state();
        if !matches!(state.power, Power::On) {
            drop(state);
            self.held.push(request);
            return Ok(());
        }
        self.ids[tag] = Some(state.started(self.device.medium(), &request, self.unit));
        drop(state);
        self.inner.start(now, request).inspect_err(|_busy| {
            let mut state = self.device.state();
            if let Some(id) = self.ids[tag].take() {
                state.in_flight.remove(&id);
            }
            state.lose_when_idle(self.device.medium());
        })
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        self.seen = now;
        let from = done.len();
        self.inner.poll(now, done);
        self.returned(from, done);
    }

    fn next_event(&self) -> Wake {
        self.own_event().min(self.inner.next_event())
    }

    fn own_event(&self) -> Wake {
        if self.held.is_empty() {
            Wake::Idle
        } else {
            Wake::At(self.seen.saturating_add(LOOK_AGAIN))
        }
    }

    fn abort(&mut self, now: Nanos, tag: Tag, done: &mut Vec<Box<Request>>) -> Abort {
        self.seen = now;
        if let Some(index) = self.held.iter().position(|request| request.tag() == tag) {
            done.push(self.held.swap_remove(index));
            return Abort::Accepted;
        }
        let from = done.len();
        let abort = self.inner.abort(now, tag, done);
        self.returned(from, done);
        abort
    }
}

#[cfg(test)]
mod tests;
