//! Zone reports: the command, and its data. Descriptors with positions beyond the namespace are
//! rejected.
use super::info::NamespaceInfo;
use crate::wire::opcode::IoOpcode;
use crate::wire::queue::PSDT_SGL;
use crate::wire::zone::{
    NO_WRITE_POINTER, ReportHeader, SEQUENTIAL_WRITE_REQUIRED, ZoneDescriptor, ZoneReceive,
};
use zerocopy::FromBytes;
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{Sector, Zone, ZoneAttributes, ZoneCondition, ZoneKind, ZoneNo};

impl NamespaceInfo {
    /// `blocks` in sectors; `None` if beyond the namespace.
    pub fn sectors(&self, blocks: u64) -> Option<Sector> {
        let shift = u32::from(self.lba_shift) - SECTOR_SHIFT;
        let sectors = Sector(blocks.checked_mul(1 << shift)?);
        (sectors <= self.capacity).then_some(sectors)
    }

    /// The sector of an append to `zone` that returned `lba`; `None` if that is not in the zone.
    pub fn append_sector(&self, zone: ZoneNo, lba: u64) -> Option<Sector> {
        let (sector, size) = (self.sectors(lba)?, self.zones?.size);
        (sector.0 / size.0 == u64::from(zone.0)).then_some(sector)
    }

    /// The command that reports up to `most` zones, from the one at `first` on, into at most `buffer_len`
    /// bytes, and the length of its data.
    ///
    /// # Panics
    /// If `buffer_len` is too small for a zone, or the report 4 GiB or longer.
    pub fn report(&self, first: Sector, most: usize, buffer_len: usize) -> (ZoneReceive, u32) {
        let fits = buffer_len.saturating_sub(ReportHeader::SIZE) / ZoneDescriptor::SIZE;
        assert!(fits > 0, "{buffer_len} bytes for a zone report");
        let len = ReportHeader::SIZE + most.min(fits) * ZoneDescriptor::SIZE;
        let len = u32::try_from(len).expect("a report of less than 4 GiB");
        let command = ZoneReceive {
            opcode: IoOpcode::ZONE_MANAGEMENT_RECEIVE.0,
            flags: PSDT_SGL,
            nsid: self.nsid.into(),
            slba: (first.0 >> (u32::from(self.lba_shift) - SECTOR_SHIFT)).into(),
            ndw: (len / 4 - 1).into(),
            partial: 1,
            ..ZoneReceive::zeroed()
        };
        (command, len)
    }

    /// Appends the zones of a report to `zones` and returns their number; `None` if one is invalid.
    pub fn parse_report(&self, report: &[u8], zones: &mut Vec<Zone>) -> Option<usize> {
        let (header, rest) = ReportHeader::read_from_prefix(report).ok()?;
        let listed = usize::try_from(header.nr_zones.get()).unwrap_or(usize::MAX);
        let before = zones.len();
        for bytes in rest.chunks_exact(ZoneDescriptor::SIZE).take(listed) {
            let descriptor = ZoneDescriptor::read_from_bytes(bytes).ok()?;
            zones.push(self.zone(&descriptor)?);
        }
        Some(zones.len() - before)
    }

