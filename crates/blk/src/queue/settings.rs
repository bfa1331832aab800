//! Settings of a queue that can be changed while nothing is inside: the scheduler, and limits below the
//! device's.
//!
//! A channel has bios inside under one configuration. It picks up a new one with the first bio that
//! it admits, or the first completion that it finds on a shared hardware queue, after the change
//! ([`Gate::changes`](crate::gate::Gate::changes)). Every change rebuilds the scheduler, so a
//! channel that has not seen it cannot dispatch the others' requests under the old configuration.
use super::{Queue, QueueOptions, SwitchError};
use crate::device::{Device, report_all};
use crate::limits::Limits;
use crate::plug::ZoneWrite;
use crate::probe::{mark, mutant};
use crate::sched::{ClassCounters, MergeLimit, SchedHandle, SchedInstance, Scheduler, ZoneLocks};
use crate::split::FastPath;
use crate::sync::{MutexGuard, Ordering};
use crate::units::Nanos;

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) scheduler: Scheduler,
    /// `None` for [`Scheduler::None`].
    sched: Option<SchedInstance>,
    /// Those that the device has left.
    pub(super) nr_zones: u32,
    max_sectors: u32,
    nr_requests: u16,
    io_timeout: Nanos,
}

impl Settings {
    pub(super) fn new(
        limits: &Limits,
        options: &QueueOptions,
        merge: MergeLimit,
        zones: Option<ZoneLocks>,
    ) -> Self {
        Settings {
            scheduler: options.scheduler,
            sched: SchedInstance::new(options.scheduler, limits, merge, zones),
            nr_zones: limits.nr_zones,
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
    /// Writes to sequential zones pass through plugs.
    pub(crate) plugs: bool,
    /// `None` without a scheduler.
    pub(crate) sched: Option<SchedHandle>,
    pub(crate) nr_requests: u16,
    pub(crate) io_timeout: Nanos,
}

impl Queue {
    pub(super) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().expect("settings lock")
    }

    /// One thread changes the queue at a time: a change reads all settings, may ask the device for its
    /// zones, and then stores the settings.
    pub(super) fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().expect("lock of changes")
    }

    /// The limits under these settings.
    fn limits_with(&self, settings: &Settings) -> Limits {
        let max_sectors = settings.max_sectors;
        Limits { max_sectors, ..self.limits.with_zones(settings.nr_zones) }
    }

    /// The configuration for a channel from now on.
    pub(crate) fn channel_config(&self, channel: u32) -> ChannelConfig {
        let settings = self.settings();
        let limits = self.limits_with(&settings);
        ChannelConfig {
            changes: self.gate.changes(),
            fast_path: FastPath::new(&limits),
            limits,
            merge: self.merge_limit(settings.max_sectors),
            plugs: self.plugs_in_use().is_some(),
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

    /// Counts of the requests that went through the scheduler since it was set, by priority class, the
    /// most urgent first; `None` without one.
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
        let _alone = self.lock_changes();
        self.rebuild_scheduler(self.zone_write(), |settings| {
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
        let unit = self.limits.zone_write_sectors();
        let in_range = (unit..=self.limits.max_sectors).contains(&max_sectors);
        if !in_range || !max_sectors.is_multiple_of(unit) {
            return Err(SwitchError::Unsuitable(
                "the longest command is a multiple of the write granularity, up to the device's longest",
            ));
        }
        let _alone = self.lock_changes();
        self.rebuild_scheduler(self.zone_write(), |settings| {
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

    /// Applies a change of the settings or of the zone-write policy, and rebuilds the scheduler. The
    /// caller has [`Queue::lock_changes`].
    pub(super) fn rebuild_scheduler(
        &self,
        policy: ZoneWrite,
        change: impl FnOnce(&mut Settings),
    ) -> Result<(), SwitchError> {
        self.require_quiescent()?;
        let mut next = self.settings().clone();
        change(&mut next);
        let limits = self.limits_with(&next);
        let zones = zones_to_lock(&*self.device, &limits, policy, &next.scheduler)?;
        if !mutant!(SchedulerStays) {
            let merge = self.merge_limit(next.max_sectors);
            next.sched = SchedInstance::new(next.scheduler, &limits, merge, zones);
        }
        *self.settings() = next;
        self.zone_write.store(policy as u8, Ordering::Relaxed);
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
        let _alone = self.lock_changes();
        self.rebuild_scheduler(self.zone_write(), |settings| settings.nr_requests = nr_requests)
    }

    /// Changes how long requests may be with the device, while the queue is frozen and quiescent.
    ///
    /// # Errors
    /// [`SwitchError`] says what is missing; the timeout is then unchanged.
    pub fn set_io_timeout(&self, io_timeout: Nanos) -> Result<(), SwitchError> {
        let _alone = self.lock_changes();
        self.rebuild_scheduler(self.zone_write(), |settings| settings.io_timeout = io_timeout)
    }
}

/// The zones of which mq-deadline keeps all writes but one, if that is the policy.
pub(super) fn zones_to_lock(
    device: &dyn Device,
    limits: &Limits,
    policy: ZoneWrite,
    scheduler: &Scheduler,
) -> Result<Option<ZoneLocks>, SwitchError> {
    if policy != ZoneWrite::Lock || limits.nr_zones == 0 {
        return Ok(None);
    }
    if !scheduler.locks_zones() {
        return Err(SwitchError::Unsuitable("zone write locking needs the scheduler mq-deadline"));
    }
    let zones = report_all(device, limits.nr_zones).map_err(SwitchError::Report)?;
    Ok(Some(ZoneLocks::new(limits, &zones)))
}
