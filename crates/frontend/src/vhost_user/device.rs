//! A device as a guest sees it: features and configuration space, from the limits of its queue.
use super::wire::{BlkConfig, HOST_MANAGED, ID_LEN, feature, protocol};
use crate::ublk::append_max;
use std::sync::Arc;
use zerocopy::FromZeros;
use zonal_blk::{Limits, Queue, Sector};

/// Pieces of memory that a request may have.
const SEG_MAX: u32 = 126;
/// The longest of these in bytes.
const SIZE_MAX: u32 = 64 << 10;
/// The longest request in bytes.
pub const MAX_DATA: u32 = SEG_MAX * SIZE_MAX;
/// The longest range to fill with zeroes, in sectors: a device may need the zeroes as data.
const MAX_ZEROES: u32 = 4 << 20 >> 9;

/// Features that every device has.
const FEATURES: u64 = feature::SIZE_MAX
    | feature::SEG_MAX
    | feature::BLK_SIZE
    | feature::FLUSH
    | feature::WRITE_ZEROES
    | feature::INDIRECT_DESC
    | feature::EVENT_IDX
    | feature::PROTOCOL_FEATURES
    | feature::VERSION_1;

/// Features of the protocol.
pub const PROTOCOL: u64 = protocol::MQ
    | protocol::REPLY_ACK
    | protocol::CONFIG
    | protocol::INFLIGHT_SHMFD
    | protocol::RESET_DEVICE
    | protocol::CONFIGURE_MEM_SLOTS;

/// Why a device cannot be one of virtio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// Configuration space has 32 bits for it.
    #[error("zones of {0} sectors, expected fewer than 2^32")]
    ZoneSize(Sector),
    /// Drivers refuse devices with zones that have no append.
    #[error(
        "no zone append, which drivers require: the device has none, and this zone-write policy does \
         not emulate it"
    )]
    Append,
}

/// A device as virtio has it.
pub struct VirtioDevice {
    pub queue: Arc<Queue>,
    pub features: u64,
    /// Configuration space but for the capacity, which [`VirtioDevice::capacity`] has.
    pub config: BlkConfig,
    /// Padded with zeroes.
    pub id: [u8; ID_LEN],
}

impl VirtioDevice {
    /// The device behind a queue. `rings` is the number of its virtqueues; no more than the first 20 bytes
    /// of `id` are shown.
    ///
    /// # Errors
    /// virtio has no such devices.
    pub fn new(queue: &Arc<Queue>, rings: u16, id: &str) -> Result<Self, DeviceError> {
        let limits = queue.limits();
        let mut features = FEATURES;
        let mut config = BlkConfig::new_zeroed();
        (config.size_max, config.seg_max) = (SIZE_MAX.into(), SEG_MAX.into());
        config.blk_size = limits.lba_size.into();
        config.queues = rings.into();
        if rings > 1 {
            features |= feature::MQ;
        }
        config.max_write_zeroes_sectors = max_zeroes(limits).into();
        config.max_write_zeroes_seg = 1.into();
        if limits.nr_zones == 0 {
            features |= feature::DISCARD;
            config.max_discard_sectors = (u32::MAX - u32::MAX % limits.lba_sectors()).into();
            config.max_discard_seg = 1.into();
            config.discard_sector_alignment = limits.lba_sectors().into();
        } else {
            features |= feature::ZONED;
            zones(&mut config, queue)?;
        }
        let mut padded = [0; ID_LEN];
        padded.iter_mut().zip(id.bytes()).for_each(|(to, from)| *to = from);
        Ok(VirtioDevice { queue: Arc::clone(queue), features, config, id: padded })
    }

    /// The size of the device now. A client is not told when it changes: that takes a socket of the client's that is
    /// kept here, in which the client could hide its own end of the connection.
    pub fn capacity(&self) -> Sector {
        self.queue.capacity()
    }

    /// The longest range to discard and to fill with zeroes, in sectors.
    pub fn max_range(&self, discard: bool) -> u32 {
        let config = &self.config;
        if discard { config.max_discard_sectors } else { config.max_write_zeroes_sectors }.get()
    }
}

fn zones(config: &mut BlkConfig, queue: &Queue) -> Result<(), DeviceError> {
    let limits = queue.limits();
    let zone_size = limits.zone_size;
    let zone_sectors = u32::try_from(zone_size.0).map_err(|_| DeviceError::ZoneSize(zone_size))?;
    let append = append_max(queue, limits.max_sectors.min(MAX_DATA >> 9));
    if append == 0 {
        return Err(DeviceError::Append);
    }
    config.zone_sectors = zone_sectors.into();
    config.max_open_zones = limits.max_open_zones.into();
    config.max_active_zones = limits.max_active_zones.into();
    config.max_append_sectors = append.into();
    config.write_granularity = limits.zone_write_granularity().into();
    config.model = HOST_MANAGED;
    Ok(())
}

fn max_zeroes(limits: &Limits) -> u32 {
    match limits.max_write_zeroes_sectors {
        0 => MAX_ZEROES,
        native => native.min(MAX_ZEROES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ublk::tests::attach;
    use zonal_blk::{QueueOptions, ZoneWrite};

    fn of(device: &str) -> VirtioDevice {
        let device = VirtioDevice::new(&attach(device, QueueOptions::default()), 2, "serial");
        device.expect("a device of virtio")
    }

    #[test]
    fn zoned_device_has_its_limits_and_no_discard() {
        let device =
            of("null:zones=16,conventional=4,zone_size=1M,max_open=4,max_active=6,lba=4096");
        assert_eq!(device.features & (feature::ZONED | feature::DISCARD), feature::ZONED);
        let config = device.config;
        assert_eq!((device.capacity().0, config.blk_size.get()), (16 * 2048, 4096));
        assert_eq!((config.zone_sectors.get(), config.write_granularity.get()), (2048, 4096));
        assert_eq!((config.max_open_zones.get(), config.max_active_zones.get()), (4, 6));
        assert_eq!((config.max_append_sectors.get(), config.model), (2048, 1));
        assert_eq!((config.queues.get(), &device.id[..8]), (2, &b"serial\0\0"[..]));
    }

    #[test]
    fn blocks_are_those_of_the_device_and_writes_have_its_granularity() {
        let config =
            of("hdd:recording=smr,zones=16,max_open=4,lba=512,write_granularity=4K").config;
        assert_eq!((config.blk_size.get(), config.write_granularity.get()), (512, 4096));
    }

    #[test]
    fn device_without_zones_has_discard_and_nothing_of_zones() {
        let device = of("null:zoned=false,size=16M");
        assert_eq!(device.features & (feature::ZONED | feature::DISCARD), feature::DISCARD);
        assert_eq!((device.config.zone_sectors.get(), device.config.model), (0, 0));
        assert_eq!(device.max_range(true), u32::MAX);
        assert_eq!(device.max_range(false), MAX_ZEROES);
    }

    #[test]
    fn devices_that_drivers_refuse_are_errors() {
        let options = QueueOptions { zone_write: Some(ZoneWrite::Off), ..QueueOptions::default() };
        let none = VirtioDevice::new(&attach("null:zones=16,zone_size=1M", options), 1, "");
        assert_eq!(none.err(), Some(DeviceError::Append));
        let large = VirtioDevice::new(&attach("null:zones=2,zone_size=2T", options), 1, "");
        assert_eq!(large.err(), Some(DeviceError::ZoneSize(Sector(1 << 32))));
    }
}
