//! Threads that sleep until their channel has something to do are woken in time.
use crate::status::Status;
use crate::testing::{Alarm, End, Setup};
use crate::wake::Wake;

#[test]
fn mail_wakes_a_channel_that_sleeps_and_only_once() {
    let unmerged = |options: &mut crate::QueueOptions| options.merge = false;
    let mut rig = Setup::new().options(unmerged).channels(2).build();
    let alarm = Alarm::of(&mut rig.channels[1]);
    rig.write_on(0, 0, 8);
    let ids = [rig.write_on(1, 8, 8), rig.write_on(1, 16, 8)];
    assert_eq!(rig.channels[1].next_event(), Wake::External, "parked behind the other's write");
    assert!(rig.channels[1].prepare_to_sleep());
    rig.end_on(0, End::ByZoneRules);
    assert_eq!(alarm.rings(), 0, "nothing has completed for it");
    rig.end_on(0, End::ByZoneRules);
    assert_eq!(alarm.rings(), 1);
    rig.end_on(0, End::ByZoneRules);
    assert_eq!(alarm.rings(), 1, "it is awake by now");
    rig.channels[1].awake();
    assert_eq!(rig.poll_on(1), ids.map(|id| (id, Status::Ok)));
    assert_eq!(rig.channels[1].next_event(), Wake::Idle);
}

#[test]
fn channel_with_mail_does_not_go_to_sleep_and_one_that_is_awake_is_not_woken() {
    let mut rig = Setup::new().channels(2).build();
    let alarm = Alarm::of(&mut rig.channels[1]);
    rig.write_on(0, 0, 8);
    rig.write_on(1, 8, 8);
    rig.end_on(0, End::ByZoneRules);
    rig.end_on(0, End::ByZoneRules);
    assert!(!rig.channels[1].prepare_to_sleep());
    assert_eq!(alarm.rings(), 0);
    rig.poll_on(1);
}

#[test]
fn unfreezing_wakes_a_channel_that_holds_bios() {
    let mut rig = Setup::new().build();
    let alarm = Alarm::of(&mut rig.channels[0]);
    rig.queue.freeze();
    rig.write(0, 8);
    assert!(rig.channels[0].prepare_to_sleep());
    rig.queue.unfreeze();
    assert_eq!(alarm.rings(), 1);
    rig.channels[0].awake();
    assert!(!rig.channels[0].prepare_to_sleep(), "the bio waits to be let in");
    rig.drain();
}

#[test]
fn last_channel_on_a_shared_queue_is_woken_for_what_another_leaves_there() {
    let shared = |options: &mut crate::QueueOptions| options.share_queues = true;
    let mut rig =
        Setup::new().limits(|limits| limits.nr_queues = 2).options(shared).channels(3).build();
    let alarm = Alarm::of(&mut rig.channels[2]);
    rig.write_on(0, 0, 8);
    let parked = rig.write_on(1, 8, 8);
    assert_eq!(rig.channels[2].next_event(), rig.channels[0].next_event(), "they share a queue");
    rig.end_on(0, End::ByZoneRules);
    assert!(rig.channels[2].prepare_to_sleep());
    rig.channels[0].drain();
    assert!(rig.channels[0].is_idle());
    drop(rig.channels.remove(0));
    assert_eq!(alarm.rings(), 1);
    rig.device.end_nth(0, 0, End::ByZoneRules);
    rig.poll_on(1);
    assert_eq!(rig.poll_on(0), [(parked, Status::Ok)]);
}
