//! Messages of in-band authentication with DH-HMAC-CHAP (Base section 8.13).
//!
//! Each structure is the fixed part of a message; what varies in length follows it.
use super::{Sgl, U16, U32, command, values, wire};
use std::fmt;

command! {
    /// Authentication Receive and Authentication Send (Base sections 6.1 and 6.2).
    pub struct AuthCommand {
        /// OPC: 7Fh.
        pub opcode: u8,
        /// PSDT.
        pub flags: u8,
        /// CID.
        pub cid: U16,
        /// FCTYPE: 05h to send, 06h to receive.
        pub fctype: u8,
        pub(crate) _reserved_5: [u8; 19],
        /// SGL1.
        pub dptr: Sgl,
        pub(crate) _reserved_40: u8,
        /// SPSP0: 01h.
        pub specific_0: u8,
        /// SPSP1: 01h.
        pub specific_1: u8,
        /// SECP: [`SECURITY_PROTOCOL`].
        pub protocol: u8,
        /// TL or AL: the length of the message, or of the buffer for one, in bytes.
        pub length: U32,
        pub(crate) _reserved_48: [u8; 16],
    }
}

/// SECP of in-band authentication (Base section 6.1).
pub const SECURITY_PROTOCOL: u8 = 0xe9;

values! {
    /// The type of a message: AUTH_TYPE in bits 15:8, AUTH_ID in bits 7:0.
    pub struct MessageId(u16) {
        /// AUTH_Negotiate: the host says what it can do.
        NEGOTIATE = 0x0000,
        /// AUTH_Failure2: the host fails the authentication.
        FAILURE2 = 0x00f0,
        /// AUTH_Failure1: the controller fails the authentication.
        FAILURE1 = 0x00f1,
        /// DH-HMAC-CHAP_Challenge, to the host.
        CHALLENGE = 0x0101,
        /// DH-HMAC-CHAP_Reply, of the host, with a challenge to the controller if it wants.
        REPLY = 0x0102,
        /// DH-HMAC-CHAP_Success1: the host is authenticated.
        SUCCESS1 = 0x0103,
        /// DH-HMAC-CHAP_Success2: the controller is, too.
        SUCCESS2 = 0x0104,
    }

    /// Why an authentication failed: the reason code explanation.
    pub struct Explanation(u8) {
        /// Authentication failed: a response is not the right one.
        FAILED = 0x01,
        /// Authentication protocol not usable.
        NOT_USABLE = 0x02,
        /// Secure channel concatenation mismatch.
        CONCATENATION = 0x03,
        /// Hash function not usable.
        HASH = 0x04,
        /// DH group not usable.
        GROUP = 0x05,
        /// Incorrect payload.
        PAYLOAD = 0x06,
        /// Incorrect protocol message.
        MESSAGE = 0x07,
    }
}

/// The authentication protocol identifier of DH-HMAC-CHAP.
pub const DHCHAP: u8 = 0x01;

/// The reason code of all failures: authentication failure.
pub const AUTHENTICATION_FAILURE: u8 = 0x01;

wire! {
    /// The beginning of all messages.
    pub struct Header: 6 {
        /// AUTH_TYPE: 00h for common messages, 01h for those of DH-HMAC-CHAP.
        pub kind: u8,
        /// AUTH_ID.
        pub id: u8,
        pub(crate) _reserved_2: U16,
        /// T_ID, which the host chooses.
        pub transaction: U16,
    }

    /// AUTH_Negotiate, followed by protocol descriptors.
    pub struct Negotiate: 8 {
        /// AUTH_Negotiate.
        pub header: Header,
        /// SC_C: 0 for no secure channel concatenation.
        pub concatenation: u8,
        /// NAPD: the number of protocol descriptors.
        pub protocols: u8,
    }

    /// The protocol descriptor of DH-HMAC-CHAP.
    pub struct Protocol: 64 {
        /// AUTHID: [`DHCHAP`].
        pub id: u8,
        pub(crate) _reserved_1: u8,
        /// HALEN: hash functions.
        pub hash_count: u8,
        /// DHLEN: DH groups.
        pub group_count: u8,
        /// HashIDs.
        pub hashes: [u8; 30],
        /// DHgIDs.
        pub groups: [u8; 30],
    }

    /// DH-HMAC-CHAP_Challenge, followed by the challenge and the DH value.
    pub struct Challenge: 16 {
        /// DH-HMAC-CHAP_Challenge.
        pub header: Header,
        /// HL: the length of the hash.
        pub hash_len: u8,
        pub(crate) _reserved_7: u8,
        /// HashID.
        pub hash: u8,
        /// DHgID.
        pub group: u8,
        /// DHVLEN.
        pub value_len: U16,
        /// SEQNUM: S1.
        pub sequence: U32,
    }

    /// DH-HMAC-CHAP_Reply, followed by the response, a challenge of as many bytes and the DH value.
    pub struct ReplyMessage: 16 {
        /// DH-HMAC-CHAP_Reply.
        pub header: Header,
        /// HL.
        pub hash_len: u8,
        pub(crate) _reserved_7: u8,
        /// CVALID: 1 if the controller is challenged.
        pub challenges: u8,
        pub(crate) _reserved_9: u8,
        /// DHVLEN.
        pub value_len: U16,
        /// SEQNUM: S2; 0 if the controller is not challenged.
        pub sequence: U32,
    }

    /// DH-HMAC-CHAP_Success1, followed by the controller's response if there is one.
    pub struct Success1: 16 {
        /// DH-HMAC-CHAP_Success1.
        pub header: Header,
        /// HL.
        pub hash_len: u8,
        pub(crate) _reserved_7: u8,
        /// RVALID: 1 if the response follows.
        pub responds: u8,
        pub(crate) _reserved_9: [u8; 7],
    }

    /// DH-HMAC-CHAP_Success2.
    pub struct Success2: 16 {
        /// DH-HMAC-CHAP_Success2.
        pub header: Header,
        pub(crate) _reserved_6: [u8; 10],
    }

    /// AUTH_Failure1 and AUTH_Failure2.
    pub struct Failure: 8 {
        /// AUTH_Failure1 or AUTH_Failure2.
        pub header: Header,
        /// The reason code: [`AUTHENTICATION_FAILURE`].
        pub reason: u8,
        /// Its explanation.
        pub explanation: u8,
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Explanation::FAILED => "a secret is not the right one",
            Explanation::NOT_USABLE => "no protocol that both sides have",
            Explanation::CONCATENATION => "secure channel concatenation is not for both sides",
            Explanation::HASH => "no hash function that both sides have",
            Explanation::GROUP => "no DH group that both sides have",
            Explanation::PAYLOAD => "a message that makes no sense",
            Explanation::MESSAGE => "a message that may not come now",
            Explanation(other) => return write!(f, "reason {other:#x}"),
        })
    }
}

impl Header {
    /// The header of a message.
    pub fn new(id: MessageId, transaction: u16) -> Self {
        let [kind, id] = id.0.to_be_bytes();
        Header { kind, id, transaction: transaction.into(), ..Header::zeroed() }
    }

    /// The type of the message.
    pub fn message(&self) -> MessageId {
        MessageId(u16::from_be_bytes([self.kind, self.id]))
    }
}

impl Failure {
    /// The message with which a side fails the authentication.
    pub fn new(id: MessageId, transaction: u16, explanation: Explanation) -> Self {
        let header = Header::new(id, transaction);
        Failure { header, reason: AUTHENTICATION_FAILURE, explanation: explanation.0 }
    }
}
