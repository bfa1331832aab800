//! A path as a device: zone reports, hardware queues.
use super::device::NvmeTcpDevice;
use super::queue::Queue;
use std::sync::Arc;
use zonal_blk::{Device, HwQueue, Limits, ReadBufs, Status, Zone, ZoneNo};
use zonal_device::control::DeviceControl;
use zonal_device::multipath::{Path, PathState};

impl Device for NvmeTcpDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A read whose data did not all arrive fails.
    fn read_bufs(&self) -> ReadBufs {
        ReadBufs::Filled
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        if self.limits.nr_zones == 0 {
            return Err(Status::NotSupported);
        }
        let mut reports = self.connections.reports.lock().expect("report lock");
        let now = self.connections.generation();
        let (generation, reports) = match reports.as_mut() {
            Some((generation, reports)) if *generation == now => (now, reports),
            _ => return Err(self.lost_status()),
        };
        let mut next = first.0;
        let mut left = max;
        while left > 0 && next < self.limits.nr_zones {
            let max = left.min((self.limits.nr_zones - next) as usize);
            let listed = self.report(reports, generation, ZoneNo(next), max, zones)?;
            if listed == 0 {
                return Err(Status::IoError);
            }
            left -= listed;
            next += u32::try_from(listed).expect("no more zones than there are");
        }
        Ok(())
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(Queue::new(self))
    }
}

impl Path for NvmeTcpDevice {
    fn state(&self) -> PathState {
        self.connections.state()
    }

    fn name(&self) -> String {
        self.address.target.clone()
    }
}

impl DeviceControl for NvmeTcpDevice {
    fn characteristics(&self) -> Vec<(&'static str, String)> {
        vec![("address", self.address.to_string()), ("model", self.model.clone())]
    }
}
