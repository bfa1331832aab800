//! A server in this process: ready when it has started, gone when it was stopped.
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use zonal_backend::{Stack, StackError};
use zonal_blk::{Bio, Buf, Nanos, QueueOptions, Sector, Status};
use zonal_device::power::{CutPlan, Keep, When};
use zonal_serve::{ControlOptions, Running, ServeError, ServeOptions, Server, stopping};

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

/// Writes to a device with a write cache that is served, ends the server, and loses the power. Returns what
/// was lost.
fn lost_after(end: impl FnOnce(Running)) -> Vec<String> {
    let device = Stack::open(DEVICE).expect("a device").write_cache(64);
    let server = Server::new([device], anywhere()).expect("a queue");
    let running = server.start().expect("a server");
    let power = Arc::clone(running.stacks()[0].power.as_ref().expect("a cache"));
    let mut channel = running.stacks()[0].queue.channel().expect("a channel");
    channel.submit(Nanos(0), Bio::write(Sector(0), Buf::zeroed(8192), 0));
    let mut done = Vec::new();
    while channel.outstanding() > 0 {
        channel.poll(Nanos(0), &mut done);
    }
    assert_eq!(done[0].status, Status::Ok);
    drop(channel);
    end(running);
    let (report, reported) = mpsc::channel();
    power.cut(CutPlan::new(When::Now, Keep::None, 0), Some(report)).expect("it is on");
    reported.recv().expect("a report").fates
}

#[test]
fn server_that_has_ended_has_committed_what_was_answered() {
    let nothing: [&str; 0] = [];
    assert_eq!(lost_after(|running| running.stop().expect("it is flushed")), nothing);
    assert_eq!(lost_after(drop), nothing);
    let limit = Duration::from_secs(60);
    assert_eq!(lost_after(|running| running.stop_within(limit).expect("flushed")), nothing);
}

#[test]
fn server_whose_device_cannot_be_flushed_says_so() {
    let device = Stack::open(DEVICE).expect("a device");
    let device = device.inject(0, vec!["fail=flush".parse().expect("a rule")]);
    let server = Server::new([device], anywhere()).expect("a queue");
    let running = server.start().expect("a server");
    let error = running.stop().expect_err("it fails");
    assert!(matches!(error, ServeError::Flush(_)), "{error}");
    assert_eq!(
        error.to_string(),
        "device null:zones=4,zone_size=64K,lba=4K,memory=true: cannot be flushed: Input/output error \
         (os error 5); what was not flushed before may be lost"
    );
}
