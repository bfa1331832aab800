//! Flexible data placement (NVMe Base 2.1 section 8.1.10): a device that lets its host choose which data
//! share the units that it reclaims.
//!
//! The device writes to reclaim units. A reclaim unit handle refers to one in each reclaim group, and
//! goes on to another when that is full. A write names a placement identifier, which is a handle and a
//! group; the block layer numbers those of a namespace from 1 ([`Bio::stream`](crate::Bio::stream)).
use crate::units::{Bytes, Nanos, Sector};

/// The data with which a device may mix those of a reclaim unit handle when it moves them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Those of all handles of this kind, in the same reclaim group (RUHT 1).
    #[default]
    Initial,
    /// Its own alone (RUHT 2).
    Persistent,
}

/// A placement identifier of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementId {
    /// The placement handle: the namespace's number of a reclaim unit handle.
    pub handle: u16,
    /// The reclaim group.
    pub group: u16,
    /// The reclaim unit handle.
    pub unit_handle: u16,
}

/// The fixed facts of data placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementLayout {
    /// Reclaim groups.
    pub groups: u16,
    /// The reclaim unit handles.
    pub unit_handles: Vec<Isolation>,
    /// The size of a reclaim unit.
    pub unit: Bytes,
    /// The placement identifiers of the namespace, 255 at most: that of write stream 1 is the first.
    pub ids: Vec<PlacementId>,
}

impl PlacementLayout {
    /// The write stream of a placement handle and a reclaim group; `None` if there is no such identifier.
    pub fn stream(&self, handle: u16, group: u16) -> Option<u8> {
        let is = |id: &PlacementId| (id.handle, id.group) == (handle, group);
        u8::try_from(self.ids.iter().position(is)? + 1).ok()
    }

    /// The placement identifier of a write stream.
    pub fn id(&self, stream: u8) -> Option<PlacementId> {
        self.ids.get(usize::from(stream.checked_sub(1)?)).copied()
    }

    /// The number of placement handles.
    pub fn handles(&self) -> u16 {
        self.ids.iter().map(|id| id.handle + 1).max().unwrap_or(0)
    }
}

/// Statistics of data placement, since the first command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacementStats {
    /// Bytes that the host wrote (HBMW).
    pub host: Bytes,
    /// Bytes written to the medium (MBMW).
    pub media: Bytes,
    /// Bytes of the medium that were erased (MBE).
    pub erased: Bytes,
}

/// A type of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlacementEventType {
    /// The host had a handle refer to another unit before its own was full.
    UnitNotFull,
    /// A write named a placement identifier that does not exist.
    InvalidId,
    /// The device moved data to reclaim a unit.
    Reallocated,
}

impl PlacementEventType {
    /// All types.
    pub const ALL: [PlacementEventType; 3] = [
        PlacementEventType::UnitNotFull,
        PlacementEventType::InvalidId,
        PlacementEventType::Reallocated,
    ];

    /// Whether the host is the cause.
    pub const fn is_of_host(self) -> bool {
        !matches!(self, PlacementEventType::Reallocated)
    }
}

/// Something that happened to the data of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementEvent {
    /// What.
    pub kind: PlacementEventType,
    /// The placement handle whose event it is.
    pub handle: u16,
    /// When.
    pub at: Nanos,
    /// Where, unless it is an invalid identifier.
    pub id: Option<PlacementId>,
    /// The identifier that a write named, if it is invalid.
    pub named: Option<u16>,
    /// How much was moved.
    pub moved: Sector,
}

/// The data placement of a namespace.
pub trait DataPlacement: Send + Sync {
    /// The fixed facts.
    fn layout(&self) -> &PlacementLayout;

    /// A number that the data placements of one device have in common, and of no two devices: where
    /// namespaces share a device, each has a data placement.
    fn drive(&self) -> usize;

    /// What can still be written to the unit to which the identifier of a write stream refers.
    fn available(&self, stream: u8) -> Sector;

    /// Has the identifier of a write stream refer to another unit, which is empty, at `now`. What its
    /// unit does not hold stays unwritten.
    fn update(&self, now: Nanos, stream: u8);

    /// Statistics of the device.
    fn stats(&self) -> PlacementStats;

    /// Takes note of a write at `now` that named an identifier that does not exist, and goes where those
    /// of a placement handle go.
    fn invalid_id(&self, now: Nanos, handle: u16, named: u16);

    /// Whether events of a type are recorded for a placement handle.
    fn records(&self, handle: u16, kind: PlacementEventType) -> bool;

    /// Has events of a type recorded for a placement handle, or no longer.
    fn record(&self, handle: u16, kind: PlacementEventType, on: bool);

    /// The last events that were recorded, the oldest first.
    fn events(&self) -> Vec<PlacementEvent>;
}
