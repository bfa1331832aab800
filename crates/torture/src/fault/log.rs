//! A log of what happened at the device.
use std::collections::VecDeque;
use zonal_blk::{BioFlags, Nanos, Op, Prio, Sector, Status, Tag, Zone, ZoneNo};

/// A bio, or a part of one, in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BioPart {
    /// The bio's `user_data`.
    pub id: u64,
    /// First sector; of an append, its zone's start.
    pub sector: Sector,
    /// Length.
    pub nr_sectors: u32,
    /// The bio's flags.
    pub flags: BioFlags,
    /// The bio's priority.
    pub prio: Prio,
    /// The bio's write stream.
    pub stream: u8,
}

/// Something that happened at the device.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The device was too busy for a command.
    Refused,
    /// A command was started.
    Started {
        /// Hardware queue, numbered in the order of opening.
        queue: u16,
        /// Tag within the queue.
        tag: Tag,
        /// The operation.
        op: Op,
        /// The command's flags.
        flags: BioFlags,
        /// The zone of the first sector.
        zone: ZoneNo,
        /// First sector.
        sector: Sector,
        /// Length.
        nr_sectors: u32,
        /// The number of its bios: the next ones of [`Log::parts`].
        bios: u32,
        /// When it happened.
        at: Nanos,
    },
    /// The medium executed a command, or failed it.
    Executed {
        /// Hardware queue.
        queue: u16,
        /// Tag.
        tag: Tag,
        /// The first sector that was written or read.
        sector: Sector,
        /// The number of sectors that were executed.
        nr_sectors: u32,
        /// The status of the medium.
        status: Status,
    },
    /// The layer aborted a command.
    Aborted {
        /// Hardware queue.
        queue: u16,
        /// Tag.
        tag: Tag,
        /// Whether the device completes it, now or later, with an unknown result.
        stops: bool,
        /// When it happened.
        at: Nanos,
    },
    /// A command completed.
    Done {
        /// Hardware queue.
        queue: u16,
        /// Tag.
        tag: Tag,
        /// Its status.
        status: Status,
        /// Whether the status, or the part that was executed, is due to a fault.
        faulty: bool,
    },
}

/// A zone report.
#[derive(Clone, Debug)]
pub struct Report {
    /// The first zone that was requested.
    pub first: ZoneNo,
    /// The zones, or the error.
    pub zones: Result<Vec<Zone>, Status>,
}

/// Events since the log was last taken.
#[derive(Debug, Default)]
pub struct Log {
    /// Events, in order.
    pub events: Vec<Event>,
    /// The bios of the started commands, one command after another.
    pub parts: Vec<BioPart>,
    /// Zone reports, in order.
    pub reports: VecDeque<Report>,
}

impl Log {
    /// Empties the log, keeping its capacity.
    pub fn clear(&mut self) {
        self.events.clear();
        self.parts.clear();
        self.reports.clear();
    }
}
