//! The interface between the block layer and a device.
use crate::limits::Limits;
use crate::request::Request;
use crate::status::Status;
use crate::units::{Nanos, Tag, ZoneNo};
use crate::wake::Wake;
use crate::zone::Zone;
use std::os::fd::RawFd;
use std::sync::Arc;

/// A device: limits, zones, and hardware queues to send requests through.
pub trait Device: Send + Sync {
    /// What the device can do. Constant while a queue is attached.
    fn limits(&self) -> &Limits;

    /// Appends the descriptors of up to `max` zones from `first` on to `zones`.
    ///
    /// # Errors
    /// The status with which the device refused the report.
    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status>;

    /// Whether its queues take bios with [external buffers](crate::Buf::external), and the alignment in
    /// memory, in bytes, that these must have. A device around another one passes this on only if it
    /// does not look at data.
    fn external_buf_alignment(&self) -> Option<u32> {
        None
    }

    /// Opens one more hardware queue. The block layer opens at most [`Limits::nr_queues`].
    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue>;
}

/// A hardware queue: requests go in and come back completed. Used by one thread at a time.
pub trait HwQueue: Send {
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
    fn next_event(&self) -> Wake;

    /// Appends the file descriptors that become readable when [`HwQueue::poll`] may find something.
    /// A device around another one passes this on.
    fn wait_fds(&self, _fds: &mut Vec<RawFd>) {}

    /// Another channel takes over the queue of one that was dropped; nothing is in flight. A device
    /// whose queues each have a sequence of random numbers begins a new one. A device around another
    /// one passes this on.
    fn reopen(&mut self) {}

    /// A request has been in flight for longer than the I/O timeout: the device may abort it
    /// (`blk_mq_ops::timeout`). A request that it gives back it must no longer execute. If aborting one
    /// takes a reset, it gives back the others too, each with its status. Those that can be given back
    /// at once go to the end of `done`.
    ///
    /// By default the device goes on with the request.
    fn abort(&mut self, _now: Nanos, _tag: Tag, _done: &mut Vec<Box<Request>>) -> Abort {
        Abort::ResetTimer
    }
}

/// What a device does about a request that has timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// It gives the request back, now or in a later poll. Whether the request was executed is unknown:
    /// it completes with [`Status::Timeout`], and its tag stays allocated until it is back.
    Accepted,
    /// It goes on with the request (`BLK_EH_RESET_TIMER`); after another timeout `abort` is called
    /// again.
    ResetTimer,
}
