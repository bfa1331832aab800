//! Frames of a device, by looking at it now and then. While somebody does, what the device does is
//! counted; else nothing is added to the way of an I/O.
use super::frame::{self, DeviceInfo, Event, Frame, Ios, MAX_HEAD, MAX_PLUGS};
use crate::control::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::{IoHistograms, IoStat, Nanos, PlugInfo, Queue, Watch, Zone, ZoneCondition, ZoneNo};
use zonal_device::control::DeviceControl;
use zonal_device::hdd::HeadActivity;
use zonal_device::inject::InjectDevice;

/// A device that can be watched.
pub struct Watched {
    /// Its name on the command line.
    pub name: String,
    /// Its description, one line.
    pub description: String,
    /// Its queue, with I/O statistics or [watchable](zonal_blk::QueueOptions::watchable).
    pub queue: Arc<Queue>,
    /// The device.
    pub device: Arc<dyn DeviceControl>,
    /// The wrapper that injects faults, if there is one.
    pub inject: Option<Arc<InjectDevice>>,
}

/// A write that has waited in its plug for this long is an event.
const PLUG_STALL: Nanos = Nanos(1_000_000_000);

/// The clock of the times that a sampler is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleClock {
    /// The clock that the device is driven by.
    Device,
    /// Another one, as fast.
    Other,
}

/// Makes frames of a device.
pub struct Sampler {
    watched: Watched,
    info: DeviceInfo,
    clock: SampleClock,
    /// Of a rotating disk that somebody has watched.
    head: Option<Arc<HeadPath>>,
    /// While somebody watches.
    watch: Option<Watch>,
    /// How much less the device's clock shows, at most.
    offset: u64,
    /// The report of zones, kept for its capacity.
    zones: Vec<Zone>,
    /// Condition and written sectors of each zone in the frame before.
    before: Vec<(ZoneCondition, u64)>,
    /// The cells in the frame before: condition and fill.
    cells: Vec<(char, char)>,
    /// Zones by condition in the frame before.
    counts: [u32; ZoneCondition::ALL.len()],
    histograms: IoHistograms,
    stat: IoStat,
    /// Zones in whose plugs a write has waited for long.
    stalled: BTreeSet<u32>,
}

impl Sampler {
    /// A sampler that puts the zones into at most this many cells.
    pub fn new(watched: Watched, cells: u32, clock: SampleClock) -> Self {
        let limits = watched.queue.limits();
        let info = DeviceInfo {
            name: watched.name.clone(),
            description: watched.description.clone(),
            bytes: limits.capacity.to_bytes().0,
            zones: limits.nr_zones,
            zone_bytes: limits.zone_size.to_bytes().0,
            zones_per_cell: limits.nr_zones.div_ceil(cells.max(1)).max(1),
            max_open: limits.max_open_zones,
            max_active: limits.max_active_zones,
            while_watched: !watched.queue.counts_always(),
        };
        Sampler {
            watched,
            info,
            clock,
            head: None,
            watch: None,
            offset: u64::MAX,
            zones: Vec::new(),
            before: Vec::new(),
            cells: Vec::new(),
            counts: [0; ZoneCondition::ALL.len()],
            histograms: IoHistograms::default(),
            stat: IoStat::default(),
            stalled: BTreeSet::new(),
        }
    }

    /// The properties that do not change.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Begins to watch the device: the next frame has what happens from now on. Or ends it.
    pub fn watch(&mut self, watched: bool) {
        self.watch = watched.then(|| self.watched.queue.watch());
        if watched && self.head.is_none() {
            self.head = trace_head(&*self.watched.device);
        }
        if let Some(head) = &self.head {
            head.watched.store(watched, Ordering::Relaxed);
            head.lock().take();
        }
        if watched {
            self.report();
            self.learn();
            self.histograms = self.watched.queue.histograms().unwrap_or_default();
            self.stat = self.watched.queue.iostat().unwrap_or_default();
        }
    }

    /// Has the device report its zones. Returns why it did not.
    fn report(&mut self) -> Option<String> {
        self.zones.clear();
        let Watched { queue, .. } = &self.watched;
        let count = self.info.zones as usize;
        if count == 0 {
            return None;
        }
        // Past the block layer, whose view of the zones stays as it is.
        let reported = queue.device().report_zones(ZoneNo(0), count, &mut self.zones);
        reported.err().map(|status| format!("the device did not report its zones: {status}"))
    }

