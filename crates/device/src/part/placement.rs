//! The data placement of a part: its handles under numbers of their own.
use crate::control::DeviceControl;
use std::sync::Arc;
use zonal_blk::{
    DataPlacement, Nanos, PlacementEvent, PlacementEventType, PlacementId, PlacementLayout,
    PlacementStats, Sector,
};

pub(super) struct PartPlacement {
    device: Arc<dyn DeviceControl>,
    layout: PlacementLayout,
    /// By placement handle of the part, that of the device.
    handles: Vec<u16>,
    /// By write stream of the part, from 1 on, that of the device.
    streams: Vec<u8>,
}

impl PartPlacement {
    /// That of these handles of a device which has them.
    pub(super) fn new(device: Arc<dyn DeviceControl>, handles: Vec<u16>) -> Self {
        let whole = device.placement().expect("the device has handles").layout();
        let mut layout = PlacementLayout { ids: Vec::new(), ..whole.clone() };
        let mut streams = Vec::new();
        for (own, &handle) in (0..).zip(&handles) {
            for (stream, id) in (1..).zip(&whole.ids).filter(|(_, id)| id.handle == handle) {
                layout.ids.push(PlacementId { handle: own, ..*id });
                streams.push(stream);
            }
        }
        PartPlacement { device, layout, handles, streams }
    }

    fn whole(&self) -> &dyn DataPlacement {
        self.device.placement().expect("the device has handles")
    }

    /// The write stream of the device for one of the part; 0 is that of the first handle. One that does
    /// not exist stays one.
    pub(super) fn to_device(&self, own: u8) -> u8 {
        let at = usize::from(own.max(1)) - 1;
        self.streams.get(at).copied().unwrap_or(u8::MAX)
    }

    /// The handle of the device.
    fn handle(&self, own: u16) -> u16 {
        self.handles[usize::from(own)]
    }
}

impl DataPlacement for PartPlacement {
    fn layout(&self) -> &PlacementLayout {
        &self.layout
    }

    fn drive(&self) -> usize {
        self.whole().drive()
    }

    fn available(&self, stream: u8) -> Sector {
        self.whole().available(self.to_device(stream))
    }

    fn update(&self, now: Nanos, stream: u8) {
        self.whole().update(now, self.to_device(stream));
    }

    fn stats(&self) -> PlacementStats {
        self.whole().stats()
    }

    fn invalid_id(&self, now: Nanos, handle: u16, named: u16) {
        self.whole().invalid_id(now, self.handle(handle), named);
    }

    fn records(&self, handle: u16, kind: PlacementEventType) -> bool {
        self.whole().records(self.handle(handle), kind)
    }

    fn record(&self, handle: u16, kind: PlacementEventType, on: bool) {
        self.whole().record(self.handle(handle), kind, on);
    }

    fn events(&self) -> Vec<PlacementEvent> {
        let own = |event: PlacementEvent| {
            let place = self.handles.iter().position(|&handle| handle == event.handle)?;
            let handle = u16::try_from(place).expect("there are few handles");
            let id = event.id.map(|id| PlacementId { handle, ..id });
            Some(PlacementEvent { handle, id, ..event })
        };
        self.whole().events().into_iter().filter_map(own).collect()
    }
}
