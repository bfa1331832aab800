//! A device that C serves can be watched and changed as one that Rust serves.
use std::ffi::CString;
use std::path::Path;
use std::ptr::null;
use zonal_capi::serve::{zonal_serve, zonal_server_stop};
use zonal_serve::control::ControlClient;
use zonal_serve::{ControlOptions, ServeOptions, Server};

const DEVICE: &str = "null:zones=4,zone_size=64K,lba=4K";

/// What a server says of its device, which counts and whose faults can be injected.
fn answers(ctl: &Path) -> Vec<String> {
    let mut client = ControlClient::connect(ctl).expect("a server");
    let mut ask = |command: &str| {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let answer = client.send(1, &words).expect("an answer");
        answer.unwrap_or_else(|error| panic!("{command}: {error}")).to_string()
    };
    ["get", "stat", "fault add fail=write", "fault list"].map(&mut ask).to_vec()
}

#[test]
fn ctl_answers_as_that_of_a_server_in_rust() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ctl, socket) = (dir.path().join("ctl"), dir.path().join("socket"));
    let control = ControlOptions { ctl: Some(ctl.clone()), ..ControlOptions::default() };
    let vhost_user = Some((socket.clone(), 1));
    let options = ServeOptions { vhost_user, control, ..ServeOptions::default() };
    let running = Server::open(DEVICE, options).expect("a device").start().expect("a server");
    let expected = answers(&ctl);
    assert!(expected[0].contains("\"zone_write\":\"plug\""), "{expected:?}");
    running.stop().expect("no I/O is in flight");
    let name = CString::new(DEVICE).expect("no zero byte");
    let exports = format!("vhost_user={},ctl={}", socket.display(), ctl.display());
    let exports = CString::new(exports).expect("no zero byte");
    // SAFETY: strings, and no options.
    let server = unsafe { zonal_serve(name.as_ptr(), null(), exports.as_ptr()) };
    assert_eq!(answers(&ctl), expected);
    assert_eq!(zonal_server_stop(server), 0);
}
