//! Requests of virtio-blk: chains become bios, completions become what the guest finds in its memory
//! (VIRTIO 1.3 section 5.2.6).
//!
//! Data are copied between guest memory and the buffer of a bio. The last byte that a chain may write is
//! the status, and an append has its sector in the first eight of them.
use super::super::guest::memory::GuestMemory;
use super::chain::{Chain, ChainError, RingError, SgList};
use super::device::{MAX_DATA, VirtioDevice};
use super::wire::{
    BlkStatus, ID_LEN, Range, RequestHeader, UNMAP, ZoneDescriptor, ZoneReport, feature, kind,
};
use zerocopy::{FromZeros, IntoBytes};
use zonal_blk::{
    Bio, BioFlags, BufPool, Completion, Limits, Op, Sector, Status, Zone, ZoneKind, ZoneNo,
    ZoneRefusal,
};
use zonal_os::blk_zone::BlkZone;

/// Bytes of a request's header.
const HEADER: u64 = size_of::<RequestHeader>() as u64;
/// Bytes of a sector.
const SECTOR: u64 = 512;

/// A request whose bio is in flight.
#[derive(Debug)]
pub struct Request {
    pub head: u16,
    writable: SgList,
    op: Op,
    nr_sectors: u32,
}

impl Request {
    /// Bytes of its buffer.
    pub fn bytes(&self) -> usize {
        if self.op.info().has_data { self.nr_sectors as usize * 512 } else { 0 }
    }
}

/// The result of decoding a chain.
#[derive(Debug)]
pub enum Decoded {
    /// A bio.
    Bio(Request, Bio),
    /// It is done: the number of bytes that were written.
    Done(u32),
}

/// How the requests of one guest are treated.
pub struct Requests<'a> {
    pub device: &'a VirtioDevice,
    /// The features that the driver has accepted.
    pub features: u64,
    pub memory: &'a GuestMemory,
}

/// The end of a request: its status, and how many bytes before it were written.
struct End(BlkStatus, u64);

