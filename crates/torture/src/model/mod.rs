//! The reference model: what the layer has to do, without its locks, slots and caches.
//!
//! The model is fed with what is submitted and what happens at the device, and returns the first
//! violation. It never looks at the layer to decide what is right. It models the plugs (`plug`), the
//! commands that the device may receive (`device`), the content of the medium (`data`) and each bio
//! (`bios`).
mod admit;
mod bios;
mod data;
mod device;
mod plug;

use crate::config::{Config, Policy};
use crate::fault::{Event, Log, Report};
pub(super) use bios::Spec;
use bios::{Bios, Part};
use data::Data;
pub(super) use data::{fill, tear};
use device::DeviceModel;
use plug::Plugs;
use std::collections::VecDeque;
use zonal_blk::{BioFlags, Completion, Limits, Op, Sector, Status, Zone, ZoneNo};

/// A violation, as a message.
pub(super) type Violation = String;

pub(super) type CheckResult = Result<(), Violation>;

/// Returns a violation unless a condition holds.
macro_rules! require {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}
pub(super) use require;

/// Whether a write with these flags may be merged with one that has the same.
fn mergeable(flags: BioFlags) -> bool {
    ![BioFlags::NOMERGE, BioFlags::FUA, BioFlags::PREFLUSH].iter().any(|flag| flags.contains(*flag))
}

pub(super) struct Model {
    pub(super) limits: Limits,
    pub(super) policy: Policy,
    /// Maximum number of commands in flight per hardware queue.
    pub(super) nr_requests: u32,
    /// Nanoseconds after which a command may be aborted.
    pub(super) io_timeout: u64,
    merge: bool,
    lazy_recovery: bool,
    bios: Bios,
    channels: Vec<Channel>,
    frozen: u32,
    plugs: Plugs,
    device: DeviceModel,
    data: Data,
    /// Zone reports that the layer got and the model has not consumed.
    reports: VecDeque<Report>,
    pub(super) ios: u64,
}

#[derive(Default)]
struct Channel {
    /// Bios that were submitted while the queue was frozen.
    held: VecDeque<u32>,
    /// Bios that the channel's next poll will complete.
    ready: u32,
    outstanding: u32,
}

impl Model {
    /// The model of a queue that was just attached to a device with these zones. `limits` are those
    /// of the layer.
    pub(super) fn new(config: &Config, limits: &Limits, zones: &[Zone]) -> Self {
        Model {
            policy: config.policy,
            nr_requests: limits.queue_depth.into(),
            io_timeout: config.io_timeout,
            merge: config.merge,
            lazy_recovery: config.lazy_recovery,
            bios: Bios::default(),
            channels: Vec::new(),
            frozen: 0,
            plugs: Plugs::new(zones),
            device: DeviceModel::new(limits, zones),
            data: Data::new(config, limits),
            reports: VecDeque::new(),
            ios: 0,
            limits: limits.clone(),
        }
    }

    /// The queue was replaced by one that is attached to the device as it is now. The content of
    /// the device stays.
    pub(super) fn reattach(&mut self, config: &Config, limits: &Limits, zones: &[Zone]) {
        self.policy = config.policy;
        self.nr_requests = limits.queue_depth.into();
        self.io_timeout = config.io_timeout;
        self.limits = limits.clone();
        self.frozen = 0;
        self.plugs = Plugs::new(zones);
        self.plugs.truncate(limits.nr_zones as usize);
        self.device.clear_queues();
    }

    /// Opens a channel and returns its number.
    pub(super) fn open_channel(&mut self) -> usize {
        self.channels.push(Channel::default());
        self.channels.len() - 1
    }

    pub(super) fn plugs_in_use(&self) -> bool {
        self.limits.nr_zones > 0 && matches!(self.policy, Policy::Plug | Policy::Qd1)
    }

    /// Bios of a channel that have not completed.
    pub(super) fn outstanding(&self, channel: usize) -> u32 {
        self.channels[channel].outstanding
    }

    pub(super) fn all_outstanding(&self) -> u32 {
        self.channels.iter().map(|channel| channel.outstanding).sum()
    }

    pub(super) fn live_plugs(&self) -> u32 {
        if self.plugs_in_use() { self.plugs.alive } else { 0 }
    }

    /// The write pointer of a zone as the layer knows it, else as the device has it.
    pub(super) fn write_pointer(&self, zone: u16) -> u64 {
        self.plugs
            .write_pointer(zone.into())
            .unwrap_or_else(|| self.device.write_pointer(zone.into()))
    }

    pub(super) fn is_sequential(&self, zone: ZoneNo) -> bool {
        self.device.is_sequential(zone.index())
    }

    /// The number of the next bio.
    pub(super) fn next_id(&self) -> u64 {
        self.bios.next_id()
    }

    pub(super) fn freeze(&mut self) {
        self.frozen += 1;
    }

    pub(super) fn thaw(&mut self) {
        self.frozen -= 1;
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen > 0
    }

    /// Processes the events at the device during a call.
    pub(super) fn events(&mut self, log: &mut Log) -> CheckResult {
        let mut parts = log.parts.drain(..);
        for event in log.events.drain(..) {
            match event {
                Event::Refused => {}
                Event::Started { queue, tag, op, flags, zone, sector, nr_sectors, bios, at } => {
                    let command = device::Command {
                        op,
                        flags,
                        zone: zone.index(),
                        sector,
                        nr_sectors,
                        parts: parts.by_ref().take(bios as usize).map(Part::from).collect(),
                        plugged: false,
                        executed: false,
                        since: at.0,
                        aborted: false,
                    };
                    self.started(queue, tag, command)?;
                }
                Event::Executed { queue, tag, sector, nr_sectors, status } => {
                    self.executed(queue, tag, (sector, nr_sectors), status)?;
                }
                Event::Aborted { queue, tag, stops, at } => {
                    self.aborted(queue, tag, stops, at.0)?;
                }
                Event::Done { queue, tag, status, faulty } => {
                    self.done(queue, tag, status, faulty)?;
                }
            }
        }
        Ok(())
    }

