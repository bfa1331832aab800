//! Devices of others that break their promises are found out.
use std::sync::Arc;
use zonal_blk::*;

/// A device that gives requests back without having done anything.
struct Forgetful(Limits);

impl Device for Forgetful {
    fn limits(&self) -> &Limits {
        &self.0
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        zones.extend(self.0.empty_zones(first, max));
        Ok(())
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(GivenBack(Vec::new()))
    }
}

struct GivenBack(Vec<Box<Request>>);

impl HwQueue for GivenBack {
    fn start(&mut self, _now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        self.0.push(request);
        Ok(())
    }

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Box<Request>>) {
        done.append(&mut self.0);
    }

    fn next_event(&self) -> Wake {
        Wake::Now
    }
}

#[test]
#[should_panic(expected = "the device gave back a request without a status")]
fn request_that_is_given_back_without_a_status_stops_the_program() {
    let device = Arc::new(Forgetful(Limits::zoned(4, Sector(2048))));
    let queue = Queue::attach(device, QueueOptions::default()).expect("sound limits");
    let mut channel = queue.channel().expect("a hardware queue");
    channel.submit(Nanos(0), Bio::new(Op::Write, Sector(0), 8, 0));
    channel.poll(Nanos(1), &mut Vec::new());
}
