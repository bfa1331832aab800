//! One queue of a ublk device: the frontend, without a system call of its own.
//!
//! ```text
//!  Driver   fetch completed -> the tag's descriptor -> Bio -> Channel
//!  Driver   <- commit and fetch <- Completion <- Channel
//! ```
//!
//! Invariants: each request is committed once, after its data were copied. A malformed request
//! fails alone. Pages of a request are passed only to a device that takes external buffers, and
//! not past the commit.
use super::abi::IoDesc;
use super::request::{BioDesc, DecodedRequest, decode};
use super::tags::{FetchResult, ProtocolError, Tags};
use std::io;
use std::os::fd::RawFd;
use zerocopy::IntoBytes;
use zonal_blk::{
    Bio, BioFlags, Buf, BufPool, Channel, Clock, Completion, Nanos, Op, ReadBufs, Sector, Status,
    ZoneNo,
};
use zonal_os::RealClock;
use zonal_os::blk_zone::BlkZone;
use zonal_os::poll::{Frontend, Progress, WaitSet};

/// Bytes of the buffers that a queue keeps for later requests.
const MAX_KEPT: usize = 16 << 20;
/// The `user_data` of the flush at the end, no tag.
const FLUSH: u64 = u64::MAX;

/// The driver's side of a queue.
pub trait Driver {
    /// The request of a tag.
    fn descriptor(&self, tag: u16) -> IoDesc;

    /// Fills `data` with what the request of a tag writes.
    ///
    /// # Errors
    /// The request has less data.
    fn copy_from_request(&mut self, tag: u16, data: &mut [u8]) -> Result<(), Status>;

    /// Copies `data` to the pages of a tag's request, from byte `offset` of it on.
    ///
    /// # Errors
    /// The request has room for less.
    fn copy_to_request(&mut self, tag: u16, offset: usize, data: &[u8]) -> Result<(), Status>;

    /// The pages of a tag's request as an external buffer, valid until the request is committed.
    /// `None` without zero copy.
    fn external_buf(&self, tag: u16, len: usize) -> Option<Buf>;

    /// Queues a command for the next [`Driver::submit`].
    fn send(&mut self, command: Command);

    /// Submits the queued commands.
    ///
    /// # Errors
    /// The driver does not take commands.
    fn submit(&mut self) -> io::Result<()>;

    /// Appends the commands that have completed to `completions`: tag and result.
    fn completions(&mut self, completions: &mut Vec<(u64, i32)>);

    /// Readable when commands have completed.
    fn fd(&self) -> RawFd;
}

/// Why a queue is no longer served.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// io_uring failed.
    #[error("waiting for requests: {0}")]
    Enter(#[from] io::Error),
    /// The driver broke the protocol.
    #[error(transparent)]
    ProtocolError(#[from] ProtocolError),
}

/// A command to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Wait for the tag's first request.
    Fetch {
        /// The tag.
        tag: u16,
    },
    /// The tag's request is done; wait for the next one.
    Commit {
        /// The tag.
        tag: u16,
        /// Bytes, or a negative errno.
        result: i32,
        /// Where a zone append was written, else 0.
        sector: u64,
    },
}

/// A queue.
pub struct Queue<D> {
    pub(super) driver: D,
    channel: Channel,
    tags: Tags,
    /// The device takes external buffers.
    zero_copy: bool,
    reads: ReadBufs,
    bufs: BufPool,
    /// By tag, its request.
    bio_desc: Vec<Option<BioDesc>>,
    /// The longest request in sectors.
    max_request_sectors: u32,
    /// Of every write, beside its own.
    write_flags: BioFlags,
    /// Bios that are submitted together.
    bios: Vec<Bio>,
    /// What was answered is to be committed, since the queue has ended.
    committing: bool,
    /// Kept for its capacity.
    fetched: Vec<(u64, i32)>,
    /// Kept for its capacity.
    completions: Vec<Completion>,
}

