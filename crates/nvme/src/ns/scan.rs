//! Identifies a namespace, and derives the limits of its device. No Identify data of the right length
//! makes it panic.
use super::info::{Ids, NamespaceInfo, ScanError};
use crate::wire::identify::{
    IdentifyController, IdentifyNamespace, ZnsController, ZnsNamespace, id_type,
};
use crate::wire::opcode::{Cns, Csi};
use zerocopy::{FromBytes, Immutable, KnownLayout};
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{Limits, Sector, ZrwaLimits};

/// The controller of a namespace.
#[derive(Clone, Copy, Debug)]
pub struct ControllerInfo<'a> {
    /// Identify Controller.
    pub controller: &'a IdentifyController,
    /// Identify Controller of the ZNS Command Set, for a zoned namespace.
    pub zns: Option<&'a ZnsController>,
    /// CAP.MPSMIN: the smallest page is 2^(12 + this) bytes.
    pub mpsmin: u32,
    /// Maximum transfer in sectors if the controller has no limit.
    pub default_max_sectors: u32,
}

/// Identifies namespace `nsid`. `identify` sends Identify for it and returns 4096 bytes.
///
/// # Errors
/// The error of `identify`; inside, why the namespace cannot be used.
///
/// # Panics
/// If `identify` returns fewer bytes.
pub fn scan<E>(
    nsid: u32,
    mut identify: impl FnMut(Cns, Csi) -> Result<Vec<u8>, E>,
) -> Result<Result<NamespaceInfo, ScanError>, E> {
    let (ids, csi) = descriptors(&identify(Cns::NAMESPACE_DESCRIPTORS, Csi::NVM)?);
    let id: IdentifyNamespace = identify_data(&identify(Cns::NAMESPACE, Csi::NVM)?);
    let zns: Option<ZnsNamespace> = match csi {
        Csi::ZNS => Some(identify_data(&identify(Cns::CSI_NAMESPACE, Csi::ZNS)?)),
        Csi::NVM => None,
        _ => return Ok(Err(ScanError::CommandSet(csi))),
    };
    Ok(NamespaceInfo::new(nsid, ids, &id, zns.as_ref()))
}

/// Identify data as the structure of their CNS.
///
/// # Panics
/// If there are too few bytes.
pub fn identify_data<T: FromBytes + KnownLayout + Immutable>(bytes: &[u8]) -> T {
    T::read_from_prefix(bytes).expect("4096 bytes of Identify data").0
}

/// Parses the Namespace Identification Descriptor list (Base section 5.17.2.3): entries of type,
/// length, two reserved bytes, and the identifier.
fn descriptors(mut list: &[u8]) -> (Ids, Csi) {
    let mut ids = Ids { eui64: [0; 8], nguid: [0; 16], uuid: [0; 16] };
    let mut csi = Csi::NVM;
    while let [kind, len, _, _, rest @ ..] = list
        && *len > 0
    {
        let Some((id, rest)) = rest.split_at_checked(usize::from(*len)) else { break };
        match (*kind, id) {
            (id_type::NGUID, id) if id.len() == 16 => ids.nguid.copy_from_slice(id),
            (id_type::UUID, id) if id.len() == 16 => ids.uuid.copy_from_slice(id),
            (id_type::CSI, [found]) => csi = Csi(*found),
            _ => {}
        }
        list = rest;
    }
    (ids, csi)
}

