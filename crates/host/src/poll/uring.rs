//! Transfers between owned buffers and a file by io_uring.
//!
//! Takes transfers; gives them back with the number of bytes that they have moved. Long ones move in
//! parts, all at once: the kernel hands what needs several commands to a thread that waits. Keeps
//! true: a transfer ends when all of its parts have; memory that the kernel may touch is owned here
//! until the kernel is done with it; one system call begins all transfers that were started since
//! the last, and waits if there is nothing else to do; after the first round nothing is allocated.
use io_uring::types::{Fixed, Timespec};
use io_uring::{IoUring, opcode, squeue};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use zonal_blk::Buf;
use zonal_device::image::{Ring, Transfer};

/// The longest sleep of an idle poll. Each setting of a timer costs microseconds, in virtual machines
/// above all, so one that was set for a wait serves those after it until it has rung.
static MAX_POLL_SLEEP: Timespec = Timespec::new().nsec(1_000_000);
/// What the kernel gives back when that time is over.
const TIMEOUT_USER_DATA: u64 = u64::MAX;
/// The longest part of a transfer, in bytes.
const MAX_PART_BYTES: usize = 512 << 10;
/// The most transfers at once.
const MAX_DEPTH: u16 = 4096;

/// A ring with one file.
pub struct Uring {
    ring: IoUring,
    /// By the number that the kernel gives back.
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Transfers that found no free slot.
    waiting: VecDeque<Transfer>,
    in_flight: usize,
    /// Entries that the ring had no room for yet, in their order.
    unsent: VecDeque<squeue::Entry>,
    /// The timer of the waits is set.
    timer_armed: bool,
    /// Open for as long as the kernel may use it.
    _file: Arc<File>,
}

#[derive(Default)]
struct Slot {
    transfer: Option<Transfer>,
    /// Where the pieces are; the kernel reads this list.
    pieces: Vec<libc::iovec>,
    parts: Vec<Part>,
    /// Parts that have not ended.
    parts_in_flight: usize,
    /// Bytes from the start that have moved without a hole, as far as is known.
    moved: usize,
    error: Option<io::Error>,
}

