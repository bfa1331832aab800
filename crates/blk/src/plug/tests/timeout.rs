//! Requests that take too long.
use crate::hctx::IO_TIMEOUT;
use crate::status::Status;
use crate::testing::{End, OnAbort, Rig, Setup};
use crate::units::Nanos;
use crate::wake::Wake;

fn wait(rig: &mut Rig, Nanos(time): Nanos) -> Vec<(u64, Status)> {
    rig.now = Nanos(rig.now.0 + time);
    rig.poll()
}

#[test]
fn request_that_the_device_gives_back_ends_with_timeout_and_the_pointer_is_asked_for() {
    let mut rig = Setup::new().build();
    rig.device.on_abort(OnAbort::GivesBack);
    let (first, second) = (rig.write(0, 8), rig.write(8, 8));
    assert_eq!(rig.channels[0].next_event(), Wake::At(IO_TIMEOUT));
    assert_eq!(wait(&mut rig, Nanos(IO_TIMEOUT.0 - 1)), []);
    assert_eq!(wait(&mut rig, Nanos(1)), [(first, Status::Timeout), (second, Status::IoError)]);
    assert_eq!(rig.reports(), 1);
    let again = rig.write(0, 8);
    assert_eq!(rig.ok(), [(again, Status::Ok)]);
}

#[test]
fn request_that_was_done_before_the_device_stopped_it_leaves_the_pointer_behind_it() {
    let mut rig = Setup::new().build();
    rig.device.on_abort(OnAbort::Later);
    let first = rig.write(0, 8);
    assert_eq!(wait(&mut rig, IO_TIMEOUT), []);
    assert_eq!(rig.ok(), [(first, Status::Timeout)], "a late end counts as none");
    let next = rig.write(8, 8);
    assert_eq!(rig.ok(), [(next, Status::Ok)]);
}

#[test]
fn tag_stays_taken_until_the_device_has_given_the_request_back() {
    let mut rig = Setup::new().limits(|limits| limits.queue_depth = 1).build();
    rig.device.on_abort(OnAbort::Later);
    let (first, second) = (rig.write(0, 8), rig.write(64, 8));
    assert_eq!(rig.writes(), [(0, 8)]);
    assert_eq!(wait(&mut rig, IO_TIMEOUT), []);
    assert_eq!(rig.writes(), [], "no tag is free");
    assert_eq!(rig.fail(), [(first, Status::Timeout)]);
    assert_eq!(rig.writes(), [(64, 8)]);
    assert_eq!(rig.ok(), [(second, Status::Ok)]);
}

#[test]
fn device_that_goes_on_is_asked_again_and_its_word_counts() {
    let mut rig = Setup::new().build();
    let first = rig.write(0, 8);
    assert_eq!(wait(&mut rig, IO_TIMEOUT), []);
    assert_eq!(rig.channels[0].next_event(), Wake::At(Nanos(2 * IO_TIMEOUT.0)));
    assert_eq!(rig.end_on(0, End::Forced(Status::Ok)), [(first, Status::Ok)]);
}
