//! The way up: requests that another channel completed, and the parts of split bios.
//!
//! A bio completes once, on the channel that submitted it, when all of its parts have.
use crate::bio::{Bio, Completion};
use crate::buf_pool::BufPool;
use crate::mailbox::Mailbox;
use crate::probe::{mark, mutant};
use crate::request::Request;
use crate::slab::Slab;
use crate::status::Status;

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
    /// Adds a bio that is issued in `parts` parts.
    pub(crate) fn insert(&mut self, bio: Bio, parts: u32) -> u32 {
        let parent = SplitBio { bio, parts, status: Status::Ok, refused: false };
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
        let lost = mutant!(ReadPartMisplaced) && parent.parts == 1;
        if let Some(from) = buf {
            // After a failed read the buffer may have the data of another bio.
            if part.op == crate::Op::Read
                && status == Status::Ok
                && from.as_external().is_none()
                && !lost
                && let Some(to) = &mut parent.bio.buf
            {
                let at = (part.sector - parent.bio.sector).to_bytes().0;
                let at = usize::try_from(at).expect("a buffer fits in memory");
                to[at..at + from.len()].copy_from_slice(&from);
            }
            self.bufs.get_or_insert_default().put(from, MAX_KEPT);
        }
        parent.parts -= 1;
        let ends_early = mutant!(SplitCompletesEarly) && parent.status != Status::Ok;
        if parent.parts > 0 && !ends_early {
            return None;
        }
        let SplitBio { bio, status, refused, .. } =
            self.entries.remove(slot as usize).expect("the entry was just used");
        let Bio { user_data, sector, buf, .. } = bio;
        Some(Completion { user_data, status, refused, sector, buf })
    }
}
