//! TLS with pre-shared keys; and a program without the feature, which says so.
use super::{SMALL, ran};
use std::os::unix::fs::PermissionsExt;

const HOST: &str = "nqn.2026-11.org.example:host";
/// From the tests of libnvme.
const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

/// Files in a directory that is removed with them.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Files(tempfile::tempdir().expect("a directory"))
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))
            .expect("permissions");
        path.display().to_string()
    }

    fn keys(&self) -> String {
        self.write("keys", &format!("# hosts\n{HOST} {KEY}\n"), 0o600)
    }
}

#[track_caller]
fn refused(args: &[&str], expected: &str) {
    let (code, out, err) = ran(args);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains(expected), "{expected}: {err}");
    assert!(!err.contains("LbtnN9"), "{err}");
}

#[cfg(not(feature = "tls"))]
#[test]
fn program_without_tls_names_the_feature() {
    let files = Files::new();
    let keys = files.keys();
    refused(&["serve", SMALL, "--nvme-tcp=127.0.0.1:0", "--tls-psk", &keys], "--features tls");
    let server = super::Server::start(&[SMALL, "--nvme-tcp", "127.0.0.1:0"]);
    let address = format!("{}?hostnqn={HOST}&tls&tls_psk={keys}", server.address);
    refused(&["zone", "report", &address], "--features tls");
}

#[cfg(feature = "tls")]
mod built_with {
    use super::*;
    use crate::{Server, fine};
    use rustix::process::Signal;

    #[test]
    fn hosts_with_a_key_connect_over_tls_and_others_do_not() {
        let files = Files::new();
        let keys = files.keys();
        let other = "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
        let wrong = files.write("wrong", &format!("{HOST} {other}\n"), 0o600);
        let server = Server::start(&[SMALL, "--nvme-tcp", "127.0.0.1:0", "--tls-psk", &keys]);
        let with = |file: &str| format!("{}?hostnqn={HOST}&tls&tls_psk={file}", server.address);
        assert_eq!(fine(&["zone", "report", &with(&keys)]), fine(&["zone", "report", SMALL]));
        let job =
            "--name=w --rw=write --bs=64k --iodepth=8 --zonemode=zbd --size=2m --verify=crc32c";
        let device = with(&keys);
        let mut run = vec!["run", "--device", &device];
        run.extend(job.split(' '));
        fine(&run);
        refused(&["zone", "report", &server.address], "end of file");
        refused(&["zone", "report", &with(&wrong)], "does not know the PSK identity");
        refused(&["zone", "report", &with("nowhere")], "nowhere: cannot read the secrets");
        let (code, _, err) = server.end(Signal::TERM);
        assert_eq!((code, err.as_str()), (Some(0), ""));
    }

    #[test]
    fn tls_may_be_optional_and_says_what_it_leaves_open() {
        let files = Files::new();
        let keys = files.write("keys", &format!("{HOST} {KEY}\n"), 0o644);
        let mut args = vec![SMALL, "--nvme-tcp", "0.0.0.0:0", "--tls-psk", &keys];
        args.extend(["--tls", "optional"]);
        let server = Server::start(&args);
        let address = server.address.replace("0.0.0.0", "127.0.0.1");
        let with_tls = format!("{address}?hostnqn={HOST}&tls&tls_psk={keys}");
        fine(&["zone", "report", &with_tls]);
        fine(&["zone", "report", &address]);
        refused(&["zone", "report", &format!("{address}?hostnqn={HOST}")], "Connect: ");
        let (code, _, err) = server.end(Signal::TERM);
        assert_eq!(code, Some(0));
        assert!(err.contains("others on this machine can read the secrets"), "{err}");
        assert!(err.contains("no encryption of hosts without TLS"), "{err}");
    }

    #[test]
    fn address_that_others_can_reach_needs_no_warning_with_tls() {
        let keys = Files::new();
        let file = keys.keys();
        let server = Server::start(&[SMALL, "--nvme-tcp", "0.0.0.0:0", "--tls-psk", &file]);
        let (code, _, err) = server.end(Signal::TERM);
        assert_eq!((code, err.as_str()), (Some(0), ""));
    }
}

#[test]
fn wrong_options_of_tls_are_named() {
    let files = Files::new();
    let keys = files.keys();
    let damaged = files.write("damaged", &format!("{HOST} {}\n", KEY.replace("VR", "VS")), 0o600);
    let served = |more: &[&str], expected: &str| {
        refused(&[&["serve", SMALL, "--nvme-tcp=127.0.0.1:0"], more].concat(), expected);
    };
    served(&["--tls-psk", "nowhere"], "--tls-psk: nowhere: cannot read the secrets");
    served(&["--tls-psk", &damaged], "line 1: the key: its checksum does not match");
    served(&["--tls", "optional"], "--tls-psk <FILE>");
    served(&["--tls-psk", &keys, "--tls", "perhaps"], "required, optional");
    refused(&["serve", SMALL, "--vfio-user=a", "--tls-psk", &keys], "--nvme-tcp <HOST:PORT>");
    let remote = "nvme-tcp://127.0.0.1:1/nqn.a";
    refused(&["zone", "report", &format!("{remote}?tls")], "expected tls_psk=FILE, too");
    refused(&["zone", "report", &format!("{remote}?tls_psk={keys}")], "expected tls, too");
}
