//! The mistakes with `--cfg torture`.
use std::sync::OnceLock;

/// The environment variable that names the mistake to switch on.
pub const VARIABLE: &str = "ZONAL_MISTAKE";

zonal_blk::probes! {
    /// Mistakes that can be switched on, one in a run of the program.
    Mistake {
        OneZoneTooMany = "a region with zones ends a zone later",
        RegionTooShort = "a region without zones lacks its last block",
        OffsetForgotten = "a region begins at the start of the device",
        ClonesOverlap = "clones of one job have one region",
        AmountHalved = "half of io_size is done",
        OneIoMore = "number_ios is one more",
        DirectionsSwapped = "rwmixread is the part of writes",
        FirstSizeOnly = "bssplit has its first size only",
        RangeShort = "bsrange has its smallest size only",
        BlocksRepeat = "a random order has each second block twice",
        SomeUnverified = "each tenth block is not verified",
        RateDoubled = "rate_iops is twice as high",
    }
}

/// Whether a mistake is switched on.
///
/// # Panics
/// If the variable names none.
pub fn is_on(mistake: Mistake) -> bool {
    static ON: OnceLock<Option<Mistake>> = OnceLock::new();
    let named = || {
        let name = std::env::var(VARIABLE).ok()?;
        let found = Mistake::ALL.iter().find(|(mistake, _)| mistake.name() == name);
        Some(found.unwrap_or_else(|| panic!("{VARIABLE}: no mistake is named {name}")).0)
    };
    *ON.get_or_init(named) == Some(mistake)
}
