//! Devices for tests.
use std::sync::Arc;
use zonal_blk::{Queue, QueueOptions};
use zonal_device::device_spec;

/// The block layer over the device of a spec.
pub fn queue(device: &str, options: QueueOptions) -> Arc<Queue> {
    let spec = device_spec::load(device, |path| std::fs::read_to_string(path)).expect("a spec");
    let device = device_spec::build(&spec).expect("a device");
    Queue::attach(device, QueueOptions { share_queues: true, ..options }).expect("a queue")
}