impl Requests<'_> {
    fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    fn limits(&self) -> &Limits {
        self.device.queue.limits()
    }

    /// Whether a driver that knows nothing of zones has a device with them. It may read.
    fn is_unaware(&self) -> bool {
        self.limits().nr_zones > 0 && !self.has(feature::ZONED)
    }

    /// Executes a request, or makes it a bio with a buffer of `bufs`.
    ///
    /// # Errors
    /// The chain has no header or no room for a status: nobody could be told.
    pub fn decode(&self, chain: Chain, bufs: &mut BufPool) -> Result<Decoded, RingError> {
        let Chain { head, readable, writable } = chain;
        if readable.len() < HEADER {
            return Err(RingError::Chain(ChainError::NoHeader));
        }
        if writable.len() == 0 {
            return Err(RingError::Chain(ChainError::NoStatus));
        }
        let mut header = RequestHeader::new_zeroed();
        readable.read(self.memory, 0, header.as_mut_bytes())?;
        let end = match header.kind.get() {
            kind::GET_ID => self.get_id(&writable),
            kind::ZONE_REPORT => self.report(header.sector.get(), &writable),
            _ => match self.bio(&header, &readable, &writable, bufs) {
                Ok(bio) => {
                    let request =
                        Request { head, writable, op: bio.op, nr_sectors: bio.nr_sectors };
                    return Ok(Decoded::Bio(request, bio));
                }
                Err(status) => End(status, 0),
            },
        };
        self.finish(&writable, &end).map(Decoded::Done)
    }

    /// Writes the status. Returns how many bytes were written, without a gap.
    fn finish(&self, writable: &SgList, end: &End) -> Result<u32, RingError> {
        let End(status, before) = *end;
        let last = writable.len() - 1;
        let written = writable.write(self.memory, last, &[status as u8]);
        written.map_err(|_| RingError::Chain(ChainError::StatusNotWritable))?;
        let len = if before == last { before + 1 } else { before };
        Ok(u32::try_from(len).unwrap_or(u32::MAX))
    }

    fn bio(
        &self,
        header: &RequestHeader,
        readable: &SgList,
        writable: &SgList,
        bufs: &mut BufPool,
    ) -> Result<Bio, BlkStatus> {
        let op = match header.kind.get() {
            kind::IN => Op::Read,
            kind::OUT => Op::Write,
            kind::FLUSH => Op::Flush,
            kind::DISCARD if self.has(feature::DISCARD) => Op::Discard,
            kind::WRITE_ZEROES => Op::WriteZeroes,
            _ if !self.has(feature::ZONED) => return Err(BlkStatus::Unsupported),
            kind::ZONE_APPEND => Op::ZoneAppend,
            kind::ZONE_OPEN => Op::ZoneOpen,
            kind::ZONE_CLOSE => Op::ZoneClose,
            kind::ZONE_FINISH => Op::ZoneFinish,
            kind::ZONE_RESET => Op::ZoneReset,
            kind::ZONE_RESET_ALL => Op::ZoneResetAll,
            _ => return Err(BlkStatus::Unsupported),
        };
        if op.is_write() && self.is_unaware() {
            tracing::warn!(
                "vhost-user: a write was refused: the guest's driver does not know zones, or the \
                 monitor hides them from it"
            );
            return Err(BlkStatus::IoErr);
        }
        let sector = Sector(header.sector.get());
        let mut bio = match op {
            Op::Read => self.read(sector, writable, bufs)?,
            Op::Write => self.write(op, sector, readable, bufs)?,
            Op::ZoneAppend if writable.len() <= 8 => return Err(BlkStatus::IoErr),
            Op::ZoneAppend => self.write(op, sector, readable, bufs)?,
            Op::Discard | Op::WriteZeroes => self.range(op, readable)?,
            Op::Flush | Op::ZoneResetAll => Bio::new(op, Sector(0), 0, 0),
            _ => Bio::new(op, sector, 0, 0),
        };
        // Without flushes a write is stable when it completes.
        if op.is_write() && !self.has(feature::FLUSH) {
            bio.flags = BioFlags::FUA;
        }
        Ok(bio)
    }

    /// The sectors of `bytes` of data at `sector`.
    fn sectors(&self, sector: Sector, bytes: u64) -> Result<u32, BlkStatus> {
        if bytes == 0 || !bytes.is_multiple_of(SECTOR) || bytes > u64::from(MAX_DATA) {
            return Err(BlkStatus::IoErr);
        }
        let sectors = bytes / SECTOR;
        if self.crosses_zones(sector, sectors) {
            return Err(BlkStatus::ZoneInvalidCmd);
        }
        Ok(u32::try_from(sectors).expect("it is not too long"))
    }

    /// Whether a range begins in a sequential zone and ends in another: the layer would split it.
    fn crosses_zones(&self, sector: Sector, sectors: u64) -> bool {
        let limits = self.limits();
        let Some(end) = sector.0.checked_add(sectors).filter(|end| *end <= limits.capacity.0)
        else {
            return false;
        };
        self.has(feature::ZONED)
            && limits.zone_of(sector) != limits.zone_of(Sector(end - 1))
            && self.zone(sector).is_none_or(|zone| zone.kind != ZoneKind::Conventional)
    }

    /// The zone that has a sector of the device, as it is now.
    fn zone(&self, sector: Sector) -> Option<Zone> {
        let mut zones = Vec::new();
        let number = self.limits().zone_of(sector);
        self.device.queue.report_zones(number, 1, &mut zones).ok()?;
        zones.pop()
    }

    fn read(
        &self,
        sector: Sector,
        writable: &SgList,
        bufs: &mut BufPool,
    ) -> Result<Bio, BlkStatus> {
        let nr_sectors = self.sectors(sector, writable.len() - 1)?;
        let reads = self.device.queue.device().read_bufs();
        let buf = bufs.for_read(nr_sectors as usize * 512, reads).ok_or(BlkStatus::IoErr)?;
        Ok(Bio { buf: Some(buf), ..Bio::new(Op::Read, sector, nr_sectors, 0) })
    }

    fn write(
        &self,
        op: Op,
        sector: Sector,
        readable: &SgList,
        bufs: &mut BufPool,
    ) -> Result<Bio, BlkStatus> {
        let nr_sectors = self.sectors(sector, readable.len() - HEADER)?;
        if op == Op::ZoneAppend && nr_sectors > self.device.config.max_append_sectors.get() {
            return Err(BlkStatus::ZoneInvalidCmd);
        }
        let mut buf = bufs.sized(nr_sectors as usize * 512).ok_or(BlkStatus::IoErr)?;
        readable.read(self.memory, HEADER, &mut buf).map_err(|_| BlkStatus::IoErr)?;
        Ok(Bio { buf: Some(buf), ..Bio::new(op, sector, nr_sectors, 0) })
    }

    /// Discard and Write Zeroes, of one range.
    fn range(&self, op: Op, readable: &SgList) -> Result<Bio, BlkStatus> {
        let mut range = Range::new_zeroed();
        if readable.len() - HEADER != size_of::<Range>() as u64 {
            return Err(BlkStatus::IoErr);
        }
        readable.read(self.memory, HEADER, range.as_mut_bytes()).map_err(|_| BlkStatus::IoErr)?;
        let known = if op == Op::Discard { 0 } else { UNMAP };
        if range.flags.get() & !known != 0 {
            return Err(BlkStatus::Unsupported);
        }
        let sectors = range.sectors.get();
        if sectors > self.device.max_range(op == Op::Discard) {
            return Err(BlkStatus::IoErr);
        }
        Ok(Bio::new(op, Sector(range.sector.get()), sectors, 0))
    }

    fn get_id(&self, writable: &SgList) -> End {
        let len = (writable.len() - 1).min(ID_LEN as u64);
        let id = &self.device.id[..usize::try_from(len).expect("20 at most")];
        match writable.write(self.memory, 0, id) {
            Ok(()) => End(BlkStatus::Ok, len),
            Err(_) => End(BlkStatus::IoErr, 0),
        }
    }

    fn report(&self, sector: u64, writable: &SgList) -> End {
        if !self.has(feature::ZONED) {
            return End(BlkStatus::Unsupported, 0);
        }
        let reported = self.write_report(Sector(sector), writable);
        reported.map_or_else(|status| End(status, 0), |len| End(BlkStatus::Ok, len))
    }

    /// Writes a report of as many zones as there is room for. Returns its length.
    fn write_report(&self, sector: Sector, writable: &SgList) -> Result<u64, BlkStatus> {
        let limits = self.limits();
        let room = (writable.len() - 1).min(MAX_DATA.into());
        let room = room.checked_sub(size_of::<ZoneReport>() as u64).ok_or(BlkStatus::IoErr)?;
        if sector >= self.device.capacity() {
            return Err(BlkStatus::ZoneInvalidCmd);
        }
        let most = u32::try_from(room / size_of::<ZoneDescriptor>() as u64).expect("8 MiB at most");
        let first = limits.zone_of(sector);
        let mut report = self.device.queue.zones(first..ZoneNo(first.0.saturating_add(most)));
        let (mut count, mut at) = (0, size_of::<ZoneReport>() as u64);
        let mut bytes = Vec::new();
        loop {
            let zones = report.next_batch().map_err(|_| BlkStatus::IoErr)?;
            if zones.is_empty() {
                break;
            }
            bytes.clear();
            zones.iter().for_each(|zone| bytes.extend_from_slice(descriptor(zone).as_bytes()));
            writable.write(self.memory, at, &bytes).map_err(|_| BlkStatus::IoErr)?;
            at += bytes.len() as u64;
            count += zones.len() as u64;
        }
        let header = ZoneReport { zones: count.into(), ..ZoneReport::new_zeroed() };
        writable.write(self.memory, 0, header.as_bytes()).map_err(|_| BlkStatus::IoErr)?;
        Ok(at)
    }

    /// A bio has completed. Returns how many bytes of the chain were written.
    ///
    /// # Errors
    /// The status cannot be written.
    pub fn complete(&self, request: &Request, completion: &Completion) -> Result<u32, RingError> {
        let writable = &request.writable;
        let end = match (completion.status, request.op) {
            (Status::Ok, Op::Read) => {
                let buf = completion.buf.as_ref().expect("a read has its buffer");
                match writable.write(self.memory, 0, buf) {
                    Ok(()) => End(BlkStatus::Ok, buf.len() as u64),
                    Err(_) => End(BlkStatus::IoErr, 0),
                }
            }
            (Status::Ok, Op::ZoneAppend) => {
                let sector = completion.sector.0.to_le_bytes();
                match writable.write(self.memory, 0, &sector) {
                    Ok(()) => End(BlkStatus::Ok, 8),
                    Err(_) => End(BlkStatus::IoErr, 0),
                }
            }
            // A discard is advice.
            (Status::NotSupported, Op::Discard) | (Status::Ok, _) => End(BlkStatus::Ok, 0),
            _ => End(self.failure(request, completion), 0),
        };
        self.finish(writable, &end)
    }

    /// The status of a request whose bio has failed.
    fn failure(&self, request: &Request, completion: &Completion) -> BlkStatus {
        let zoned = self.has(feature::ZONED);
        let (op, status) = (request.op, completion.status);
        let refused = completion.refused || status == Status::Invalid;
        match status {
            Status::NotSupported => BlkStatus::Unsupported,
            Status::ZoneOpenResource => BlkStatus::ZoneOpenResource,
            Status::ZoneActiveResource => BlkStatus::ZoneActiveResource,
            Status::Offline if zoned => BlkStatus::ZoneInvalidCmd,
            _ if !zoned || !refused => BlkStatus::IoErr,
            _ if op == Op::Write || op == Op::WriteZeroes => {
                self.write_failure(completion.sector, request.nr_sectors)
            }
            _ if op == Op::Read => BlkStatus::IoErr,
            _ => BlkStatus::ZoneInvalidCmd,
        }
    }

    /// Why a zone did not allow a write, as the zone is now.
    fn write_failure(&self, sector: Sector, nr_sectors: u32) -> BlkStatus {
        let limits = self.limits();
        let unit = u64::from(limits.zone_write_sectors());
        let zone = Some(sector).filter(|sector| *sector < limits.capacity);
        let Some(zone) = zone.and_then(|sector| self.zone(sector)) else {
            return BlkStatus::IoErr;
        };
        if zone.kind == ZoneKind::Conventional {
            return BlkStatus::IoErr;
        }
        let aligned = (sector.0 | u64::from(nr_sectors)).is_multiple_of(unit);
        let write = (Op::Write, sector, nr_sectors);
        match ZoneRefusal::of_write(limits.zrwa, write, &zone) {
            Some(ZoneRefusal::Offline | ZoneRefusal::ReadOnly | ZoneRefusal::Full) => {
                BlkStatus::ZoneInvalidCmd
            }
            Some(ZoneRefusal::CrossesZone | ZoneRefusal::BeyondCapacity) if aligned => {
                BlkStatus::ZoneInvalidCmd
            }
            // The zone may have changed since, so that it would allow the write now.
            _ => BlkStatus::ZoneUnalignedWp,
        }
    }
}

/// The descriptor of a zone. As in the kernel's reports, the write pointer of a zone without one is the
/// zone's end, so that a driver that trusts it writes nothing.
fn descriptor(zone: &Zone) -> ZoneDescriptor {
    let BlkZone { wp, kind, .. } = BlkZone::from(zone);
    ZoneDescriptor {
        capacity: zone.capacity.0.into(),
        start: zone.start.0.into(),
        wp: wp.into(),
        kind,
        state: zone.cond as u8,
        ..ZoneDescriptor::new_zeroed()
    }
}
