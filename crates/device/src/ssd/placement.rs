//! Flexible data placement, as a host sees it.
use super::drive::Drive;
use crate::flash::Port;
use std::sync::Arc;
use zonal_blk::{
    Bytes, DataPlacement, Nanos, PlacementEvent, PlacementEventType, PlacementLayout,
    PlacementStats, Sector,
};

/// The data placement of a drive.
pub(super) struct Placement {
    pub(super) layout: PlacementLayout,
    pub(super) port: Arc<Port<Drive>>,
}

impl DataPlacement for Placement {
    fn layout(&self) -> &PlacementLayout {
        &self.layout
    }

    fn drive(&self) -> usize {
        std::ptr::from_ref(&*self.port).addr()
    }

    fn available(&self, stream: u8) -> Sector {
        self.port.with(|drive| drive.available(stream))
    }

    fn update(&self, now: Nanos, stream: u8) {
        self.port.with(|drive| drive.update(now, stream));
    }

    fn stats(&self) -> PlacementStats {
        let stats = self.port.with(|drive| drive.stats());
        let erased = Bytes(stats.erased_superblocks * self.layout.unit.0);
        PlacementStats { host: stats.host, media: stats.media, erased }
    }

    fn invalid_id(&self, now: Nanos, handle: u16, named: u16) {
        let (kind, moved) = (PlacementEventType::InvalidId, Sector(0));
        let event = PlacementEvent { kind, handle, at: now, id: None, named: Some(named), moved };
        self.port.with(|drive| drive.media.placement_events.add(event));
    }

    fn records(&self, handle: u16, kind: PlacementEventType) -> bool {
        self.port.with(|drive| drive.media.placement_events.records(handle, kind))
    }

    fn record(&self, handle: u16, kind: PlacementEventType, on: bool) {
        self.port.with(|drive| drive.media.placement_events.record(handle, kind, on));
    }

    fn events(&self) -> Vec<PlacementEvent> {
        self.port.with(|drive| drive.media.placement_events.all())
    }
}