    /// Takes the zone reports of a call, before its other effects are checked.
    pub(super) fn take_reports(&mut self, log: &mut Log) {
        self.reports.append(&mut log.reports);
    }

    /// At the end of a call: the layer requested no needless zone report.
    pub(super) fn no_reports_left(&mut self) -> CheckResult {
        match self.reports.pop_front() {
            None => Ok(()),
            Some(report) => {
                Err(format!("the layer requested a needless report of zone {}", report.first))
            }
        }
    }

    /// The report of a zone that the layer had to request.
    fn expect_report(&mut self, zone: usize) -> Result<Option<Zone>, Violation> {
        let Some(report) = self.reports.pop_front() else {
            return Err(format!("the layer requested no report of zone {zone}"));
        };
        require!(
            report.first.index() == zone,
            "the layer requested a report of zone {} instead of zone {zone}",
            report.first
        );
        Ok(report.zones.ok().and_then(|zones| zones.first().copied()))
    }

    /// Checks the completions of a poll.
    pub(super) fn completed(&mut self, channel: usize, completions: &[Completion]) -> CheckResult {
        for completion in completions {
            self.ios += 1;
            let id = completion.user_data;
            let spec = self.bios.complete(id, channel, completion)?;
            self.channels[channel].ready -= 1;
            self.channels[channel].outstanding -= 1;
            if completion.status == Status::Ok {
                if spec.op == Op::Read && spec.has_buf {
                    self.data.check_read(&self.bios, id, completion)?;
                }
                self.data.acknowledged(&self.bios, id, &self.device);
            }
        }
        let ready = self.channels[channel].ready;
        require!(ready == 0, "{ready} finished bios did not complete on channel {channel}");
        Ok(())
    }

    /// A zone was changed without the layer.
    pub(super) fn changed_externally(&mut self, zone: ZoneNo, report: &Zone) {
        let before = self.device.write_pointer(zone.index());
        self.device.learn(zone.index(), report);
        let after = self.device.write_pointer(zone.index());
        if after < before {
            self.data.truncate(&self.limits, zone.index(), after);
            if after == 0 {
                self.data.was_reset(zone.index());
            }
        }
        self.plugs.mark_wp_uncertain(zone.index());
    }

    /// The device lost power, and its zones are now `zones`.
    pub(super) fn lost_power(
        &mut self,
        zones: &[Zone],
        read_raw: impl Fn(Sector, &mut [u8]),
    ) -> CheckResult {
        for (zone, report) in zones.iter().enumerate() {
            if !self.device.is_sequential(zone) {
                continue;
            }
            let before = self.device.write_pointer(zone);
            self.device.learn(zone, report);
            let after = self.device.write_pointer(zone);
            self.data.check_survival(zone, before, after)?;
            self.data.truncate(&self.limits, zone, after);
            if before != after {
                self.plugs.mark_wp_uncertain(zone);
            }
        }
        self.data.check_unordered(&self.limits, &self.device, read_raw)
    }

    /// The layer requested a report of all zones, or a user of some.
    pub(super) fn reported(&mut self, all: bool) -> CheckResult {
        let Some(report) = self.reports.pop_front() else {
            return Err("the layer requested no zone report".to_owned());
        };
        let Ok(zones) = report.zones else { return Ok(()) };
        for (zone, report) in (report.first.index()..).zip(&zones) {
            if all || self.plugs.wants_report(zone) {
                self.plugs.sync(zone, Some(report));
            }
        }
        Ok(())
    }

    /// The layer requested a report of all zones, and cannot use it.
    pub(super) fn reported_in_vain(&mut self) -> CheckResult {
        let report = self.reports.pop_front();
        report.map(|_| ()).ok_or_else(|| "the layer requested no zone report".to_owned())
    }

    /// The layer has read the zones anew, and bios can go to the first `zones` of them.
    pub(super) fn revalidated(&mut self, zones: u32, capacity: Sector) -> CheckResult {
        (self.limits.nr_zones, self.limits.capacity) = (zones, capacity);
        self.plugs.truncate(zones as usize);
        self.reported(true)
    }

    /// With nothing outstanding: the device's write pointers are as expected.
    pub(super) fn check_zones(&self, zones: &[Zone]) -> CheckResult {
        for (number, zone) in zones.iter().enumerate() {
            self.device.check(number, zone)?;
        }
        self.device.check_open(zones)
    }

    /// The layer was asked for a zone.
    pub(super) fn looked_up(&mut self, zone: usize) -> CheckResult {
        if self.plugs.is_stale(zone) {
            let report = self.expect_report(zone)?;
            self.plugs.sync(zone, report.as_ref());
        }
        Ok(())
    }

    /// Checks the write pointer that the layer returned for a zone.
    pub(super) fn check_known(&self, zone: usize, wp: u64, is_known: bool) -> CheckResult {
        let Some(pointer) = self.plugs.write_pointer(zone).filter(|_| is_known) else {
            return Ok(());
        };
        require!(
            pointer == wp,
            "the layer has the write pointer of zone {zone} at {wp}, expected {pointer}"
        );
        Ok(())
    }
}
