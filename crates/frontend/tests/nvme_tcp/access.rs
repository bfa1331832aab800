//! The host follows the ANA states of its paths.
use crate::paths::{Heard, Proxy, count, statuses};
use crate::support::{Host, NQN, Served, ZONED, pattern, wait_until};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zonal_backend::nvme_tcp::open;
use zonal_blk::{Bio, Clock, QueueOptions, Sector, Status};
use zonal_device::control::DeviceControl;
use zonal_nvme::ana::AnaState;
use zonal_os::RealClock;

/// A device over these addresses. Paths are connected again after a second, and given up if that fails.
fn connect(targets: &[SocketAddr], options: &str, heard: &Heard) -> Arc<dyn DeviceControl> {
    let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
    let text = format!(
        "nvme-tcp://{}/{NQN}?reconnect_delay=1&quiesce=0&iopolicy=numa&{options}",
        targets.join(",")
    );
    open(&text.parse().unwrap(), 1, &heard.notify()).expect("a path").0
}

/// A message of a path that has a new state.
fn said(target: SocketAddr, state: AnaState) -> String {
    format!("{target}: ANA state {state}")
}

fn read(id: u64) -> Bio {
    Bio::read(Sector(0), 8, id)
}

#[test]
fn paths_that_are_inaccessible_or_farther_are_not_used_once_the_event_has_come() {
    let served = Served::new(ZONED);
    let (first, heard) = (served.another(), Heard::default());
    let proxy = Proxy::to(&first);
    let device = connect(&[proxy.address, served.server.address()], "", &heard);
    let mut host = Host::over(Arc::clone(&device) as _, QueueOptions::default());
    for state in [AnaState::Inaccessible, AnaState::Change, AnaState::PersistentLoss] {
        first.path().set_ana_state(state);
        wait_until(|| heard.has(&said(proxy.address, state)));
        assert_eq!(host.read(0, 8).status, Status::Ok, "{state}");
    }
    first.path().set_ana_state(AnaState::NonOptimized);
    wait_until(|| heard.has(&said(proxy.address, AnaState::NonOptimized)));
    // A command would have no answer there, and be sent again when the path is lost.
    proxy.mute.store(true, Ordering::Release);
    assert_eq!(host.write(0, &pattern(4096, 0)).status, Status::Ok);
    assert_eq!(count(&*device, "path_errors"), 0, "no command was sent over the first path");
}

#[test]
fn commands_wait_while_the_only_path_is_inaccessible() {
    let (served, heard) = (Served::new(ZONED), Heard::default());
    let address = served.server.address();
    let device = connect(&[address], "", &heard);
    let mut host = Host::over(Arc::clone(&device) as _, QueueOptions::default());
    served.server.path().set_ana_state(AnaState::Inaccessible);
    wait_until(|| heard.has(&said(address, AnaState::Inaccessible)));
    let clock = RealClock::start();
    (0..4).for_each(|id| host.channel.submit(clock.now(), read(id)));
    host.channel.poll(clock.now(), &mut host.done);
    assert_eq!(host.channel.outstanding(), 4);
    served.server.path().set_ana_state(AnaState::NonOptimized);
    wait_until(|| {
        host.channel.poll(clock.now(), &mut host.done);
        host.channel.outstanding() == 0
    });
    assert_eq!(statuses(&host.done), [Status::Ok; 4]);
    assert_eq!((count(&*device, "path_errors"), heard.has("lost: ")), (0, false));
}

#[test]
fn path_that_refuses_a_command_is_not_used_until_its_log_was_read() {
    let served = Served::new(ZONED);
    let (first, heard) = (served.another(), Heard::default());
    let proxy = Proxy::to(&first);
    let device = connect(&[proxy.address, served.server.address()], "", &heard);
    let mut host = Host::over(Arc::clone(&device) as _, QueueOptions::default());
    // Neither the event nor the log reaches the host.
    proxy.mute_first.store(true, Ordering::Release);
    first.path().set_ana_state(AnaState::Inaccessible);
    (0..9).for_each(|_| assert_eq!(host.read(0, 8).status, Status::Ok));
    // None if the test is so slow that the path is lost before.
    assert!(
        count(&*device, "path_errors") <= 1,
        "more than one command was sent over the first path"
    );
}

#[test]
fn path_that_is_connected_again_while_it_is_inaccessible_is_not_given_up() {
    let served = Served::new(ZONED);
    let (second, heard) = (served.another(), Heard::default());
    let proxy = Proxy::to(&second);
    let targets = [served.server.address(), proxy.address];
    // One attempt to connect it again.
    let device = connect(&targets, "ctrl_loss_tmo=1", &heard);
    let mut host = Host::over(Arc::clone(&device) as _, QueueOptions::default());
    let inaccessible = said(proxy.address, AnaState::Inaccessible);
    for (times, lost) in [(1, 0), (2, 1), (3, 2)] {
        if lost == 0 {
            second.path().set_ana_state(AnaState::Inaccessible);
        } else {
            // The second time, it is watched only.
            proxy.cut();
        }
        wait_until(|| heard.times(&inaccessible) == times);
        assert!(!heard.has("given up"), "{times}");
    }
    second.path().set_ana_state(AnaState::Optimized);
    wait_until(|| heard.has("connected again"));
    served.server.path().set_ana_state(AnaState::Inaccessible);
    wait_until(|| heard.has(&said(targets[0], AnaState::Inaccessible)));
    assert_eq!(host.write(0, &pattern(4096, 0)).status, Status::Ok, "over the second path");
    assert_eq!((count(&*device, "path_errors"), heard.has("given up")), (0, false));
}

#[test]
fn path_whose_state_changes_for_too_long_is_connected_again() {
    let served = Served::new(ZONED);
    let (second, heard) = (served.another(), Heard::default());
    let targets = [served.server.address(), second.address()];
    let _device = connect(&targets, "", &heard);
    second.path().set_ana_state(AnaState::Change);
    // After the ten seconds that the target names.
    wait_until(|| heard.has("lost: the change of the ANA state takes longer"));
    wait_until(|| heard.times(&said(targets[1], AnaState::Change)) == 2);
    second.path().set_ana_state(AnaState::Optimized);
    wait_until(|| heard.has("connected again"));
}

#[test]
fn device_that_ends_shuts_down_the_controllers_that_it_watches() {
    let served = Served::new(ZONED);
    let (second, heard) = (served.another(), Heard::default());
    second.path().set_ana_state(AnaState::Inaccessible);
    let device = connect(&[served.server.address(), second.address()], "", &heard);
    assert!(heard.has("not connected: ANA state"));
    wait_until(|| heard.has(&said(second.address(), AnaState::Inaccessible)));
    assert_eq!(second.connections(), 1, "its admin queue");
    drop(device);
    wait_until(|| second.connections() == 0);
    served.wait_for_connections(0);
}
