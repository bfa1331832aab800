//! The data of an image: transfers between owned buffers and a file, by io_uring.
//!
//! Long transfers are split into parts that are in flight together: the kernel hands a command that
//! takes the drive several requests to a worker thread, which is slower. A transfer is complete when
//! all of its parts are. Nothing is allocated once the slots have their lists.
use io_uring::types::Fixed;
use io_uring::{opcode, squeue};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::Arc;
use zonal_blk::{Buf, Tag};
use zonal_device::image::{Ring, Transfer};
use zonal_os::poll::uring::Uring;

/// The longest part of a transfer, in bytes.
const MAX_PART_BYTES: usize = 512 << 10;
/// The largest submission queue.
const MAX_ENTRIES: u16 = 4096;

/// Why a submission succeeds.
const WELL_FORMED: &str = "the kernel accepts entries that are well formed";

/// A ring with one file.
pub(super) struct ImageRing {
    ring: Uring,
    /// By tag.
    slots: Vec<Slot>,
    /// Open for as long as the kernel may use it.
    _file: Arc<File>,
}

#[derive(Default)]
struct Slot {
    transfer: Option<Transfer>,
    /// Where the segments are; the kernel reads this list.
    segments: Vec<libc::iovec>,
    parts: Vec<Part>,
    parts_in_flight: usize,
    /// Bytes from the start that were transferred without a hole, as far as is known.
    transferred: usize,
    error: Option<io::Error>,
}

/// A part of a transfer: some of its segments.
struct Part {
    /// Offset in the transfer, in bytes.
    at: usize,
    len: usize,
    segments: Range<usize>,
}

// SAFETY: the pointers in `segments` are to buffers that the slot's transfer owns, and move with it.
unsafe impl Send for ImageRing {}

impl ImageRing {
    /// A ring with `file` for transfers with tags below `depth`.
    ///
    /// # Errors
    /// The kernel has no ring for it.
    pub fn new(file: Arc<File>, depth: u16) -> io::Result<Self> {
        let ring = Uring::new(depth.clamp(1, MAX_ENTRIES).into())?;
        ring.register_file(&file)?;
        let slots = (0..depth).map(|_| Slot::default()).collect();
        Ok(ImageRing { ring, slots, _file: file })
    }

    fn on_completion(
        &mut self,
        (tag, part): (usize, usize),
        result: i32,
        completed: &mut Vec<(Transfer, io::Result<usize>)>,
    ) {
        let slot = &mut self.slots[tag];
        let part = &slot.parts[part];
        match usize::try_from(result) {
            Ok(len) if len >= part.len => {}
            Ok(len) => slot.transferred = slot.transferred.min(part.at + len),
            Err(_) => slot.error = Some(io::Error::from_raw_os_error(-result)),
        }
        slot.parts_in_flight -= 1;
        if slot.parts_in_flight == 0 {
            let transfer = slot.transfer.take().expect("a transfer completes once");
            completed.push((transfer, slot.error.take().map_or(Ok(slot.transferred), Err)));
        }
    }

    fn reap(&mut self, completed: &mut Vec<(Transfer, io::Result<usize>)>) {
        while let Some(completion) = self.ring.reap() {
            let user_data = completion.user_data();
            let number = |bits: u64| usize::try_from(bits).expect("16 and 32 bits");
            let place = (number(user_data & u64::from(u16::MAX)), number(user_data >> 16));
            self.on_completion(place, completion.result(), completed);
        }
    }
}

/// Lists where the first `len` bytes of the buffers are.
fn list_segments(segments: &mut Vec<libc::iovec>, bufs: &mut [Buf], mut len: usize) {
    segments.clear();
    for buf in bufs {
        let take = buf.len().min(len);
        for bytes in buf[..take].chunks_mut(MAX_PART_BYTES) {
            segments
                .push(libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() });
        }
        len -= take;
    }
    assert_eq!(len, 0, "a transfer has buffers for all of its bytes");
}

/// Distributes segments to parts, in order; each has as many as fit.
fn list_parts(parts: &mut Vec<Part>, segments: &[libc::iovec]) {
    parts.clear();
    let mut at = 0;
    for (index, segment) in segments.iter().enumerate() {
        match parts.last_mut() {
            Some(part) if part.len + segment.iov_len <= MAX_PART_BYTES => {
                part.len += segment.iov_len;
                part.segments.end = index + 1;
            }
            _ => parts.push(Part { at, len: segment.iov_len, segments: index..index + 1 }),
        }
        at += segment.iov_len;
    }
}