    /// The device now, and what has happened since the last frame. Waits for the device's report of its
    /// zones.
    pub fn sample(&mut self, at: Nanos) -> Frame {
        let error = self.report();
        let Watched { queue, device, inject, .. } = &self.watched;
        let plugs = queue.dump_plugs(false);
        let mut longest: Vec<(u32, u32)> =
            plugs.iter().map(|plug| (plug.zone.0, plug.waiting)).collect();
        longest.sort_by_key(|&(zone, waiting)| (std::cmp::Reverse(waiting), zone));
        longest.truncate(MAX_PLUGS);
        let histograms = queue.histograms().unwrap_or_default();
        let stat = queue.iostat().unwrap_or_default();
        let stats = device.stats();
        let named = |(name, value): (&str, u64)| (name.to_owned(), value);
        let mut frame = Frame {
            at: at.0,
            scheduler: queue.scheduler().name().to_owned(),
            zone_write: queue.zone_write().name().to_owned(),
            faults: inject.as_ref().map_or(0, |inject| inject.rules().len() as u32),
            ios: ios(&stat),
            in_flight: histograms.in_flight,
            live_plugs: queue.live_plugs(),
            waiting: plugs.iter().map(|plug| u64::from(plug.waiting)).sum(),
            plugs: longest,
            latency: frame::between(&self.histograms, &histograms),
            levels: device.levels().iter().map(|l| (l.name.to_owned(), l.value, l.of)).collect(),
            counts: stats.counts.into_iter().map(named).collect(),
            busy: stats.times.into_iter().map(|(part, time)| named((part, time.0))).collect(),
            error,
            ..Frame::default()
        };
        self.changes(&mut frame, &stat);
        self.stalls(&mut frame, &plugs);
        frame.more_events = frame.bound_events();
        // A device that does not answer has no known zones, but for those that were known.
        let missing = self.info.cells().saturating_sub(self.cells.len());
        let unknown = std::iter::repeat_n(('-', filled(0)), missing);
        (frame.conditions, frame.filled) = self.cells.iter().copied().chain(unknown).unzip();
        frame.zones = self.counts;
        frame.head = self.head_path(at);
        (self.histograms, self.stat) = (histograms, stat);
        frame
    }

    /// Remembers the zones as they are.
    fn learn(&mut self) {
        self.before = self.zones.iter().map(state).collect();
        let cells = self.zones.chunks(self.info.zones_per_cell as usize);
        self.cells = cells.map(cell).collect();
        self.counts = [0; ZoneCondition::ALL.len()];
        self.before.iter().for_each(|&(cond, _)| self.counts[index(cond)] += 1);
    }

    /// Fills in what happened, from zones before and now, and remembers the zones. Few have changed.
    fn changes(&mut self, frame: &mut Frame, stat: &IoStat) {
        let at = frame.at;
        let failures = stat.failures.saturating_sub(self.stat.failures);
        if failures > 0 {
            let what = format!("{failures} requests failed");
            frame.events.push(Event { at, zone: None, what });
        }
        if self.before.len() != self.zones.len() {
            // A report failed, now or before.
            if frame.error.is_none() {
                self.learn();
            }
            return;
        }
        let managed = stat.zone_management != self.stat.zone_management;
        let per_cell = self.info.zones_per_cell as usize;
        let mut changed: Option<usize> = None;
        for (number, zone) in self.zones.iter().enumerate() {
            let (before, now) = (self.before[number], state(zone));
            if before == now {
                continue;
            }
            self.before[number] = now;
            self.counts[index(before.0)] -= 1;
            self.counts[index(now.0)] += 1;
            let in_cell = number / per_cell;
            let more = if now.1 < before.1 { now.1 } else { now.1 - before.1 };
            match frame.written.last_mut() {
                Some((last, sum)) if *last as usize == in_cell => *sum += more,
                _ if more > 0 => frame.written.push((in_cell as u32, more)),
                _ => {}
            }
            if let Some(what) = change(before, now, managed) {
                let zone = Some(number as u32);
                frame.events.push(Event { at, zone, what: what.to_owned() });
            }
            if changed.replace(in_cell) != Some(in_cell) {
                let first = in_cell * per_cell;
                let zones = &self.zones[first..self.zones.len().min(first + per_cell)];
                self.cells[in_cell] = cell(zones);
            }
        }
    }

