//! Fault injection: wraps a device and fails, delays or tears commands as rules say, while it is in use.
//!
//! Without rules a command costs one load of a flag. A command that is failed here has not reached
//! the device. A torn write has, and what is beyond its tear is taken back.
mod rule;

use crate::control::DeviceControl;
use crate::rng::Rng;
pub use rule::{CommandKind, Fault, Rule, RuleError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::{
    Abort, Bytes, Device, HwQueue, Limits, Nanos, Request, Status, Tag, Wake, Zone, ZoneCondition,
    ZoneNo,
};

/// A device whose commands fail as its rules say.
pub struct InjectDevice {
    inner: Arc<dyn DeviceControl>,
    /// Whether there are rules; read for every command.
    armed: AtomicBool,
    rules: Mutex<Rules>,
    observers: Mutex<Vec<ChangeObserver>>,
}

/// A change of a device that no command made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChange {
    /// The condition of a zone.
    Zone(ZoneNo),
    /// All zones: the layer has read them anew, and there may be fewer, or more again.
    Zones,
}

/// Is called with each change.
type ChangeObserver = Box<dyn Fn(DeviceChange) + Send + Sync>;

struct Rules {
    rules: Vec<(Rule, u64)>,
    rng: Rng,
}

impl InjectDevice {
    /// A device around `inner`, without rules. `seed` decides which commands a random rule hits.
    pub fn new(inner: Arc<dyn DeviceControl>, seed: u64) -> Self {
        let rules = Mutex::new(Rules { rules: Vec::new(), rng: Rng::new(seed) });
        let (armed, observers) = (AtomicBool::new(false), Mutex::default());
        InjectDevice { inner, armed, rules, observers }
    }

    /// Has `observer` learn of each zone that [`DeviceControl::set_condition`] changes from now on, and of
    /// what [`InjectDevice::announce`] is called with, on the thread that makes the change.
    pub fn on_change(&self, observer: impl Fn(DeviceChange) + Send + Sync + 'static) {
        self.observers.lock().expect("observers lock").push(Box::new(observer));
    }

    /// Tells the observers of a change.
    pub fn announce(&self, change: DeviceChange) {
        self.observers.lock().expect("observers lock").iter().for_each(|observer| observer(change));
    }

    /// Adds a rule. The first rule that matches a command applies.
    pub fn add(&self, rule: Rule) {
        self.lock().rules.push((rule, 0));
        self.armed.store(true, Ordering::Relaxed);
    }

    /// Removes all rules and returns their number.
    pub fn clear(&self) -> usize {
        self.armed.store(false, Ordering::Relaxed);
        self.lock().rules.drain(..).count()
    }

    /// The rules, each with the number of commands that it has hit.
    pub fn rules(&self) -> Vec<(Rule, u64)> {
        self.lock().rules.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().expect("no thread panics while it holds the rules")
    }

    /// Takes back what a write that has completed wrote beyond its first `keep`, in whole units of the
    /// write granularity. Conventional zones keep all.
    fn tear(&self, request: &Request, keep: Bytes) {
        let limits = self.limits();
        let keep = keep.0 - keep.0 % u64::from(limits.zone_write_granularity());
        let end = request.sector() + Bytes(keep).to_sectors();
        if limits.nr_zones > 0
            && end < request.end()
            && let Some(medium) = self.medium()
        {
            let wp = end - limits.zone_start(request.zone());
            // A zone without a write pointer refuses.
            let _ = medium.shorten(request.zone(), wp);
        }
    }

    /// The fault of a command, if a rule hits it.
    fn fault(&self, request: &Request) -> Option<Fault> {
        let Rules { rules, rng } = &mut *self.lock();
        let (rule, hits) = rules.iter_mut().find(|(rule, hits)| {
            rule.matches(request)
                && rule.count.is_none_or(|count| *hits < count)
                && rng.below(rule.one_in) == 0
        })?;
        *hits += 1;
        Some(rule.fault)
    }
}

