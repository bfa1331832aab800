//! Newtypes for the quantities of the block layer, so that sectors, bytes, zones and nanoseconds
//! cannot be taken for one another.
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// log2 of the sector size: the block layer counts in 512-byte sectors whatever the LBA size.
pub const SECTOR_SHIFT: u32 = 9;

/// A position or a length in 512-byte sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sector(pub u64);

/// A logical block address: a position in units of the device's LBA size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

/// A position or a length in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// The index of a zone, from 0 at the start of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneNo(pub u32);

/// A point in time or a duration, in nanoseconds. The origin is the caller's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// Identifies a request among those in flight on one hardware queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u16);

impl Sector {
    /// The same quantity in bytes.
    pub const fn to_bytes(self) -> Bytes {
        Bytes(self.0 << SECTOR_SHIFT)
    }

    /// The same position in units of `lba_size` bytes, rounded down.
    pub const fn to_lba(self, lba_size: u32) -> Lba {
        Lba(self.0 / (lba_size as u64 >> SECTOR_SHIFT))
    }
}

impl Bytes {
    /// The same quantity in sectors, rounded down.
    pub const fn to_sectors(self) -> Sector {
        Sector(self.0 >> SECTOR_SHIFT)
    }
}

impl Nanos {
    /// The sum, or the end of time if that would be beyond it.
    #[inline]
    pub const fn saturating_add(self, rhs: Self) -> Self {
        Nanos(self.0.saturating_add(rhs.0))
    }
}

macro_rules! arithmetic {
    ($($t:ident),*) => {$(
        impl Add for $t {
            type Output = Self;
            fn add(self, rhs: Self) -> Self {
                Self(self.0 + rhs.0)
            }
        }
        impl AddAssign for $t {
            fn add_assign(&mut self, rhs: Self) {
                self.0 += rhs.0;
            }
        }
        impl Sub for $t {
            type Output = Self;
            fn sub(self, rhs: Self) -> Self {
                Self(self.0 - rhs.0)
            }
        }
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}
arithmetic!(Sector, Bytes, Nanos);

impl fmt::Display for ZoneNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ZoneNo {
    /// The zone's place in a table of zones.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Year, month and day of the day `days` days after 1970-01-01. Counts from 0000-03-01, so that a
/// leap day is the last of its year.
pub fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let january = u64::from(month >= 10);
    (era * 400 + year + january, if month < 10 { month + 3 } else { month - 9 }, day_of_month)
}
