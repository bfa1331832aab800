//! The way up: requests that another channel completed, and the parts of split bios.
//!
//! A bio completes once, on the channel that submitted it, when all of its parts have.
use crate::bio::{Bio, Completion};
use crate::buf::Buf;
use crate::buf_pool::BufPool;
use crate::mailbox::Mailbox;
use crate::op::Op;
use crate::probe::{mark, mutant};
use crate::request::Request;
use crate::slab::Slab;
use crate::status::Status;
use crate::units::{SECTOR_SHIFT, Sector};

/// Where other channels leave the requests of this one that they have completed. A write that waited in
/// a plug is issued by the channel whose write it waited for.
pub(crate) type ChannelMail = Mailbox<Box<Request>>;

/// A bio that was split, waiting for its parts.
#[derive(Debug)]
struct SplitBio {
    bio: Bio,
    parts: u32,
    status: Status,
    /// Of the same part as the status.
    refused: bool,
    /// What came back of a buffer that was taken apart, each piece with its sector.
    pieces: Option<Vec<(Sector, Buf)>>,
}

impl SplitBio {
    /// Takes the buffer of a part, and returns it if it is no piece of the bio's.
    fn take_back(&mut self, part: &Bio, status: Status, mut buf: Buf) -> Option<Buf> {
        let lost = mutant!(ReadPartMisplaced) && self.parts == 1;
        if let Some(pieces) = &mut self.pieces {
            if lost && part.op == Op::Read {
                buf.fill(0);
            }
            pieces.push((part.sector, buf));
            return None;
        }
        // After a failed read the buffer may have the data of another bio.
        let has_data = part.op == Op::Read && status == Status::Ok && buf.as_external().is_none();
        if has_data
            && !lost
            && let Some(whole) = &mut self.bio.buf
        {
            let at = (part.sector - self.bio.sector).to_bytes().0;
            let at = usize::try_from(at).expect("a buffer fits in memory");
            whole[at..at + buf.len()].copy_from_slice(&buf);
        }
        Some(buf)
    }

    /// The bio's buffer, put together from its pieces if it was taken apart; `None` if the device has
    /// kept one.
    fn into_buf(self) -> Option<Buf> {
        let Some(mut pieces) = self.pieces else { return self.bio.buf };
        pieces.sort_unstable_by_key(|&(sector, _)| sector);
        let joined = pieces.into_iter().map(|(_, piece)| piece).reduce(|mut joined, piece| {
            joined.unsplit(piece);
            joined
        });
        joined.filter(|buf| buf.len() as u64 == u64::from(self.bio.nr_sectors) << SECTOR_SHIFT)
    }
}

/// Bytes of buffers of parts that a channel keeps for reuse: those of a few long bios, whose parts the
/// next bio takes.
const MAX_KEPT: usize = 4 << 20;

/// The split bios of a channel.
#[derive(Debug, Default)]
pub(crate) struct SplitBios {
    entries: Slab<SplitBio>,
    /// For the parts, once there are any.
    bufs: Option<Box<BufPool>>,
}

impl SplitBios {
    /// Adds a bio that is issued in `parts` parts, each with its piece of the buffer if the bio is
    /// `divided`.
    pub(crate) fn insert(&mut self, bio: Bio, parts: u32, divided: bool) -> u32 {
        let pieces = divided.then(|| Vec::with_capacity(parts as usize));
        let parent = SplitBio { bio, parts, status: Status::Ok, refused: false, pieces };
        u32::try_from(self.entries.insert(parent)).expect("fewer than 2^32 split bios")
    }

    /// Buffers for parts.
    pub(crate) fn bufs(&mut self) -> &mut BufPool {
        self.bufs.get_or_insert_default()
    }

    /// The part `request` has completed. Returns the completion of the bio with the last part; its
    /// status is that of the first part that failed.
    pub(crate) fn part_done(&mut self, slot: u32, request: &mut Request) -> Option<Completion> {
        let parent = self.entries.get_mut(slot as usize).expect("a part has a parent");
        if parent.status == Status::Ok {
            (parent.status, parent.refused) = (request.status(), request.is_refused());
        }
        mark!(SplitPartFailed if request.status() != Status::Ok);
        let status = request.status();
        let (part, buf) = request.take_bio();
        if let Some(unused) = buf.and_then(|buf| parent.take_back(part, status, buf)) {
            self.bufs.get_or_insert_default().put(unused, MAX_KEPT);
        }
        parent.parts -= 1;
        let ends_early = mutant!(SplitCompletesEarly) && parent.status != Status::Ok;
        if parent.parts > 0 && !ends_early {
            return None;
        }
        let split = self.entries.remove(slot as usize).expect("the entry was just used");
        let Bio { user_data, sector, .. } = split.bio;
        let (status, refused) = (split.status, split.refused);
        Some(Completion { user_data, status, refused, sector, buf: split.into_buf() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ReadBufs;
    use crate::split;
    use crate::testing::limits;

    /// A read of 640 KiB in five parts, and the parts, each with its number in its piece.
    fn divided() -> (SplitBio, Vec<Bio>, *const u8) {
        let limits = crate::Limits { max_sectors: 256, ..limits(4, 4096) };
        let buf = Buf::zeroed(1280 * 512);
        let begin = buf.as_ptr();
        let mut bio = Bio { buf: Some(buf), ..Bio::new(Op::Read, Sector(0), 1280, 0) };
        let parts = split::parts(&limits, &mut bio, ReadBufs::Filled, &mut BufPool::default());
        let mut parts = parts.expect("memory");
        for (number, part) in (1..).zip(&mut parts) {
            part.buf.as_mut().expect("a piece").fill(number);
        }
        let (status, pieces) = (Status::Ok, Some(Vec::new()));
        (SplitBio { bio, parts: 5, status, refused: false, pieces }, parts, begin)
    }

    #[test]
    fn pieces_are_put_together_in_whatever_order_they_come_back() {
        for first in 0..5 {
            let (mut split, mut parts, begin) = divided();
            parts.rotate_left(first);
            parts.swap(1, 3);
            for mut part in parts {
                let piece = part.buf.take().expect("a piece");
                assert!(split.take_back(&part, Status::Ok, piece).is_none(), "the bio's");
            }
            let buf = split.into_buf().expect("all pieces came back");
            assert_eq!((buf.as_ptr(), buf.len()), (begin, 1280 * 512), "not copied");
            let values: Vec<_> = buf.chunks(256 * 512).map(|part| part[7]).collect();
            assert_eq!(values, [1, 2, 3, 4, 5]);
        }
    }

    #[test]
    fn buffer_of_which_the_device_kept_a_piece_does_not_come_back() {
        for kept in 0..5 {
            let (mut split, mut parts, _) = divided();
            parts.remove(kept);
            for mut part in parts {
                let piece = part.buf.take().expect("a piece");
                split.take_back(&part, Status::Ok, piece);
            }
            assert!(split.into_buf().is_none());
        }
    }
}
