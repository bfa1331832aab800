//! What happened at the device, in order.
use std::collections::VecDeque;
use zonal_blk::{BioFlags, Nanos, Op, Sector, Status, Tag, Zone, ZoneNo};

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
}

/// Something that happened at the device.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The device was too busy for a command.
    Refused,
    /// A command was started.
    Started {
        /// Hardware queue, counted from the first that was opened.
        queue: u16,
        /// Tag within the queue.
        tag: Tag,
        /// What the device is asked to do.
        op: Op,
        /// The command's flags.
        flags: BioFlags,
        /// The zone of the first sector.
        zone: ZoneNo,
        /// First sector.
        sector: Sector,
        /// Length.
        nr_sectors: u32,
        /// How many bios are in it: the next ones of [`Log::parts`].
        bios: u32,
        /// When.
        at: Nanos,
    },
    /// The medium has done a command, or refused to.
    Executed {
        /// Hardware queue.
        queue: u16,
        /// Tag.
        tag: Tag,
        /// Where it landed.
        sector: Sector,
        /// How many of its sectors were done.
        nr_sectors: u32,
        /// What the medium says.
        status: Status,
    },
    /// A command had taken too long for the layer.
    Aborted {
        /// Hardware queue.
        queue: u16,
        /// Tag.
        tag: Tag,
        /// Whether it is given back, now or later, without its end being known.
        stops: bool,
        /// When.
        at: Nanos,
    },
    /// A command was given back.
    Done {
        /// Hardware queue.
        queue: u16,
        /// Tag.
        tag: Tag,
        /// How it ended.
        status: Status,
        /// Whether that, or how much was done, was not the medium's doing.
        faulty: bool,
    },
}

/// A zone report.
#[derive(Clone, Debug)]
pub struct Report {
    /// The first zone that was asked for.
    pub first: ZoneNo,
    /// The zones, or why there are none.
    pub zones: Result<Vec<Zone>, Status>,
}

/// What happened since the log was last taken.
#[derive(Debug, Default)]
pub struct Log {
    /// In order.
    pub events: Vec<Event>,
    /// The bios of the commands that were started, one command after the other.
    pub parts: Vec<BioPart>,
    /// Zone reports, in order.
    pub reports: VecDeque<Report>,
}

impl Log {
    /// Empties the log and keeps its room.
    pub fn clear(&mut self) {
        self.events.clear();
        self.parts.clear();
        self.reports.clear();
    }
}
