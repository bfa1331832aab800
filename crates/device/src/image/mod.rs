//! Images: a device in a file, which survives the process and a loss of power.
//!
//! After a loss of power at any moment, everything that a completed flush covers is there, the write
//! pointer of every zone is at the end of its data, and what was reset does not come back.
//!
//! ```text
//!   superblock  what the image is, file layout      block     checksummed blocks of zone entries
//!   geometry    zones and limits                    recover   file -> zones; check of an image
//!   journal     zones -> file                       tail      the end of a zone's data
//!   device      commands and their order            queue     hardware queues
//!   offered     what it offers as a device               placement   which events it records
//!   sums        checksums of data, and their cache  verify    data against their checksums
//!   regions     where data are being overwritten    store     what is needed of a file
//!   ends        ends of zones that were answered    session   whether it was closed
//!   error       why a file is not an image
//! ```
//!
//! The format is described in `docs/images.md`. Files are opened in `zonal-backend`.
mod block;
mod device;
mod ends;
mod error;
mod geometry;
mod journal;
mod kept;
mod kept_layout;
mod offered;
mod placement;
mod queue;
mod recover;
mod regions;
mod session;
mod store;
mod sums;
mod superblock;
mod tail;
mod verify;

pub use block::{CoveredData, ZoneEntry};
pub use device::{ImageDevice, Model};
pub use error::ImageError;
pub use geometry::{ImageGeometry, MAX_ZONES};
pub use recover::{Finding, Recovered, check, read_superblock, recover};
pub use regions::Region;
pub use store::{ImageStore, ReadAt, Ring, SharedWords, Transfer};
pub use superblock::{MAX_PROFILE, Profile, Superblock, VERSION};
pub use verify::check_data;
