//! What of a device a part is to have.
use crate::control::DeviceControl;
use crate::quantity::{format_size, parse_size};
use std::str::FromStr;
use zonal_blk::{Bytes, Sector};

/// Parts begin and end at multiples of this, in bytes: the pages of a translation layer.
const UNIT: u64 = 4096;

/// What a part is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its size; `None` for the rest.
    pub size: Option<Bytes>,
    /// Its reclaim unit handles, by their numbers on the device: the first is that of writes which name
    /// none.
    pub handles: Vec<u16>,
}

/// Why a device does not have a share, or a text is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// The text has another form.
    #[error("found `{0}`, expected SIZE or SIZE/HANDLES, such as 1G, rest, 512M/0 or rest/1+2")]
    Form(String),
    /// The device has zones.
    #[error("found a device with {0} zones, expected one without zones")]
    Zones(u32),
    /// The size is none that a part can have.
    #[error("found {}, expected a multiple of {} above 0", format_size(.0.0), format_size(UNIT))]
    Size(Bytes),
    /// There is not that much left.
    #[error(
        "found {}, expected at most {}, which the parts before it leave",
        format_size(found.0),
        format_size(rest.0)
    )]
    Large {
        /// Its size.
        found: Bytes,
        /// What is left.
        rest: Bytes,
    },
    /// The device has no such handle.
    #[error("found reclaim unit handle {found}, expected {expected}")]
    Handle {
        /// The handle.
        found: u16,
        /// Those that there are.
        expected: String,
    },
    /// The handle belongs to another part.
    #[error("found reclaim unit handle {0} twice, expected handles that no other part has")]
    Taken(u16),
    /// It has no handle of a device that has some.
    #[error(
        "found no reclaim unit handle, expected at least one of the {0} of the device: SIZE/HANDLES"
    )]
    NoHandle(usize),
}

/// The size of a part and its handles.
pub(super) struct Part {
    pub(super) size: Sector,
    pub(super) handles: Vec<u16>,
}

impl Share {
    /// The part of a device that begins at `start`. `taken` are the handles of the parts before.
    pub(super) fn take(
        &self,
        device: &dyn DeviceControl,
        start: Sector,
        taken: &mut Vec<u16>,
    ) -> Result<Part, PartError> {
        let limits = device.limits();
        if limits.nr_zones > 0 {
            return Err(PartError::Zones(limits.nr_zones));
        }
        let rest = (limits.capacity - start).to_bytes();
        let size = self.size.unwrap_or(rest);
        if size > rest || rest == Bytes(0) {
            return Err(PartError::Large { found: size, rest });
        }
        if size.0 == 0 || !size.0.is_multiple_of(UNIT) {
            return Err(PartError::Size(size));
        }
        let there = device.placement().map_or(0, |placement| placement.layout().unit_handles.len());
        if there > 0 && self.handles.is_empty() {
            return Err(PartError::NoHandle(there));
        }
        for &found in &self.handles {
            if usize::from(found) >= there {
                let expected = match there {
                    0 => "none: the device has no data placement, fdp_handles=0".to_owned(),
                    _ => format!("0 to {}", there - 1),
                };
                return Err(PartError::Handle { found, expected });
            }
            if taken.contains(&found) {
                return Err(PartError::Taken(found));
            }
            taken.push(found);
        }
        Ok(Part { size: size.to_sectors(), handles: self.handles.clone() })
    }
}

impl FromStr for Share {
    type Err = PartError;

    fn from_str(text: &str) -> Result<Self, PartError> {
        let bad = || PartError::Form(text.to_owned());
        let (size, handles) = match text.split_once('/') {
            Some((size, handles)) => (size, handles.split('+').collect()),
            None => (text, Vec::new()),
        };
        let size = match size {
            "rest" => None,
            size => Some(Bytes(parse_size(size).map_err(|_| bad())?)),
        };
        let handles: Result<Vec<u16>, _> = handles.into_iter().map(str::parse).collect();
        Ok(Share { size, handles: handles.map_err(|_| bad())? })
    }
}
