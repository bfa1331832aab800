//! Responses, which prove that a side has its secret (Base section 8.13.5).
use super::Hash;
use zeroize::Zeroizing;

/// The side that responds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Responder {
    Host,
    Controller,
}

/// The input of a response besides the secret.
pub(super) struct ResponseInput<'a> {
    pub responder: Responder,
    pub hash: Hash,
    pub challenge: &'a [u8],
    /// The Diffie-Hellman shared secret; `None` without an exchange.
    pub session: Option<&'a [u8]>,
    pub sequence: u32,
    pub transaction: u16,
    pub host: &'a str,
    pub subsystem: &'a str,
}

impl ResponseInput<'_> {
    /// Calls `with` with the parts of the hashed message:
    /// Ca || S || T_ID || SC_C || "HostHost" || NQNh || 00h || NQNc, or
    /// Ca || S || T_ID || SC_C || "Controller" || NQNc || 00h || NQNh.
    fn parts<T>(&self, with: impl FnOnce(&[&[u8]]) -> T) -> T {
        // The challenge, augmented with the shared secret.
        let challenge = match self.session {
            None => Zeroizing::new(self.challenge.to_vec()),
            Some(session) => {
                let key = Zeroizing::new(self.hash.digest(session));
                Zeroizing::new(self.hash.hmac(&key, &[self.challenge]))
            }
        };
        let (label, own, other) = match self.responder {
            Responder::Host => (&b"HostHost"[..], self.host, self.subsystem),
            Responder::Controller => (&b"Controller"[..], self.subsystem, self.host),
        };
        let (sequence, transaction) = (self.sequence.to_le_bytes(), self.transaction.to_le_bytes());
        let (own, other) = (own.as_bytes(), other.as_bytes());
        with(&[&challenge, &sequence, &transaction, &[0], label, own, &[0], other])
    }

    /// The response for `secret`, which is transformed already.
    pub fn respond(&self, secret: &[u8]) -> Vec<u8> {
        self.parts(|parts| self.hash.hmac(secret, parts))
    }

    /// Whether `response` is the one for `secret`.
    pub fn verify(&self, secret: &[u8], response: &[u8]) -> bool {
        self.parts(|parts| self.hash.verify(secret, parts, response))
    }
}
