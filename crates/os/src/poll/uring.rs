//! An io_uring: entries go in, completions come out, and nothing blocks unless it says so.
//!
//! Completions are posted when the thread that submitted enters the kernel
//! (`IORING_SETUP_COOP_TASKRUN`), as [`Uring::submit`] does when there is a reason to; sleeping in
//! poll(2) on [`Uring::fd`] is another way in.
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{Builder, IoUring, cqueue, squeue};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// An io_uring and what of its entries is still with the kernel.
pub struct Uring<S = squeue::Entry, C = cqueue::Entry>
where
    S: squeue::EntryMarker,
    C: cqueue::EntryMarker,
{
    ring: IoUring<S, C>,
    /// Entries for which the submission queue had no room yet, in order.
    backlog: VecDeque<S>,
    /// Entries that the kernel does not have yet.
    queued: usize,
    /// These, and those that the kernel has.
    in_flight: usize,
}

impl<S: squeue::EntryMarker, C: cqueue::EntryMarker> Uring<S, C> {
    /// Sets up a ring with a submission queue of `entries`.
    ///
    /// # Errors
    /// The kernel has no memory for it, or io_uring is disabled.
    pub fn new(entries: u32) -> io::Result<Self> {
        Self::with_setup(entries, |_| {})
    }

    /// The same, with further setup flags.
    pub fn with_setup(entries: u32, setup: impl Fn(&mut Builder<S, C>)) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        setup(builder.setup_coop_taskrun().setup_taskrun_flag());
        let ring = builder.build(entries).or_else(|error| match error.raw_os_error() {
            // Linux before 5.19 knows neither flag and interrupts the thread to post completions.
            Some(libc::EINVAL) => {
                let mut builder = IoUring::builder();
                setup(&mut builder);
                builder.build(entries)
            }
            _ => Err(error),
        })?;
        Ok(Uring { ring, backlog: VecDeque::new(), queued: 0, in_flight: 0 })
    }

    /// Makes `file` fixed file 0.
    ///
    /// # Errors
    /// The errors of `io_uring_register`.
    pub fn register_file(&self, file: &File) -> io::Result<()> {
        self.ring.submitter().register_files(&[file.as_raw_fd()])
    }

    /// Makes a table of `len` fixed buffers, all empty.
    ///
    /// # Errors
    /// The errors of `io_uring_register`.
    pub fn register_buffers_sparse(&self, len: u32) -> io::Result<()> {
        self.ring.submitter().register_buffers_sparse(len)
    }

    /// Queues an entry for the next [`submit`](Self::submit).
    ///
    /// # Safety
    /// The files and the memory that the entry names stay open, in place and untouched until its
    /// completion has been [reaped](Self::reap).
    pub unsafe fn push(&mut self, entry: S) {
        (self.queued, self.in_flight) = (self.queued + 1, self.in_flight + 1);
        // SAFETY: the caller's promise.
        if !self.backlog.is_empty() || unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.backlog.push_back(entry);
        }
    }

    /// Passes queued entries to the kernel and has it post completions. Does not block, and makes
    /// no system call if there is nothing to do.
    ///
    /// # Errors
    /// The kernel does not accept the entries. That it has no room for them now, or was interrupted,
    /// is none: the next call tries again.
    pub fn submit(&mut self) -> io::Result<()> {
        loop {
            self.refill();
            let queue = self.ring.submission();
            self.queued = queue.len() + self.backlog.len();
            let enter = self.queued > 0 || queue.taskrun() || queue.cq_overflow();
            drop(queue);
            if !enter {
                return Ok(());
            }
            let submitted = ignore_transient(self.ring.submit(), 0)?;
            if submitted == 0 {
                return Ok(());
            }
        }
    }

    /// Submits if at least as many entries are queued as the kernel has. So the first of many entries
    /// start immediately and the others in ever longer batches, each while the kernel works on those
    /// before: it passes none of a batch to the drive before it has prepared all.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn submit_if_starved(&mut self) -> io::Result<()> {
        if self.queued >= self.in_flight - self.queued { self.submit() } else { Ok(()) }
    }

    /// Submits, and blocks until there is a completion or for `timeout`.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.submit()?;
        if !self.ring.completion().is_empty() {
            return Ok(());
        }
        let submitter = self.ring.submitter();
        let waited = match timeout {
            None => submitter.submit_and_wait(1),
            Some(timeout) => {
                let time = Timespec::from(timeout);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        ignore_transient(waited, 0).map(drop)
    }

    /// The next completion.
    pub fn reap(&mut self) -> Option<C> {
        let completion = self.ring.completion().next()?;
        self.in_flight -= 1;
        Some(completion)
    }

    /// Entries without a completion.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether there are entries to [submit](Self::submit).
    pub fn has_queued(&self) -> bool {
        self.queued > 0
    }

    /// A descriptor that is readable while there are completions.
    pub fn fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// Moves entries of the backlog to the submission queue.
    fn refill(&mut self) {
        if self.backlog.is_empty() {
            return;
        }
        let mut queue = self.ring.submission();
        while !queue.is_full()
            && let Some(entry) = self.backlog.pop_front()
        {
            // SAFETY: `push` was promised that what the entry names stays.
            unsafe { queue.push(&entry) }.expect("the queue is not full");
        }
    }
}