    /// The zone of a descriptor; `None` if that is invalid.
    fn zone(&self, descriptor: &ZoneDescriptor) -> Option<Zone> {
        let start = self.sectors(descriptor.slba.get())?;
        let len = self.zones?.size;
        let end = Sector(start.0.checked_add(len.0)?);
        let cond = descriptor.condition()?;
        let has_pointer = cond.is_active() || cond == ZoneCondition::Empty;
        let wp = match descriptor.write_pointer.get() {
            NO_WRITE_POINTER => end,
            _ if !has_pointer => end,
            wp => self.sectors(wp)?,
        };
        if descriptor.zone_type & 0xf != SEQUENTIAL_WRITE_REQUIRED {
            return None;
        }
        let capacity = self.sectors(descriptor.capacity.get())?;
        let (kind, bits) = (ZoneKind::SequentialRequired, descriptor.attributes);
        let attributes = ZoneAttributes::from_bits(bits);
        Some(Zone { start, len, capacity, wp, kind, cond, attributes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ns::ZoneInfo;
    use crate::ns::info::testing::info;
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    fn descriptor(slba: u64, state: u8, write_pointer: u64) -> ZoneDescriptor {
        ZoneDescriptor {
            zone_type: SEQUENTIAL_WRITE_REQUIRED,
            state: state << 4,
            capacity: 48.into(),
            slba: slba.into(),
            write_pointer: write_pointer.into(),
            ..ZoneDescriptor::zeroed()
        }
    }

    fn report(nr_zones: u64, descriptors: &[ZoneDescriptor]) -> Vec<u8> {
        let header = ReportHeader { nr_zones: nr_zones.into(), ..ReportHeader::zeroed() };
        [header.as_bytes(), descriptors.as_bytes()].concat()
    }

    #[test]
    fn report_command_covers_as_many_zones_as_fit() {
        let (command, len) = info().report(Sector(1024), 100, 64 + 4 * 64 + 63);
        assert_eq!((command.nsid.get(), command.slba.get(), command.partial), (5, 128, 1));
        assert_eq!((len, command.ndw.get()), (320, 79));
        assert_eq!(info().report(Sector(0), 2, 4096).1, 192);
    }

    #[test]
    fn zones_are_parsed_up_to_the_number_in_the_header() {
        let listed =
            [descriptor(0, 0x2, 7), descriptor(64, 0xe, NO_WRITE_POINTER), descriptor(128, 1, 128)];
        let mut zones = Vec::new();
        assert_eq!(info().parse_report(&report(2, &listed), &mut zones), Some(2));
        let kind = ZoneKind::SequentialRequired;
        let (len, capacity) = (Sector(512), Sector(384));
        let first = Zone {
            start: Sector(0),
            len,
            capacity,
            wp: Sector(56),
            kind,
            cond: ZoneCondition::ImplicitOpen,
            attributes: ZoneAttributes::NONE,
        };
        let second = Zone { start: len, wp: Sector(1024), cond: ZoneCondition::Full, ..first };
        assert_eq!(zones, [first, second]);
        assert_eq!(info().parse_report(&report(9, &listed), &mut zones), Some(3), "it ends there");
    }

    #[test]
    fn invalid_descriptors_are_rejected() {
        let other_type = ZoneDescriptor { zone_type: 1, ..descriptor(0, 1, 0) };
        for wrong in [
            descriptor(16 * 64 + 1, 1, 0),
            descriptor(0, 2, 16 * 64 + 1),
            descriptor(0, 0x7, 0),
            other_type,
        ] {
            let mut zones = Vec::new();
            assert_eq!(info().parse_report(&report(1, &[wrong]), &mut zones), None, "{wrong:?}");
        }
        assert_eq!(info().parse_report(&[0; 63], &mut Vec::new()), None, "no header");
    }

    #[test]
    fn append_result_must_be_in_its_zone() {
        assert_eq!(info().append_sector(ZoneNo(1), 64), Some(Sector(512)));
        assert_eq!(info().append_sector(ZoneNo(1), 127), Some(Sector(1016)));
        for elsewhere in [0, 63, 128, u64::MAX] {
            assert_eq!(info().append_sector(ZoneNo(1), elsewhere), None);
        }
        assert_eq!(NamespaceInfo { zones: None, ..info() }.append_sector(ZoneNo(0), 0), None);
    }

    proptest! {
        #[test]
        fn no_report_makes_it_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..320),
            capacity in any::<u64>(),
            size in 1_u64..,
        ) {
            let zones = info().zones.map(|zones| ZoneInfo { size: Sector(size), ..zones });
            let info = NamespaceInfo { capacity: Sector(capacity), zones, ..info() };
            info.parse_report(&bytes, &mut Vec::new());
        }
    }
}
