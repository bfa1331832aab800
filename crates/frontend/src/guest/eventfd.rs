//! Eventfds of a client, by which guests and servers wake each other.
use super::signals::Signals;
use rustix::fs::readlink;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// An eventfd.
#[derive(Debug)]
pub struct Eventfd {
    fd: OwnedFd,
    signals: &'static Signals,
}

impl Eventfd {
    /// The eventfd that a client has sent.
    ///
    /// # Errors
    /// `EINVAL`: it is something else; those of [`Signals::get`].
    pub fn new(fd: OwnedFd) -> Result<Self, Errno> {
        let name = readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())?;
        if name.to_bytes() != b"anon_inode:[eventfd]" {
            return Err(Errno::INVAL);
        }
        Ok(Eventfd { fd, signals: Signals::get()? })
    }

    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Wakes the client. Never blocks, whatever the client does with the eventfd.
    pub fn signal(&self) {
        self.signals.signal(&self.fd);
    }

    /// The client has woken us.
    pub fn clear(&self) {
        // Does not block, however the client has opened it. Empty if somebody else has read it.
        let mut count = [0; 8];
        let mut buffers = [IoSliceMut::new(&mut count)];
        let _ = preadv2(&self.fd, &mut buffers, u64::MAX, ReadWriteFlags::NOWAIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::io::write;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn eventfd_is_signalled_and_cleared_and_nothing_else_is_one() {
        let event = eventfd(0, EventfdFlags::empty()).expect("an eventfd");
        let ours = Eventfd::new(event.try_clone().expect("a descriptor")).expect("an eventfd");
        ours.clear();
        ours.signal();
        ours.signal();
        let mut count = [0; 8];
        rustix::io::read(&event, &mut count).expect("it was signalled");
        assert_eq!(u64::from_ne_bytes(count), 2);
        // More than the kernel remembers completions of.
        (0..5000).for_each(|_| ours.signal());
        rustix::io::read(&event, &mut count).expect("it was signalled");
        assert_eq!(u64::from_ne_bytes(count), 5000);
        let (pipe, _other) = std::io::pipe().expect("a pipe");
        assert_eq!(Eventfd::new(pipe.into()).err(), Some(Errno::INVAL));
    }

    #[test]
    fn full_eventfd_that_the_client_keeps_making_blocking_does_not_block() {
        let event = eventfd(0, EventfdFlags::empty()).expect("an eventfd");
        let ours = Eventfd::new(event.try_clone().expect("a descriptor")).expect("an eventfd");
        write(&event, &(u64::MAX - 1).to_ne_bytes()).expect("room");
        let (ended, (done, signalled)) = (AtomicBool::new(false), mpsc::channel());
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    fcntl_setfl(&event, OFlags::empty()).expect("it is the client's, too");
                }
            });
            scope.spawn(move || {
                (0..20_000).for_each(|_| ours.signal());
                done.send(()).expect("it waits");
                ours.clear();
            });
            let signalled = signalled.recv_timeout(Duration::from_secs(60));
            ended.store(true, Ordering::Relaxed);
            // Ends a call that blocks.
            let _ = preadv2(
                &event,
                &mut [IoSliceMut::new(&mut [0; 8])],
                u64::MAX,
                ReadWriteFlags::NOWAIT,
            );
            assert!(signalled.is_ok(), "it blocks");
        });
    }
}
