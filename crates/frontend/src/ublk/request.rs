//! Decodes request descriptors. A descriptor is not trusted: no more is allocated for it than a
//! request may have.
use super::abi::{IO_F_FUA, IoDesc, op};
use zonal_blk::{BioFlags, Limits, Op, Sector, Status, ZoneNo};

/// A decoded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodedRequest {
    /// A bio.
    Bio(BioDesc),
    /// A report of up to `most` zones from `first` on.
    Report { first: ZoneNo, most: u32 },
}

/// A bio without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BioDesc {
    pub op: Op,
    pub flags: BioFlags,
    pub sector: Sector,
    pub nr_sectors: u32,
}

impl BioDesc {
    /// Bytes that the request writes or reads.
    pub fn bytes(&self) -> usize {
        if self.op.info().has_data { self.nr_sectors as usize * 512 } else { 0 }
    }

    /// Whether it brings data.
    pub fn has_write_data(&self) -> bool {
        self.op.info().has_data && self.op.is_write()
    }
}

/// Decodes a descriptor, on a device whose requests have at most `max_request_sectors` of data.
///
/// # Errors
/// [`Status::NotSupported`] for an unknown operation; [`Status::Invalid`] for more data than a
/// request may have and for a report that begins after the device.
pub fn decode(
    limits: &Limits,
    max_request_sectors: u32,
    desc: &IoDesc,
) -> Result<DecodedRequest, Status> {
    let [code, ..] = desc.op_flags.to_le_bytes();
    let op = match code {
        op::READ => Op::Read,
        op::WRITE => Op::Write,
        op::FLUSH => Op::Flush,
        op::DISCARD => Op::Discard,
        op::WRITE_ZEROES => Op::WriteZeroes,
        op::ZONE_OPEN => Op::ZoneOpen,
        op::ZONE_CLOSE => Op::ZoneClose,
        op::ZONE_FINISH => Op::ZoneFinish,
        op::ZONE_APPEND => Op::ZoneAppend,
        op::ZONE_RESET_ALL => Op::ZoneResetAll,
        op::ZONE_RESET => Op::ZoneReset,
        op::REPORT_ZONES => return report(limits, desc),
        _ => return Err(Status::NotSupported),
    };
    let has_sector = op.has_range() || op.is_zone_management();
    let bio_desc = BioDesc {
        op,
        flags: if desc.op_flags & IO_F_FUA != 0 { BioFlags::FUA } else { BioFlags::NONE },
        sector: if has_sector { Sector(desc.start_sector) } else { Sector(0) },
        nr_sectors: if op.has_range() { desc.count } else { 0 },
    };
    if op.info().has_data && bio_desc.nr_sectors > max_request_sectors {
        Err(Status::Invalid)
    } else {
        Ok(DecodedRequest::Bio(bio_desc))
    }
}

fn report(limits: &Limits, desc: &IoDesc) -> Result<DecodedRequest, Status> {
    if limits.nr_zones == 0 {
        return Err(Status::NotSupported);
    }
    // A report begins with the zone that has the sector, as of all devices of the kernel.
    let sector = Sector(desc.start_sector);
    if sector >= limits.capacity {
        return Err(Status::Invalid);
    }
    Ok(DecodedRequest::Report { first: limits.zone_of(sector), most: desc.count })
}

#[cfg(test)]
mod tests {
    use super::super::tests::attach;
    use super::*;
    use zonal_blk::QueueOptions;

    const ZONED: &str = "null:zones=16,zone_size=1M,max_open=4,lba=4096";

    fn decoded(
        device: &str,
        op_flags: u32,
        start_sector: u64,
        count: u32,
    ) -> Result<DecodedRequest, Status> {
        let queue = attach(device, QueueOptions::default());
        decode(queue.limits(), 256, &IoDesc { op_flags, count, start_sector, addr: 0 })
    }

    #[test]
    fn every_operation_becomes_its_bio() {
        let plain = BioFlags::NONE;
        for (op_flags, op, flags, sector, nr_sectors, bytes) in [
            (0, Op::Read, plain, 8, 16, 8192),
            (1, Op::Write, plain, 8, 16, 8192),
            (1 | 1 << 13 | 1 << 11, Op::Write, BioFlags::FUA, 8, 16, 8192),
            (2, Op::Flush, plain, 0, 0, 0),
            (3, Op::Discard, plain, 8, 16, 0),
            (5, Op::WriteZeroes, plain, 8, 16, 0),
            (10, Op::ZoneOpen, plain, 8, 0, 0),
            (11, Op::ZoneClose, plain, 8, 0, 0),
            (12, Op::ZoneFinish, plain, 8, 0, 0),
            (13, Op::ZoneAppend, plain, 8, 16, 8192),
            (14, Op::ZoneResetAll, plain, 0, 0, 0),
            (15, Op::ZoneReset, plain, 8, 0, 0),
        ] {
            let bio_desc = BioDesc { op, flags, sector: Sector(sector), nr_sectors };
            assert_eq!(bio_desc.bytes(), bytes, "{op:?}");
            assert_eq!(decoded(ZONED, op_flags, 8, 16), Ok(DecodedRequest::Bio(bio_desc)));
        }
        let report = DecodedRequest::Report { first: ZoneNo(2), most: 16 };
        assert_eq!(decoded(ZONED, 18, 4096, 16), Ok(report));
        assert_eq!(decoded(ZONED, 18, 4096 + 8, 16), Ok(report), "the zone that has the sector");
    }

    #[test]
    fn malformed_descriptors_are_refused() {
        for (op_flags, sector, count, expected) in [
            (4, 0, 8, Status::NotSupported),
            (17, 0, 8, Status::NotSupported),
            (255, 0, 8, Status::NotSupported),
            (0, 0, 257, Status::Invalid),
            (13, 0, u32::MAX, Status::Invalid),
            (18, 16 * 2048, 1, Status::Invalid),
            (18, u64::MAX, 1, Status::Invalid),
        ] {
            assert_eq!(decoded(ZONED, op_flags, sector, count), Err(expected), "{op_flags}");
        }
        let no_zones = decoded("null:zoned=false,size=16M", 18, 0, 1);
        assert_eq!(no_zones, Err(Status::NotSupported));
    }
}
