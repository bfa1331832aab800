//! The interface between the block layer and a device.
use crate::limits::Limits;
use crate::placement::DataPlacement;
use crate::request::Request;
use crate::status::Status;
use crate::units::{Nanos, Tag, ZoneNo};
use crate::wake::Wake;
use crate::zone::Zone;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;

/// A device: limits, zones, and hardware queues to send requests through.
///
/// A device around another one (a wrapper) names it in [`Device::inner`], which then answers every
/// question that the wrapper does not answer itself. A wrapper that changes what an answer is about
/// states its own.
pub trait Device: Send + Sync {
    /// The device inside, of a wrapper.
    fn inner(&self) -> Option<&dyn Device> {
        None
    }

    /// The limits of the device. Constant while a queue is attached.
    fn limits(&self) -> &Limits;

    /// The number of zones that the device has now: the first ones of its limits, and all of them unless
    /// it has lost some. A disk that has lost a head can be formatted with fewer zones while it is in use;
    /// [`Queue::revalidate`](crate::Queue::revalidate) then tells the layer.
    fn nr_zones(&self) -> u32 {
        let all = self.limits().nr_zones;
        self.inner().map_or(all, |inner| inner.nr_zones().min(all))
    }

    /// Appends the descriptors of up to `max` zones from `first` on to `zones`. By default there are
    /// none.
    ///
    /// Answers without the layer and without [`HwQueue::poll`]: the layer asks after a failed write, in
    /// [`Channel::poll`](crate::Channel::poll), with the zone's plug locked, whether or not the queue is
    /// frozen and a tag is left.
    ///
    /// # Errors
    /// The status with which the device refused the report.
    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        self.inner().map_or(Ok(()), |inner| inner.report_zones(first, max, zones))
    }

    /// The same for a caller that needs the kind, the capacity and the write pointer of each zone, but not
    /// which active zones are open or closed: a device that has these cached answers faster. An active
    /// zone may have any active condition.
    ///
    /// # Errors
    /// As for [`Device::report_zones`].
    fn report_zones_cached(
        &self,
        first: ZoneNo,
        max: usize,
        zones: &mut Vec<Zone>,
    ) -> Result<(), Status> {
        self.report_zones(first, max, zones)
    }

    /// How many zones from `first` on, up to `max`, are as those of a new device: sequential and empty, of
    /// the device's zone size, with the capacity of its other sequential zones. A report of them says
    /// nothing else, so a reader of all zones may leave them out. 0 if the device does not know.
    fn zones_as_new(&self, first: ZoneNo, max: u32) -> u32 {
        self.inner().map_or(0, |inner| inner.zones_as_new(first, max))
    }

    /// Whether its queues take bios with [external buffers](crate::Buf::external), and the alignment in
    /// memory, in bytes, that these must have. A wrapper that looks at data answers `None`.
    fn external_buf_alignment(&self) -> Option<u32> {
        self.inner()?.external_buf_alignment()
    }

    /// How reads that succeed use their buffers. A wrapper that writes to the buffers of reads
    /// answers itself.
    fn read_bufs(&self) -> ReadBufs {
        self.inner().map_or(ReadBufs::Unknown, |inner| inner.read_bufs())
    }

    /// The descriptor extensions of its zones, if it has any. A wrapper answers `None` unless its zones
    /// are those of the device inside, also after a loss of power.
    fn zone_extensions(&self) -> Option<&dyn ZoneExtensions> {
        self.inner()?.zone_extensions()
    }

    /// The actions on its zones that it takes on its own, if any.
    fn zone_aging(&self) -> Option<&dyn ZoneAging> {
        self.inner()?.zone_aging()
    }

    /// Its reclaim unit handles, of a device with flexible data placement.
    fn placement(&self) -> Option<&dyn DataPlacement> {
        self.inner()?.placement()
    }

    /// Opens one more hardware queue. The block layer opens at most [`Limits::nr_queues`].
    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue>;
}

/// Zone descriptor extensions (NVMe ZNS 1.1 section 3.4.2): bytes that a host keeps with a zone, until
/// the zone is empty again.
pub trait ZoneExtensions: Send + Sync {
    /// The bytes of each: a multiple of 64, and not 0.
    fn size(&self) -> usize;

    /// Copies the extension of a zone to `to`, which is as long as one; zeroes if the zone has none.
    fn get(&self, zone: ZoneNo, to: &mut [u8]);

