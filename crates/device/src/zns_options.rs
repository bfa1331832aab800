//! Options of the ZNS Command Set for the devices that can have them: zone random write areas and zone
//! descriptor extensions.
use crate::config::{ConfigError, rule};
use crate::quantity::format_size;
use zonal_blk::{Bytes, ZrwaLimits};

/// Largest area. It must also be countable in 16 bits of LBAs, as NVMe reports it (ZRWASZ).
const MAX_AREA: Bytes = Bytes(64 << 20);

/// `zrwa`, `zrwa_granularity` and `max_zrwa`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZrwaOptions {
    pub size: Bytes,
    pub granularity: Bytes,
    pub max: u32,
}

impl ZrwaOptions {
    /// The limits of a device of valid options.
    pub fn limits(self, zones: u32, max_active: u32) -> ZrwaLimits {
        if self.size.0 == 0 {
            return ZrwaLimits::NONE;
        }
        let sectors =
            |bytes: Bytes| u32::try_from(bytes.to_sectors().0).expect("an area has 64 MiB at most");
        let max = [self.max, max_active, zones].into_iter().find(|&max| max > 0);
        let (size, granularity) = (sectors(self.size), sectors(self.granularity));
        ZrwaLimits { size, granularity, max: max.unwrap_or(zones) }
    }
}

/// Validates the options.
///
/// # Errors
/// The first rule that is broken.
pub(crate) fn validate_zrwa(
    options: ZrwaOptions,
    lba: u32,
    zone_capacity: Bytes,
) -> Result<(), ConfigError> {
    let ZrwaOptions { size, granularity, .. } = options;
    if size.0 == 0 {
        return Ok(());
    }
    let text = |bytes: Bytes| format_size(bytes.0);
    let lbas = format!("a non-zero multiple of lba={lba}");
    let is_lbas = |bytes: Bytes| bytes.0 > 0 && bytes.0.is_multiple_of(lba.into());
    let divides = is_lbas(granularity) && size.0.is_multiple_of(granularity.0);
    rule("zrwa_granularity", divides, text(granularity), || {
        format!("{lbas} that divides zrwa={}", text(size))
    })?;
    let most = MAX_AREA.min(Bytes(u64::from(u16::MAX) * u64::from(lba)));
    let fits = is_lbas(size) && size <= zone_capacity && size <= most;
    rule("zrwa", fits, text(size), || {
        let capacity = text(zone_capacity);
        format!("0, or {lbas} up to zone_capacity={capacity} and {}", text(most))
    })
}

/// Validates the size of zone descriptor extensions: NVMe counts units of 64 bytes in 8 bits (ZDES).
///
/// # Errors
/// The rule that is broken.
pub(crate) fn validate_extension(bytes: u32) -> Result<(), ConfigError> {
    let fits = bytes.is_multiple_of(64) && bytes <= 255 * 64;
    rule("descriptor_extension", fits, bytes, || format!("a multiple of 64 up to {}", 255 * 64))
}
