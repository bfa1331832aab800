//! Moments in the life of requests, for tracers of a queue (blktrace(8) has names for them).
//!
//! Each channel and each hardware queue has a sink of its own, so that tracing takes no lock and
//! shares no cache line. A request carries its number and counts its events, so that those of one
//! request can be put in order when sinks are merged, though threads read the clock at different
//! times.
use crate::bio::BioFlags;
use crate::op::Op;
use crate::request::{Request, TraceMark};
use crate::status::Status;
use crate::units::{Nanos, Sector, Tag, ZoneNo};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An event of a request. The letters are blktrace's, where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TraceAction {
    /// A bio, or a part of a split one, was admitted (`Q`).
    Queue,
    /// It waits in the plug of its zone.
    Plug,
    /// It may leave the plug: the write before it has completed.
    Unplug,
    /// It was handed to the scheduler (`I`).
    Insert,
    /// It waits for a tag, or for the device to take commands again (`S`).
    Sleep,
    /// It is part of another request, which is being issued (`M`).
    Merge,
    /// It was issued to the device (`D`).
    Issue,
    /// The device was too busy for it (`R`).
    Requeue,
    /// It is back from the device, or the layer failed it (`C`).
    Complete,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// When, by the clock of the thread that drives the channel.
    pub at: Nanos,
    /// The request's number, unique within a queue: the upper 24 bits count the channels that were
    /// opened before its own.
    pub id: u64,
    /// The number of the request's events before this one.
    pub step: u32,
    /// The event.
    pub action: TraceAction,
    /// The operation: that of the bio when it is queued, that of the command from then on.
    pub op: Op,
    /// The bio's modifiers.
    pub flags: BioFlags,
    /// The status, when it completes.
    pub status: Status,
    /// First sector: of the zone for an append that has not landed.
    pub sector: Sector,
    /// Length in sectors, with merged requests.
    pub nr_sectors: u32,
    /// The zone of the first sector, 0 on a device without zones.
    pub zone: ZoneNo,
    /// The channel that the bio came from.
    pub channel: u32,
    /// The tag, once the request is issued.
    pub tag: Tag,
    /// The request that it was merged into, if that is traced; else 0.
    pub into: u64,
}

/// Where events come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceSource {
    /// A channel, by its number.
    Channel(u32),
    /// A hardware queue, in the order in which they were opened.
    HwQueue(u32),
}

/// Receives the events of one source, in order. Used by one thread at a time.
pub trait TraceSink: Send {
    /// An event.
    fn event(&mut self, event: &TraceEvent);
}

/// Receives the events of a queue: see [`Queue::trace`](crate::Queue::trace).
pub trait Tracer: Send + Sync {
    /// A sink for a source that has just been opened.
    fn open(&self, source: TraceSource) -> Box<dyn TraceSink>;
}

/// The tracer of a queue, and which share of its bios it traces.
pub(crate) struct Tracing {
    pub(crate) tracer: Arc<dyn Tracer>,
    pub(crate) one_in: u64,
    /// Channels that were opened: a number is used again once its channel is closed.
    opened: AtomicU64,
}

impl Tracing {
    pub(crate) fn new(tracer: Arc<dyn Tracer>, one_in: u64) -> Self {
        Tracing { tracer, one_in, opened: AtomicU64::new(0) }
    }
}

/// The tracing of one channel.
pub(crate) struct ChannelTrace {
    sink: Box<dyn TraceSink>,
    /// Channels that were opened before.
    before: u64,
    one_in: u64,
    bios: u64,
    /// The time of the call in progress.
    pub(crate) now: Nanos,
}

impl ChannelTrace {
    pub(crate) fn open(tracing: &Tracing, channel: u32) -> Self {
        let sink = tracing.tracer.open(TraceSource::Channel(channel));
        let before = tracing.opened.fetch_add(1, Ordering::Relaxed);
        ChannelTrace { sink, before, one_in: tracing.one_in, bios: 0, now: Nanos(0) }
    }

    /// A request was made for a bio: decides whether it is traced.
    #[cold]
    pub(crate) fn queue(&mut self, request: &mut Request) {
        self.bios += 1;
        let traced = self.bios.is_multiple_of(self.one_in);
        let id = if traced { self.before << 40 | self.bios } else { 0 };
        request.trace = TraceMark { id, step: 0 };
        self.event(TraceAction::Queue, request);
    }

    #[cold]
    pub(crate) fn event(&mut self, action: TraceAction, request: &mut Request) {
        emit(&mut *self.sink, self.now, action, request, 0);
    }

    /// The event that the request goes into its plug, to be sent if it stays there: by then it may
    /// belong to another thread.
    #[cold]
    pub(crate) fn before_plug(&self, request: &mut Request) -> Option<TraceEvent> {
        next_event(self.now, TraceAction::Plug, request, 0)
    }

