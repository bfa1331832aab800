//! A queue over a scripted device, with its channels.
use super::{End, ScriptedDevice, limits, outcomes};
use crate::bio::{Bio, BioFlags, Completion};
use crate::channel::Channel;
use crate::limits::Limits;
use crate::op::Op;
use crate::plug::{PlugInfo, WpRecovery, ZonePhase, ZoneWrite};
use crate::queue::{Queue, QueueOptions};
use crate::status::Status;
use crate::units::{Nanos, Sector, ZoneNo};
use crate::zone::{Zone, ZoneCondition, ZoneKind};
use std::sync::Arc;

/// Sectors of a zone by default.
pub(crate) const ZONE: u64 = 64;

/// The configuration of a test's queue.
pub(crate) struct Setup {
    limits: Limits,
    options: QueueOptions,
    channels: usize,
    zones: Vec<ZonesChange>,
}

type ZonesChange = Box<dyn Fn(&mut [Zone])>;

impl Setup {
    /// One channel on four zones of 64 sectors, all sequential and empty.
    pub(crate) fn new() -> Self {
        let options = QueueOptions { zone_write: Some(ZoneWrite::Plug), ..QueueOptions::default() };
        Setup { limits: limits(4, ZONE), options, channels: 1, zones: Vec::new() }
    }

    pub(crate) fn channels(mut self, channels: usize) -> Self {
        self.channels = channels;
        self
    }

    pub(crate) fn policy(mut self, policy: ZoneWrite) -> Self {
        self.options.zone_write = Some(policy);
        self
    }

    /// Write pointers are recovered as in the kernel ([`WpRecovery::OnRequest`]).
    pub(crate) fn like_the_kernel(mut self) -> Self {
        self.options.wp_recovery = WpRecovery::OnRequest;
        self
    }

    /// The device has native zone append, of up to 32 sectors.
    pub(crate) fn native_append(self) -> Self {
        self.limits(|limits| limits.append_max_sectors = 32)
    }

    pub(crate) fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub(crate) fn options(mut self, change: impl FnOnce(&mut QueueOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// A zone as the device has it before the queue is attached.
    pub(crate) fn zone(self, zone: usize, change: impl Fn(&mut Zone) + 'static) -> Self {
        self.zones(move |zones| change(&mut zones[zone]))
    }

    pub(crate) fn zones(mut self, change: impl Fn(&mut [Zone]) + 'static) -> Self {
        self.zones.push(Box::new(change));
        self
    }

    pub(crate) fn conventional(self, zone: usize) -> Self {
        self.zone(zone, |zone| {
            zone.kind = ZoneKind::Conventional;
            zone.cond = ZoneCondition::NotWritePointer;
        })
    }

    pub(crate) fn queue_options(&self) -> QueueOptions {
        self.options
    }

    pub(crate) fn device(&self) -> Arc<ScriptedDevice> {
        let device = ScriptedDevice::new(self.limits.clone());
        for change in &self.zones {
            change(&mut device.zones.lock().unwrap());
        }
        device
    }

    pub(crate) fn build(self) -> Rig {
        let device = self.device();
        let queue = Queue::attach(Arc::clone(&device) as _, self.options).expect("a good device");
        let channels = (0..self.channels).map(|_| queue.channel().expect("a queue")).collect();
        *device.reports.lock().unwrap() = 0;
        Rig { device, queue, channels, next_id: 0, now: Nanos(0) }
    }
}

/// A queue, the device below it and the channels above it. Bios are numbered from 0 as they are
/// submitted. Methods without a channel use the first.
pub(crate) struct Rig {
    pub(crate) device: Arc<ScriptedDevice>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) next_id: u64,
    pub(crate) now: Nanos,
}

impl Rig {
    pub(crate) fn submit_bio(&mut self, channel: usize, bio: Bio) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.channels[channel].submit(self.now, Bio { user_data: id, ..bio });
        id
    }

    /// Submits writes together.
    pub(crate) fn write_batch(&mut self, writes: &[(u64, u32)]) -> Vec<u64> {
        self.write_batch_on(0, writes)
    }

    pub(crate) fn write_batch_on(&mut self, channel: usize, writes: &[(u64, u32)]) -> Vec<u64> {
        let ids = self.next_id..self.next_id + writes.len() as u64;
        self.next_id = ids.end;
        let bio = |(id, &(at, len))| Bio::new(Op::Write, Sector(at), len, id);
        let mut bios = ids.clone().zip(writes).map(bio).collect();
        self.channels[channel].submit_batch(self.now, &mut bios);
        ids.collect()
    }

