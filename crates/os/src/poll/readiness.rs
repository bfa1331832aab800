//! A descriptor that can be read when a channel may have something to do: for programs with an event loop
//! of their own, which wait in poll(2) or epoll(7) for many descriptors.
//!
//! ```text
//!  descriptor (epoll) --+-- waker   another thread leaves the channel something to do
//!                       +-- timer   Channel::next_event
//!                       +-- the descriptors that the channel itself waits for
//! ```
use super::Waker;
use crate::RealClock;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use zonal_blk::{Channel, Clock, Nanos, Wake};

/// A descriptor for one channel.
#[derive(Debug)]
pub struct Readiness {
    epoll: OwnedFd,
    timer: OwnedFd,
    waker: Arc<Waker>,
    /// Descriptors of the channel that were added, and those that it has now.
    added: Vec<RawFd>,
    current: Vec<RawFd>,
}

impl Readiness {
    /// A descriptor that cannot be read before [`Readiness::arm`].
    ///
    /// # Errors
    /// The process has no file descriptors left.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: the call takes two numbers.
        let timer = match unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) } {
            -1 => return Err(io::Error::last_os_error()),
            // SAFETY: the call has opened the descriptor for this alone.
            timer => unsafe { OwnedFd::from_raw_fd(timer) },
        };
        let waker = Arc::new(Waker::new()?);
        for fd in [timer.as_fd(), waker.0.as_fd()] {
            epoll::add(&epoll, fd, EventData::new_u64(0), EventFlags::IN)?;
        }
        Ok(Readiness { epoll, timer, waker, added: Vec::new(), current: Vec::new() })
    }

    /// The descriptor. It is closed with this.
    pub fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Before anything is done with the channel.
    pub fn disarm(&self, channel: &mut Channel) {
        channel.awake();
        self.waker.reset();
    }

    /// After something was done with the channel: from now on the descriptor can be read when the channel is to
    /// be polled. `ready` says that it is to be polled already.
    pub fn arm(&mut self, channel: &mut Channel, clock: &RealClock, ready: bool) {
        channel.set_waker(Arc::clone(&self.waker) as _);
        channel.wait_fds(&mut self.current);
        // What cannot be waited for is polled again and again.
        let ready = self.watch().is_err() || ready;
        let sleeps = channel.prepare_to_sleep();
        let wake = if sleeps && !ready { channel.next_event() } else { Wake::Now };
        self.set_timer(match wake {
            Wake::Now => Some(Nanos(0)),
            Wake::At(at) => Some(Nanos(at.0.saturating_sub(clock.now().0))),
            Wake::External | Wake::Idle => None,
        });
    }

    /// Has the timer fire after this time, or not at all.
    fn set_timer(&self, after: Option<Nanos>) {
        // A timer of no time is one that is not set.
        let nanos = after.map_or(0, |after| after.0.max(1));
        let time = |seconds: u64, nanos: u64| libc::timespec {
            tv_sec: seconds.try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: nanos.try_into().expect("less than a second"),
        };
        let value = libc::itimerspec {
            it_interval: time(0, 0),
            it_value: time(nanos / 1_000_000_000, nanos % 1_000_000_000),
        };
        let fd = self.timer.as_raw_fd();
        // SAFETY: the descriptor is a timer, and `value` outlives the call, which keeps nothing.
        let set = unsafe { libc::timerfd_settime(fd, 0, &raw const value, std::ptr::null_mut()) };
        assert_eq!(set, 0, "a timer can be set to any time");
    }

    /// Waits for the descriptors that the channel has now, and for no others.
    fn watch(&mut self) -> io::Result<()> {
        for &fd in self.added.iter().filter(|fd| !self.current.contains(fd)) {
            // SAFETY: the call only looks the number up; that of a closed descriptor is refused, and then
            // the kernel has removed it already.
            let _ = epoll::delete(&self.epoll, unsafe { BorrowedFd::borrow_raw(fd) });
        }
        for &fd in &self.current {
            // SAFETY: the channel has just named the descriptor, and nothing has closed it since.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            // Added each time: a number may be that of another descriptor now.
            match epoll::add(&self.epoll, fd, EventData::new_u64(0), EventFlags::IN) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        std::mem::swap(&mut self.added, &mut self.current);
        self.current.clear();
        Ok(())
    }
}
