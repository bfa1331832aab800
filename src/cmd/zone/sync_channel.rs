//! Sends operations through the block layer, one after another.
use super::script::Step;
use crate::devices::AttachedDevice;
use anyhow::{Context, Result};
use std::sync::Arc;
use zonal_blk::{Bio, Channel, Completion, Nanos, Op, Queue, Sector, Status, ZoneNo};

/// A channel with the time. As nothing else happens meanwhile, time is virtual: it moves to what
/// the device does next.
pub struct SyncChannel {
    channel: Channel,
    now: Nanos,
    completions: Vec<Completion>,
}

/// An operation that failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {status}")]
pub struct OpError {
    what: String,
    status: Status,
}

/// Sectors of the longest single write; longer ones go out in parts.
const MAX_WRITE_SECTORS: u64 = 1 << 20;

impl SyncChannel {
    /// A worker on a device.
    pub fn new(device: &AttachedDevice) -> Result<Self> {
        let channel = device.queue.channel().with_context(|| format!("device {}", device.name))?;
        Ok(SyncChannel { channel, now: Nanos(0), completions: Vec::new() })
    }

    /// The block layer of the device.
    pub fn queue(&self) -> &Arc<Queue> {
        self.channel.queue()
    }

    /// Does one step of a script.
    ///
    /// # Errors
    /// The step, with the status that it ended with.
    pub fn run_step(&mut self, step: &Step) -> Result<(), OpError> {
        let failed = |status| OpError { what: format!("--after: {step}"), status };
        let (mut sector, mut left) = (step.sector, step.length);
        loop {
            let part = if step.op == Op::ZoneAppend { left } else { left.min(MAX_WRITE_SECTORS) };
            let nr_sectors = u32::try_from(part).map_err(|_| failed(Status::Invalid))?;
            self.finish(step.op, sector, nr_sectors).map_err(failed)?;
            left -= part;
            if left == 0 {
                return Ok(());
            }
            sector += Sector(part);
        }
    }

    /// Manages zones. A reset of `all` is one operation, which leaves out conventional zones.
    ///
    /// # Errors
    /// The first zone whose operation fails, with the status.
    pub fn manage(
        &mut self,
        op: Op,
        zones: std::ops::Range<u32>,
        all: bool,
    ) -> Result<(), OpError> {
        if op == Op::ZoneReset && all {
            let failed = |status| OpError { what: "reset of all zones".to_owned(), status };
            return self.finish(Op::ZoneResetAll, Sector(0), 0).map_err(failed);
        }
        for zone in zones {
            let start = self.queue().limits().zone_start(ZoneNo(zone));
            self.finish(op, start, 0).map_err(|status| OpError {
                what: format!("zone {zone} at sector {start}"),
                status,
            })?;
        }
        Ok(())
    }

    /// Submits a bio and waits for its end.
    fn finish(&mut self, op: Op, sector: Sector, nr_sectors: u32) -> Result<(), Status> {
        self.channel.submit(self.now, Bio::new(op, sector, nr_sectors, 0));
        loop {
            self.channel.poll(self.now, &mut self.completions);
            if let Some(completion) = self.completions.pop() {
                return match completion.status {
                    Status::Ok => Ok(()),
                    status => Err(status),
                };
            }
            let next = self.channel.next_event().at().expect("a bio in flight has a next event");
            self.now = self.now.max(next);
        }
    }
}
