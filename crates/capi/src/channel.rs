//! A channel of the block layer whose commands read from and write to memory of the C program.
use crate::error::{Error, Result};
use std::convert::Infallible;
use std::os::fd::RawFd;
use zonal_backend::Stack;
use zonal_blk::{
    Bio, BioFlags, Buf, BufPool, Channel, Clock, Completion, Nanos, Op, ReadBufs, Sector, Slab,
    Status, Wake,
};
use zonal_os::RealClock;
use zonal_os::poll::{
    Frontend, Poller, Progress, Readiness, WaitPolicy, WaitSet, channels_next_event, serve,
};

/// Bytes of the buffers that a channel keeps for later commands.
const MAX_KEPT: usize = 16 << 20;

/// Memory of the C program, or null.
#[derive(Clone, Copy)]
pub(crate) struct Memory(pub *mut u8);

// SAFETY: the submitter of a command promises that its memory stays valid, and is used by nobody
// else, until the command has completed, on whatever thread.
unsafe impl Send for Memory {}

/// A command.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    pub op: Op,
    pub flags: BioFlags,
    /// In bytes.
    pub offset: u64,
    /// In bytes; 0 where the operation has no range.
    pub length: u64,
    /// As long as the command, where that carries data.
    pub memory: Memory,
    /// Comes back with the outcome.
    pub user_data: u64,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub user_data: u64,
    pub status: Status,
    /// In bytes.
    pub length: u64,
    /// In bytes: of an append, where the data landed.
    pub offset: u64,
}

/// A channel and the commands in flight on it.
pub(crate) struct Io {
    link: Link,
    poller: Poller,
    /// Once a program has asked for the descriptor.
    readiness: Option<Readiness>,
    clock: RealClock,
    lba: u64,
    keeps_data: bool,
    /// By the `user_data` of their bios.
    commands: Slab<Command>,
    reads: ReadBufs,
    bufs: BufPool,
}

/// The frontend that [`serve`] drives.
struct Link {
    channel: Channel,
    completions: Vec<Completion>,
    /// When to stop waiting.
    until: Option<Nanos>,
    closing: bool,
}

impl Io {
    /// A new channel of a device.
    pub(crate) fn open(device: &Stack, clock: &RealClock) -> Result<Self> {
        let queue = &device.queue;
        let channel = queue.channel().map_err(|left| Error::new(libc::EBUSY, left))?;
        let poller = Poller::new(WaitPolicy::default())?;
        let link = Link { channel, completions: Vec::new(), until: None, closing: false };
        Ok(Io {
            link,
            poller,
            readiness: None,
            clock: clock.clone(),
            lba: queue.limits().lba_size.into(),
            keeps_data: device.keeps_data,
            reads: queue.device().read_bufs(),
            commands: Slab::default(),
            bufs: BufPool::default(),
        })
    }

    /// Commands in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.commands.len()
    }

    /// A descriptor that can be read when [`Io::poll`] may find something.
    pub(crate) fn descriptor(&mut self) -> Result<RawFd> {
        match &self.readiness {
            Some(readiness) => Ok(readiness.fd()),
            None => Ok(self.readiness.insert(Readiness::new()?).fd()),
        }
    }

    /// Before something is submitted or polled.
    pub(crate) fn disarm(&mut self) {
        if let Some(readiness) = &self.readiness {
            readiness.disarm(&mut self.link.channel);
        }
    }

    /// After something was submitted or polled. `ready` says that there are completions already.
    pub(crate) fn arm(&mut self, ready: bool) {
        if let Some(readiness) = &mut self.readiness {
            readiness.arm(&mut self.link.channel, &self.clock, ready);
        }
    }

    /// Submits a command.
    ///
    /// # Safety
    /// A command with data has memory of its length, which stays valid and is used by nobody else until the
    /// command has completed.
    pub(crate) unsafe fn submit(&mut self, command: Command) -> Result<()> {
        let nr_sectors = self.check(&command)?;
        let buf = if self.keeps_data && command.op.info().has_data {
            let mut buf = self.buffer(command.op, command.length)?;
            if command.op != Op::Read {
                // SAFETY: the memory is as long as the command, and so is the buffer.
                let data = unsafe { std::slice::from_raw_parts(command.memory.0, buf.len()) };
                buf.copy_from_slice(data);
            }
            Some(buf)
        } else {
            None
        };
        let number = self.commands.insert(command);
        let bio = Bio::new(command.op, Sector(command.offset / 512), nr_sectors, number as u64);
        let bio = Bio { flags: command.flags, buf, ..bio };
        self.link.channel.submit(self.clock.now(), bio);
        Ok(())
    }

    /// The command's length in sectors.
    fn check(&self, command: &Command) -> Result<u32> {
        let Command { op, offset, length, memory, .. } = command;
        let lba = self.lba;
        if !offset.is_multiple_of(lba) || !length.is_multiple_of(lba) {
            return Err(Error::invalid(format_args!(
                "{op:?} of {length} bytes at byte {offset}: expected multiples of {lba}, a logical block"
            )));
        }
        if op.has_range() && *length == 0 {
            return Err(Error::invalid(format_args!("{op:?} of 0 bytes: expected at least {lba}")));
        }
        if op.info().has_data && memory.0.is_null() {
            return Err(Error::new(libc::EFAULT, format_args!("{op:?}: found no buffer (NULL)")));
        }
        u32::try_from(length / 512).map_err(|_| {
            Error::invalid(format_args!("{op:?} of {length} bytes: expected less than 2 TiB"))
        })
    }

    fn buffer(&mut self, op: Op, length: u64) -> Result<Buf> {
        let len = usize::try_from(length).unwrap_or(usize::MAX);
        let buf = match op {
            Op::Read => self.bufs.for_read(len, self.reads),
            _ => self.bufs.sized(len),
        };
        let memory = || Error::new(libc::ENOMEM, format_args!("no memory for {length} bytes"));
        buf.ok_or_else(memory)
    }

    /// Appends the outcomes of what has completed to `outcomes`. With none there yet, waits until one
    /// is, nothing is in flight, or `until`.
    pub(crate) fn poll(&mut self, until: Option<Nanos>, outcomes: &mut Vec<Outcome>) {
        self.link.until = until;
        self.link.channel.poll(self.clock.now(), &mut self.link.completions);
        if self.link.completions.is_empty() && until != Some(Nanos(0)) && self.in_flight() > 0 {
            let Ok(()) = serve(&mut self.link, &self.clock, &mut self.poller);
        }
        for completion in self.link.completions.drain(..) {
            let number = usize::try_from(completion.user_data).expect("numbers are indices");
            let command = self.commands.remove(number).expect("a command completes once");
            if command.op == Op::Read && completion.status == Status::Ok {
                // SAFETY: the command has only now completed.
                unsafe { give(&command, completion.buf.as_deref()) };
            }
            if let Some(buf) = completion.buf {
                self.bufs.put(buf, MAX_KEPT);
            }
            outcomes.push(Outcome {
                user_data: command.user_data,
                status: completion.status,
                length: command.length,
                offset: completion.sector.0 * 512,
            });
        }
    }
}

