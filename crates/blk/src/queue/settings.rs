//! What can be changed about a queue while nothing is inside: the scheduler, and limits below the
//! device's.
//!
//! A channel has bios inside under one configuration. It picks up a new one with the first bio that
//! it admits, or the first completion that it finds on a shared hardware queue, after the change
//! ([`Gate::changes`](crate::gate::Gate::changes)). Every change rebuilds the scheduler, so a
//! channel that has not seen it cannot dispatch the others' requests under the old configuration.
use super::{Queue, QueueOptions, SwitchError};
use crate::limits::Limits;
use crate::plug::ZoneWrite;
use crate::probe::{mark, mutant};
use crate::sched::{ClassCounters, MergeLimit, SchedHandle, SchedInstance, Scheduler, ZoneLocks};
use crate::split::FastPath;
use crate::sync::MutexGuard;
use crate::units::{Nanos, ZoneNo};

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) scheduler: Scheduler,
    /// `None` for [`Scheduler::None`].
    sched: Option<SchedInstance>,
    max_sectors: u32,
    nr_requests: u16,
    io_timeout: Nanos,
}

impl Settings {
    pub(super) fn new(limits: &Limits, options: &QueueOptions) -> Self {
        Settings {
            scheduler: options.scheduler,
            sched: SchedInstance::new(options.scheduler, limits, options.merge),
            max_sectors: limits.max_sectors,
            nr_requests: limits.queue_depth,
            io_timeout: options.io_timeout,
        }
    }
}

/// The configuration of a channel.
pub(crate) struct ChannelConfig {
    /// [`Gate::changes`](crate::gate::Gate::changes) at the time.
    pub(crate) changes: u32,
    pub(crate) limits: Limits,
    pub(crate) fast_path: FastPath,
    pub(crate) merge: MergeLimit,
    /// `None` without a scheduler.
    pub(crate) sched: Option<SchedHandle>,
    pub(crate) nr_requests: u16,
    pub(crate) io_timeout: Nanos,
}

