//! A server in this process: ready when it has started, gone when it was stopped.
use std::thread;
use zonal_backend::{Stack, StackError};
use zonal_blk::QueueOptions;
use zonal_serve::{ServeError, Server, stopping};

fn stack() -> Stack {
    let stack = Stack::open("null:zones=4,zone_size=64K,lba=4K,memory=true").expect("a device");
    stack.attach(QueueOptions::default()).expect("a queue")
}

fn anywhere() -> std::net::SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

#[test]
fn device_is_served_from_start_to_stop() {
    let running = Server::new([stack()]).nvme_tcp(anywhere()).start().expect("a server");
    let [location] = &running.locations()[..] else { panic!("one export") };
    // One path that is not connected again.
    let name = format!("{location}?ctrl_loss_tmo=0");
    let host = Stack::open(&name).expect("it is ready").attach(QueueOptions::default());
    assert_eq!(host.expect("a queue").queue.limits().nr_zones, 4);
    running.stop().expect("no log");
    assert!(matches!(Stack::open(&name).err(), Some(StackError::Open { .. })));
}

#[test]
fn stopper_ends_the_wait_also_before_there_is_one() {
    let running = Server::new([stack()]).nvme_tcp(anywhere()).start().expect("a server");
    let stopper = running.stopper();
    let other = thread::spawn(move || stopper.stop());
    running.wait().expect("no export failed");
    other.join().expect("it does not panic");
    let stopping = stopping();
    stopping.stopper().stop();
    let server = Server::new([stack()]).nvme_tcp(anywhere()).stopped_by(stopping);
    server.run().expect("it starts and stops");
}

#[test]
fn export_that_cannot_be_started_ends_those_before_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("socket");
    let server = Server::new([stack()]).vhost_user(&socket).ctl(dir.path().join("none/ctl"));
    let error = server.start().err().expect("there is no such directory");
    assert!(matches!(error, ServeError::Option { option: "ctl", .. }), "{error}");
    assert!(!socket.exists());
}

#[test]
fn what_does_not_fit_is_refused_with_the_option() {
    let said = |server: Server| {
        let error = server.start().err().expect("it is refused");
        let cause = std::error::Error::source(&error).expect("a cause").to_string();
        format!("{error}: {cause}")
    };
    assert_eq!(
        said(Server::new([stack(), stack()]).vhost_user("/nowhere/socket")),
        "vhost-user: found 2 devices, expected one"
    );
    assert_eq!(
        said(Server::new([stack()]).namespaces(vec![1, 2]).nvme_tcp(anywhere())),
        "namespace: found 2 for 1 devices"
    );
    let twice = Server::new([stack(), stack()]).namespaces(vec![2, 2]).nvme_tcp(anywhere());
    assert_eq!(said(twice), "namespace: found [2, 2], expected ascending numbers from 1 to 1024");
    let none = Server::new([stack()]).ctl("/nowhere/ctl");
    assert_eq!(said(none), "exports: found none, expected one or more");
    assert_eq!(said(Server::new([])), "devices: found 0, expected 1 to 1024");
}