    #[cold]
    pub(crate) fn send(&mut self, event: Option<TraceEvent>) {
        event.iter().for_each(|event| self.sink.event(event));
    }
}

/// The tracing of one hardware queue.
pub(crate) struct HctxTrace(Box<dyn TraceSink>);

impl HctxTrace {
    pub(crate) fn open(tracing: &Tracing, number: usize) -> Self {
        let number = u32::try_from(number).expect("fewer than 2^32 hardware queues");
        HctxTrace(tracing.tracer.open(TraceSource::HwQueue(number)))
    }

    #[cold]
    pub(crate) fn event(&mut self, now: Nanos, action: TraceAction, request: &mut Request) {
        emit(&mut *self.0, now, action, request, 0);
    }

    /// A request is about to be issued, with those that were merged into it.
    #[cold]
    pub(crate) fn issue(&mut self, now: Nanos, request: &mut Request) {
        let into = request.trace.id;
        let sink = &mut *self.0;
        request.for_each_merged(|merged| emit(sink, now, TraceAction::Merge, merged, into));
        emit(sink, now, TraceAction::Issue, request, 0);
    }
}

/// Sends an event of a request that is traced.
fn emit(
    sink: &mut dyn TraceSink,
    now: Nanos,
    action: TraceAction,
    request: &mut Request,
    into: u64,
) {
    if let Some(event) = next_event(now, action, request, into) {
        sink.event(&event);
    }
}

/// The next event of a request; `None` if it is not traced.
fn next_event(
    at: Nanos,
    action: TraceAction,
    request: &mut Request,
    into: u64,
) -> Option<TraceEvent> {
    let TraceMark { id, step } = request.trace;
    if id == 0 {
        return None;
    }
    request.trace.step = step + 1;
    let (op, sector, nr_sectors) = request.command();
    Some(TraceEvent {
        at,
        id,
        step,
        action,
        op,
        flags: request.flags(),
        status: request.status(),
        sector,
        nr_sectors,
        zone: request.zone(),
        channel: request.process(),
        tag: request.tag,
        into,
    })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::testing::{Rig, Setup};
    use std::sync::Mutex;

    #[derive(Default)]
    struct Log(Arc<Mutex<Vec<TraceEvent>>>);

    impl Tracer for Log {
        fn open(&self, _: TraceSource) -> Box<dyn TraceSink> {
            Box::new(Log(Arc::clone(&self.0)))
        }
    }

    impl TraceSink for Log {
        fn event(&mut self, event: &TraceEvent) {
            self.0.lock().unwrap().push(*event);
        }
    }

    /// A rig whose channels are traced, and the events by request.
    fn traced(one_in: u64) -> (Rig, impl Fn() -> Vec<(u64, Vec<TraceAction>)>) {
        let mut rig = Setup::new().channels(0).build();
        let log = Log::default();
        let events = Arc::clone(&log.0);
        rig.queue.trace(Arc::new(log), one_in);
        rig.channels.push(rig.queue.channel().unwrap());
        let actions = move || {
            let mut events = events.lock().unwrap().clone();
            events.sort_by_key(|event| (event.id, event.step));
            let of = |events: &[TraceEvent]| {
                (events[0].id, events.iter().map(|event| event.action).collect())
            };
            events.chunk_by(|a, b| a.id == b.id).map(of).collect()
        };
        (rig, actions)
    }

    #[test]
    fn writes_of_a_zone_wait_in_its_plug_and_are_merged_when_they_leave_it() {
        use TraceAction::{Complete, Issue, Merge, Plug, Queue, Unplug};
        let (mut rig, events) = traced(1);
        for sector in [0, 8, 16] {
            rig.write(sector, 8);
        }
        rig.drain();
        assert_eq!(
            events(),
            [
                (1, vec![Queue, Issue, Complete]),
                (2, vec![Queue, Plug, Unplug, Issue, Complete]),
                (3, vec![Queue, Plug, Merge, Complete]),
            ]
        );
    }

    #[test]
    fn one_bio_in_so_many_is_traced() {
        let (mut rig, events) = traced(3);
        for sector in [0, 8, 16, 24, 32, 40, 48] {
            rig.write(sector, 8);
        }
        rig.drain();
        let ids: Vec<u64> = events().into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, [3, 6]);
    }

    #[test]
    fn numbers_are_not_used_again_when_a_channel_is_closed() {
        let (mut rig, events) = traced(1);
        rig.write(0, 8);
        rig.drain();
        rig.channels.clear();
        rig.channels.push(rig.queue.channel().unwrap());
        rig.write(8, 8);
        rig.drain();
        assert_eq!(events().len(), 2, "{:?}", events());
    }

    #[test]
    fn a_refused_write_ends_without_being_issued() {
        let (mut rig, events) = traced(1);
        rig.write(8, 8);
        rig.drain();
        assert_eq!(events(), [(1, vec![TraceAction::Queue, TraceAction::Complete])]);
    }
}
