//! A queue with a slow command: others' completions for it do not wait for that command.
use super::held_reads::HeldReads;
use super::support::*;
use std::sync::Arc;
use zonal_blk::{Bio, Buf, Op, QueueOptions, Sector, Status};
use zonal_device::device_spec;
use zonal_device::inject::InjectDevice;

/// Expected: the append of one connection completes when the write of the other one, which it was
/// parked behind, has completed and the other connection has finished both. Buggy: the completion
/// lies in the mailbox until the connection's own read is done, which the test does not end before.
#[test]
fn append_that_another_connection_finishes_does_not_wait_for_a_slow_read() {
    let spec = device_spec::parse(ZONED).expect("a spec");
    let device = Arc::new(InjectDevice::new(device_spec::build(&spec).expect("a device"), 0));
    device.add("delay=write,time=50ms".parse().expect("a rule"));
    let reads = HeldReads::new(device.clone());
    let served = Served::over(reads.clone(), patient());
    let connected = Arc::new(served.connect("").expect("a connection"));
    let queue = zonal_blk::Queue::attach(connected, QueueOptions::default()).expect("a queue");
    let (mut a, mut b) = (queue.channel().expect("one"), queue.channel().expect("another"));
    let clock = zonal_os::RealClock::start();
    let now = || zonal_blk::Clock::now(&clock);
    let mut done = Vec::new();

    a.submit(now(), Bio::read(Sector(ZONE), 8, 1));
    a.poll(now(), &mut done);
    b.submit(now(), Bio::write(Sector(0), Buf::zeroed(4096), 2));
    b.poll(now(), &mut done);
    // The server's device has the write when the append is sent.
    wait_until(|| device.rules()[0].1 == 1);
    let append = Bio { buf: Some(Buf::zeroed(4096)), ..Bio::new(Op::ZoneAppend, Sector(0), 8, 3) };
    a.submit(now(), append);
    wait_until(|| {
        a.poll(now(), &mut done);
        b.poll(now(), &mut done);
        done.len() == 2
    });
    assert!(done.iter().all(|completion| completion.status == Status::Ok), "{done:?}");
    reads.release();
    wait_until(|| {
        a.poll(now(), &mut done);
        done.len() == 3
    });
}
