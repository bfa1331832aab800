//! Eventfds of a client, by which guests and servers wake each other.
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, readlink};
use rustix::io::{Errno, ReadWriteFlags, preadv2, write};
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// An eventfd.
#[derive(Debug)]
pub struct Eventfd(OwnedFd);

impl Eventfd {
    /// The eventfd that a client has sent.
    ///
    /// # Errors
    /// `EINVAL`: it is something else.
    pub fn new(fd: OwnedFd) -> Result<Self, Errno> {
        let name = readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())?;
        if name.to_bytes() != b"anon_inode:[eventfd]" {
            return Err(Errno::INVAL);
        }
        Ok(Eventfd(fd))
    }

    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Wakes the client.
    pub fn signal(&self) {
        // The client has the same description, and can make it one that blocks at any time.
        let flags = fcntl_getfl(&self.0).unwrap_or(OFlags::empty());
        if !flags.contains(OFlags::NONBLOCK)
            && fcntl_setfl(&self.0, flags | OFlags::NONBLOCK).is_err()
        {
            return;
        }
        // Full if the client was woken 2^64 times in vain.
        let _ = write(&self.0, &1_u64.to_ne_bytes());
    }

    /// The client has woken us.
    pub fn clear(&self) {
        // Does not block, however the client has opened it. Empty if somebody else has read it.
        let mut count = [0; 8];
        let mut buffers = [IoSliceMut::new(&mut count)];
        let _ = preadv2(&self.0, &mut buffers, u64::MAX, ReadWriteFlags::NOWAIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn eventfd_that_the_client_lets_block_does_not() {
        let event = eventfd(0, EventfdFlags::empty()).expect("an eventfd");
        let ours = Eventfd::new(event.try_clone().expect("a descriptor")).expect("an eventfd");
        ours.clear();
        ours.signal();
        ours.signal();
        let mut count = [0; 8];
        rustix::io::read(&event, &mut count).expect("it was signalled");
        assert_eq!(u64::from_ne_bytes(count), 2);
        write(&event, &(u64::MAX - 1).to_ne_bytes()).expect("room");
        fcntl_setfl(&event, OFlags::empty()).expect("flags");
        ours.signal();
        fcntl_setfl(&event, OFlags::empty()).expect("flags");
        ours.clear();
        assert!(write(&event, &1_u64.to_ne_bytes()).is_ok(), "it was full");
        let (pipe, _other) = std::io::pipe().expect("a pipe");
        assert!(Eventfd::new(pipe.into()).is_err());
    }
}
