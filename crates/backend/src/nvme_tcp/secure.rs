//! TLS of a connection, before anything else is sent on it.
use super::address::{Address, TlsOptions};
use super::error::{ConnectError, TlsKeyError};
use super::secrets::load_psks;
use std::time::{Duration, Instant};
use zonal_os::poll::socket::Socket;
use zonal_os::tls::{self, Psk, TlsError};

/// How long the handshake may take, as in Linux (`tls_handshake_timeout` of nvme_tcp).
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes the handshake, as the host of the address.
///
/// # Errors
/// There is no key, or the target does not accept it.
pub(super) fn secure(
    socket: &mut Socket,
    address: &Address,
    options: &TlsOptions,
) -> Result<(), ConnectError> {
    let psks = load_psks(&options.psk).map_err(TlsKeyError::from)?;
    let host = &address.host_nqn;
    let configured = psks.get(host).ok_or_else(|| TlsKeyError::NoKey(host.clone()))?;
    let psk = configured.tls_psk(options.identity, host, &address.nqn);
    let psk = psk.ok_or(TlsKeyError::LongNames)?;
    let psk = Psk {
        suite: psk.suite.name(),
        suite_value: psk.suite.value(),
        identity: psk.identity,
        key: psk.key,
    };
    let failed = |source| ConnectError::Tls { target: address.target.clone(), source };
    socket.begin_tls(tls::connect(psk, socket.stream()).map_err(failed)?);
    let begin = Instant::now();
    while let Some(stream) = socket.tls() {
        if stream.handshake().map_err(failed)?.is_some() {
            break;
        }
        let Some(left) = HANDSHAKE_TIMEOUT.checked_sub(begin.elapsed()) else {
            return Err(failed(TlsError::Timeout(HANDSHAKE_TIMEOUT)));
        };
        socket.wait(true, socket.wants_write(), Some(left));
    }
    Ok(())
}

#[cfg(all(test, feature = "tls"))]
mod tests;
