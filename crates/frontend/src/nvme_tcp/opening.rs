//! The beginning of a connection to a target with TLS: the first byte says whether the host uses it
//! (TCP, Transport Layer Security), then comes the handshake.
use super::disconnect::DisconnectReason;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use zonal_blk::Nanos;
use zonal_nvme::SessionError;
use zonal_nvme::tls::{CipherSuite, PskTable, Psks, TlsPsk};
use zonal_os::poll::socket::Socket;
use zonal_os::tls::{Acceptor, Psk, TlsError};

/// The first byte of a TLS handshake: ContentType of a record (RFC 8446, section 5.1). The first byte of NVMe/TCP
/// is 0, the type of ICReq.
const HANDSHAKE: u8 = 0x16;

/// TLS of a target.
pub struct TargetTls {
    acceptor: Acceptor,
    table: Arc<PskTable>,
    psks: Psks,
    required: bool,
}

impl TargetTls {
    /// TLS for the hosts with these keys, to a subsystem and for discovery. If it is not `required`,
    /// hosts without a key connect without it.
    ///
    /// # Errors
    /// The program or the system has no TLS.
    pub fn new(psks: Psks, subsystem: &str, required: bool) -> Result<Self, TlsError> {
        let table = Arc::new(PskTable::new(&psks, subsystem));
        let offered = Arc::clone(&table);
        let find = move |extension: &[u8]| {
            offered.find(extension).map(|psk| {
                Arc::new(Psk {
                    identity: psk.identity.clone(),
                    suite: psk.suite.name(),
                    suite_value: psk.suite.value(),
                    key: psk.key.clone(),
                })
            })
        };
        let acceptor = Acceptor::new(&CipherSuite::ALL.map(CipherSuite::name), find)?;
        Ok(TargetTls { acceptor, table, psks, required })
    }

    /// Whether all hosts must use it.
    pub(super) fn is_required(&self) -> bool {
        self.required
    }

    /// Whether this host has a key, and so must use it.
    pub(super) fn has_key(&self, host: &str) -> bool {
        self.psks.get(host).is_some()
    }
}

/// A connection that may become one with TLS.
pub(super) struct Opening {
    due: Nanos,
    timeout: Duration,
    handshake: bool,
}

/// The result of opening a connection.
pub(super) enum Opened {
    Plain,
    Tls(Arc<TlsPsk>),
}

/// How long each step may take, from when the connection was accepted.
pub(super) struct OpeningTimeouts {
    /// The first byte.
    pub init: Duration,
    /// The handshake.
    pub handshake: Duration,
}

fn after(now: Nanos, timeout: Duration) -> Nanos {
    Nanos(now.0.saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)))
}

impl Opening {
    /// A connection accepted at `now`.
    pub fn new(now: Nanos, timeouts: &OpeningTimeouts) -> Self {
        let timeout = timeouts.init.min(timeouts.handshake);
        Opening { due: after(now, timeout), timeout, handshake: false }
    }

    /// When to call [`poll`](Self::poll), unless bytes arrive.
    pub fn due(&self) -> Nanos {
        self.due + Nanos(1)
    }

    /// Goes on as far as what has arrived allows. Returns what the connection has become, once that is
    /// known.
    ///
    /// # Errors
    /// The host may not connect so, has no key, or is too slow.
    pub fn poll(
        &mut self,
        now: Nanos,
        socket: &mut Socket,
        tls: &TargetTls,
        timeouts: &OpeningTimeouts,
    ) -> Result<Option<Opened>, DisconnectReason> {
        if !self.handshake {
            match first_byte(socket)? {
                None => {}
                Some(HANDSHAKE) => {
                    socket.begin_tls(tls.acceptor.accept(socket.stream())?);
                    self.handshake = true;
                    let left = timeouts.handshake.saturating_sub(self.timeout);
                    (self.due, self.timeout) = (after(self.due, left), timeouts.handshake);
                }
                Some(_) if tls.required => return Err(DisconnectReason::WithoutTls),
                Some(_) => return Ok(Some(Opened::Plain)),
            }
        }
        if let Some(stream) = socket.tls()
            && let Some(psk) = stream.handshake()?
        {
            let proven = tls.table.get(&psk.identity).expect("the table has what it was found in");
            return Ok(Some(Opened::Tls(Arc::clone(proven))));
        }
        if now <= self.due {
            return Ok(None);
        }
        Err(if self.handshake {
            TlsError::Timeout(self.timeout).into()
        } else {
            SessionError::NoInitialize(self.timeout).into()
        })
    }
}

/// The first byte that has arrived, which stays where it is.
fn first_byte(socket: &Socket) -> Result<Option<u8>, DisconnectReason> {
    let mut first = [0];
    match socket.stream().peek(&mut first) {
        Ok(0) => Err(DisconnectReason::Host),
        Ok(_) => Ok(Some(first[0])),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