/// A part of a transfer: some of its pieces.
struct Part {
    /// Where it begins, in bytes from the start of the transfer.
    at: usize,
    len: usize,
    pieces: Range<usize>,
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
        // One entry more, for the timer.
        let ring = IoUring::new(u32::from(depth) + 1)?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        Ok(Uring {
            ring,
            slots: (0..depth).map(|_| Slot::default()).collect(),
            free: (0..u32::from(depth)).rev().collect(),
            waiting: VecDeque::new(),
            in_flight: 0,
            unsent: VecDeque::new(),
            timer_armed: false,
            _file: file,
        })
    }

    /// Fills a slot and queues its entry.
    fn push(&mut self, number: u32, transfer: Transfer) {
        let slot = &mut self.slots[number as usize];
        let transfer = slot.transfer.insert(transfer);
        list_pieces(&mut slot.pieces, &mut transfer.bufs, transfer.len);
        list_parts(&mut slot.parts, &slot.pieces);
        (slot.parts_in_flight, slot.moved, slot.error) = (slot.parts.len(), transfer.len, None);
        for (index, part) in (0_u64..).zip(&slot.parts) {
            let pieces = &slot.pieces[part.pieces.clone()];
            let entry = entry(pieces, transfer.write, transfer.at + part.at as u64);
            self.unsent.push_back(entry.user_data(index << 32 | u64::from(number)));
        }
        self.in_flight += 1;
    }

    /// Tells the kernel of what was queued, and waits until it has given back so many entries.
    fn submit(&mut self, wait_for: usize) -> io::Result<()> {
        loop {
            let mut queue = self.ring.submission();
            while !queue.is_full()
                && let Some(entry) = self.unsent.pop_front()
            {
                // SAFETY: the entry points to a static, or to the list of a slot and the buffers of
                // its transfer, which stay in the slot, unmoved and untouched, until the kernel has
                // given back all entries of it; `drop` waits for that.
                unsafe { queue.push(&entry) }.expect("the queue is not full");
            }
            let is_empty = queue.is_empty();
            drop(queue);
            let wait_for = if self.unsent.is_empty() { wait_for } else { 0 };
            if is_empty && wait_for == 0 {
                return Ok(());
            }
            match self.ring.submit_and_wait(wait_for) {
                Ok(_) if self.unsent.is_empty() => return Ok(()),
                Ok(_) => {}
                // The next poll tries again.
                Err(error) if is_transient(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn reap(&mut self, ended: &mut Vec<(Transfer, io::Result<usize>)>) {
        while let Some(entry) = self.ring.completion().next() {
            if entry.user_data() == TIMEOUT_USER_DATA {
                self.timer_armed = false;
                continue;
            }
            let [number, index] =
                [entry.user_data() & u64::from(u32::MAX), entry.user_data() >> 32];
            let slot = &mut self.slots[usize::try_from(number).expect("the number of a slot")];
            let part = &slot.parts[usize::try_from(index).expect("the number of a part")];
            match usize::try_from(entry.result()) {
                Ok(len) if len >= part.len => {}
                Ok(len) => slot.moved = slot.moved.min(part.at + len),
                Err(_) => slot.error = Some(io::Error::from_raw_os_error(-entry.result())),
            }
            slot.parts_in_flight -= 1;
            if slot.parts_in_flight > 0 {
                continue;
            }
            let transfer = slot.transfer.take().expect("a transfer ends once");
            let result = slot.error.take().map_or(Ok(slot.moved), Err);
            let number = u32::try_from(number).expect("the number of a slot");
            self.free.push(number);
            self.in_flight -= 1;
            ended.push((transfer, result));
        }
    }

    /// The same, and sleeps until a part of a transfer ends, but not for long.
    fn wait(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.timer_armed, true) {
            let tick = opcode::Timeout::new(&raw const MAX_POLL_SLEEP).build();
            self.unsent.push_back(tick.user_data(TIMEOUT_USER_DATA));
        }
        self.submit(1)
    }
}

/// Whether the kernel only has no room at the moment, or was interrupted.
fn is_transient(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    [libc::EAGAIN, libc::EBUSY, libc::EINTR].into_iter().any(|passing| errno == Some(passing))
}

/// Lists where the first `len` bytes of the buffers are.
fn list_pieces(pieces: &mut Vec<libc::iovec>, bufs: &mut [Buf], mut len: usize) {
    pieces.clear();
    for buf in bufs {
        let take = buf.len().min(len);
        for piece in buf[..take].chunks_mut(MAX_PART_BYTES) {
            pieces.push(libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() });
        }
        len -= take;
    }
    assert_eq!(len, 0, "a transfer has buffers for all of its bytes");
}

/// Divides pieces among parts, in order; each has as many as fit.
fn list_parts(parts: &mut Vec<Part>, pieces: &[libc::iovec]) {
    parts.clear();
    let mut at = 0;
    for (index, piece) in pieces.iter().enumerate() {
        match parts.last_mut() {
            Some(part) if part.len + piece.iov_len <= MAX_PART_BYTES => {
                part.len += piece.iov_len;
                part.pieces.end = index + 1;
            }
            _ => parts.push(Part { at, len: piece.iov_len, pieces: index..index + 1 }),
        }
        at += piece.iov_len;
    }
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
        let waits = idle && self.in_flight > 0 && self.ring.completion().is_empty();
        let told = if waits { self.wait() } else { self.submit(0) };
        told.expect("the kernel takes entries that are well formed");
        self.reap(ended);
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
            if self.wait().is_err() {
                // The kernel may still write to the buffers: they are never freed.
                std::mem::forget(std::mem::take(&mut self.slots));
                return;
            }
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
    fn long_transfers_move_in_parts_and_tell_where_the_file_ends() {
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        let Ok(mut ring) = Uring::new(file, 1) else {
            return;
        };
        let lens = [MAX_PART_BYTES - 512, 1024, 2 * MAX_PART_BYTES + 512, 4096, MAX_PART_BYTES];
        let filled = |len: usize, tag: usize| {
            let mut buf = Buf::zeroed(len);
            (tag..).zip(buf.iter_mut()).for_each(|(at, byte)| *byte = (at / 512 % 251) as u8);
            buf
        };
        let bufs: Vec<Buf> = lens.iter().zip(1..).map(|(&len, tag)| filled(len, tag)).collect();
        let written: Vec<u8> = bufs.iter().flat_map(|buf| buf.to_vec()).collect();
        ring.start(transfer(0, true, 512, bufs));
        let total = written.len();
        assert!(matches!(all(&mut ring)[0].1, Ok(len) if len == total));
        ring.start(transfer(
            1,
            false,
            512,
            vec![Buf::zeroed(total), Buf::zeroed(3 * MAX_PART_BYTES)],
        ));
        let ended = all(&mut ring);
        assert!(matches!(ended[0].1, Ok(len) if len == total), "the file ends there");
        assert_eq!(ended[0].0.bufs[0][..], written[..]);
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
