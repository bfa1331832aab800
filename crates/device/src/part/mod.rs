//! Parts of a device without zones, as devices: namespaces that share a drive, and each of which has
//! reclaim unit handles of its own, if the drive has any.
//!
//! ```text
//!   queue of a part --> sectors and write streams of the device --> a hardware queue of the device
//! ```
//!
//! Invariants: parts do not overlap; a handle of the device belongs to one part at most. A part answers
//! for the whole device where that is asked about its statistics.
mod placement;
mod share;

use crate::control::{DeviceControl, KeptState, MediumAccess, ScrubStep};
use crate::image::Superblock;
use placement::PartPlacement;
pub use share::{PartError, Share};
use std::sync::Arc;
use zonal_blk::{
    Abort, DataPlacement, Device, HwQueue, Limits, Nanos, Request, Sector, Status, Tag, Wake,
};

/// A part of a device.
pub struct PartDevice {
    device: Arc<dyn DeviceControl>,
    /// Its first sector of the device.
    start: Sector,
    limits: Limits,
    placement: Option<PartPlacement>,
}

impl PartDevice {
    /// Divides a device: one part after the other.
    ///
    /// # Errors
    /// The first share that the device does not have, and its number, from 0.
    pub fn divide(
        device: &Arc<dyn DeviceControl>,
        shares: &[Share],
    ) -> Result<Vec<Arc<Self>>, (usize, PartError)> {
        let (mut start, mut taken) = (Sector(0), Vec::new());
        let mut parts = Vec::with_capacity(shares.len());
        for (number, share) in shares.iter().enumerate() {
            let part = share.take(&**device, start, &mut taken).map_err(|error| (number, error))?;
            let limits = Limits { capacity: part.size, ..device.limits().clone() };
            let placement = (!part.handles.is_empty())
                .then(|| PartPlacement::new(Arc::clone(device), part.handles));
            let device = Arc::clone(device);
            parts.push(Arc::new(PartDevice { device, start, limits, placement }));
            start += part.size;
        }
        Ok(parts)
    }

    /// The write stream of the device for one of the part: a write without one goes to the first handle
    /// of the part.
    fn stream(&self, own: u8) -> u8 {
        self.placement.as_ref().map_or(own, |placement| placement.to_device(own))
    }
}

impl Device for PartDevice {
    fn inner(&self) -> Option<&dyn Device> {
        Some(&*self.device)
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn placement(&self) -> Option<&dyn DataPlacement> {
        self.placement.as_ref().map(|placement| placement as _)
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let inner = Arc::clone(&self.device).open_queue();
        Box::new(Queue { part: self, inner })
    }
}

impl DeviceControl for PartDevice {
    fn inner_control(&self) -> Option<&dyn DeviceControl> {
        Some(&*self.device)
    }

    fn scrub(&self, _from: Sector) -> Result<ScrubStep, Status> {
        Err(Status::NotSupported)
    }

    fn superblock(&self) -> Option<&Superblock> {
        None
    }

    fn kept(&self) -> Option<&dyn KeptState> {
        None
    }

    /// Its sectors are not those of the device.
    fn medium(&self) -> Option<&dyn MediumAccess> {
        None
    }
}

struct Queue {
    part: Arc<PartDevice>,
    inner: Box<dyn HwQueue>,
}

impl Queue {
    /// Gives commands that the device returns their sectors of the part.
    fn give_back(&self, requests: &mut [Box<Request>]) {
        for request in requests {
            request.relocate(self.part.start, Sector(0));
        }
    }
}

impl HwQueue for Queue {
    fn inner(&self) -> Option<&dyn HwQueue> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn HwQueue> {
        Some(&mut *self.inner)
    }

    #[inline]
    fn start(&mut self, now: Nanos, mut request: Box<Request>) -> Result<(), Box<Request>> {
        let own = request.stream();
        request.relocate(Sector(0), self.part.start);
        request.set_stream(self.part.stream(own));
        self.inner.start(now, request).map_err(|mut request| {
            request.relocate(self.part.start, Sector(0));
            request.set_stream(own);
            request
        })
    }

    #[inline]
    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        let before = done.len();
        self.inner.poll(now, done);
        self.give_back(&mut done[before..]);
    }

    fn next_event(&self) -> Wake {
        self.inner.next_event()
    }

    fn abort(&mut self, now: Nanos, tag: Tag, done: &mut Vec<Box<Request>>) -> Abort {
        let before = done.len();
        let answer = self.inner.abort(now, tag, done);
        self.give_back(&mut done[before..]);
        answer
    }
}