impl Device for InjectDevice {
    fn inner(&self) -> Option<&dyn Device> {
        Some(&*self.inner)
    }

    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    /// Reports are not commands: no rule hits them.
    fn report_zones_cached(
        &self,
        first: ZoneNo,
        max: usize,
        zones: &mut Vec<Zone>,
    ) -> Result<(), Status> {
        self.inner.report_zones_cached(first, max, zones)
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let inner = (Arc::clone(&self.inner) as Arc<dyn Device>).open_queue();
        Box::new(Queue { device: self, inner, pending: Vec::new(), torn: Vec::new() })
    }
}

impl DeviceControl for InjectDevice {
    fn inner_control(&self) -> Option<&dyn DeviceControl> {
        Some(&*self.inner)
    }

    fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        self.inner.set_condition(zone, to)?;
        self.announce(DeviceChange::Zone(zone));
        Ok(())
    }
}

struct Queue {
    device: Arc<InjectDevice>,
    inner: Box<dyn HwQueue>,
    /// Commands that a rule hit: when they are due, and their status unless they are delayed only.
    pending: Vec<(Nanos, Option<Status>, Box<Request>)>,
    /// Writes that a rule tears, by tag, and how much of each is left.
    torn: Vec<(Tag, Bytes)>,
}

impl Queue {
    /// Tears the writes among `done` that a rule hit.
    fn tear(&mut self, done: &mut [Box<Request>]) {
        for request in done {
            let Some(at) = self.torn.iter().position(|(tag, _)| *tag == request.tag()) else {
                continue;
            };
            let (_, keep) = self.torn.swap_remove(at);
            if request.status() == Status::Ok {
                self.device.tear(request, keep);
                request.set_status(Status::IoError);
            }
        }
    }
}

impl HwQueue for Queue {
    fn inner(&self) -> Option<&dyn HwQueue> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn HwQueue> {
        Some(&mut *self.inner)
    }

