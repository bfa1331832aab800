//! A server in this process: ready when it has started, gone when it was stopped.
use std::path::PathBuf;
use std::thread;
use zonal_backend::{Stack, StackError};
use zonal_blk::QueueOptions;
use zonal_serve::{ControlOptions, ServeError, ServeOptions, Server, stopping};

const DEVICE: &str = "null:zones=4,zone_size=64K,lba=4K,memory=true";

fn anywhere() -> ServeOptions {
    let address = "127.0.0.1:0".parse().expect("an address");
    ServeOptions { nvme_tcp: vec![address], ..ServeOptions::default() }
}

fn control(ctl: impl Into<PathBuf>) -> ControlOptions {
    ControlOptions { ctl: Some(ctl.into()), ..ControlOptions::default() }
}

fn server(options: ServeOptions) -> Server {
    Server::open(DEVICE, options).expect("a device")
}

fn servers(devices: usize, options: ServeOptions) -> Server {
    let opened: Vec<_> = (0..devices).map(|_| options.open(DEVICE).expect("a device")).collect();
    Server::new(opened, options).expect("queues")
}

#[test]
fn device_is_served_from_start_to_stop() {
    let running = server(anywhere()).start().expect("a server");
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
    let running = server(anywhere()).start().expect("a server");
    let stopper = running.stopper();
    let other = thread::spawn(move || stopper.stop());
    running.wait().expect("no export failed");
    other.join().expect("it does not panic");
    let stopping = stopping();
    stopping.stopper().stop();
    let server = server(anywhere()).stopped_by(stopping);
    server.run().expect("it starts and stops");
}

#[test]
fn export_that_cannot_be_started_ends_those_before_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("socket");
    let vhost_user = Some((socket.clone(), 1));
    let control = control(dir.path().join("none/ctl"));
    let options = ServeOptions { vhost_user, control, ..ServeOptions::default() };
    let error = server(options).start().err().expect("there is no such directory");
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
    let vhost_user = Some(("/nowhere/socket".into(), 1));
    let options = ServeOptions { vhost_user, ..ServeOptions::default() };
    assert_eq!(said(servers(2, options)), "vhost-user: found 2 devices, expected one");
    let numbered = |namespaces| ServeOptions { namespaces, ..anywhere() };
    assert_eq!(said(servers(1, numbered(vec![1, 2]))), "namespace: found 2 for 1 devices");
    let twice = said(servers(2, numbered(vec![2, 2])));
    assert_eq!(twice, "namespace: found [2, 2], expected ascending numbers from 1 to 1024");
    let none = ServeOptions { control: control("/nowhere/ctl"), ..ServeOptions::default() };
    assert_eq!(said(server(none)), "exports: found none, expected one or more");
    assert_eq!(said(servers(0, anywhere())), "devices: found 0, expected 1 to 1024");
}
