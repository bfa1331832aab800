//! What can be changed about a queue while nothing is inside.
use crate::bio::Op;
use crate::queue::SwitchError;
use crate::sched::Scheduler;
use crate::status::Status;
use crate::testing::Setup;
use crate::units::Nanos;

fn mq_deadline() -> Scheduler {
    "mq-deadline".parse().unwrap()
}

#[test]
fn scheduler_changes_on_a_quiescent_queue_only_and_loses_nothing() {
    let mut rig = Setup::new().limits(|limits| limits.queue_depth = 1).build();
    let first = rig.write(0, 8);
    assert_eq!(rig.queue.set_scheduler(mq_deadline()), Err(SwitchError::NotQuiescent));
    rig.queue.freeze();
    let held = [rig.submit(Op::Read, 128, 8), rig.submit(Op::Read, 64, 8), rig.write(8, 8)];
    assert_eq!(rig.queue.set_scheduler(mq_deadline()), Err(SwitchError::NotQuiescent));
    assert_eq!(rig.ok(), [(first, Status::Ok)]);
    assert_eq!(rig.queue.set_scheduler(mq_deadline()), Ok(()));
    assert_eq!(rig.queue.scheduler(), mq_deadline());
    rig.queue.thaw();
    assert_eq!(rig.drain(), held.map(|id| (id, Status::Ok)));
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
    rig.queue.thaw();
    let long = rig.write(0, 16);
    assert_eq!(rig.drain(), [(long, Status::Ok)]);
    assert_eq!(rig.writes(), [(0, 8), (8, 8)]);
    rig.queue.freeze();
    assert_eq!(rig.queue.set_max_sectors(longest), Ok(()));
    rig.queue.thaw();
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
    rig.queue.thaw();
    for zone in 0..3 {
        rig.write(zone * 64, 8);
    }
    assert_eq!(rig.device.in_flight(0), 2);
    assert_eq!(rig.channels[0].next_event(), Some(Nanos(5)));
    assert_eq!(rig.drain().len(), 3);
}
