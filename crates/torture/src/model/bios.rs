//! Each bio from submission to completion.
use super::{CheckResult, Violation, require};
use crate::fault::BioPart;
use zonal_blk::{BioFlags, Completion, Op, Prio, Sector, Status};

/// A bio as it was submitted.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) channel: usize,
    pub(crate) op: Op,
    pub(crate) sector: Sector,
    pub(crate) nr_sectors: u32,
    pub(crate) flags: BioFlags,
    pub(crate) prio: Prio,
    pub(crate) stream: u8,
    pub(crate) has_buf: bool,
}

impl Spec {
    /// A part of the bio with this number.
    pub(super) fn part(&self, bio: u32, sector: Sector, nr_sectors: u32) -> Part {
        let Spec { flags, prio, stream, .. } = *self;
        Part { bio, sector, nr_sectors, flags, prio, stream }
    }
}

/// A bio or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) bio: u32,
    pub(super) sector: Sector,
    pub(super) nr_sectors: u32,
    pub(super) flags: BioFlags,
    pub(super) prio: Prio,
    pub(super) stream: u8,
}

impl Part {
    /// Whether one command may have both.
    pub(super) fn goes_with(&self, other: &Part) -> bool {
        (self.flags, self.prio, self.stream) == (other.flags, other.prio, other.stream)
    }
}

impl From<BioPart> for Part {
    fn from(part: BioPart) -> Self {
        let BioPart { id, sector, nr_sectors, flags, prio, stream } = part;
        let bio = u32::try_from(id).unwrap_or(u32::MAX);
        Part { bio, sector, nr_sectors, flags, prio, stream }
    }
}

struct Bio {
    spec: Spec,
    /// Parts that have not completed; 0 for a bio that is held.
    left: u32,
    /// A bit for each status of a failed part.
    failed: u16,
    completed: bool,
    /// The sector that an append was written to.
    landed: Option<Sector>,
    /// Number of writes acknowledged at submission, which a flush makes durable.
    acknowledged: u64,
    /// Number of resets of its zone when the write was executed.
    resets: u32,
    /// Expected result of a read, by sector.
    expected: Vec<u64>,
}

#[derive(Default)]
pub(super) struct Bios(Vec<Bio>);

impl Bios {
    pub(super) fn next_id(&self) -> u64 {
        self.0.len() as u64
    }

    pub(super) fn add(&mut self, spec: Spec, acknowledged: u64) -> u32 {
        self.0.push(Bio {
            spec,
            left: 0,
            failed: 0,
            completed: false,
            landed: None,
            acknowledged,
            resets: 0,
            expected: Vec::new(),
        });
        u32::try_from(self.0.len() - 1).expect("a run has fewer than 2^32 bios")
    }

    pub(super) fn get(&self, bio: u32) -> &Spec {
        &self.0[bio as usize].spec
    }

    pub(super) fn acknowledged_before(&self, bio: u32) -> u64 {
        self.0[bio as usize].acknowledged
    }

    /// The bio enters the layer in `parts` parts.
    pub(super) fn enter(&mut self, bio: u32, parts: u32) {
        self.0[bio as usize].left = parts;
    }

    /// Checks that a command may contain this part.
    pub(super) fn check_part(&self, part: &Part) -> CheckResult {
        let Some(bio) = self.0.get(part.bio as usize) else {
            return Err(format!("the device got a bio that was not submitted: {part:?}"));
        };
        require!(bio.left > 0 && !bio.completed, "the device got bio {} again", part.bio);
        require!(
            part.flags.contains(bio.spec.flags),
            "bio {} reached the device without its flags: {:?} instead of {:?}",
            part.bio,
            part.flags,
            bio.spec.flags
        );
        require!(
            (part.prio, part.stream) == (bio.spec.prio, bio.spec.stream),
            "bio {} reached the device in write stream {} with {:?}, expected {} and {:?}",
            part.bio,
            part.stream,
            part.prio,
            bio.spec.stream,
            bio.spec.prio
        );
        Ok(())
    }

    pub(super) fn landed(&mut self, bio: u32, at: Sector) {
        self.0[bio as usize].landed = Some(at);
    }

