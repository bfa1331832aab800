//! Settings of a queue that can be changed while nothing is inside.
use crate::bio::Bio;
use crate::op::Op;
use crate::queue::{QueueOptions, SwitchError};
use crate::sched::Scheduler;
use crate::status::Status;
use crate::testing::Setup;
use crate::units::{Nanos, Sector};
use crate::wake::Wake;

fn mq_deadline() -> Scheduler {
    "mq-deadline".parse().unwrap()
}

#[test]
fn scheduler_changes_on_a_quiescent_queue_only_and_loses_nothing() {
    let mut rig = Setup::new().limits(|limits| limits.queue_depth = 1).build();
    let first = rig.write(0, 8);
    assert!(!rig.channels[0].has_scheduler());
    assert_eq!(rig.queue.set_scheduler(mq_deadline()), Err(SwitchError::NotQuiescent));
    rig.queue.freeze();
    let held = [rig.submit(Op::Read, 128, 8), rig.submit(Op::Read, 64, 8), rig.write(8, 8)];
    assert_eq!(rig.queue.set_scheduler(mq_deadline()), Err(SwitchError::NotQuiescent));
    assert_eq!(rig.ok(), [(first, Status::Ok)]);
    assert_eq!(rig.queue.set_scheduler(mq_deadline()), Ok(()));
    assert_eq!(rig.queue.scheduler(), mq_deadline());
    assert!(rig.channels[0].has_scheduler(), "though the channel has not entered since");
    rig.queue.unfreeze();
    assert_eq!(rig.drain(), held.map(|id| (id, Status::Ok)));
    assert!(rig.channels[0].has_scheduler());
    let inserted: u64 = rig.queue.sched_counters().unwrap().iter().map(|c| c.inserted).sum();
    assert_eq!(inserted, 3, "they went through the new scheduler");
}

#[test]
fn longest_command_can_be_lowered_and_raised_again() {
    let mut rig = Setup::new().build();
    let longest = rig.queue.max_sectors();
    rig.queue.freeze();
    assert!(matches!(rig.queue.set_max_sectors(longest + 1), Err(SwitchError::Unsuitable(_))));
    assert!(matches!(rig.queue.set_max_sectors(0), Err(SwitchError::Unsuitable(_))));
    assert_eq!(rig.queue.set_max_sectors(8), Ok(()));
    rig.queue.unfreeze();
    let long = rig.write(0, 16);
    assert_eq!(rig.drain(), [(long, Status::Ok)]);
    assert_eq!(rig.writes(), [(0, 8), (8, 8)]);
    rig.queue.freeze();
    assert_eq!(rig.queue.set_max_sectors(longest), Ok(()));
    rig.queue.unfreeze();
    rig.write(16, 16);
    assert_eq!(rig.writes(), [(16, 16)]);
    rig.drain();
}

#[test]
fn fewer_requests_are_in_flight_if_that_is_asked_for() {
    let mut rig = Setup::new().build();
    rig.queue.freeze();
    assert!(matches!(rig.queue.set_nr_requests(0), Err(SwitchError::Unsuitable(_))));
    assert_eq!(rig.queue.set_nr_requests(2), Ok(()));
    assert_eq!(rig.queue.set_io_timeout(Nanos(5)), Ok(()));
    rig.queue.unfreeze();
    for zone in 0..3 {
        rig.write(zone * 64, 8);
    }
    assert_eq!(rig.device.in_flight(0), 2);
    assert_eq!(rig.channels[0].next_event(), Wake::At(Nanos(5)));
    assert_eq!(rig.drain().len(), 3);
}

#[test]
fn channel_that_has_not_seen_a_lower_nr_requests_sends_nothing_by_the_old() {
    let mut rig = Setup::new().channels(2).options(|o| o.scheduler = mq_deadline()).build();
    rig.queue.freeze();
    assert_eq!(rig.queue.set_nr_requests(1), Ok(()));
    rig.queue.unfreeze();
    for sector in [0, 64] {
        rig.submit_bio(1, Bio::new(Op::Read, Sector(sector), 8, 0));
    }
    rig.poll_on(0);
    assert_eq!((rig.device.in_flight(0), rig.device.in_flight(1)), (0, 1));
    assert_eq!(rig.drain().len(), 2);
}

#[test]
fn ends_found_by_a_channel_that_has_not_seen_a_change_count_in_the_new_scheduler() {
    let mut scheduler = mq_deadline();
    scheduler.set("async_depth", "3").unwrap();
    let shares = |o: &mut QueueOptions| (o.scheduler, o.share_queues) = (scheduler, true);
    let mut rig = Setup::new().channels(2).limits(|l| l.nr_queues = 1).options(shares).build();
    rig.queue.freeze();
    assert_eq!(rig.queue.set_nr_requests(1), Ok(()));
    rig.queue.unfreeze();
    for zone in 0..4 {
        rig.write_on(1, zone * 64, 8);
    }
    assert_eq!(rig.drain().len(), 4, "nobody waits for an end that was counted elsewhere");
}

#[test]
fn channel_that_was_told_that_it_can_go_may_go_though_the_last_sharer_retires_too() {
    let shares = |o: &mut QueueOptions| o.share_queues = true;
    let mut rig = Setup::new().channels(2).limits(|l| l.nr_queues = 1).options(shares).build();
    let write = rig.write_on(1, 0, 8);
    rig.channels[0].drain();
    assert!(rig.channels[0].is_idle(), "the other sees to the hardware queue");
    rig.channels[1].drain();
    drop(rig.channels.remove(0));
    rig.device.end(0, Status::Ok);
    assert_eq!(rig.poll(), [(write, Status::Ok)]);
}
