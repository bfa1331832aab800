//! Why a device cannot be connected.
use std::io;
use std::time::Duration;
use zonal_blk::{Zone, ZoneNo};
use zonal_device::multipath::{LimitError, MultipathError};
use zonal_nvme::NvmeStatus;
use zonal_nvme::auth::HostAuthError;
use zonal_nvme::ns::{NamespaceMismatch, ScanError};
use zonal_nvme::tcp::{CloseReason, SubmitError};
use zonal_os::secrets::SecretsFileError;
use zonal_os::tls::TlsError;

/// Why a device cannot be connected.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name cannot be resolved, or nobody listens there.
    #[error("cannot connect to {target}: {source}")]
    Connect {
        /// Host and port.
        target: String,
        /// Why not.
        source: io::Error,
    },
    /// TLS failed.
    #[error("{target}: {source}")]
    Tls {
        /// Host and port.
        target: String,
        /// How.
        source: TlsError,
    },
    /// There is no key for TLS.
    #[error(transparent)]
    TlsKey(#[from] TlsKeyError),
    /// The connection broke.
    #[error("{doing}: {source}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The error of the socket.
        source: io::Error,
    },
    /// One side violated the protocol.
    #[error("{doing}: {source}")]
    Protocol {
        /// The operation that failed.
        doing: &'static str,
        /// How.
        source: CloseReason,
    },
    /// The command could not be sent.
    #[error("{doing}: {source}")]
    Submit {
        /// The operation that failed.
        doing: &'static str,
        /// Why not.
        source: SubmitError,
    },
    /// There was no answer in time.
    #[error("{doing}: no answer within {after:?}")]
    Timeout {
        /// The operation that failed.
        doing: &'static str,
        /// The timeout.
        after: Duration,
    },
    /// The target failed the command.
    #[error("{doing}: the target answered {:?}", status.code())]
    Refused {
        /// The operation that failed.
        doing: &'static str,
        /// The status.
        status: NvmeStatus,
    },
    /// The target has no such subsystem.
    #[error(
        "{target}: found no subsystem `{nqn}`, expected {}{}",
        if known.is_empty() { "one that the target has: none".to_owned() } else { known.join(" or ") },
        zonal_blk::did_you_mean(nqn, known.iter().map(String::as_str))
    )]
    NoSubsystem {
        /// Host and port.
        target: String,
        /// The NQN.
        nqn: String,
        /// The NQNs of the subsystems that there are, sorted.
        known: Vec<String>,
    },
    /// Authentication failed.
    #[error(transparent)]
    Authentication(#[from] AuthError),
    /// Data are corrupt or too short.
    #[error("{doing}: found {found} bytes of data, expected {expected} undamaged")]
    Data {
        /// The operation that failed.
        doing: &'static str,
        /// Bytes received.
        found: usize,
        /// Bytes requested.
        expected: usize,
    },
    /// The controller does not become ready: time waited, CSTS.
    #[error("the controller is not ready after {0:?}, status {1:#x}")]
    NotReady(Duration, u64),
    /// The subsystem has no such namespace: the NSID, and those there are.
    #[error("found no namespace {0}, expected one of {1:?}")]
    NoNamespace(String, Vec<u32>),
    /// The namespace is not supported.
    #[error("namespace {0}: {1}")]
    Namespace(u32, ScanError),
    /// The target grants too few queues.
    #[error("the target grants {0} I/O queues, expected 2 or more: one is for zone reports")]
    Queues(u32),
    /// A path leads to another namespace than the others, or after reconnecting than before.
    #[error("path {target}: {source}")]
    Head {
        /// Host and port.
        target: String,
        /// How they differ.
        source: NamespaceMismatch,
    },
    /// The subsystem of a path has another serial number than that of the others: equal identifiers may
    /// be a mistake in the configuration.
    #[error(
        "path {target}: serial number: found `{found}`, expected `{expected}` as on the other paths: it \
         is another subsystem with the same NQN"
    )]
    Serial {
        /// Host and port.
        target: String,
        /// The value of the path.
        found: String,
        /// The value of the others.
        expected: String,
    },
    /// A path reports a zone otherwise than the others: its device is another one, whatever its
    /// identifiers.
    #[error(
        "path {target}: zone {zone}: found {:?} with the write pointer at sector {}, expected {:?} at \
         {} as on the other paths: it is another device with the same identifiers",
        found.cond, found.wp, expected.cond, expected.wp
    )]
    Zone {
        /// Host and port.
        target: String,
        /// The first zone that differs.
        zone: ZoneNo,
        /// The report of the path.
        found: Zone,
        /// The report of another one.
        expected: Zone,
    },
    /// The report of this zone and those after it is invalid.
    #[error("zone report: found no valid descriptor of zone {0}")]
    Report(ZoneNo),
    /// A reconnected path has lower limits than before.
    #[error("path {target}: {source}")]
    Limits {
        /// Host and port.
        target: String,
        /// Which limit.
        source: LimitError,
    },
    /// The namespace is between two ANA states for too long.
    #[error("the change of the ANA state takes longer than the controller says (ANATT)")]
    AnaTransition,
    /// The paths cannot be one device.
    #[error("{0}")]
    Paths(#[from] MultipathError),
}

/// Why authentication failed.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The secrets cannot be read.
    #[error(transparent)]
    Secrets(#[from] SecretsFileError),
    /// The target requires authentication and the host has no secrets.
    #[error("the target requires authentication, expected dhchap_secrets=FILE after ?")]
    Required,
    /// The file has no secret of this host.
    #[error("the target requires authentication, and the file has no secret of {0}")]
    NoSecret(String),
    /// The host requires authentication of the controller, and the target does not offer it.
    #[error("the target does not authenticate, but the file has a secret of its controller")]
    NotOffered,
    /// The target requires a key for TLS to be made by authentication.
    #[error(
        "the target requires a key for TLS that comes from authentication (secure channel \
         concatenation), which this host does not support"
    )]
    SecureChannel,
    /// The protocol failed, or a secret is wrong.
    #[error("authentication failed")]
    Failed(#[from] HostAuthError),
}

/// Why there is no key for a connection.
#[derive(Debug, thiserror::Error)]
pub enum TlsKeyError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] SecretsFileError),
    /// The file has no key of this host.
    #[error("tls_psk: found no key of {0} in the file (hostnqn=NQN after ? chooses another host)")]
    NoKey(String),
    /// There is no identity.
    #[error(
        "tls_identity=0: the names of host and subsystem are too long, expected tls_identity=1"
    )]
    LongNames,
}