    /// Adds the plugs in which a write has waited for long, each once until none does.
    fn stalls(&mut self, frame: &mut Frame, plugs: &[PlugInfo]) {
        let at = frame.at;
        let before = std::mem::take(&mut self.stalled);
        for (zone, since) in
            plugs.iter().filter_map(|plug| Some((plug.zone.0, plug.waiting_since?)))
        {
            if at.saturating_sub(self.time_of(at, since.0)) < PLUG_STALL.0 {
                continue;
            }
            self.stalled.insert(zone);
            if !before.contains(&zone) {
                let what = "a write has waited in its plug for a second".to_owned();
                frame.events.push(Event { at, zone: Some(zone), what });
            }
        }
    }

    /// The sampler's time of a moment on the device's clock. With another clock, the moment is as late
    /// as it can be.
    fn time_of(&mut self, at: u64, moment: u64) -> u64 {
        match self.clock {
            SampleClock::Device => moment,
            SampleClock::Other => {
                self.offset = self.offset.min(at.saturating_sub(moment));
                moment + self.offset
            }
        }
    }

    /// Where the head has been, by the sampler's clock.
    fn head_path(&mut self, at: Nanos) -> Vec<(u64, u16)> {
        let Some(head) = &self.head else { return Vec::new() };
        let mut path = head.lock().take();
        if let Some(&(last, _)) = path.last() {
            let later = self.time_of(at.0, last) - last;
            path.iter_mut().for_each(|point| point.0 += later);
        }
        path
    }
}

fn ios(stat: &IoStat) -> Ios {
    Ios {
        reads: stat.reads + stat.read_merges,
        read_bytes: stat.sectors_read << 9,
        writes: stat.writes + stat.write_merges,
        written_bytes: stat.sectors_written << 9,
        others: stat.discards + stat.flushes + stat.zone_management,
        failures: stat.failures,
    }
}

/// The condition and the fill of a cell with these zones.
fn cell(zones: &[Zone]) -> (char, char) {
    let cell = Cell::of(zones);
    (cell.condition(), filled(cell.filled()))
}

/// The index of a condition in [`ZoneCondition::ALL`].
fn index(cond: ZoneCondition) -> usize {
    ZoneCondition::ALL.iter().position(|&known| known == cond).expect("all conditions are known")
}

/// A percentage as a letter.
fn filled(percent: u8) -> char {
    char::from(b'#' + (u32::from(percent) * 90 / 100) as u8)
}

fn state(zone: &Zone) -> (ZoneCondition, u64) {
    (zone.cond, crate::control::written(zone))
}

/// The change of a zone between two frames. `managed` says that somebody opened, closed, finished or
/// reset zones meanwhile.
fn change(
    before: (ZoneCondition, u64),
    now: (ZoneCondition, u64),
    managed: bool,
) -> Option<&'static str> {
    use ZoneCondition::{Closed, Empty, ExplicitOpen, Full, ImplicitOpen};
    use ZoneCondition::{NotWritePointer, Offline, ReadOnly};
    Some(match (before.0, now.0) {
        (was, is) if was == is && now.1 < before.1 => "reset, written again",
        (was, is) if was == is => return None,
        (ReadOnly | Offline, Empty | NotWritePointer) => "repaired",
        (_, Empty) => "reset",
        (_, ImplicitOpen) => "opened by a write",
        (_, ExplicitOpen) => "opened",
        (ImplicitOpen, Closed) if !managed => "closed by the device for another to open",
        (_, Closed) => "closed",
        (_, Full) => "full",
        (_, ReadOnly) => "read-only",
        (_, Offline) => "offline",
        (_, NotWritePointer) => return None,
    })
}

/// Traces the head of a disk from now on.
fn trace_head(device: &dyn DeviceControl) -> Option<Arc<HeadPath>> {
    let head = Arc::new(HeadPath::default());
    let path = Arc::clone(&head);
    let turns = device.trace_head(Box::new(move |entry| {
        if entry.activity == HeadActivity::Transfer && path.watched.load(Ordering::Relaxed) {
            path.lock().push((entry.at.0, (entry.radius.clamp(0.0, 1.0) * 1e4) as u16));
        }
    }));
    turns.then_some(head)
}

/// Where a disk's head has been, while somebody watches.
#[derive(Default)]
struct HeadPath {
    watched: AtomicBool,
    path: Mutex<Thinned>,
}

impl HeadPath {
    fn lock(&self) -> MutexGuard<'_, Thinned> {
        self.path.lock().expect("no thread panics with the path")
    }
}