    pub(crate) fn submit(&mut self, op: Op, sector: u64, len: u32) -> u64 {
        self.submit_bio(0, Bio::new(op, Sector(sector), len, 0))
    }

    pub(crate) fn write(&mut self, sector: u64, len: u32) -> u64 {
        self.submit(Op::Write, sector, len)
    }

    pub(crate) fn write_on(&mut self, channel: usize, sector: u64, len: u32) -> u64 {
        self.submit_bio(channel, Bio::new(Op::Write, Sector(sector), len, 0))
    }

    pub(crate) fn write_with(&mut self, flags: BioFlags, sector: u64, len: u32) -> u64 {
        self.submit_bio(0, Bio { flags, ..Bio::new(Op::Write, Sector(sector), len, 0) })
    }

    pub(crate) fn append(&mut self, zone: u64, len: u32) -> u64 {
        self.submit(Op::ZoneAppend, zone * ZONE, len)
    }

    pub(crate) fn reset(&mut self, zone: u64) -> u64 {
        self.submit(Op::ZoneReset, zone * ZONE, 0)
    }

    pub(crate) fn finish(&mut self, zone: u64) -> u64 {
        self.submit(Op::ZoneFinish, zone * ZONE, 0)
    }

    /// The completions that a channel finds.
    pub(crate) fn completions_on(&mut self, channel: usize) -> Vec<Completion> {
        let mut completions = Vec::new();
        self.channels[channel].poll(self.now, &mut completions);
        completions
    }

    pub(crate) fn poll_on(&mut self, channel: usize) -> Vec<(u64, Status)> {
        outcomes(&self.completions_on(channel))
    }

    pub(crate) fn poll(&mut self) -> Vec<(u64, Status)> {
        self.poll_on(0)
    }

    /// Completes the oldest request on a hardware queue and polls the channel of the same number.
    pub(crate) fn end_on(&mut self, queue: usize, how: End) -> Vec<(u64, Status)> {
        self.device.end_nth(queue, 0, how);
        self.poll_on(queue)
    }

    pub(crate) fn end(&mut self, status: Status) -> Vec<(u64, Status)> {
        self.end_on(0, End::Forced(status))
    }

    /// The oldest request succeeds.
    pub(crate) fn ok(&mut self) -> Vec<(u64, Status)> {
        self.end(Status::Ok)
    }

    /// The oldest request fails.
    pub(crate) fn fail(&mut self) -> Vec<(u64, Status)> {
        self.end(Status::IoError)
    }

    /// Lets the device execute everything until nothing is outstanding. Returns the completions of
    /// all channels, by bio.
    pub(crate) fn drain(&mut self) -> Vec<(u64, Status)> {
        let mut all = Vec::new();
        loop {
            let before = all.len();
            for channel in 0..self.channels.len() {
                all.extend(self.poll_on(channel));
            }
            let mut ended = 0;
            for queue in 0..self.channels.len() {
                while self.device.in_flight(queue) > 0 {
                    self.device.end_nth(queue, 0, End::ByZoneRules);
                    ended += 1;
                }
            }
            if all.len() == before && ended == 0 {
                break;
            }
        }
        all.sort_unstable_by_key(|&(id, _)| id);
        all
    }

    /// The requests that reached the device since the last call.
    pub(crate) fn started(&self) -> Vec<(Op, u64, u32)> {
        self.device.started()
    }

    /// The writes that reached the device since the last call: first sector and length.
    pub(crate) fn writes(&self) -> Vec<(u64, u32)> {
        let only_writes = |&(op, ..): &(Op, u64, u32)| op == Op::Write;
        self.started().into_iter().filter(only_writes).map(|(_, at, len)| (at, len)).collect()
    }

    /// The plug of a zone, if it is live.
    pub(crate) fn plug(&self, zone: u32) -> Option<PlugInfo> {
        self.queue.dump_plugs(false).into_iter().find(|plug| plug.zone == ZoneNo(zone))
    }

    /// A zone's condition and write pointer as the layer knows them.
    pub(crate) fn known(&self, zone: u32) -> (ZonePhase, u64) {
        let (phase, wp) = self.queue.cached_zone(ZoneNo(zone)).expect("a zone with a plug");
        (phase, wp.0)
    }

    /// The references to all plugs together.
    pub(crate) fn references(&self) -> u32 {
        self.queue.dump_plugs(true).iter().map(|plug| plug.references).sum()
    }

    /// The number of zone reports since the last call.
    pub(crate) fn reports(&self) -> u32 {
        std::mem::take(&mut self.device.reports.lock().unwrap())
    }
}
