//! Commands of any number of bios: Verify, Write Zeroes, deallocation, zone management with Select
//! All.
//!
//! Their bios are made as the bounds of the queue allow, so that a command costs little however long
//! it is. One command at a time has bios left, and those after it wait: a write must not overtake
//! the Write Zeroes before it.
use super::Namespace;
use crate::NvmeStatus;
use crate::controller::MDTS;
use std::vec::IntoIter;
use zonal_blk::{Bio, BioFlags, BufPool, Op, Sector, ZoneNo};

/// Bios in flight of one command.
pub(super) const MAX_BIOS: usize = 64;
/// The longest bio of a range in sectors: the longest transfer.
const MAX_PART: u32 = 8 << MDTS;

/// The bios of a command that are not submitted yet.
#[derive(Debug)]
pub(super) enum Remaining {
    /// A range, in parts.
    Range { op: Op, flags: BioFlags, stream: u8, sector: Sector, nr_sectors: u32 },
    /// Ranges to discard.
    Discards(IntoIter<(Sector, u32)>),
    /// Zones to manage.
    Zones(Op, IntoIter<ZoneNo>),
}

impl Remaining {
    pub fn is_empty(&self) -> bool {
        match self {
            Remaining::Range { nr_sectors, .. } => *nr_sectors == 0,
            Remaining::Discards(ranges) => ranges.len() == 0,
            Remaining::Zones(_, zones) => zones.len() == 0,
        }
    }

    /// Bytes of memory that a bio is charged. A Write Zeroes needs them on a device that
    /// cannot write zeroes without data.
    pub fn bytes(&self) -> usize {
        match self {
            Remaining::Range { nr_sectors, .. } => (*nr_sectors).min(MAX_PART) as usize * 512,
            _ => 0,
        }
    }

    /// The next bio, of which there must be one.
    ///
    /// # Errors
    /// There is no memory for its buffer.
    pub fn next(&mut self, namespace: &Namespace, bufs: &mut BufPool) -> Result<Bio, NvmeStatus> {
        const LEFT: &str = "a command with bios left";
        Ok(match self {
            Remaining::Range { op, flags, stream, sector, nr_sectors } => {
                let len = (*nr_sectors).min(MAX_PART);
                let (flags, stream) = (*flags, *stream);
                let mut bio = Bio { flags, stream, ..Bio::new(*op, *sector, len, 0) };
                if *op == Op::Read {
                    let buf = bufs.sized(len as usize * 512);
                    bio.buf = Some(buf.ok_or(NvmeStatus::INTERNAL)?);
                }
                *sector += Sector(len.into());
                *nr_sectors -= len;
                bio
            }
            Remaining::Discards(ranges) => {
                let (sector, len) = ranges.next().expect(LEFT);
                Bio::new(Op::Discard, sector, len, 0)
            }
            Remaining::Zones(op, zones) => {
                let zone = zones.next().expect(LEFT);
                Bio::new(*op, namespace.limits().zone_start(zone), 0, 0)
            }
        })
    }
}
