//! Several channels: the one that completes a write issues the next, and bios complete on the
//! channel that submitted them.
use crate::bio::Bio;
use crate::buf::Buf;
use crate::op::Op;
use crate::plug::ZoneWrite;
use crate::status::Status;
use crate::testing::{End, Setup};
use crate::units::{Nanos, Sector};
use crate::wake::Wake;

#[test]
fn waiting_write_goes_out_on_the_channel_that_it_waited_for_and_completes_on_its_own() {
    let mut rig = Setup::new().channels(2).build();
    let first = rig.write_on(0, 0, 8);
    let second = rig.write_on(1, 8, 8);
    assert_eq!(rig.end_on(0, End::ByZoneRules), [(first, Status::Ok)]);
    assert_eq!((rig.device.in_flight(0), rig.device.in_flight(1)), (1, 0));
    assert_eq!(rig.channels[0].outstanding(), 0);
    assert!(!rig.channels[0].is_idle(), "it still carries the other's write");
    assert_eq!(rig.end_on(0, End::ByZoneRules), []);
    assert!(rig.channels[0].is_idle() && rig.channels[1].has_mail());
    assert_eq!(rig.channels[1].next_event(), Wake::Now);
    assert_eq!(rig.poll_on(1), [(second, Status::Ok)]);
}

#[test]
fn data_go_home_with_their_bio() {
    let mut rig = Setup::new().channels(2).build();
    rig.write_on(0, 0, 8);
    rig.submit_bio(1, Bio::write(Sector(8), Buf::from(&[5; 512][..]), 0));
    rig.ok();
    rig.ok();
    let done = rig.completions_on(1);
    assert_eq!(done[0].buf.as_ref().map(|buf| buf[0]), Some(5));
}

#[test]
fn retiring_channel_leaves_the_writes_of_others_to_them() {
    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
        let mut rig = Setup::new().policy(policy).channels(2).build();
        let first = rig.write_on(0, 0, 8);
        let second = rig.write_on(1, 8, 8);
        rig.channels[0].drain();
        assert_eq!(rig.end_on(0, End::ByZoneRules), [(first, Status::Ok)]);
        assert!(rig.channels[0].is_idle());
        drop(rig.channels.remove(0));
        let mut done = Vec::new();
        rig.channels[0].poll(Nanos(0), &mut done);
        assert_eq!(rig.device.in_flight(1), 1);
        rig.device.end(1, Status::Ok);
        rig.channels[0].poll(Nanos(0), &mut done);
        assert_eq!(crate::testing::outcomes(&done), [(second, Status::Ok)]);
    }
}

#[test]
fn channel_that_is_gone_leaves_its_hardware_queue_to_another() {
    let mut rig = Setup::new().limits(|limits| limits.nr_queues = 1).build();
    assert!(rig.queue.channel().is_err());
    rig.channels.clear();
    let mut channel = rig.queue.channel().unwrap();
    channel.submit(Nanos(0), Bio::new(Op::Write, Sector(0), 8, 7));
    rig.device.end(0, Status::Ok);
    let mut done = Vec::new();
    assert_eq!(channel.poll(Nanos(0), &mut done), 1);
}

#[test]
#[should_panic(expected = "a channel was dropped with I/O outstanding")]
fn dropping_a_channel_with_io_outstanding_stops_the_program() {
    let mut rig = Setup::new().build();
    let queue = std::sync::Arc::clone(&rig.queue);
    rig.write(0, 8);
    // The device would notice the loss too, as its request is not taken back.
    std::mem::forget(std::sync::Arc::clone(&rig.device));
    std::mem::forget(queue);
    drop(rig);
}

#[test]
fn channels_share_the_hardware_queues_that_there_are() {
    let shared = |options: &mut crate::QueueOptions| options.share_queues = true;
    let mut rig =
        Setup::new().limits(|limits| limits.nr_queues = 2).options(shared).channels(3).build();
    (0..3).for_each(|i| _ = rig.write_on(i, i as u64 * 64, 8));
    assert_eq!((rig.device.in_flight(0), rig.device.in_flight(1)), (2, 1));
    rig.device.end(0, Status::Ok);
    rig.device.end(0, Status::Ok);
    // Either completes what the other has started.
    assert_eq!(rig.poll_on(2), [(2, Status::Ok)]);
    assert_eq!(rig.poll_on(0), [(0, Status::Ok)]);
    assert_eq!(rig.drain(), [(1, Status::Ok)]);
}

#[test]
fn last_channel_on_a_shared_queue_stays_until_the_writes_of_others_on_it_are_done() {
    let shared = |options: &mut crate::QueueOptions| options.share_queues = true;
    let mut rig =
        Setup::new().limits(|limits| limits.nr_queues = 2).options(shared).channels(3).build();
    rig.write_on(0, 0, 8);
    let other = rig.write_on(1, 8, 8);
    rig.ok();
    assert_eq!((rig.device.in_flight(0), rig.channels[0].outstanding()), (1, 0));
    assert!(rig.channels[0].is_idle(), "the third channel polls the queue as well");
    rig.channels[2].drain();
    assert!(!rig.channels[0].is_idle() && rig.channels[2].is_idle());
    rig.channels[0].drain();
    assert!(!rig.channels[0].is_idle() && !rig.channels[2].is_idle());
    rig.device.end(0, Status::Ok);
    assert_eq!(rig.poll_on(0), []);
    assert!(rig.channels[0].is_idle() && rig.channels[2].is_idle());
    assert_eq!(rig.poll_on(1), [(other, Status::Ok)]);
}

#[test]
fn busy_device_is_tried_again_and_nothing_is_reordered() {
    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
        let mut rig = Setup::new().policy(policy).build();
        rig.device.set_busy(true);
        (0..4).for_each(|zone| _ = rig.write(zone * 64, 8));
        assert_eq!((rig.poll(), rig.writes()), (vec![], vec![]));
        rig.device.set_busy(false);
        rig.poll();
        assert_eq!(rig.writes()[0], (0, 8), "though nothing of the channel's was in flight");
        assert_eq!(rig.drain().len(), 4);
    }
}

#[test]
fn tags_limit_what_the_device_holds_and_the_rest_follows_in_order() {
    let mut rig = Setup::new().limits(|limits| limits.queue_depth = 2).build();
    (0..4).for_each(|zone| _ = rig.write(zone * 64, 8));
    assert_eq!(rig.device.in_flight(0), 2);
    rig.ok();
    assert_eq!(rig.device.in_flight(0), 2);
    rig.drain();
    assert_eq!(rig.writes(), [(0, 8), (64, 8), (128, 8), (192, 8)]);
}

#[test]
fn device_that_is_busy_with_nothing_in_flight_is_tried_again_though_nothing_happens() {
    let mut rig = Setup::new().build();
    rig.now = Nanos(1000);
    rig.device.set_busy(true);
    let write = rig.write(0, 8);
    let again =
        rig.channels[0].next_event().at().expect("a time, or virtual time would stand still");
    assert!(again > rig.now);
    rig.now = again;
    assert_eq!(rig.poll(), []);
    let later = rig.channels[0].next_event().at().expect("the device was busy again");
    assert!(later > again);
    rig.device.set_busy(false);
    rig.now = later;
    assert_eq!((rig.poll(), rig.writes()), (vec![], vec![(0, 8)]));
    assert_eq!(rig.drain(), [(write, Status::Ok)]);
    assert_eq!(rig.channels[0].next_event(), Wake::Idle);
}
