//! Transfers between owned buffers and a file by io_uring.
//!
//! Takes transfers; gives them back with the number of bytes that they have moved. Keeps true:
//! memory that the kernel may touch is owned here until the kernel is done with it; one system call
//! begins all transfers that were started since the last; after the first round nothing is
//! allocated.
use io_uring::types::{Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use zonal_blk::Buf;
use zonal_device::image::{Ring, Transfer};

/// The longest sleep of an idle poll, in nanoseconds.
const MOMENT: u32 = 100_000;
/// The most transfers at once.
const MAX_DEPTH: u16 = 4096;

/// A ring with one file.
pub struct Uring {
    ring: IoUring,
    /// By the number that the kernel gives back.
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Transfers that found no free slot.
    waiting: std::collections::VecDeque<Transfer>,
    in_flight: usize,
    /// Entries that the kernel was not told of.
    unsent: usize,
    /// Open for as long as the kernel may use it.
    _file: Arc<File>,
}

#[derive(Default)]
struct Slot {
    transfer: Option<Transfer>,
    /// Where the pieces are; the kernel reads this list.
    pieces: Vec<libc::iovec>,
}

// SAFETY: the pointers in `pieces` are to buffers that the slot's transfer owns, and move with it.
unsafe impl Send for Uring {}

impl Uring {
    /// A ring for up to `depth` transfers at once, with `file`.
    ///
    /// # Errors
    /// Why the kernel makes none.
    pub fn new(file: Arc<File>, depth: u16) -> io::Result<Self> {
        let depth = depth.clamp(1, MAX_DEPTH);
        let ring = IoUring::new(u32::from(depth))?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        Ok(Uring {
            ring,
            slots: (0..depth).map(|_| Slot::default()).collect(),
            free: (0..u32::from(depth)).rev().collect(),
            waiting: std::collections::VecDeque::new(),
            in_flight: 0,
            unsent: 0,
            _file: file,
        })
    }

    /// Fills a slot and queues its entry.
    fn push(&mut self, number: u32, transfer: Transfer) {
        let slot = &mut self.slots[number as usize];
        let transfer = slot.transfer.insert(transfer);
        list_pieces(&mut slot.pieces, &mut transfer.bufs, transfer.len);
        let entry = entry(&slot.pieces, transfer.write, transfer.at).user_data(number.into());
        // SAFETY: the entry points to the slot's list and to the transfer's buffers, which stay in
        // the slot, unmoved and untouched, until the kernel has given the entry back; `drop` waits
        // for that. The ring has as many entries as there are slots.
        unsafe { self.ring.submission().push(&entry) }.expect("an entry for each slot");
        self.in_flight += 1;
        self.unsent += 1;
    }

    /// Tells the kernel of what was queued.
    fn submit(&mut self) -> io::Result<()> {
        while self.unsent > 0 {
            match self.ring.submit() {
                Ok(sent) => self.unsent -= sent.min(self.unsent),
                Err(error) if is_passing(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn reap(&mut self, ended: &mut Vec<(Transfer, io::Result<usize>)>) {
        while let Some(entry) = self.ring.completion().next() {
            let number = u32::try_from(entry.user_data()).expect("the number of a slot");
            let slot = &mut self.slots[number as usize];
            let transfer = slot.transfer.take().expect("a transfer ends once");
            let result = usize::try_from(entry.result())
                .map_err(|_| io::Error::from_raw_os_error(-entry.result()));
            self.free.push(number);
            self.in_flight -= 1;
            ended.push((transfer, result));
        }
    }

    /// Sleeps until a transfer ends, but not for long.
    fn wait(&self) {
        let moment = Timespec::new().nsec(MOMENT);
        let args = SubmitArgs::new().timespec(&moment);
        // A time that is over, or a signal, ends the sleep as well.
        let _woken = self.ring.submitter().submit_with_args(1, &args);
    }
}

/// Whether the kernel only has no room at the moment, or was interrupted.
fn is_passing(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    [libc::EAGAIN, libc::EBUSY, libc::EINTR].into_iter().any(|passing| errno == Some(passing))
}

/// Lists where the first `len` bytes of the buffers are.
fn list_pieces(pieces: &mut Vec<libc::iovec>, bufs: &mut [Buf], mut len: usize) {
    pieces.clear();
    for buf in bufs {
        let take = buf.len().min(len);
        if take == 0 {
            break;
        }
        pieces.push(libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: take });
        len -= take;
    }
    assert_eq!(len, 0, "a transfer has buffers for all of its bytes");
}

fn entry(pieces: &[libc::iovec], write: bool, at: u64) -> squeue::Entry {
    let file = Fixed(0);
    let short = |len: usize| u32::try_from(len).expect("a transfer is shorter than 4 GiB");
    match (pieces, write) {
        ([one], true) => {
            opcode::Write::new(file, one.iov_base.cast(), short(one.iov_len)).offset(at).build()
        }
        ([one], false) => {
            opcode::Read::new(file, one.iov_base.cast(), short(one.iov_len)).offset(at).build()
        }
        (many, true) => {
            opcode::Writev::new(file, many.as_ptr(), short(many.len())).offset(at).build()
        }
        (many, false) => {
            opcode::Readv::new(file, many.as_ptr(), short(many.len())).offset(at).build()
        }
    }
}

impl Ring for Uring {
    fn start(&mut self, transfer: Transfer) {
        match self.free.pop() {
            Some(number) => self.push(number, transfer),
            None => self.waiting.push_back(transfer),
        }
    }

    fn poll(&mut self, idle: bool, ended: &mut Vec<(Transfer, io::Result<usize>)>) {
        let before = ended.len();
        self.submit().expect("the kernel takes entries that are well formed");
        self.reap(ended);
        if idle && ended.len() == before && self.in_flight > self.unsent {
            self.wait();
            self.reap(ended);
        }
        while !self.free.is_empty()
            && let Some(transfer) = self.waiting.pop_front()
        {
            self.start(transfer);
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while self.in_flight > 0 {
            if self.submit().is_err() {
                // The kernel may still write to the buffers: they are never freed.
                std::mem::forget(std::mem::take(&mut self.slots));
                return;
            }
            self.wait();
            self.reap(&mut ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::Tag;

    fn transfer(tag: u16, write: bool, at: u64, bufs: Vec<Buf>) -> Transfer {
        let len = bufs.iter().map(|buf| buf.len()).sum();
        Transfer { tag: Tag(tag), write, at, len, bufs }
    }

    fn all(ring: &mut Uring) -> Vec<(Transfer, io::Result<usize>)> {
        let mut ended = Vec::new();
        while ring.in_flight > 0 || !ring.waiting.is_empty() {
            ring.poll(true, &mut ended);
        }
        ended.sort_by_key(|(transfer, _)| transfer.tag);
        ended
    }

    #[test]
    fn what_is_written_in_pieces_is_read_back_and_more_than_the_ring_holds_waits() {
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        let Ok(mut ring) = Uring::new(file, 2) else {
            return;
        };
        for tag in 0..5_u8 {
            let bufs = vec![Buf::from(&[tag; 512][..]), Buf::from(&[tag + 100; 1024][..])];
            ring.start(transfer(tag.into(), true, u64::from(tag) * 1536, bufs));
        }
        let ended = all(&mut ring);
        assert!(ended.iter().all(|(_, result)| matches!(result, Ok(1536))), "{ended:?}");
        ring.start(transfer(0, false, 512, vec![Buf::zeroed(2048)]));
        ring.start(transfer(1, false, 4 * 1536, vec![Buf::zeroed(1024), Buf::zeroed(4096)]));
        let ended = all(&mut ring);
        let (first, second) = (&ended[0].0.bufs, &ended[1].0.bufs);
        assert!(first[0][..1024].iter().all(|&byte| byte == 100));
        assert!(first[0][1024..1536].iter().all(|&byte| byte == 1));
        assert!(first[0][1536..].iter().all(|&byte| byte == 101));
        assert_eq!(second[0][511..513], [4, 104]);
        assert!(matches!(ended[1].1, Ok(1536)), "the file ends there");
    }

    #[test]
    fn transfers_that_fail_say_why() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let file = Arc::new(File::open(file.path()).expect("it can be read"));
        let Ok(mut ring) = Uring::new(file, 2) else {
            return;
        };
        ring.start(transfer(0, true, 0, vec![Buf::zeroed(512)]));
        let ended = all(&mut ring);
        let error = ended[0].1.as_ref().expect_err("the file is open for reading only");
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
}