/// Takes an interruption, a timeout, or a lack of room in the kernel for `value`.
fn ignore_transient<T>(result: io::Result<T>, value: T) -> io::Result<T> {
    match result {
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EBUSY | libc::EINTR | libc::ETIME) => Ok(value),
            _ => Err(error),
        },
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::opcode;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::io::Write;
    use std::os::fd::BorrowedFd;

    #[test]
    fn more_entries_than_the_queue_holds_all_complete() {
        let Ok(mut ring) = Uring::<squeue::Entry, cqueue::Entry>::new(2) else { return };
        for number in 0..9 {
            // SAFETY: a no-op names no memory and no file.
            unsafe { ring.push(opcode::Nop::new().build().user_data(number)) };
        }
        let mut completed = Vec::new();
        while ring.in_flight() > 0 {
            ring.submit().expect("no-ops");
            while let Some(completion) = ring.reap() {
                completed.push(completion.user_data());
            }
        }
        completed.sort_unstable();
        assert_eq!(completed, (0..9).collect::<Vec<_>>());
        ring.wait(Some(Duration::from_millis(1))).expect("a timeout is no error");
    }

    #[test]
    fn a_starved_kernel_gets_entries_at_once_and_then_in_ever_longer_batches() {
        let Ok(mut ring) = Uring::<squeue::Entry, cqueue::Entry>::new(16) else { return };
        let mut batches = Vec::new();
        let mut batch = 0;
        for number in 0..16 {
            // SAFETY: a no-op names no memory and no file.
            unsafe { ring.push(opcode::Nop::new().build().user_data(number)) };
            ring.submit_if_starved().expect("no-ops");
            batch += 1;
            if !ring.has_queued() {
                batches.push(std::mem::take(&mut batch));
            }
        }
        assert_eq!(batches, [1, 1, 2, 4, 8]);
        while ring.reap().is_some() {}
        assert_eq!(ring.in_flight(), 0);
    }

    #[test]
    fn descriptor_is_readable_when_a_command_has_completed() {
        let Ok(mut ring) = Uring::<squeue::Entry, cqueue::Entry>::new(2) else { return };
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let mut data = [0_u8; 1];
        let read = opcode::Read::new(io_uring::types::Fd(reader.as_raw_fd()), data.as_mut_ptr(), 1);
        // SAFETY: the pipe and the buffer live until the read has completed, below.
        unsafe { ring.push(read.build()) };
        ring.submit().expect("a read");
        assert!(ring.reap().is_none(), "the pipe is empty");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                writer.write_all(&[7]).expect("room");
            });
            // SAFETY: the ring is open.
            let fd = unsafe { BorrowedFd::borrow_raw(ring.fd()) };
            let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
            while poll(&mut fds, None).is_err() {}
        });
        ring.submit().expect("nothing to submit");
        assert_eq!(ring.reap().expect("it is readable").user_data(), 0);
        assert_eq!(data, [7]);
    }
}