/// Copies what was read to the program; zeroes from a device that keeps no data.
///
/// # Safety
/// The command's memory is as long as the command.
unsafe fn give(command: &Command, read: Option<&[u8]>) {
    let length = usize::try_from(command.length).expect("it was read");
    // SAFETY: as above.
    let memory = unsafe { std::slice::from_raw_parts_mut(command.memory.0, length) };
    match read {
        Some(read) => memory.copy_from_slice(read),
        None => memory.fill(0),
    }
}

impl Drop for Io {
    /// Waits for what is in flight, whose memory nobody promises after this.
    fn drop(&mut self) {
        self.link.closing = true;
        let Ok(()) = serve(&mut self.link, &self.clock, &mut self.poller);
    }
}

impl Frontend for Link {
    type Error = Infallible;

    fn poll(&mut self, clock: &RealClock) -> std::result::Result<Progress, Infallible> {
        let now = clock.now();
        let count = self.channel.poll(now, &mut self.completions);
        let done = self.closing
            || !self.completions.is_empty()
            || self.channel.outstanding() == 0
            || self.until.is_some_and(|until| until <= now);
        Ok(match count {
            _ if done => Progress::Done,
            0 => Progress::Idle,
            _ => Progress::Worked,
        })
    }

    fn drain(&mut self, now: Nanos) -> bool {
        if !self.closing {
            return true;
        }
        self.channel.drain();
        self.channel.poll(now, &mut self.completions);
        self.channel.is_idle()
    }

    fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel)) {
        visit(&mut self.channel);
    }

    fn wait_fds(&mut self, _: &mut WaitSet) {}

    fn next_event(&mut self, _: Nanos) -> Wake {
        let until = self.until.map_or(Wake::Idle, Wake::At);
        channels_next_event(self).min(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::QueueOptions;

    #[test]
    fn buffers_of_mixed_lengths_are_used_again() {
        // The short one completes last, and is not long enough for the next.
        const LENGTHS: [u64; 2] = [1 << 20, 4 << 10];
        let name = "null:memory=true,latency=1us";
        let device = Stack::open(name).expect("a device").attach(QueueOptions::default());
        let device = device.expect("a device");
        let mut io = Io::open(&device, &RealClock::start()).expect("a channel");
        let mut memory = vec![0; 1 << 20];
        let mut outcomes = Vec::new();
        for _ in 0..100 {
            for length in LENGTHS {
                let memory = Memory(memory.as_mut_ptr());
                let (op, flags) = (Op::Read, BioFlags::NONE);
                let command = Command { op, flags, offset: 0, length, memory, user_data: 0 };
                // SAFETY: the memory is as long as the longest, and what the reads write is not looked at.
                unsafe { io.submit(command) }.expect("a read");
            }
            while io.in_flight() > 0 {
                io.poll(None, &mut outcomes);
            }
        }
        assert!(outcomes.iter().all(|outcome| outcome.status == Status::Ok));
        let most: u64 = LENGTHS.iter().sum();
        assert!(io.bufs.bytes() as u64 <= most, "{} bytes kept", io.bufs.bytes());
    }
}
