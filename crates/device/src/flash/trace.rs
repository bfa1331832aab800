//! Events in the parts of a flash drive, for tracers.
use zonal_blk::{Nanos, Tag, ZoneNo};

/// The activity of a part of a flash drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashActivity {
    /// A die reads pages into its registers.
    Sense,
    /// A die's data wait for its channel and go over it.
    Transfer,
    /// A die is sent a unit, and programs it.
    Program,
    /// A die programs padding of a zone that is finished.
    Pad,
    /// A die programs a unit for the drive: its own data, or a copy of a partial unit for a flush.
    Save,
    /// A die erases.
    Erase,
    /// A die interrupts a program or an erase, for a read.
    Suspend,
    /// A write waits for space in the write buffer.
    BufferFull,
    /// The same, where the buffer has data that wait for the collection.
    Collection,
}

impl FlashActivity {
    /// Its name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            FlashActivity::Sense => "sense",
            FlashActivity::Transfer => "transfer",
            FlashActivity::Program => "program",
            FlashActivity::Pad => "pad",
            FlashActivity::Save => "save",
            FlashActivity::Erase => "erase",
            FlashActivity::Suspend => "suspend",
            FlashActivity::BufferFull => "buffer full",
            FlashActivity::Collection => "collection",
        }
    }
}

/// An activity that is over, or whose end is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashEntry {
    /// When it began.
    pub from: Nanos,
    /// When it ends.
    pub to: Nanos,
    /// The operation.
    pub activity: FlashActivity,
    /// The die, but for what happens before the dies.
    pub die: Option<u32>,
    /// The zone, if the activity is for one.
    pub zone: Option<ZoneNo>,
    /// The command that it was for, if for one: its hardware queue, in the order in which they were
    /// opened, and its tag.
    pub command: Option<(u32, Tag)>,
}

/// Takes the activities of a flash drive; those of a die in order. Called while the drive is locked.
pub type FlashTraceSink = Box<dyn FnMut(&FlashEntry) + Send>;