    /// Sets the extension of an empty zone, which becomes closed (Set Zone Descriptor Extension); with
    /// `zrwa` it gets a random write area, too.
    ///
    /// # Errors
    /// [`Status::Invalid`] for data of another length; [`Status::IoError`] if the zone is not empty,
    /// [`Status::Offline`] if it is offline; [`Status::ZoneActiveResource`] if no other zone can be
    /// active; [`Status::NoSpace`] or [`Status::NotSupported`] if no random write area is left, or none
    /// there.
    fn set(&self, zone: ZoneNo, data: &[u8], zrwa: bool) -> Result<(), Status>;
}

/// Zones that change without a command: a device recommends to finish or to reset those that have been
/// active or full for long, or finishes them (NVMe ZNS 1.1 section 3.4.2.2.3, zone attributes).
pub trait ZoneAging: Send + Sync {
    /// The limits, as the device states them.
    fn limits(&self) -> AgingLimits;

    /// Does what is due at `now`, and appends the zones whose descriptors have changed since the last
    /// call to `changed`. Returns when something is due next, as far as the device knows.
    fn age(&self, now: Nanos, changed: &mut Vec<ZoneNo>) -> Option<Nanos>;
}

/// See [`ZoneAging::limits`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgingLimits {
    /// The device may finish active zones (active zone excursions, ZOC bit 1).
    pub excursions: bool,
    /// How long it waits for the host after it has recommended to finish a zone (FRL); 0 if it does not
    /// say.
    pub finish: Nanos,
}

/// How a read that succeeds uses its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBufs {
    /// It may leave parts as they were: the caller clears the buffer before it passes the data on.
    Unknown,
    /// It sets every byte.
    Filled,
    /// It keeps no data, and never touches the buffer of any command.
    Untouched,
}

/// A hardware queue: requests go in and come back completed. Used by one thread at a time.
///
/// A queue around another one (that of a wrapper) names it in [`HwQueue::inner`] and
/// [`HwQueue::inner_mut`], which then answers every question that the wrapper does not answer itself.
pub trait HwQueue: Send {
    /// The queue inside, of a wrapper.
    fn inner(&self) -> Option<&dyn HwQueue> {
        None
    }

    /// The queue inside, of a wrapper, to change it.
    fn inner_mut(&mut self) -> Option<&mut dyn HwQueue> {
        None
    }

    /// Starts a request. The device owns it until [`HwQueue::poll`] gives it back.
    ///
    /// # Errors
    /// A device that is busy hands the request back; the layer queues it again.
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>>;

    /// Moves the requests that are done at `now` to the end of `done`, each with its status set.
    /// Never blocks.
    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>);

    /// When [`HwQueue::poll`] will next find a request done, as far as the device knows. A queue
    /// answers [`Wake::External`] only if [`HwQueue::wait_fds`] names what to wait for.
    ///
    /// The event of a wrapper is the earlier of [`HwQueue::own_event`] and that of the queue inside.
    fn next_event(&self) -> Wake;

    /// When a wrapper itself next has something to do, whatever the queue inside does.
    fn own_event(&self) -> Wake {
        Wake::Idle
    }

    /// The time before which [`HwQueue::poll`] finds no request done unless others are started: that of
    /// [`HwQueue::next_event`], or later if the device knows that what it does then completes none. What
    /// was due meanwhile happens at its own time in the poll that follows.
    fn next_completion(&self) -> Wake {
        match self.inner() {
            Some(inner) => self.own_event().min(inner.next_completion()),
            None => self.next_event(),
        }
    }

    /// Whether [`HwQueue::poll`] would find a request done at `now`; true if only the poll can tell. The
    /// device does what is due, and keeps what it has completed.
    fn has_done(&mut self, now: Nanos) -> bool {
        self.own_event().is_due(now) || self.inner_mut().is_none_or(|inner| inner.has_done(now))
    }

    /// Appends the file descriptors that become readable when [`HwQueue::poll`] may find something.
    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        if let Some(inner) = self.inner() {
            inner.wait_fds(fds);
        }
    }

    /// Another channel takes over the queue of one that was dropped; nothing is in flight. A device
    /// whose queues each have a sequence of random numbers begins a new one.
    fn reopen(&mut self) {
        if let Some(inner) = self.inner_mut() {
            inner.reopen();
        }
    }

    /// A request has been in flight for longer than the I/O timeout: the device may abort it
    /// (`blk_mq_ops::timeout`). A request that it gives back it must no longer execute. If aborting one
    /// takes a reset, it gives back the others too, each with its status. Requests that can be given
    /// back immediately go to the end of `done`. A wrapper that holds requests, or looks at completed
    /// ones, answers itself.
    ///
    /// By default the device goes on with the request.
    fn abort(&mut self, now: Nanos, tag: Tag, done: &mut Vec<Box<Request>>) -> Abort {
        match self.inner_mut() {
            Some(inner) => inner.abort(now, tag, done),
            None => Abort::ResetTimer,
        }
    }
}

