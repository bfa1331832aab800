//! Why a connection ends.
use std::io::{self, ErrorKind};
use std::time::Duration;
use zonal_nvme::SessionError;
use zonal_os::tls::TlsError;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum DisconnectReason {
    #[error("the host closed the connection")]
    Host,
    #[error(transparent)]
    Io(io::Error),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("the host took none of its data for {0:?}")]
    SlowReader(Duration),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the host does not use TLS, which is required")]
    WithoutTls,
    #[error("another connection took its place before it did Connect")]
    Evicted,
    #[error("the server stops")]
    Stopping,
}

impl From<io::Error> for DisconnectReason {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => DisconnectReason::Host,
            _ => DisconnectReason::Io(error),
        }
    }
}