impl<D: Driver> Queue<D> {
    /// A queue of `depth` tags, whose requests have at most `max_request_sectors` of data.
    pub fn new(driver: D, channel: Channel, depth: u16, max_request_sectors: u32) -> Self {
        Queue {
            driver,
            zero_copy: channel.queue().device().external_buf_alignment().is_some(),
            reads: channel.queue().device().read_bufs(),
            bufs: BufPool::default(),
            channel,
            tags: Tags::new(depth),
            bio_desc: vec![None; usize::from(depth)],
            max_request_sectors,
            write_flags: BioFlags::NONE,
            bios: Vec::new(),
            committing: false,
            fetched: Vec::new(),
            completions: Vec::new(),
        }
    }

    /// From now on writes complete when they are durable.
    pub fn make_writes_durable(&mut self) {
        self.write_flags = BioFlags::FUA;
    }

    /// Queues the fetch of every tag's first request.
    pub fn fetch_all(&mut self) {
        self.tags.fetch().for_each(|tag| self.driver.send(Command::Fetch { tag }));
    }

    /// A command has completed. The bio of its request is submitted by the next [`Queue::advance`].
    ///
    /// # Errors
    /// The driver broke the protocol, and the queue cannot go on.
    pub fn on_completion(&mut self, tag: u64, result: i32) -> Result<(), ProtocolError> {
        let (tag, FetchResult::Request) = self.tags.on_completion(tag, result)? else {
            return Ok(());
        };
        let limits = self.channel.queue().limits();
        match decode(limits, self.max_request_sectors, &self.driver.descriptor(tag)) {
            Ok(DecodedRequest::Bio(bio_desc)) => self.bio(tag, bio_desc),
            Ok(DecodedRequest::Report { first, most }) => {
                let reported = self.report(tag, first, most);
                // The whole length, although the zones may fill less of it.
                let whole = i32::try_from(self.max_request_sectors * 512).expect("32 MiB at most");
                self.commit(tag, reported.map(|()| whole), 0);
            }
            Err(status) => self.commit(tag, Err(status), 0),
        }
        Ok(())
    }

    fn bio(&mut self, tag: u16, bio_desc: BioDesc) {
        let BioDesc { op, flags, sector, nr_sectors } = bio_desc;
        let flags = if op.is_write() { flags | self.write_flags } else { flags };
        let mut bio = Bio { flags, ..Bio::new(op, sector, nr_sectors, tag.into()) };
        if bio_desc.bytes() > 0 {
            let external = self.zero_copy.then(|| self.driver.external_buf(tag, bio_desc.bytes()));
            let external = external.flatten();
            if external.is_some() {
                // Each piece is a transfer of its own, and the kernel has merged already.
                bio.flags = bio.flags | BioFlags::NOMERGE;
            }
            let buf = match external {
                Some(buf) => Ok(buf),
                None => self.buffer(tag, bio_desc),
            };
            match buf {
                Ok(buf) => bio.buf = Some(buf),
                Err(status) => return self.commit(tag, Err(status), 0),
            }
        }
        self.bio_desc[usize::from(tag)] = Some(bio_desc);
        self.bios.push(bio);
    }

    /// A buffer for a request's data, with those that it writes.
    fn buffer(&mut self, tag: u16, bio_desc: BioDesc) -> Result<Buf, Status> {
        if !bio_desc.has_write_data() {
            return self.bufs.for_read(bio_desc.bytes(), self.reads).ok_or(Status::IoError);
        }
        let mut buf = self.bufs.sized(bio_desc.bytes()).ok_or(Status::IoError)?;
        self.driver.copy_from_request(tag, &mut buf)?;
        Ok(buf)
    }

