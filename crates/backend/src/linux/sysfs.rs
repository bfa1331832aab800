//! The limits of a block device, from its directory in sysfs such as `/sys/dev/block/259:0`.
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use zonal_blk::{Limits, Sector, ZrwaLimits};

/// The deepest hardware queue.
const MAX_DEPTH: u16 = 1024;
/// Depth where the kernel does not tell, as for multipath disks (NVMe).
const DEFAULT_DEPTH: u16 = 128;

/// Why limits cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LimitsError {
    /// An attribute cannot be read.
    #[error("{0}: {1}")]
    Read(PathBuf, io::Error),
    /// An attribute has an unexpected value.
    #[error("{path}: found `{found}`, expected {expected}")]
    Value {
        /// The attribute.
        path: PathBuf,
        /// Its value.
        found: String,
        /// The values that it may have.
        expected: &'static str,
    },
}

/// The directory of a device.
pub(super) struct Attributes<'a>(pub &'a Path);

impl Attributes<'_> {
    pub fn text(&self, name: &str) -> Result<(PathBuf, String), LimitsError> {
        let path = self.0.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok((path, text.trim().to_owned())),
            Err(error) => Err(LimitsError::Read(path, error)),
        }
    }

    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T, LimitsError> {
        let (path, found) = self.text(name)?;
        found.parse().map_err(|_| LimitsError::Value { path, found, expected: "a number" })
    }

    /// The alignment of writes to zones in bytes; 0, which means a block, before Linux 5.12, which does
    /// not have the attribute.
    fn write_granularity(&self) -> Result<u32, LimitsError> {
        match self.number("queue/zone_write_granularity") {
            Err(LimitsError::Read(_, error)) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            granularity => granularity,
        }
    }

    /// The depth of a hardware queue.
    pub fn depth(&self) -> Result<u16, LimitsError> {
        match self.number::<u32>("queue/nr_requests") {
            Err(LimitsError::Read(_, error)) if error.kind() == io::ErrorKind::NotFound => {
                Ok(DEFAULT_DEPTH)
            }
            depth => Ok(u16::try_from(depth?).unwrap_or(u16::MAX).clamp(1, MAX_DEPTH)),
        }
    }
}

/// The alignment in memory, in bytes, that the device needs to transfer data in place
/// (`dma_alignment`); `None` before Linux 6.0.
pub fn alignment(directory: &Path) -> Option<u32> {
    let mask: u32 = Attributes(directory).number("queue/dma_alignment").ok()?;
    mask.checked_add(1).filter(|alignment| alignment.is_power_of_two())
}

/// The number of zones that the device of a directory has now; `None` if the kernel does not tell.
pub fn nr_zones(directory: &Path) -> Option<u32> {
    Attributes(directory).number("queue/nr_zones").ok()
}