/// Times and radii: all of them, or pairs at equal distances.
#[derive(Default)]
struct Thinned {
    points: Vec<(u64, u16)>,
    /// Points that came.
    seen: u64,
    /// One pair in two to this power is kept.
    thinned: u32,
}

impl Thinned {
    fn push(&mut self, point: (u64, u16)) {
        let pair = self.seen / 2;
        self.seen += 1;
        if pair.is_multiple_of(1 << self.thinned) {
            self.points.push(point);
        }
        if self.points.len() > MAX_HEAD - 2 {
            frame::thin(&mut self.points);
            self.thinned += 1;
        }
    }

    fn take(&mut self) -> Vec<(u64, u16)> {
        std::mem::take(self).points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::{Bio, Op, QueueOptions, Sector};
    use zonal_device::null::{NullConfig, NullDevice};

    fn sampler(zones: u32, cells: u32) -> Sampler {
        let config = NullConfig { zones, ..NullConfig::default() };
        let device = Arc::new(NullDevice::new(&config).expect("a device"));
        let options = QueueOptions { iostats: true, ..QueueOptions::default() };
        let queue = Queue::attach(Arc::clone(&device) as _, options).expect("a queue");
        let watched = Watched {
            name: "null".to_owned(),
            description: String::new(),
            queue,
            device,
            inject: None,
        };
        Sampler::new(watched, cells, SampleClock::Other)
    }

    fn write(sampler: &Sampler, zone: u64, sectors: u32) {
        let queue = &sampler.watched.queue;
        let start = Sector(queue.limits().zone_size.0 * zone);
        let mut channel = queue.channel().expect("a channel");
        channel.submit(Nanos(0), Bio::new(Op::Write, start, sectors, 0));
        let mut done = Vec::new();
        while done.is_empty() {
            channel.poll(Nanos(1000), &mut done);
        }
    }

    #[test]
    fn frames_say_what_happened_between_them() {
        let mut sampler = sampler(10, 5);
        sampler.watch(true);
        write(&sampler, 3, 16);
        let frame = sampler.sample(Nanos(7));
        assert_eq!((frame.at, frame.ios.writes, frame.ios.written_bytes), (7, 1, 8192));
        assert_eq!(frame.conditions, ".o...");
        assert_eq!(frame.written, [(1, 16)]);
        assert_eq!(frame.latency[1].iter().map(|(_, count)| count).sum::<u64>(), 1);
        let event = Event { at: 7, zone: Some(3), what: "opened by a write".to_owned() };
        assert_eq!(frame.events, [event]);
        assert_eq!(frame.check(sampler.info()), Ok(()));
        let next = sampler.sample(Nanos(8));
        assert_eq!((next.written.len(), next.events.len(), next.latency[1].len()), (0, 0, 0));
    }

    #[test]
    fn a_write_that_waits_in_its_plug_for_long_is_an_event_once() {
        let mut sampler = sampler(4, 4);
        sampler.watch(true);
        let mut channel = sampler.watched.queue.channel().expect("a channel");
        for (at, start) in [(0, 0), (5, 8)] {
            channel.submit(Nanos(at), Bio::new(Op::Write, Sector(start), 8, 0));
        }
        let stalls = |sampler: &mut Sampler, at| {
            let frame = sampler.sample(Nanos(at));
            frame.events.iter().filter(|event| event.what.contains("waited in its plug")).count()
        };
        // The device's clock showed 5 when this one showed 105 at most.
        let second = PLUG_STALL.0;
        let seen =
            [105, second + 104, second + 105, second + 106].map(|at| stalls(&mut sampler, at));
        assert_eq!(seen, [0, 0, 1, 0]);
        let mut done = Vec::new();
        while done.len() < 2 {
            channel.poll(Nanos(1000), &mut done);
        }
        assert_eq!(stalls(&mut sampler, 2 * second), 0);
    }

    #[test]
    fn conditions_that_change_are_events() {
        use ZoneCondition::{Closed, Empty, Full, ImplicitOpen};
        assert_eq!(change((Full, 9), (Empty, 0), true), Some("reset"));
        assert_eq!(
            change((ImplicitOpen, 9), (ImplicitOpen, 5), true),
            Some("reset, written again")
        );
        assert_eq!(change((ImplicitOpen, 5), (ImplicitOpen, 9), true), None);
        assert_eq!(change((ImplicitOpen, 5), (Closed, 5), true), Some("closed"));
        let implicit = "closed by the device for another to open";
        assert_eq!(change((ImplicitOpen, 5), (Closed, 5), false), Some(implicit));
    }
}