    /// Copies a zone report to the request, whose pages are zeroed after it.
    fn report(&mut self, tag: u16, first: ZoneNo, most: u32) -> Result<(), Status> {
        let queue = self.channel.queue();
        let room = self.max_request_sectors as usize * 512 / size_of::<BlkZone>();
        let most = most.min(u32::try_from(room).unwrap_or(u32::MAX));
        let mut report = queue.zones(first..ZoneNo(first.0.saturating_add(most)));
        let (mut offset, mut bytes) = (0, Vec::new());
        loop {
            let zones = report.next_batch()?;
            if zones.is_empty() {
                return Ok(());
            }
            bytes.clear();
            zones.iter().for_each(|zone| bytes.extend_from_slice(BlkZone::from(zone).as_bytes()));
            self.driver.copy_to_request(tag, offset, &bytes)?;
            offset += bytes.len();
        }
    }

    fn commit(&mut self, tag: u16, result: Result<i32, Status>, sector: u64) {
        self.tags.commit(tag);
        let result = result.unwrap_or_else(|status| -status.errno());
        self.driver.send(Command::Commit { tag, result, sector });
    }

    /// Submits the bios of new requests and commits those that have completed. Returns their number.
    pub fn advance(&mut self, now: Nanos) -> usize {
        self.channel.submit_batch(now, &mut self.bios);
        let mut completions = std::mem::take(&mut self.completions);
        let count = self.channel.poll(now, &mut completions);
        for completion in completions.drain(..) {
            self.complete(completion);
        }
        self.completions = completions;
        count
    }

    /// Whether the driver has aborted all tags.
    pub fn is_done(&self) -> bool {
        self.tags.all_aborted()
    }

    fn complete(&mut self, completion: Completion) {
        let Completion { user_data, status, sector, buf, .. } = completion;
        let tag = u16::try_from(user_data).expect("as it was submitted");
        let bio_desc = self.bio_desc[usize::from(tag)].take().expect("a bio is of a request");
        let result = match (status, bio_desc.op) {
            (Status::Ok, Op::Read) => {
                let buf = buf.as_ref().expect("a read has its buffer");
                if buf.as_external().is_some() {
                    Ok(())
                } else {
                    self.driver.copy_to_request(tag, 0, buf)
                }
            }
            // A discard is advice.
            (Status::NotSupported, Op::Discard) | (Status::Ok, _) => Ok(()),
            (status, _) => Err(status),
        };
        if let Some(buf) = buf {
            self.bufs.put(buf, MAX_KEPT);
        }
        let bytes = i32::try_from(bio_desc.bytes()).expect("32 MiB at most");
        let sector = if bio_desc.op == Op::ZoneAppend && result.is_ok() { sector.0 } else { 0 };
        self.commit(tag, result.map(|()| bytes), sector);
    }
}

impl<D: Driver> Frontend for Queue<D> {
    type Error = Failure;

    fn poll(&mut self, clock: &RealClock) -> Result<Progress, Failure> {
        self.driver.submit()?;
        let mut fetched = std::mem::take(&mut self.fetched);
        self.driver.completions(&mut fetched);
        let mut worked = !fetched.is_empty();
        for (tag, result) in fetched.drain(..) {
            self.on_completion(tag, result)?;
        }
        self.fetched = fetched;
        worked |= self.advance(clock.now()) > 0;
        Ok(match worked {
            _ if self.is_done() => Progress::Done,
            true => Progress::Worked,
            false => Progress::Idle,
        })
    }

    /// Flushes the device, too: the driver deletes a block device when the last queue has closed its file.
    fn drain(&mut self, now: Nanos) -> bool {
        if !std::mem::replace(&mut self.committing, true) {
            self.bios.push(Bio::new(Op::Flush, Sector(0), 0, FLUSH));
        }
        self.channel.submit_batch(now, &mut self.bios);
        self.channel.drain();
        self.channel.poll(now, &mut self.completions);
        for flushed in self.completions.drain(..).filter(|bio| bio.user_data == FLUSH) {
            if flushed.status != Status::Ok {
                tracing::error!("ublk: what was answered may be lost: flush: {}", flushed.status);
            }
        }
        self.channel.is_idle()
    }

    fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel)) {
        visit(&mut self.channel);
    }

    fn wait_fds(&mut self, set: &mut WaitSet) {
        set.read(self.driver.fd());
    }
}
