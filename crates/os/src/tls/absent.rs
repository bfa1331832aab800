//! A program without TLS: types of which there are no values.
use super::TlsError;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use zonal_nvme::tcp::Outgoing;
use zonal_nvme::tls::{Psks, TlsPsk};

/// The settings of a target, of which there are none.
#[derive(Debug)]
pub enum Acceptor {}

impl Acceptor {
    /// Never returns one.
    ///
    /// # Errors
    /// [`TlsError::NotBuilt`].
    pub fn new(_psks: &Psks, _subsystem: &str) -> Result<Self, TlsError> {
        Err(TlsError::NotBuilt)
    }

    pub(crate) fn accept(&self, _stream: &Arc<TcpStream>) -> Result<TlsStream, TlsError> {
        match *self {}
    }
}

/// Never returns a connection.
///
/// # Errors
/// [`TlsError::NotBuilt`].
pub(crate) fn connect(_psk: TlsPsk, _stream: &Arc<TcpStream>) -> Result<TlsStream, TlsError> {
    Err(TlsError::NotBuilt)
}

/// A connection, of which there are none.
#[derive(Debug)]
pub enum TlsStream {}

impl TlsStream {
    pub(crate) fn handshake(&mut self) -> Result<Option<Arc<TlsPsk>>, TlsError> {
        match *self {}
    }

    pub(crate) fn receive(&mut self, _: &mut [u8], _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn send(&mut self, _: &mut impl Outgoing) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn has_more(&self) -> bool {
        match *self {}
    }

    pub(crate) fn wants_write(&self) -> bool {
        match *self {}
    }

    pub(crate) fn close(&mut self) {
        match *self {}
    }
}