    /// A part of a bio completed. Returns the channel if it was the last part.
    pub(super) fn part_completed(
        &mut self,
        bio: u32,
        status: Status,
    ) -> Result<Option<usize>, Violation> {
        let this = &mut self.0[bio as usize];
        require!(this.left > 0, "a part of bio {bio} completed twice");
        this.left -= 1;
        if status != Status::Ok {
            this.failed |= 1 << status as u16;
        }
        Ok((this.left == 0).then_some(this.spec.channel))
    }

    pub(super) fn written_after(&mut self, bio: u32, resets: u32) {
        self.0[bio as usize].resets = resets;
    }

    pub(super) fn resets_before(&self, bio: u32) -> u32 {
        self.0[bio as usize].resets
    }

    /// The expected result of a read, to be filled in.
    pub(super) fn expect_of(&mut self, bio: u32) -> &mut Vec<u64> {
        let this = &mut self.0[bio as usize];
        let sectors = this.spec.nr_sectors as usize;
        this.expected.resize(sectors, u64::MAX);
        &mut this.expected
    }

    pub(super) fn expected(&self, id: u64) -> &[u64] {
        usize::try_from(id).ok().and_then(|id| self.0.get(id)).map_or(&[], |bio| &bio.expected)
    }

    /// Checks the completion of a bio on a channel.
    pub(super) fn complete(
        &mut self,
        id: u64,
        channel: usize,
        completion: &Completion,
    ) -> Result<Spec, Violation> {
        let Some(bio) = usize::try_from(id).ok().and_then(|id| self.0.get_mut(id)) else {
            return Err(format!("bio {id} completed and was not submitted"));
        };
        let Spec { op, sector, .. } = bio.spec;
        require!(!bio.completed, "bio {id} completed twice");
        require!(bio.left == 0, "bio {id} completed with {} parts in flight", bio.left);
        require!(
            bio.spec.channel == channel,
            "bio {id} of channel {} completed on channel {channel}",
            bio.spec.channel
        );
        bio.completed = true;
        let status = completion.status;
        let expected = match bio.failed {
            0 => status == Status::Ok,
            failed => failed & 1 << status as u16 != 0,
        };
        require!(
            expected,
            "bio {id} ({op:?} at {sector}) completed with {status:?}, expected {}",
            names(bio.failed)
        );
        require!(
            completion.buf.is_some() == bio.spec.has_buf,
            "bio {id} completed with a wrong buffer"
        );
        if let Some(buf) = &completion.buf {
            let bytes = bio.spec.nr_sectors as usize * 512;
            require!(buf.len() == bytes, "bio {id} has a buffer of {} bytes", buf.len());
        }
        if status == Status::Ok {
            let landed = bio.landed.unwrap_or(sector);
            require!(
                completion.sector == landed,
                "bio {id} ({op:?}) reports sector {}, its data is at {landed}",
                completion.sector
            );
        }
        Ok(bio.spec.clone())
    }

    /// Bios that have not completed, for messages.
    pub(super) fn waiting(&self) -> String {
        let waits = |&(_, bio): &(usize, &Bio)| !bio.completed;
        let show = |(id, bio): (usize, &Bio)| {
            let Spec { op, sector, nr_sectors, channel, .. } = bio.spec;
            format!("{id} ({op:?} {sector}+{nr_sectors} on channel {channel}, {} left)", bio.left)
        };
        let waiting: Vec<String> =
            self.0.iter().enumerate().filter(waits).take(8).map(show).collect();
        waiting.join(", ")
    }
}

fn names(failed: u16) -> String {
    use Status::*;
    let all = [
        NotSupported,
        Timeout,
        NoSpace,
        Medium,
        Protection,
        IoError,
        Again,
        ZoneOpenResource,
        ZoneActiveResource,
        Offline,
        Invalid,
    ];
    let failed: Vec<String> = all
        .iter()
        .filter(|&&status| failed & 1 << status as u16 != 0)
        .map(|status| format!("{status:?}"))
        .collect();
    if failed.is_empty() { "Ok".to_owned() } else { failed.join(" or ") }
}
