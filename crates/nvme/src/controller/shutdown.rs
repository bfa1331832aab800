//! An orderly shutdown (CC.SHN): the volatile write caches of all namespaces are committed before
//! CSTS.SHST says that it is complete.
//!
//! The caches are flushed once the controller's I/O queues have ended: whatever they have answered is
//! committed. If a flush fails, SHST never says "complete", and CSTS.CFS says that the controller has
//! failed: there is no command whose status could.
use super::association::Association;
use super::subsystem::Subsystem;
use crate::wire::fabrics::{CSTS_FATAL, CSTS_SHUTDOWN_COMPLETE, CSTS_SHUTDOWN_OCCURRING};
use zonal_blk::{Bio, Channel, Nanos, Op, Sector, Status};

/// The progress of a shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// None was asked for.
    #[default]
    None,
    /// I/O queues have not ended, or a flush of an earlier shutdown is in flight.
    Requested,
    Flushing,
    Complete,
    Failed,
}

/// The shutdown of a controller. Must be polled until it [is idle](Shutdown::is_idle).
#[derive(Default)]
pub(super) struct Shutdown {
    stage: Stage,
    flush: Option<FlushAll>,
}

impl Shutdown {
    /// The host asks for it.
    pub fn request(&mut self) {
        self.stage = Stage::Requested;
    }

    /// The controller was reset or enabled again. A flush in flight completes without it.
    pub fn forget(&mut self) {
        self.stage = Stage::None;
    }

    /// Its bits of CSTS.
    pub fn csts(&self) -> u32 {
        match self.stage {
            Stage::None => 0,
            Stage::Requested | Stage::Flushing => CSTS_SHUTDOWN_OCCURRING,
            Stage::Complete => CSTS_SHUTDOWN_COMPLETE,
            Stage::Failed => CSTS_SHUTDOWN_OCCURRING | CSTS_FATAL,
        }
    }

    /// Whether it has begun and not ended.
    pub fn is_occurring(&self) -> bool {
        matches!(self.stage, Stage::Requested | Stage::Flushing)
    }

    /// Whether no flush is in flight.
    pub fn is_idle(&self) -> bool {
        self.flush.is_none()
    }

    /// Goes on. Returns whether anything has ended.
    pub fn poll(&mut self, now: Nanos, subsystem: &Subsystem, association: &Association) -> bool {
        let mut ended = self.poll_flush(now, association);
        if self.stage == Stage::Requested && self.is_idle() && !association.has_live_queues() {
            self.stage = Stage::Flushing;
            self.flush = Some(FlushAll::new(now, subsystem));
            ended |= self.poll_flush(now, association);
        }
        ended
    }

    fn poll_flush(&mut self, now: Nanos, association: &Association) -> bool {
        let Some(flush) = self.flush.take_if(|flush| flush.poll(now)) else { return false };
        match self.stage {
            Stage::Flushing if flush.failed => self.stage = Stage::Failed,
            Stage::Flushing => {
                self.stage = Stage::Complete;
                association.set_committed();
            }
            // Of a shutdown before a reset.
            _ => {}
        }
        true
    }

    /// The channels of the flush.
    pub fn channels(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.flush.iter_mut().flat_map(|flush| &mut flush.channels)
    }
}

/// A flush of each namespace.
struct FlushAll {
    channels: Vec<Channel>,
    failed: bool,
}

impl FlushAll {
    fn new(now: Nanos, subsystem: &Subsystem) -> Self {
        let mut flush = FlushAll { channels: Vec::new(), failed: false };
        for nsid in subsystem.namespaces_after(0, |_| true) {
            let Some(namespace) = subsystem.namespace(nsid) else { continue };
            // Without a channel, which needs a hardware queue, nothing is committed.
            let Ok(mut channel) = namespace.queue().channel() else {
                flush.failed = true;
                continue;
            };
            channel.submit(now, Bio::new(Op::Flush, Sector(0), 0, 0));
            flush.channels.push(channel);
        }
        flush
    }

    /// Returns whether all flushes have completed and nothing depends on their channels.
    fn poll(&mut self, now: Nanos) -> bool {
        let mut done = Vec::new();
        self.channels.retain_mut(|channel| {
            channel.poll(now, &mut done);
            self.failed |= done.drain(..).any(|flushed| flushed.status != Status::Ok);
            if channel.outstanding() == 0 {
                channel.drain();
            }
            channel.outstanding() > 0 || !channel.is_idle()
        });
        self.channels.is_empty()
    }
}