/// The limits of the device of a directory.
///
/// # Errors
/// Which attribute is missing, as all are for a partition, or has an unexpected value.
pub fn limits(directory: &Path) -> Result<Limits, LimitsError> {
    let attributes = Attributes(directory);
    let (path, zoned) = attributes.text("queue/zoned")?;
    let zoned = match zoned.as_str() {
        // A host-aware device accepts writes anywhere.
        "none" | "host-aware" => false,
        "host-managed" => true,
        _ => {
            let expected = "none, host-aware or host-managed";
            return Err(LimitsError::Value { path, found: zoned, expected });
        }
    };
    let lba_size: u32 = attributes.number("queue/logical_block_size")?;
    if !matches!(lba_size, 512 | 4096) {
        let (path, found) = attributes.text("queue/logical_block_size")?;
        return Err(LimitsError::Value { path, found, expected: "512 or 4096" });
    }
    let max_kb: u32 = attributes.number("queue/max_sectors_kb")?;
    let mut limits = Limits {
        lba_size,
        capacity: Sector(attributes.number("size")?),
        zone_size: Sector(0),
        nr_zones: 0,
        max_open_zones: 0,
        max_active_zones: 0,
        max_sectors: max_kb.saturating_mul(2),
        // There is no system call for it.
        append_max_sectors: 0,
        max_write_zeroes_sectors: 0,
        nr_queues: u16::MAX,
        queue_depth: attributes.depth()?,
        rotational: attributes.number::<u8>("queue/rotational")? != 0,
        write_granularity: 0,
        zrwa: ZrwaLimits::NONE,
    };
    if zoned {
        limits.zone_size = Sector(attributes.number("queue/chunk_sectors")?);
        limits.nr_zones = attributes.number("queue/nr_zones")?;
        limits.max_open_zones = attributes.number("queue/max_open_zones")?;
        limits.max_active_zones = attributes.number("queue/max_active_zones")?;
        limits.write_granularity = attributes.write_granularity()?;
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(changed: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("queue")).expect("a directory");
        let attributes = [
            ("size", "131072"),
            ("queue/zoned", "host-managed"),
            ("queue/logical_block_size", "4096"),
            ("queue/chunk_sectors", "8192"),
            ("queue/nr_zones", "16"),
            ("queue/max_open_zones", "4"),
            ("queue/max_active_zones", "6"),
            ("queue/max_sectors_kb", "1280"),
            ("queue/nr_requests", "64"),
            ("queue/rotational", "0"),
        ];
        for (name, value) in attributes.iter().chain(changed) {
            fs::write(directory.path().join(name), format!("{value}\n")).expect("a file");
        }
        directory
    }

    #[test]
    fn limits_of_a_zoned_device_are_its_attributes() {
        let limits = limits(directory(&[]).path()).expect("limits");
        assert_eq!((limits.capacity, limits.zone_size), (Sector(131072), Sector(8192)));
        assert_eq!((limits.nr_zones, limits.max_open_zones, limits.max_active_zones), (16, 4, 6));
        assert_eq!((limits.lba_size, limits.max_sectors, limits.queue_depth), (4096, 2560, 64));
        assert_eq!((limits.rotational, limits.append_max_sectors), (false, 0));
    }

    #[test]
    fn zones_that_a_disk_has_lost_are_no_longer_counted() {
        let disk = directory(&[]);
        assert_eq!(nr_zones(disk.path()), Some(16));
        fs::write(disk.path().join("queue/nr_zones"), "12\n").expect("a file");
        assert_eq!(nr_zones(disk.path()), Some(12));
        fs::remove_file(disk.path().join("queue/nr_zones")).expect("it was there");
        assert_eq!(nr_zones(disk.path()), None);
    }

    #[test]
    fn disk_that_emulates_blocks_of_512_bytes_has_the_granularity_of_its_zones() {
        let emulated =
            [("queue/logical_block_size", "512"), ("queue/zone_write_granularity", "4096")];
        let limits = limits(directory(&emulated).path()).expect("limits");
        assert_eq!((limits.lba_size, limits.zone_write_granularity()), (512, 4096));
    }

    #[test]
    fn chunks_of_a_device_without_zones_are_not_zones() {
        let limits = limits(directory(&[("queue/zoned", "none")]).path()).expect("limits");
        assert_eq!((limits.nr_zones, limits.zone_size), (0, Sector(0)));
    }

    #[test]
    fn multipath_disk_has_the_default_depth() {
        let disk = directory(&[]);
        fs::remove_file(disk.path().join("queue/nr_requests")).expect("it was there");
        assert_eq!(limits(disk.path()).expect("limits").queue_depth, 128);
    }

    #[test]
    fn alignment_follows_from_the_dma_mask() {
        let of = |mask| alignment(directory(&[("queue/dma_alignment", mask)]).path());
        assert_eq!([of("511"), of("3"), of("0")], [Some(512), Some(4), Some(1)]);
        assert_eq!([of("512"), of("4294967295"), of("wide")], [None; 3]);
        assert_eq!(alignment(directory(&[]).path()), None);
    }

    #[test]
    fn errors_name_the_attribute() {
        let partition = directory(&[]);
        fs::remove_dir_all(partition.path().join("queue")).expect("it was there");
        let error = limits(partition.path()).expect_err("no queue").to_string();
        assert!(error.contains("queue/zoned"), "{error}");
        for (name, value, expected) in [
            ("queue/zoned", "maybe", "expected none, host-aware or host-managed"),
            ("queue/nr_zones", "many", "found `many`, expected a number"),
            ("queue/logical_block_size", "520", "expected 512 or 4096"),
        ] {
            let error = limits(directory(&[(name, value)]).path()).expect_err(value).to_string();
            assert!(error.contains(name) && error.contains(expected), "{error}");
        }
    }
}
