//! A connection with TLS over a non-blocking socket.
use super::session::key;
use super::{Psk, TlsError};
use openssl::error::ErrorStack;
use openssl::ssl::{Error, ErrorCode, Ssl, SslStream};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use zonal_blk::Outgoing;

/// The content of a record (RFC 8446, section 5.1).
const RECORD: usize = 16 << 10;
/// Bytes that one call reads from the socket beyond the room that there is for data: a ClientHello, or
/// records without data.
const OVERHEAD: usize = 32 << 10;
/// Pieces of memory that are gathered for a record.
const MAX_SLICES: usize = 64;

// Reasons of OpenSSL (sslerr.h); those of alerts of the peer are 1000 and the alert.
const BINDER_DOES_NOT_VERIFY: i32 = 253;
/// HTTPS_PROXY_REQUEST, HTTP_REQUEST, WRONG_VERSION_NUMBER, BAD_RECORD_TYPE.
const NOT_TLS: [i32; 4] = [155, 156, 267, 443];
const ALERT_ILLEGAL_PARAMETER: i32 = 1047;
const ALERT_DECRYPT_ERROR: i32 = 1051;
const ALERT_UNKNOWN_PSK_IDENTITY: i32 = 1115;
/// The [callback for a ClientHello](super::session) has found no key.
const CALLBACK_FAILED: i32 = 234;

/// A connection with TLS.
#[derive(Debug)]
pub struct TlsStream {
    ssl: SslStream<Transport>,
    /// Bytes of the record to be sent, gathered.
    record: Vec<u8>,
    /// Data have arrived that were not read yet.
    more: bool,
    /// OpenSSL has something to send that is no data.
    wants_write: bool,
}

impl TlsStream {
    pub(super) fn new(ssl: Ssl, stream: Arc<TcpStream>) -> Result<Self, ErrorStack> {
        let transport = Transport { stream, budget: 0, closed: false };
        let ssl = SslStream::new(ssl, transport)?;
        Ok(TlsStream { ssl, record: Vec::new(), more: false, wants_write: false })
    }

    /// Continues the handshake. Returns the key that both sides have proven when it is done; `None` to
    /// be called again when bytes have arrived or, if it [wants to](Self::wants_write), can be sent.
    ///
    /// # Errors
    /// It failed: the peer has been told why, if it can be.
    pub fn handshake(&mut self) -> Result<Option<Arc<Psk>>, TlsError> {
        self.begin(0);
        match self.ssl.do_handshake() {
            Ok(()) => {}
            Err(error) => match self.classify(&error) {
                Outcome::Later => return Ok(None),
                Outcome::Closed => return Err(TlsError::Closed),
                Outcome::Failed(io) => return Err(failure(&error, io)),
            },
        }
        // Without one there was a certificate, which nobody has asked for.
        let psk = key(self.ssl.ssl()).filter(|_| self.ssl.ssl().session_reused());
        psk.cloned().map(Some).ok_or(TlsError::NoPsk)
    }

    /// Receives into `data` and, once that is full, into `buffer`. Returns the number of bytes, 0 if
    /// nothing has arrived.
    ///
    /// # Errors
    /// The connection is broken, or the peer closed it ([`ErrorKind::UnexpectedEof`]).
    pub fn receive(&mut self, data: &mut [u8], buffer: &mut [u8]) -> io::Result<usize> {
        let mut total = 0;
        self.begin(data.len() + buffer.len());
        for part in [data, buffer] {
            let mut at = 0;
            while at < part.len() {
                match self.ssl.ssl_read(&mut part[at..]) {
                    Ok(len) => (at, total) = (at + len, total + len),
                    Err(error) => return self.ended(&error, total),
                }
            }
        }
        self.more = true;
        Ok(total)
    }

    /// The result of receiving that ended after `total` bytes.
    fn ended(&mut self, error: &Error, total: usize) -> io::Result<usize> {
        match self.classify(error) {
            Outcome::Later => Ok(total),
            Outcome::Closed | Outcome::Failed(_) if total > 0 => {
                // The next call returns the error. It comes, since a socket that is shut down can be read.
                let _ = self.ssl.get_ref().stream.shutdown(Shutdown::Both);
                Ok(total)
            }
            Outcome::Closed => Err(ErrorKind::UnexpectedEof.into()),
            Outcome::Failed(Some(kind)) => Err(kind.into()),
            Outcome::Failed(None) => Err(io::Error::other(format!("TLS: {}", words(error)))),
        }
    }