/// A hardware queue of a device that knows, when a command is started, how it ends and when. Commands
/// that are due at the same time complete in the order in which they were started.
pub struct TimedQueue<F> {
    execute: F,
    /// By the time when they are due.
    in_flight: VecDeque<(Nanos, Box<Request>)>,
}

impl<F> TimedQueue<F>
where
    F: FnMut(Nanos, &mut Request) -> (Status, Nanos) + Send,
{
    /// A queue that executes each command with `execute`, at the time of its start. That returns the
    /// command's status, and when it completes.
    pub fn new(execute: F) -> Self {
        TimedQueue { execute, in_flight: VecDeque::new() }
    }
}

impl<F> HwQueue for TimedQueue<F>
where
    F: FnMut(Nanos, &mut Request) -> (Status, Nanos) + Send,
{
    fn start(&mut self, now: Nanos, mut request: Box<Request>) -> Result<(), Box<Request>> {
        let (status, due) = (self.execute)(now, &mut request);
        request.set_status(status);
        let behind = self.in_flight.iter().rev().take_while(|(other, _)| *other > due).count();
        self.in_flight.insert(self.in_flight.len() - behind, (due, request));
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        while let Some((_, request)) = self.in_flight.pop_front_if(|(due, _)| *due <= now) {
            done.push(request);
        }
    }

    fn next_event(&self) -> Wake {
        self.in_flight.front().map_or(Wake::Idle, |&(due, _)| Wake::At(due))
    }
}

/// A device's reaction to a request that has timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// It gives the request back, now or in a later poll. Whether the request was executed is unknown:
    /// it completes with [`Status::Timeout`], and its tag stays allocated until it is back.
    Accepted,
    /// It goes on with the request (`BLK_EH_RESET_TIMER`); after another timeout `abort` is called
    /// again.
    ResetTimer,
}

/// The first `count` zones of a device, in one report.
///
/// # Errors
/// The status with which the device refused; [`Status::IoError`] if it reports fewer.
pub(crate) fn report_all(device: &dyn Device, count: u32) -> Result<Vec<Zone>, Status> {
    let count = count as usize;
    let mut zones = Vec::with_capacity(count);
    device.report_zones(ZoneNo(0), count, &mut zones)?;
    if zones.len() == count { Ok(zones) } else { Err(Status::IoError) }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::{Bio, Op, Queue, QueueOptions, Sector};

    /// Reads take as many nanoseconds as their sector says.
    struct Timed(Limits);

    impl Device for Timed {
        fn limits(&self) -> &Limits {
            &self.0
        }

        fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
            Box::new(TimedQueue::new(|now, request: &mut Request| {
                (Status::Ok, now + Nanos(request.sector().0))
            }))
        }
    }

    #[test]
    fn timed_queue_completes_commands_when_due_and_in_order_of_start_at_one_time() {
        let device = Arc::new(Timed(Limits::regular(Sector(1024))));
        let queue = Queue::attach(device, QueueOptions::default()).unwrap();
        let mut channel = queue.channel().unwrap();
        for (id, sector) in [(0, 50), (1, 20), (2, 50), (3, 10), (4, 20)] {
            channel.submit(Nanos(0), Bio::new(Op::Read, Sector(sector), 1, id));
        }
        let mut completions = Vec::new();
        let mut completed = |now| {
            channel.poll(Nanos(now), &mut completions);
            let ids: Vec<u64> = completions.drain(..).map(|done| done.user_data).collect();
            (ids, channel.next_event())
        };
        assert_eq!(completed(9), (vec![], Wake::At(Nanos(10))));
        assert_eq!(completed(20), (vec![3, 1, 4], Wake::At(Nanos(50))));
        assert_eq!(completed(50), (vec![0, 2], Wake::Idle));
    }
}
