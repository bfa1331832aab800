//! The driver's parameters of a device, from the limits of its queue. The kernel sends no request
//! beyond them.
use super::abi::{MAX_IO_BYTES, Params, attr, param};
use zonal_blk::{Limits, Queue, Sector};

/// Why a device cannot be a ublk device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// Linux computes a sector's zone with a shift.
    #[error(
        "zones of {0} sectors, expected a power of two, 8 sectors or more: Linux supports no others"
    )]
    ZoneSize(Sector),
    /// The driver counts whole zones.
    #[error(
        "{capacity} sectors in zones of {zone_size}, expected a multiple: ublk supports no \
         smaller last zone"
    )]
    LastZone {
        /// The device's capacity.
        capacity: Sector,
        /// The size of the other zones.
        zone_size: Sector,
    },
    /// The driver refuses zoned devices without appends.
    #[error(
        "no zone append, which ublk requires: the device has none, and this zone-write policy does \
         not emulate it"
    )]
    Append,
    /// The driver counts data in pages.
    #[error("commands of at most {0} sectors, expected 8 or more: ublk transfers whole pages")]
    MaxSectors(u32),
}

/// The longest zone append of a queue in sectors: the device's own limit, or that of a write where the
/// block layer emulates appends; 0 where there are none.
pub(crate) fn append_max(queue: &Queue, max_request_sectors: u32) -> u32 {
    let limits = queue.limits();
    let zone = u32::try_from(limits.zone_size.0).unwrap_or(u32::MAX);
    match limits.append_max_sectors {
        0 if queue.zone_write().plugs() => max_request_sectors.min(zone),
        native => native.min(max_request_sectors).min(zone),
    }
}

/// The longest request in sectors: at most the device's longest command, in whole pages.
fn max_request_sectors(limits: &Limits) -> u32 {
    let sectors = limits.max_sectors.min(MAX_IO_BYTES / 512);
    sectors - sectors % 8
}

/// The parameters of a device.
///
/// # Errors
/// The driver or Linux does not support such a device.
pub fn params(queue: &Queue) -> Result<Params, ParamsError> {
    let limits = queue.limits();
    let max_request_sectors = max_request_sectors(limits);
    if max_request_sectors == 0 {
        return Err(ParamsError::MaxSectors(limits.max_sectors));
    }
    let mut params = Params::empty();
    params.types = param::BASIC | param::DISCARD;
    // A flush does no harm to a device without a volatile cache.
    params.basic.attrs = attr::VOLATILE_CACHE | attr::FUA;
    if limits.rotational {
        params.basic.attrs |= attr::ROTATIONAL;
    }
    // ublk has no zone write granularity, so a block has to be as large.
    let block = limits.zone_write_granularity();
    let shift = u8::try_from(block.trailing_zeros()).expect("less than 32");
    params.basic.logical_bs_shift = shift;
    params.basic.physical_bs_shift = shift;
    params.basic.io_min_shift = shift;
    params.basic.io_opt_shift = shift;
    params.basic.max_sectors = max_request_sectors;
    params.basic.dev_sectors = queue.capacity().0;
    params.discard.discard_granularity = block;
    params.discard.max_write_zeroes_sectors = limits.max_write_zeroes_sectors;
    if limits.nr_zones == 0 {
        params.discard.max_discard_sectors = u32::MAX - u32::MAX % limits.lba_sectors();
        params.discard.max_discard_segments = 1;
        return Ok(params);
    }
    let zone_size = limits.zone_size;
    let chunk = u32::try_from(zone_size.0).ok().filter(|size| size.is_power_of_two() && *size >= 8);
    params.basic.chunk_sectors = chunk.ok_or(ParamsError::ZoneSize(zone_size))?;
    if !limits.capacity.0.is_multiple_of(zone_size.0) {
        return Err(ParamsError::LastZone { capacity: limits.capacity, zone_size });
    }
    params.types |= param::ZONED;
    params.zoned.max_open_zones = limits.max_open_zones;
    params.zoned.max_active_zones = limits.max_active_zones;
    params.zoned.max_zone_append_sectors = append_max(queue, max_request_sectors);
    if params.zoned.max_zone_append_sectors == 0 {
        return Err(ParamsError::Append);
    }
    Ok(params)
}

impl Params {
    /// Has the kernel align data in memory to `alignment` bytes, up to the page that the driver allows.
    pub fn align(&mut self, alignment: u32) {
        self.types |= param::DMA_ALIGN;
        self.dma.alignment = alignment.clamp(1, 4096) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::attach;
    use super::*;
    use zonal_blk::{QueueOptions, ZoneWrite};

    fn of(device: &str) -> Result<Params, ParamsError> {
        params(&attach(device, QueueOptions::default()))
    }

    #[test]
    fn zoned_device_has_its_limits_and_emulated_appends() {
        let params = of("null:zones=16,zone_size=1M,max_open=4,max_active=6,lba=4096");
        let params = params.expect("a device that ublk supports");
        assert_eq!(params.types, param::BASIC | param::DISCARD | param::ZONED);
        let cache = attr::VOLATILE_CACHE | attr::FUA;
        assert_eq!(params.basic.attrs & cache, cache, "the kernel has to send flushes");
        assert_eq!(params.basic.chunk_sectors, 2048);
        assert_eq!(params.basic.dev_sectors, 16 * 2048);
        assert_eq!(params.basic.logical_bs_shift, 12);
        assert_eq!((params.zoned.max_open_zones, params.zoned.max_active_zones), (4, 6));
        assert_eq!(params.zoned.max_zone_append_sectors, 2048, "1 MiB, the longest command");
        assert_eq!(params.discard.max_discard_sectors, 0);
    }

    #[test]
    fn device_without_zones_has_discards_and_no_zone_limits() {
        let params = of("null:zoned=false,size=16M").expect("a device that ublk supports");
        assert_eq!(params.types & param::ZONED, 0);
        assert_eq!((params.basic.chunk_sectors, params.basic.dev_sectors), (0, 32768));
        assert_eq!(params.discard.max_discard_segments, 1);
    }

    #[test]
    fn blocks_are_as_large_as_the_granularity_of_writes_to_zones() {
        let params = of("hdd:recording=smr,zones=16,max_open=4,lba=512,write_granularity=4K");
        let basic = params.expect("a device that ublk supports").basic;
        assert_eq!((basic.logical_bs_shift, basic.physical_bs_shift), (12, 12));
    }

    #[test]
    fn alignment_is_a_mask_of_less_than_a_page() {
        let mut params = of("null:zoned=false,size=16M").expect("a device that ublk supports");
        assert_eq!(params.types & param::DMA_ALIGN, 0);
        for (alignment, mask) in [(1, 0), (4, 3), (512, 511), (4096, 4095), (65536, 4095)] {
            params.align(alignment);
            assert_eq!(params.dma.alignment, mask);
        }
        assert_ne!(params.types & param::DMA_ALIGN, 0);
    }

    #[test]
    fn rotational_device_is_marked() {
        let params = of("smr-20t").expect("a device that ublk supports");
        assert_ne!(params.basic.attrs & attr::ROTATIONAL, 0);
    }

    #[test]
    fn unsupported_devices_are_errors() {
        let size = of("null:zones=16,zone_size=3M");
        assert_eq!(size, Err(ParamsError::ZoneSize(Sector(6144))));
        let options = QueueOptions { zone_write: Some(ZoneWrite::Off), ..QueueOptions::default() };
        let none = params(&attach("null:zones=16,zone_size=1M", options));
        assert_eq!(none, Err(ParamsError::Append));
    }
}