impl Queue {
    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().expect("settings lock")
    }

    /// The configuration for a channel from now on.
    pub(crate) fn channel_config(&self, channel: u32) -> ChannelConfig {
        let settings = self.settings();
        let max_sectors = settings.max_sectors;
        let limits = Limits { max_sectors, ..self.limits.clone() };
        ChannelConfig {
            changes: self.gate.changes(),
            fast_path: FastPath::new(&limits),
            limits,
            merge: self.merge_limit(max_sectors),
            sched: settings.sched.as_ref().map(|sched| sched.handle(channel)),
            nr_requests: settings.nr_requests,
            io_timeout: settings.io_timeout,
        }
    }

    fn merge_limit(&self, max_sectors: u32) -> MergeLimit {
        MergeLimit { max_sectors: if self.merge { max_sectors } else { 0 } }
    }

    pub(super) fn require_quiescent(&self) -> Result<(), SwitchError> {
        if self.gate.is_frozen() && self.is_quiescent() {
            Ok(())
        } else {
            Err(SwitchError::NotQuiescent)
        }
    }

    /// The scheduler with its attributes.
    pub fn scheduler(&self) -> Scheduler {
        self.settings().scheduler
    }

    /// What went through the scheduler since the queue has it, by priority class, the most urgent
    /// first; `None` without one.
    pub fn sched_counters(&self) -> Option<[ClassCounters; 3]> {
        self.settings().sched.as_ref().map(SchedInstance::counters)
    }

    /// The longest command in sectors (the kernel's `max_sectors_kb`).
    pub fn max_sectors(&self) -> u32 {
        self.settings().max_sectors
    }

    /// Requests that may be in flight on a hardware queue (the kernel's `nr_requests`).
    pub fn nr_requests(&self) -> u16 {
        self.settings().nr_requests
    }

    /// How long a request may be in flight before it is aborted.
    pub fn io_timeout(&self) -> Nanos {
        self.settings().io_timeout
    }

    /// Changes the scheduler of a frozen, quiescent queue, or its attributes.
    ///
    /// # Errors
    /// [`SwitchError`] says what is missing; the scheduler is then unchanged.
    pub fn set_scheduler(&self, scheduler: Scheduler) -> Result<(), SwitchError> {
        self.rebuild_scheduler(|settings| {
            mark!(SchedulerChanged if settings.scheduler != scheduler);
            settings.scheduler = scheduler;
        })
    }

    /// Lowers the longest command of a frozen, quiescent queue, or raises it again, up to what the
    /// device takes.
    ///
    /// # Errors
    /// [`SwitchError`] says what is wrong; the limit is then unchanged.
    pub fn set_max_sectors(&self, max_sectors: u32) -> Result<(), SwitchError> {
        let lba = self.limits.lba_sectors();
        let in_range = (lba..=self.limits.max_sectors).contains(&max_sectors);
        if !in_range || !max_sectors.is_multiple_of(lba) {
            return Err(SwitchError::Unsuitable(
                "the longest command is a number of blocks up to the device's longest",
            ));
        }
        self.rebuild_scheduler(|settings| {
            mark!(LimitsChanged if settings.max_sectors != max_sectors);
            settings.max_sectors = max_sectors;
        })?;
        if let Some(plugs) = &self.plugs
            && !mutant!(MergeLimitKept)
        {
            plugs.set_merge_max_sectors(self.merge_limit(max_sectors).max_sectors);
        }
        Ok(())
    }

    /// Applies a change and rebuilds the scheduler.
    fn rebuild_scheduler(&self, change: impl FnOnce(&mut Settings)) -> Result<(), SwitchError> {
        self.require_quiescent()?;
        let mut next = self.settings().clone();
        change(&mut next);
        let zones = self.zones_to_lock(self.zone_write(), &next.scheduler)?;
        let limits = Limits { max_sectors: next.max_sectors, ..self.limits.clone() };
        if !mutant!(SchedulerStays) {
            next.sched = SchedInstance::new(next.scheduler, &limits, self.merge);
        }
        if let Some(sched) = &next.sched {
            sched.set_zone_locks(zones);
        }
        *self.settings() = next;
        self.gate.changed();
        Ok(())
    }

    /// Lowers how many requests may be in flight on each hardware queue of a frozen, quiescent
    /// queue, or raises it again, up to what the device takes.
    ///
    /// # Errors
    /// [`SwitchError`] says what is wrong; the limit is then unchanged.
    pub fn set_nr_requests(&self, nr_requests: u16) -> Result<(), SwitchError> {
        if !(1..=self.limits.queue_depth).contains(&nr_requests) {
            return Err(SwitchError::Unsuitable(
                "requests in flight are 1 up to the device's most",
            ));
        }
        self.rebuild_scheduler(|settings| settings.nr_requests = nr_requests)
    }

    /// Changes how long requests may be with the device, while the queue is frozen and quiescent.
    ///
    /// # Errors
    /// [`SwitchError`] says what is missing; the timeout is then unchanged.
    pub fn set_io_timeout(&self, io_timeout: Nanos) -> Result<(), SwitchError> {
        self.rebuild_scheduler(|settings| settings.io_timeout = io_timeout)
    }

    /// Has the scheduler hold back writes by zone if that is the policy.
    pub(super) fn lock_zones(&self, policy: ZoneWrite) -> Result<(), SwitchError> {
        let scheduler = self.scheduler();
        let zones = self.zones_to_lock(policy, &scheduler)?;
        if let Some(sched) = &self.settings().sched {
            sched.set_zone_locks(zones);
        }
        Ok(())
    }

    fn zones_to_lock(
        &self,
        policy: ZoneWrite,
        scheduler: &Scheduler,
    ) -> Result<Option<ZoneLocks>, SwitchError> {
        if policy != ZoneWrite::Lock || self.limits.nr_zones == 0 {
            return Ok(None);
        }
        if !scheduler.locks_zones() {
            return Err(SwitchError::Unsuitable(
                "zone write locking needs the scheduler mq-deadline",
            ));
        }
        let mut zones = Vec::new();
        self.report_zones(ZoneNo(0), self.limits.nr_zones as usize, &mut zones)
            .map_err(SwitchError::Report)?;
        Ok(Some(ZoneLocks::new(&self.limits, &zones)))
    }
}