impl NamespaceInfo {
    /// The limits of the namespace. The number and depth of hardware queues and whether the device is
    /// rotational are left to the caller: 1, 1 and false.
    ///
    /// # Errors
    /// The zones cannot be counted.
    pub fn limits(&self, reach: &ControllerInfo<'_>) -> Result<Limits, ScanError> {
        let zone_size = self.zones.map_or(Sector(0), |zones| zones.size);
        let nr_zones = match self.zones {
            None => 0,
            Some(_) => u32::try_from(self.capacity.0.div_ceil(zone_size.0))
                .ok()
                .filter(|&count| count > 0)
                .ok_or(ScanError::ZoneCount { capacity: self.capacity, zone_size })?,
        };
        // NLB has 16 bits, the length in bytes 32.
        let shift = u32::from(self.lba_shift) - SECTOR_SHIFT;
        let most = (1_u32 << 16 << shift).min(u32::MAX >> SECTOR_SHIFT);
        let pages = |shift: u8| {
            let sectors = 8_u32 << reach.mpsmin.min(8) << u32::from(shift).min(16);
            (shift > 0).then_some(sectors)
        };
        let max_sectors = pages(reach.controller.mdts).unwrap_or(reach.default_max_sectors);
        let append =
            |zns: &ZnsController| pages(zns.append_shift).unwrap_or(max_sectors).min(max_sectors);
        let append = reach.zns.map_or(0, append);
        // ONCS bit 3.
        let zeroes = reach.controller.oncs.get() & 1 << 3 != 0;
        Ok(Limits {
            lba_size: 1 << self.lba_shift,
            capacity: self.capacity,
            zone_size,
            nr_zones,
            max_open_zones: self.zones.map_or(0, |zones| zones.max_open),
            max_active_zones: self.zones.map_or(0, |zones| zones.max_active),
            max_sectors: max_sectors.min(most),
            append_max_sectors: append.min(most),
            max_write_zeroes_sectors: if zeroes { max_sectors.min(most) } else { 0 },
            nr_queues: 1,
            queue_depth: 1,
            rotational: false,
            write_granularity: 0,
            zrwa: self.zones.map_or(ZrwaLimits::NONE, |zones| zones.zrwa),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn descriptors_are_read_up_to_the_first_that_is_none() {
        let mut list = vec![id_type::NGUID, 16, 0, 0];
        list.extend([7; 16]);
        list.extend([id_type::CSI, 1, 0, 0, 2, 0, 0, 0, 0, id_type::CSI, 1, 0, 0, 0]);
        let (ids, csi) = descriptors(&list);
        assert_eq!((ids.nguid, ids.uuid, csi), ([7; 16], [0; 16], Csi::ZNS));
        assert_eq!(descriptors(&[id_type::UUID, 16, 0, 0, 1]).1, Csi::NVM, "cut short");
    }

    proptest! {
        #[test]
        fn no_descriptors_make_it_panic(list in prop::collection::vec(any::<u8>(), 0..64)) {
            descriptors(&list);
        }

        #[test]
        fn no_answers_make_it_panic(pages in prop::collection::vec(any::<u8>(), 4096)) {
            let scanned = scan(1, |_, _| Ok::<_, ()>(pages.clone())).expect("answered");
            let reach = ControllerInfo {
                controller: &identify_data(&pages),
                zns: Some(&identify_data(&pages)),
                mpsmin: 15,
                default_max_sectors: 2048,
            };
            if let Ok(info) = scanned {
                let _ = info.limits(&reach);
            }
        }
    }

    /// The limits of a namespace of 16 zones of 64 blocks of 4 KiB.
    fn limits(mdts: u8, zasl: u8, default_max_sectors: u32) -> Limits {
        let (mut controller, mut zns) = (IdentifyController::zeroed(), ZnsController::zeroed());
        (controller.mdts, zns.append_shift) = (mdts, zasl);
        let mut id = IdentifyNamespace::zeroed();
        (id.size, id.lba_formats[0].data_shift) = ((16 * 64).into(), 12);
        let mut zoned = ZnsNamespace::zeroed();
        zoned.formats[0].zone_size = 64.into();
        (zoned.max_open, zoned.max_active) = (3.into(), u32::MAX.into());
        let mut list = vec![0; 4096];
        list[..5].copy_from_slice(&[id_type::CSI, 1, 0, 0, Csi::ZNS.0]);
        let info = scan(5, |cns, _| {
            use zerocopy::IntoBytes;
            Ok::<_, ()>(match cns {
                Cns::NAMESPACE_DESCRIPTORS => list.clone(),
                Cns::NAMESPACE => id.as_bytes().to_vec(),
                _ => zoned.as_bytes().to_vec(),
            })
        });
        let info = info.expect("answered").expect("a usable namespace");
        let reach = ControllerInfo {
            controller: &controller,
            zns: Some(&zns),
            mpsmin: 0,
            default_max_sectors,
        };
        info.limits(&reach).expect("its zones can be counted")
    }

    #[test]
    fn zones_are_counted_and_limits_of_zero_based_numbers_are_one_more() {
        let limits = limits(5, 0, 2048);
        assert_eq!((limits.nr_zones, limits.zone_size, limits.lba_size), (16, Sector(512), 4096));
        assert_eq!((limits.max_open_zones, limits.max_active_zones), (4, 0));
    }

    #[test]
    fn appends_are_as_long_as_zasl_says_and_no_longer_than_mdts() {
        let lengths = |mdts, zasl| {
            let limits = limits(mdts, zasl, 2048);
            (limits.max_sectors, limits.append_max_sectors)
        };
        assert_eq!(lengths(5, 0), (256, 256), "no ZASL: as MDTS says");
        assert_eq!(lengths(5, 2), (256, 32));
        assert_eq!(lengths(5, 7), (256, 256));
        assert_eq!(lengths(0, 3), (2048, 64), "no MDTS");
        assert_eq!(lengths(9, 9), (4096, 4096), "MDTS may be more than where there is none");
        assert_eq!(lengths(255, 255).0, 65536 * 8, "NLB has 16 bits");
    }
}
