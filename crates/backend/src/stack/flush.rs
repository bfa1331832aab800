//! A flush on the calling thread, at the end of a device's use.
use super::Stack;
use crate::StackError;
use std::convert::Infallible;
use std::io;
use zonal_blk::{Bio, Channel, Clock, Completion, Nanos, Op, Sector, Status};
use zonal_os::RealClock;
use zonal_os::poll::{Frontend, Poller, Progress, WaitPolicy, WaitSet, serve};

impl Stack {
    /// Commits what the device has answered so far: flushes it, and waits. `clock` is that of the device's
    /// other users.
    ///
    /// # Errors
    /// [`StackError::Flush`]: what was not flushed before may be lost.
    pub fn flush(&self, clock: &RealClock) -> Result<(), StackError> {
        let flushed = self.try_flush(clock);
        flushed.map_err(|error| StackError::Flush { name: self.name.clone(), error })
    }

    fn try_flush(&self, clock: &RealClock) -> io::Result<()> {
        let mut channel = self.queue.channel().map_err(io::Error::other)?;
        let mut poller = Poller::new(WaitPolicy::default())?;
        channel.submit(clock.now(), Bio::new(Op::Flush, Sector(0), 0, 0));
        let mut flush = Flush { channel, done: Vec::new() };
        let Ok(()) = serve(&mut flush, clock, &mut poller);
        match flush.done[0].status {
            Status::Ok => Ok(()),
            status => Err(io::Error::from_raw_os_error(status.errno())),
        }
    }
}

struct Flush {
    channel: Channel,
    /// The completion of the flush.
    done: Vec<Completion>,
}

impl Frontend for Flush {
    type Error = Infallible;

    fn poll(&mut self, clock: &RealClock) -> Result<Progress, Infallible> {
        self.channel.poll(clock.now(), &mut self.done);
        Ok(if self.done.is_empty() { Progress::Idle } else { Progress::Done })
    }

    fn drain(&mut self, now: Nanos) -> bool {
        self.channel.drain();
        self.channel.poll(now, &mut self.done);
        self.channel.is_idle()
    }

    fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel)) {
        visit(&mut self.channel);
    }

    fn wait_fds(&mut self, _: &mut WaitSet) {}
}
