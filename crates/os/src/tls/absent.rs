//! A program without TLS: types of which there are no values.
#![allow(missing_docs, reason = "as in `context` and `stream`")]
use super::{Psk, TlsError};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use zonal_blk::Outgoing;

/// The settings of a target, of which there are none.
#[derive(Debug)]
pub enum Acceptor {}

impl Acceptor {
    /// Never returns one.
    ///
    /// # Errors
    /// [`TlsError::NotBuilt`].
    pub fn new(
        _suites: &[&'static str],
        _find: impl Fn(&[u8]) -> Option<Arc<Psk>> + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        Err(TlsError::NotBuilt)
    }

    pub fn accept(&self, _stream: &Arc<TcpStream>) -> Result<TlsStream, TlsError> {
        match *self {}
    }
}

/// Never returns a connection.
///
/// # Errors
/// [`TlsError::NotBuilt`].
pub fn connect(_psk: Psk, _stream: &Arc<TcpStream>) -> Result<TlsStream, TlsError> {
    Err(TlsError::NotBuilt)
}

/// A connection, of which there are none.
#[derive(Debug)]
pub enum TlsStream {}

impl TlsStream {
    pub fn handshake(&mut self) -> Result<Option<Arc<Psk>>, TlsError> {
        match *self {}
    }

    pub fn receive(&mut self, _: &mut [u8], _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub fn send(&mut self, _: &mut impl Outgoing) -> io::Result<usize> {
        match *self {}
    }

    pub fn has_more(&self) -> bool {
        match *self {}
    }

    pub fn wants_write(&self) -> bool {
        match *self {}
    }

    pub fn close(&mut self) {
        match *self {}
    }
}
