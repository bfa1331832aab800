//! One queue of a ublk device, without a system call.
//!
//! ```text
//!  Driver   a command has ended -> the tag's descriptor -> Bio -> Channel
//!  Driver   <- commit and fetch <- Completion <- Channel
//! ```
//!
//! Takes ends of commands and the time; gives the driver commits. Keeps true: every request is
//! committed once, with its data before it; one that makes no sense is refused and harms no other;
//! data are lent only to a device that takes them so, and not past the commit.
use super::abi::IoDesc;
use super::request::{BioDesc, DecodedRequest, decode};
use super::tags::{FetchResult, ProtocolError, Tags};
use crate::blk_zone::BlkZone;
use std::io;
use std::time::Duration;
use zerocopy::IntoBytes;
use zonal_blk::{Bio, BioFlags, Buf, Channel, Completion, Nanos, Op, Status, Wake, ZoneNo};

/// Zones that are asked for at a time, so that a report of a large device needs little memory.
const BATCH: usize = 1024;

/// The driver's side of a queue.
pub trait Driver {
    /// The request that a tag has.
    fn descriptor(&self, tag: u16) -> IoDesc;

    /// Fills `data` with what the request of a tag writes.
    ///
    /// # Errors
    /// The driver does not have as much.
    fn copy_from_request(&mut self, tag: u16, data: &mut [u8]) -> Result<(), Status>;

    /// Gives the request of a tag what it reads, from byte `offset` of it on.
    ///
    /// # Errors
    /// The driver does not want as much.
    fn copy_to_request(&mut self, tag: u16, offset: usize, data: &[u8]) -> Result<(), Status>;

    /// The data of a tag's request as a buffer that a device follows; `None` if the driver lends
    /// none. They are lent until the request is committed.
    fn external_buf(&self, tag: u16, len: usize) -> Option<Buf>;

    /// Sends a command with the next [`Driver::enter`].
    fn send(&mut self, command: Command);

    /// Sends the commands that have gathered, and waits for the end of one.
    ///
    /// # Errors
    /// The driver does not take commands.
    fn enter(&mut self, wait: Wait) -> io::Result<()>;

    /// Moves the ends of commands to the end of `ends`: tag and result.
    fn ends(&mut self, ends: &mut Vec<(u64, i32)>);
}

/// How long [`Driver::enter`] waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// So long.
    For(Duration),
    /// Until something comes.
    Forever,
}

/// A command to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The tag's first request is waited for.
    Fetch {
        /// The tag.
        tag: u16,
    },
    /// The tag's request is done, and the next one is waited for.
    Commit {
        /// The tag.
        tag: u16,
        /// Bytes, or an error number below zero.
        result: i32,
        /// Where a zone append wrote, else 0.
        sector: u64,
    },
}

/// A queue.
pub struct Queue {
    channel: Channel,
    tags: Tags,
    /// The device takes data that are lent.
    zero_copy: bool,
    /// By tag, what its request asked for.
    bio_desc: Vec<Option<BioDesc>>,
    /// The longest request in sectors.
    max_request_sectors: u32,
    /// Bios that go down together.
    bios: Vec<Bio>,
    completions: Vec<Completion>,
}

impl Queue {
    /// A queue of so many tags, whose requests have no more than `longest` sectors of data.
    pub fn new(channel: Channel, depth: u16, max_request_sectors: u32) -> Self {
        Queue {
            zero_copy: channel.queue().device().external_buf_alignment().is_some(),
            channel,
            tags: Tags::new(depth),
            bio_desc: vec![None; usize::from(depth)],
            max_request_sectors,
            bios: Vec::new(),
            completions: Vec::new(),
        }
    }

    /// Waits for the first request of every tag.
    pub fn begin(&mut self, driver: &mut impl Driver) {
        self.tags.fetch().for_each(|tag| driver.send(Command::Fetch { tag }));
    }

    /// A command has ended. What it brings goes down with the next [`Queue::poll`].
    ///
    /// # Errors
    /// The driver does not do as it should, and the queue cannot go on.
    pub fn on_completion(
        &mut self,
        tag: u64,
        result: i32,
        driver: &mut impl Driver,
    ) -> Result<(), ProtocolError> {
        let (tag, FetchResult::Request) = self.tags.on_completion(tag, result)? else {
            return Ok(());
        };
        let limits = self.channel.queue().limits();
        match decode(limits, self.max_request_sectors, &driver.descriptor(tag)) {
            Ok(DecodedRequest::Bio(bio_desc)) => self.bio(tag, bio_desc, driver),
            Ok(DecodedRequest::Report { first, most }) => {
                let ended = self.report(tag, first, most, driver);
                // More than there is room for ends the request whole, also where the driver asks
                // for fewer zones than it has room for.
                let whole =
                    i32::try_from(self.max_request_sectors * 512).expect("32 MiB at the most");
                self.commit(tag, ended.map(|()| whole), 0, driver);
            }
            Err(status) => self.commit(tag, Err(status), 0, driver),
        }
        Ok(())
    }

