//! Hosts and controllers that authenticate.
use crate::support::{HOST, Host, Served, ZONED, patient, pattern, until};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zonal_backend::nvme_tcp::load_secrets;
use zonal_backend::nvme_tcp::{AuthError, ConnectError, NvmeTcpDevice};
use zonal_blk::{QueueOptions, Status};
use zonal_frontend::nvme_tcp::ServerConfig;
use zonal_nvme::auth::{Group, Hash};
use zonal_nvme::tcp::Digests;

const FIRST: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
const SECOND: &str =
    "DHHC-1:02:d4gmzh5i0I3npDMWAmJX/nAvAw7ioKmS2w44ceutFeObYDFG/r6zOB3UW0FLzevsI7XDJg==:";

/// Files of secrets, in a directory that is removed with them.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Files(tempfile::tempdir().expect("a directory"));
        let write = |name, line: String| {
            std::fs::write(files.path(name), line).expect("a file");
        };
        write("one-way", format!("{HOST} {FIRST}\n"));
        write("both-ways", format!("# of the test\n{HOST} {FIRST} {SECOND}\n"));
        write("swapped", format!("{HOST} {SECOND} {FIRST}\n"));
        write("other-controller", format!("{HOST} {FIRST} {FIRST}\n"));
        write("other-host", format!("{HOST}x {FIRST}\n"));
        write("no-list", "secret\n".to_owned());
        files
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// Options of an address: this host, with these secrets.
    fn options(&self, name: &str) -> String {
        format!("hostnqn={HOST}&dhchap_secrets={}", self.path(name).display())
    }
}

fn served(secrets: &Path, config: ServerConfig) -> Served {
    Served::authenticated(ZONED, config, load_secrets(secrets).expect("secrets"))
}

#[test]
fn io_goes_through_queues_that_have_authenticated() {
    let files = Files::new();
    let served = served(&files.path("both-ways"), patient());
    for name in ["one-way", "both-ways"] {
        let device = served.connect(&files.options(name)).expect("a connection");
        let mut host = Host::new(Arc::new(device), QueueOptions::default());
        if name == "one-way" {
            assert_eq!(host.write(0, &pattern(4096, 1)).status, Status::Ok);
        }
        assert_eq!(host.read(0, 8).buf.as_deref(), Some(&pattern(4096, 1)[..]));
    }
}

#[test]
fn every_hash_and_the_usual_groups_work_over_a_socket() {
    let files = Files::new();
    for (hash, group) in [
        (Hash::Sha256, Group::Null),
        (Hash::Sha384, Group::Ffdhe3072),
        (Hash::Sha512, Group::Ffdhe8192),
    ] {
        let mut auth = load_secrets(&files.path("both-ways")).expect("secrets");
        (auth.hashes, auth.groups) = (vec![hash], vec![group]);
        let served = Served::authenticated(ZONED, patient(), auth);
        served.connect(&files.options("both-ways")).expect("a connection");
    }
}

#[test]
fn failed_authentication_reports_the_reason() {
    let files = Files::new();
    let served = served(&files.path("both-ways"), patient());
    let failed = |options: &str| -> ConnectError {
        served.connect(options).map(|_: NvmeTcpDevice| ()).expect_err("refused")
    };
    let words = |error: ConnectError| {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        format!("{error}: {}", source.unwrap_or_default())
    };
    let own = format!("hostnqn={HOST}");
    assert!(matches!(failed(&own), ConnectError::Authentication(AuthError::Required)));
    let none = failed(&files.options("other-host"));
    assert!(matches!(none, ConnectError::Authentication(AuthError::NoSecret(_))), "{none}");
    let unknown = failed(&files.options("other-host").replace(HOST, &format!("{HOST}x")));
    assert!(matches!(unknown, ConnectError::Refused { doing: "Connect", .. }), "{unknown}");
    assert_eq!(
        words(failed(&files.options("swapped"))),
        "authentication failed: the controller refuses the host: a secret is not the right one"
    );
    assert_eq!(
        words(failed(&files.options("other-controller"))),
        "authentication failed: the controller does not have its secret"
    );
    let broken = words(failed(&files.options("no-list")));
    assert!(broken.contains("no-list is not a list of secrets: line 1: found 1 words"), "{broken}");
    let missing = words(failed(&files.options("missing")));
    assert!(missing.contains("missing: cannot read the secrets: No such file"), "{missing}");
    served.wait_for_connections(0);
}

#[test]
fn host_that_requires_proof_refuses_an_open_controller() {
    let files = Files::new();
    let served = Served::new(ZONED);
    served.connect(&files.options("one-way")).expect("nobody asks");
    let error = served.connect(&files.options("both-ways")).err().expect("refused");
    assert!(matches!(error, ConnectError::Authentication(AuthError::NotOffered)), "{error}");
}

#[test]
fn host_that_does_not_authenticate_in_time_is_disconnected() {
    let files = Files::new();
    let mut auth_timeout = Duration::from_millis(50);
    let (served, mut fake) = until(|| {
        let served = served(&files.path("one-way"), ServerConfig { auth_timeout, ..patient() });
        auth_timeout *= 2;
        let fake = served.try_admin(Digests::default(), 0).ok()?;
        Some((served, fake))
    });
    let before = fake.answers.clone();
    assert!(fake.is_closed());
    assert_eq!(fake.answers, before, "nothing but the end");
    served.wait_for_connections(0);
}
