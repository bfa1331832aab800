//! The data placement of an image: that of the drive whose state it keeps. Which events are recorded
//! outlives a loss of power (NVMe Base 2.1, feature 1Eh), so a change is durable when it is done.
use super::device::ImageDevice;
use zonal_blk::{
    DataPlacement, Nanos, PlacementEvent, PlacementEventType, PlacementLayout, PlacementStats,
    Sector,
};

impl ImageDevice {
    fn of_model(&self) -> &dyn DataPlacement {
        let model = self.model().expect("only a model places data");
        model.device.placement().expect("the image has data placement")
    }
}

impl DataPlacement for ImageDevice {
    fn layout(&self) -> &PlacementLayout {
        self.of_model().layout()
    }

    fn drive(&self) -> usize {
        self.of_model().drive()
    }

    fn available(&self, stream: u8) -> Sector {
        self.of_model().available(stream)
    }

    fn update(&self, now: Nanos, stream: u8) {
        self.of_model().update(now, stream);
    }

    fn stats(&self) -> PlacementStats {
        DataPlacement::stats(self.of_model())
    }

    fn invalid_id(&self, now: Nanos, handle: u16, named: u16) {
        self.of_model().invalid_id(now, handle, named);
    }

    fn records(&self, handle: u16, kind: PlacementEventType) -> bool {
        self.of_model().records(handle, kind)
    }

    fn record(&self, handle: u16, kind: PlacementEventType, on: bool) {
        self.of_model().record(handle, kind, on);
        // A failure is one of the image, which takes no more commands then.
        let _failed = self.commit();
    }

    fn events(&self) -> Vec<PlacementEvent> {
        self.of_model().events()
    }
}
