//! Settings of OpenSSL, for targets and hosts.
use super::session::{accept_keys, offer_keys, set_key};
use super::{Psk, TlsError, TlsStream};
use openssl::error::ErrorStack;
use openssl::ssl::{
    Ssl, SslContext, SslContextBuilder, SslMethod, SslMode, SslOptions, SslSessionCacheMode,
    SslVerifyMode, SslVersion,
};
use std::net::TcpStream;
use std::sync::Arc;

impl From<ErrorStack> for TlsError {
    fn from(error: ErrorStack) -> Self {
        TlsError::Setup(error.to_string())
    }
}

/// A context with the settings that both sides have in common.
fn builder(method: SslMethod, suites: &[&str]) -> Result<SslContextBuilder, ErrorStack> {
    let mut context = SslContext::builder(method)?;
    context.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    context.set_ciphersuites(&suites.join(":"))?;
    context.set_options(SslOptions::NO_TICKET);
    context.set_session_cache_mode(SslSessionCacheMode::OFF);
    // A record that was sent in part is continued from wherever the bytes are by then.
    context.set_mode(SslMode::ENABLE_PARTIAL_WRITE | SslMode::ACCEPT_MOVING_WRITE_BUFFER);
    // A record takes one call of the system, not two.
    context.set_read_ahead(true);
    Ok(context)
}

/// The settings of a target: the keys of its hosts.
pub struct Acceptor(SslContext);

impl Acceptor {
    /// Accepts hosts whose key `find` returns for the content of the extension `pre_shared_key` of a
    /// ClientHello (RFC 8446, section 4.2.11). The keys are for these cipher suites, by their names in TLS.
    ///
    /// # Errors
    /// OpenSSL has not what it takes, or no memory.
    pub fn new(
        suites: &[&'static str],
        find: impl Fn(&[u8]) -> Option<Arc<Psk>> + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        let mut context = builder(SslMethod::tls_server(), suites)?;
        // Linux does not expect messages after the handshake.
        context.set_num_tickets(0)?;
        accept_keys(&mut context, Box::new(find));
        Ok(Acceptor(context.build()))
    }

    /// A connection that a host has opened.
    pub fn accept(&self, stream: &Arc<TcpStream>) -> Result<TlsStream, TlsError> {
        let mut ssl = Ssl::new(&self.0)?;
        ssl.set_accept_state();
        Ok(TlsStream::new(ssl, Arc::clone(stream))?)
    }
}

/// A connection to a target that is to have this key.
pub fn connect(psk: Psk, stream: &Arc<TcpStream>) -> Result<TlsStream, TlsError> {
    let mut context = builder(SslMethod::tls_client(), &[psk.suite])?;
    // No certificate is good enough.
    context.set_verify(SslVerifyMode::PEER);
    offer_keys(&mut context);
    let mut ssl = Ssl::new(&context.build())?;
    set_key(&mut ssl, Arc::new(psk));
    ssl.set_connect_state();
    Ok(TlsStream::new(ssl, Arc::clone(stream))?)
}
