//! Eventfds of a client, by which guests and servers wake each other.
use super::signals::Signals;
use rustix::fs::{Mode, OFlags, open, readlink};
use rustix::io::{Errno, ReadWriteFlags, preadv2, write};
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// An eventfd, or a pipe instead of one.
#[derive(Debug)]
pub struct Eventfd {
    fd: OwnedFd,
    /// `None` for a pipe.
    signals: Option<&'static Signals>,
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
        Ok(Eventfd { fd, signals: Some(Signals::get()?) })
    }

    /// The eventfd that a client has sent to be woken by, or the pipe: there is no SIGIO of an eventfd.
    ///
    /// # Errors
    /// As [`Eventfd::new`]; the pipe cannot be opened.
    pub fn or_pipe(fd: OwnedFd) -> Result<Self, Errno> {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        if !readlink(&path, Vec::new())?.to_bytes().starts_with(b"pipe:") {
            return Eventfd::new(fd);
        }
        // A description of our own, which the client cannot make block; and the pipe always has a reader, so that there
        // is no SIGPIPE.
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(Eventfd { fd: open(path, flags, Mode::empty())?, signals: None })
    }

    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Wakes the client. Never blocks, whatever the client does with the eventfd.
    pub fn signal(&self) {
        match self.signals {
            Some(signals) => signals.signal(&self.fd),
            // One that is full wakes the client as it is.
            None => drop(write(&self.fd, &1_u64.to_ne_bytes())),
        }
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
    use rustix::fs::fcntl_setfl;
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
    fn pipe_is_signalled_and_neither_blocks_nor_breaks() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let ours = Eventfd::or_pipe(writer.try_clone().expect("a descriptor").into());
        let ours = ours.expect("a pipe");
        fcntl_setfl(&writer, OFlags::empty()).expect("it is the client's");
        drop(writer);
        ours.signal();
        let mut count = [0; 16];
        assert_eq!(rustix::io::read(&reader, &mut count).expect("it was signalled"), 8);
        assert_eq!(count[..8], 1_u64.to_ne_bytes());
        // More than there is room for.
        (0..20_000).for_each(|_| ours.signal());
        drop(reader);
        ours.signal();
        let event = eventfd(0, EventfdFlags::empty()).expect("an eventfd");
        assert!(Eventfd::or_pipe(event).is_ok_and(|event| event.signals.is_some()));
        let other = std::fs::File::open("/dev/null").expect("a file");
        assert_eq!(Eventfd::or_pipe(other.into()).err(), Some(Errno::INVAL));
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