    #[inline]
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        if !self.device.armed.load(Ordering::Relaxed) {
            return self.inner.start(now, request);
        }
        match self.device.fault(&request) {
            None => return self.inner.start(now, request),
            Some(Fault::Fail(status)) => self.pending.push((now, Some(status), request)),
            Some(Fault::Delay(time)) => {
                self.pending.push((now.saturating_add(time), None, request));
            }
            Some(Fault::Tear(keep)) => {
                self.torn.push((request.tag(), keep));
                self.pending.push((now, None, request));
            }
        }
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        if !self.pending.is_empty() {
            let due = self.pending.extract_if(.., |&mut (due, ..)| due <= now).collect::<Vec<_>>();
            for (due, status, mut request) in due {
                match status {
                    Some(status) => {
                        request.set_status(status);
                        done.push(request);
                    }
                    None => {
                        if let Err(request) = self.inner.start(now, request) {
                            self.pending.push((due, None, request));
                        }
                    }
                }
            }
        }
        let before = done.len();
        self.inner.poll(now, done);
        if !self.torn.is_empty() {
            self.tear(&mut done[before..]);
        }
    }

    fn next_event(&self) -> Wake {
        self.own_event().min(self.inner.next_event())
    }

    fn own_event(&self) -> Wake {
        let pending = self.pending.iter().map(|&(due, ..)| due).min();
        pending.map_or(Wake::Idle, Wake::At)
    }

    fn abort(&mut self, now: Nanos, tag: Tag, done: &mut Vec<Box<Request>>) -> Abort {
        match self.pending.iter().position(|(_, _, request)| request.tag() == tag) {
            Some(index) => {
                self.torn.retain(|(torn, _)| *torn != tag);
                done.push(self.pending.swap_remove(index).2);
                Abort::Accepted
            }
            None => {
                let before = done.len();
                let answer = self.inner.abort(now, tag, done);
                self.tear(&mut done[before..]);
                answer
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_spec;
    use zonal_blk::{Bio, Op, Queue, QueueOptions, Sector};

    fn device(rules: &[&str]) -> (Arc<InjectDevice>, Arc<Queue>) {
        let spec = device_spec::parse("null:zones=4,zone_size=1M").expect("a spec");
        let device = Arc::new(InjectDevice::new(device_spec::build(&spec).expect("a device"), 0));
        rules.iter().for_each(|rule| device.add(rule.parse().expect("a rule")));
        let queue = Queue::attach(Arc::clone(&device) as _, QueueOptions::default());
        (device, queue.expect("a queue"))
    }

    /// Submits bios at time 0; returns time, number and status of each completion, in order.
    fn run(queue: &Arc<Queue>, bios: &[(Op, u64)]) -> Vec<(u64, u64, Status)> {
        let mut channel = queue.channel().expect("a channel");
        for (number, &(op, sector)) in (0..).zip(bios) {
            let len = if op.has_range() { 8 } else { 0 };
            channel.submit(Nanos(0), Bio::new(op, Sector(sector), len, number));
        }
        let (mut now, mut done, mut ends) = (Nanos(0), Vec::new(), Vec::new());
        while channel.outstanding() > 0 {
            channel.poll(now, &mut done);
            ends.extend(done.drain(..).map(|end| (now.0, end.user_data, end.status)));
            now = channel.next_event().at().map_or(now, |next| next.max(now));
        }
        ends
    }

    #[test]
    fn commands_that_a_rule_matches_fail_and_others_do_not() {
        let (device, queue) = device(&["fail=write,zone=1-2,status=medium,count=1"]);
        let ends = run(&queue, &[(Op::Write, 0), (Op::Write, 2048), (Op::Write, 4096)]);
        let failed: Vec<_> = ends.iter().filter(|end| end.2 != Status::Ok).collect();
        assert_eq!(failed, [&(0, 1, Status::Medium)]);
        assert_eq!(device.rules()[0].1, 1);
        // The write has not reached the device, and the layer knows it.
        assert_eq!(run(&queue, &[(Op::Write, 2048)]), [(0, 0, Status::Ok)]);
    }

    #[test]
    fn delayed_writes_of_a_zone_stay_in_order() {
        let (_, queue) = device(&["delay=write,time=1ms,one_in=2"]);
        let bios: Vec<_> = (0..20).map(|i| (Op::Write, i * 8)).collect();
        let ends = run(&queue, &bios);
        assert_eq!(ends.iter().filter(|end| end.2 == Status::Ok).count(), 20);
        assert!(ends.iter().any(|end| end.0 > 0), "about half were delayed");
    }

    #[test]
    fn torn_write_fails_and_leaves_its_start_and_the_write_pointer_after_it() {
        let (device, queue) = device(&["tear=write,keep=2560,count=1"]);
        assert_eq!(run(&queue, &[(Op::Write, 0)]), [(0, 0, Status::IoError)]);
        let mut zones = Vec::new();
        device.report_zones(ZoneNo(0), 1, &mut zones).expect("zones");
        assert_eq!(zones[0].wp, Sector(5));
        assert_eq!(run(&queue, &[(Op::Write, 5)]), [(0, 0, Status::Ok)], "the layer knows it");
    }

    #[test]
    fn write_that_is_torn_after_its_end_fails_and_all_of_it_is_there() {
        let (_, queue) = device(&["tear=write,keep=1M,count=1"]);
        assert_eq!(run(&queue, &[(Op::Write, 0)]), [(0, 0, Status::IoError)]);
        assert_eq!(run(&queue, &[(Op::Write, 8)]), [(0, 0, Status::Ok)]);
    }

    #[test]
    fn device_works_again_without_rules() {
        let (device, queue) = device(&["fail=any"]);
        assert_eq!(run(&queue, &[(Op::Flush, 0)]), [(0, 0, Status::IoError)]);
        assert_eq!(device.clear(), 1);
        assert_eq!(run(&queue, &[(Op::Flush, 0)]), [(0, 0, Status::Ok)]);
    }

    #[test]
    fn rules_for_zones_ignore_commands_without_one() {
        let (_, queue) = device(&["fail=any,zone=0-3"]);
        assert_eq!(run(&queue, &[(Op::Flush, 0)]), [(0, 0, Status::Ok)]);
        assert_eq!(run(&queue, &[(Op::Read, 0)]), [(0, 0, Status::IoError)]);
    }
}