    fn bio(&mut self, tag: u16, bio_desc: BioDesc, driver: &mut impl Driver) {
        let BioDesc { op, flags, sector, nr_sectors } = bio_desc;
        let mut bio = Bio { flags, ..Bio::new(op, sector, nr_sectors, tag.into()) };
        if bio_desc.bytes() > 0 {
            let lent =
                if self.zero_copy { driver.external_buf(tag, bio_desc.bytes()) } else { None };
            if lent.is_some() {
                // Each piece is a transfer of its own, and the kernel has merged above.
                bio.flags = bio.flags | BioFlags::NOMERGE;
            }
            let mut buf = lent.unwrap_or_else(|| Buf::zeroed(bio_desc.bytes()));
            if bio_desc.has_write_data()
                && buf.as_external().is_none()
                && let Err(status) = driver.copy_from_request(tag, &mut buf)
            {
                return self.commit(tag, Err(status), 0, driver);
            }
            bio.buf = Some(buf);
        }
        self.bio_desc[usize::from(tag)] = Some(bio_desc);
        self.bios.push(bio);
    }

    /// Gives the driver a report. It has zeroes behind what it gets.
    fn report(
        &self,
        tag: u16,
        first: ZoneNo,
        most: u32,
        driver: &mut impl Driver,
    ) -> Result<(), Status> {
        let queue = self.channel.queue();
        let room = self.max_request_sectors as usize * 512 / size_of::<BlkZone>();
        let nr_zones = queue.limits().nr_zones;
        let end = first.0.saturating_add(most).min(nr_zones);
        let (mut next, mut given) = (first.0, 0);
        let mut zones = Vec::new();
        let mut bytes = Vec::new();
        while next < end && given < room {
            let batch = BATCH.min((end - next) as usize).min(room - given);
            zones.clear();
            bytes.clear();
            queue.report_zones(ZoneNo(next), batch, &mut zones)?;
            if zones.is_empty() {
                return Err(Status::IoError);
            }
            zones.iter().for_each(|zone| bytes.extend_from_slice(BlkZone::from(zone).as_bytes()));
            driver.copy_to_request(tag, given * size_of::<BlkZone>(), &bytes)?;
            given += zones.len();
            next += u32::try_from(zones.len()).expect("a batch is small");
        }
        Ok(())
    }

    fn commit(
        &mut self,
        tag: u16,
        ended: Result<i32, Status>,
        sector: u64,
        driver: &mut impl Driver,
    ) {
        self.tags.commit(tag);
        let result = ended.unwrap_or_else(|status| -status.errno());
        driver.send(Command::Commit { tag, result, sector });
    }

    /// Sends down what came, and commits what is done.
    pub fn poll(&mut self, now: Nanos, driver: &mut impl Driver) {
        self.channel.submit_batch(now, &mut self.bios);
        let mut completions = std::mem::take(&mut self.completions);
        self.channel.poll(now, &mut completions);
        for completion in completions.drain(..) {
            self.ended(completion, driver);
        }
        self.completions = completions;
    }

    fn ended(&mut self, completion: Completion, driver: &mut impl Driver) {
        let Completion { user_data, status, sector, buf } = completion;
        let tag = u16::try_from(user_data).expect("as it was given");
        let bio_desc = self.bio_desc[usize::from(tag)].take().expect("a bio is of a request");
        let ended = match (status, bio_desc.op) {
            (Status::Ok, Op::Read) => {
                let buf = buf.expect("a read has its buffer");
                if buf.as_external().is_some() {
                    Ok(())
                } else {
                    driver.copy_to_request(tag, 0, &buf)
                }
            }
            // A discard is advice.
            (Status::NotSupported, Op::Discard) | (Status::Ok, _) => Ok(()),
            (status, _) => Err(status),
        };
        let bytes = i32::try_from(bio_desc.bytes()).expect("32 MiB at the most");
        let sector = if bio_desc.op == Op::ZoneAppend && ended.is_ok() { sector.0 } else { 0 };
        self.commit(tag, ended.map(|()| bytes), sector, driver);
    }

    /// Requests that are with the device.
    pub fn outstanding(&self) -> usize {
        self.tags.served()
    }

    /// When to call [`Queue::poll`] next.
    pub fn next_event(&mut self) -> Wake {
        self.channel.next_event()
    }

    /// Whether the driver has given up all tags.
    pub fn all_aborted(&self) -> bool {
        self.tags.all_aborted()
    }

    /// Sees to its end what the device has begun, without telling the driver. Whether it is done;
    /// else call it again at [`Queue::next_event`].
    pub fn drain(&mut self, now: Nanos) -> bool {
        self.channel.retire();
        self.channel.submit_batch(now, &mut self.bios);
        self.channel.poll(now, &mut self.completions);
        self.completions.clear();
        self.channel.is_idle()
    }
}
