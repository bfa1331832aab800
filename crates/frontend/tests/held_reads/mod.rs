//! A device whose reads complete when a test says so, and wake nothing before.
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use zonal_blk::{Device, HwQueue, Limits, Nanos, Op, ReadBufs, Request, Status, Wake};

/// A device around another one.
pub struct HeldReads {
    inner: Arc<dyn Device>,
    is_released: AtomicBool,
    /// The bytes of reads that one queue has held at the same time, at most.
    most_held: AtomicU64,
    /// Readable once the reads are released.
    event: OwnedFd,
}

impl HeldReads {
    /// A device that holds all reads.
    pub fn new(inner: Arc<dyn Device>) -> Arc<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
        let (is_released, most_held) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(HeldReads { inner, is_released, most_held, event })
    }

    /// The bytes of reads that one queue has held at the same time, at most.
    #[allow(dead_code, reason = "each test binary uses a part of it")]
    pub fn most_held(&self) -> u64 {
        self.most_held.load(Ordering::Acquire)
    }

    /// Completes the reads that are held, and all others from now on.
    pub fn release(&self) {
        self.is_released.store(true, Ordering::Release);
        rustix::io::write(&self.event, &1_u64.to_ne_bytes()).expect("a descriptor");
    }
}

impl Device for HeldReads {
    fn inner(&self) -> Option<&dyn Device> {
        Some(&*self.inner)
    }

    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn read_bufs(&self) -> ReadBufs {
        ReadBufs::Unknown
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let inner = Arc::clone(&self.inner).open_queue();
        Box::new(Queue { device: self, inner, held: Vec::new() })
    }
}

struct Queue {
    device: Arc<HeldReads>,
    inner: Box<dyn HwQueue>,
    held: Vec<Box<Request>>,
}

impl HwQueue for Queue {
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        if request.op() != Op::Read {
            return self.inner.start(now, request);
        }
        self.held.push(request);
        let bytes = self.held.iter().map(|request| u64::from(request.nr_sectors()) * 512).sum();
        self.device.most_held.fetch_max(bytes, Ordering::AcqRel);
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        if self.device.is_released.load(Ordering::Acquire) {
            self.held.iter_mut().for_each(|request| request.set_status(Status::Ok));
            done.append(&mut self.held);
        }
        self.inner.poll(now, done);
    }

    fn next_event(&self) -> Wake {
        let held = if self.held.is_empty() { Wake::Idle } else { Wake::External };
        held.min(self.inner.next_event())
    }

    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        self.inner.wait_fds(fds);
        if !self.held.is_empty() {
            fds.push(self.device.event.as_raw_fd());
        }
    }
}