    /// Sends as much of `output` as the socket accepts now and returns the number of bytes.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, output: &mut impl Outgoing) -> io::Result<usize> {
        let mut total = 0;
        while output.unsent() > 0 {
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let count = output.next_slices(&mut slices);
            // Where a record was sent in part these are its bytes again, and perhaps more.
            let written = if slices[0].len() >= RECORD || count == 1 {
                self.ssl.ssl_write(&slices[0][..slices[0].len().min(RECORD)])
            } else {
                gather(&slices[..count], &mut self.record);
                self.ssl.ssl_write(&self.record)
            };
            match written {
                Ok(len) => {
                    output.sent(len);
                    total += len;
                }
                Err(error) => match self.classify(&error) {
                    Outcome::Later => break,
                    Outcome::Closed => return Err(ErrorKind::ConnectionReset.into()),
                    Outcome::Failed(Some(kind)) => return Err(kind.into()),
                    Outcome::Failed(None) => {
                        return Err(io::Error::other(format!("TLS: {}", words(&error))));
                    }
                },
            }
        }
        Ok(total)
    }

    /// Whether [`receive`](Self::receive) may find more although nothing more has arrived.
    pub fn has_more(&self) -> bool {
        self.more
    }

    /// Whether to call again when bytes can be sent.
    pub fn wants_write(&self) -> bool {
        self.wants_write
    }

    /// Tells the peer that nothing more will be sent, best effort.
    pub fn close(&mut self) {
        // Before the handshake is done there is no way to.
        let _ = self.ssl.shutdown();
    }

    fn begin(&mut self, room: usize) {
        (self.more, self.wants_write) = (false, false);
        let transport = self.ssl.get_mut();
        transport.budget = room.saturating_add(OVERHEAD);
    }

    fn classify(&mut self, error: &Error) -> Outcome {
        let transport = self.ssl.get_ref();
        match error.code() {
            // If that is for the bound of one call, the socket is still readable.
            ErrorCode::WANT_READ => Outcome::Later,
            ErrorCode::WANT_WRITE => {
                self.wants_write = true;
                Outcome::Later
            }
            ErrorCode::ZERO_RETURN => Outcome::Closed,
            _ if transport.closed => Outcome::Closed,
            _ => Outcome::Failed(error.io_error().map(io::Error::kind)),
        }
    }
}

/// Why a call of OpenSSL has not done what it should.
enum Outcome {
    /// It waits for the socket.
    Later,
    /// The peer closed the connection.
    Closed,
    /// It never will; with the error of the socket, if it has one.
    Failed(Option<ErrorKind>),
}

/// The reasons of OpenSSL for an error, without the places in its source.
fn words(error: &Error) -> String {
    let stack = error.ssl_error().map_or(&[][..], ErrorStack::errors);
    let reasons: Vec<&str> = stack.iter().filter_map(|error| error.reason()).collect();
    if reasons.is_empty() { error.to_string() } else { reasons.join(", ") }
}

/// Why a handshake failed.
fn failure(error: &Error, io: Option<ErrorKind>) -> TlsError {
    if let Some(kind) = io {
        return TlsError::Io(kind.into());
    }
    let stack = error.ssl_error().map_or(&[][..], ErrorStack::errors);
    let has = |reasons: &[i32]| stack.iter().any(|error| reasons.contains(&error.reason_code()));
    if has(&[BINDER_DOES_NOT_VERIFY, ALERT_ILLEGAL_PARAMETER, ALERT_DECRYPT_ERROR]) {
        TlsError::WrongKey
    } else if has(&[ALERT_UNKNOWN_PSK_IDENTITY]) {
        TlsError::IdentityRefused
    } else if has(&[CALLBACK_FAILED]) {
        TlsError::UnknownIdentity
    } else if has(&NOT_TLS) {
        TlsError::NotTls
    } else {
        TlsError::Failed(words(error))
    }
}

/// Copies the first bytes of `slices`, as many as a record has.
fn gather(slices: &[IoSlice<'_>], record: &mut Vec<u8>) {
    record.clear();
    for slice in slices {
        let room = RECORD - record.len();
        record.extend_from_slice(&slice[..slice.len().min(room)]);
        if record.len() == RECORD {
            return;
        }
    }
}

/// The socket, as OpenSSL reads and writes it.
#[derive(Debug)]
struct Transport {
    stream: Arc<TcpStream>,
    /// Bytes that may still be read.
    budget: usize,
    /// The peer has closed the connection.
    closed: bool,
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.budget == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let len = buffer.len().min(self.budget);
        loop {
            match (&*self.stream).read(&mut buffer[..len]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => {
                    let received = received?;
                    self.closed = received == 0;
                    self.budget -= received;
                    return Ok(received);
                }
            }
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match (&*self.stream).write(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