fn entry(segments: &[libc::iovec], write: bool, at: u64) -> squeue::Entry {
    let file = Fixed(0);
    let short = |len: usize| u32::try_from(len).expect("a transfer is shorter than 4 GiB");
    match (segments, write) {
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

impl Ring for ImageRing {
    fn start(&mut self, transfer: Transfer) {
        let tag = transfer.tag.0;
        let slot = &mut self.slots[usize::from(tag)];
        assert!(slot.transfer.is_none(), "tag {tag} is in use");
        let transfer = slot.transfer.insert(transfer);
        list_segments(&mut slot.segments, &mut transfer.bufs, transfer.len);
        list_parts(&mut slot.parts, &slot.segments);
        slot.parts_in_flight = slot.parts.len();
        (slot.transferred, slot.error) = (transfer.len, None);
        for (index, part) in (0_u64..).zip(&slot.parts) {
            let segments = &slot.segments[part.segments.clone()];
            let entry = entry(segments, transfer.write, transfer.at + part.at as u64);
            let entry = entry.user_data(index << 16 | u64::from(tag));
            // SAFETY: the entry points to the list of the slot and the buffers of its transfer, which
            // stay in the slot, unmoved, until all of its entries have completed; `drop` waits for
            // that. Meanwhile nobody else writes to them, nor reads those that the kernel writes to.
            unsafe { self.ring.push(entry) };
            // The first parts of a long transfer do not wait until all are prepared.
            self.ring.submit_if_starved().expect(WELL_FORMED);
        }
    }

    fn submit(&mut self) {
        self.ring.submit().expect(WELL_FORMED);
    }

    fn write_bufs(&self, tag: Tag) -> &[Buf] {
        let transfer = self.slots[usize::from(tag.0)].transfer.as_ref();
        // The kernel reads them as well: those of a read are not to be looked at.
        let write = transfer.filter(|transfer| transfer.write);
        &write.expect("a write in flight").bufs
    }

    fn poll(&mut self, completed: &mut Vec<(Transfer, io::Result<usize>)>) {
        self.submit();
        self.reap(completed);
    }

    fn wait_fd(&self) -> Option<RawFd> {
        (!self.ring.has_queued()).then(|| self.ring.fd())
    }
}

impl Drop for ImageRing {
    fn drop(&mut self) {
        let mut completed = Vec::new();
        while self.ring.in_flight() > 0 {
            if self.ring.wait(None).is_err() {
                // The kernel may still write to the buffers: they are never freed.
                std::mem::forget(std::mem::take(&mut self.slots));
                return;
            }
            self.reap(&mut completed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(tag: u16, write: bool, at: u64, bufs: Vec<Buf>) -> Transfer {
        let len = bufs.iter().map(|buf| buf.len()).sum();
        Transfer { tag: Tag(tag), write, at, len, bufs }
    }

    fn drain(ring: &mut ImageRing) -> Vec<(Transfer, io::Result<usize>)> {
        let mut completed = Vec::new();
        while ring.ring.in_flight() > 0 {
            ring.ring.wait(None).expect("a ring");
            ring.poll(&mut completed);
        }
        completed.sort_by_key(|(transfer, _)| transfer.tag);
        completed
    }

    #[test]
    fn data_written_in_segments_is_read_back() {
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        let Ok(mut ring) = ImageRing::new(file, 5) else {
            return;
        };
        for tag in 0..5_u8 {
            let bufs = vec![Buf::from(&[tag; 512][..]), Buf::from(&[tag + 100; 1024][..])];
            ring.start(transfer(tag.into(), true, u64::from(tag) * 1536, bufs));
        }
        let completed = drain(&mut ring);
        assert!(completed.iter().all(|(_, result)| matches!(result, Ok(1536))), "{completed:?}");
        ring.start(transfer(0, false, 512, vec![Buf::zeroed(2048)]));
        ring.start(transfer(1, false, 4 * 1536, vec![Buf::zeroed(1024), Buf::zeroed(4096)]));
        let completed = drain(&mut ring);
        let (first, second) = (&completed[0].0.bufs, &completed[1].0.bufs);
        assert!(first[0][..1024].iter().all(|&byte| byte == 100));
        assert!(first[0][1024..1536].iter().all(|&byte| byte == 1));
        assert!(first[0][1536..].iter().all(|&byte| byte == 101));
        assert_eq!(second[0][511..513], [4, 104]);
        assert!(matches!(completed[1].1, Ok(1536)), "the file ends there");
    }

    #[test]
    fn long_transfers_have_several_parts_and_stop_at_the_end_of_the_file() {
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        let Ok(mut ring) = ImageRing::new(file, 2) else {
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
        assert!(matches!(drain(&mut ring)[0].1, Ok(len) if len == total));
        let bufs = vec![Buf::zeroed(total), Buf::zeroed(3 * MAX_PART_BYTES)];
        ring.start(transfer(1, false, 512, bufs));
        let completed = drain(&mut ring);
        assert!(matches!(completed[0].1, Ok(len) if len == total), "the file ends there");
        assert_eq!(completed[0].0.bufs[0][..], written[..]);
    }

    #[test]
    fn failed_transfers_have_the_error_of_the_kernel() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let file = Arc::new(File::open(file.path()).expect("it can be read"));
        let Ok(mut ring) = ImageRing::new(file, 2) else {
            return;
        };
        ring.start(transfer(0, true, 0, vec![Buf::zeroed(512)]));
        let completed = drain(&mut ring);
        let error = completed[0].1.as_ref().expect_err("the file is open for reading only");
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
}
