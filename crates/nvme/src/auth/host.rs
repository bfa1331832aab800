//! The host's side of an authentication, one type for each state.
//!
//! A host that has a secret of the controller requires the controller to authenticate too.
use super::response::{Responder, ResponseInput};
use super::secret::HostSecrets;
use super::{AuthConfig, Group, Hash, KeyPair};
use crate::wire::auth::{
    Challenge, DHCHAP, Explanation, Failure, Header, MessageId, Negotiate, Protocol, ReplyMessage,
    Success1, Success2,
};
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};
use zeroize::Zeroizing;

/// Why a host does not connect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostAuthError {
    /// The controller failed the authentication.
    #[error("the controller refuses the host: {0}")]
    Refused(Explanation),
    /// The host fails the authentication: the controller's message is invalid or its response wrong.
    #[error("{what}")]
    ControllerRejected {
        /// The error.
        what: &'static str,
        /// AUTH_Failure2, to be sent.
        failure2: Vec<u8>,
    },
}

/// The NQNs, and the host's configuration.
struct Host {
    config: Arc<AuthConfig>,
    host: String,
    subsystem: String,
    transaction: u16,
}

/// A host that has sent Negotiate.
pub struct AwaitChallenge(Host);

/// A host that has sent Reply.
pub struct AwaitSuccess {
    host: Host,
    hash: Hash,
    /// The challenge of the controller.
    asked: Option<SentChallenge>,
}

struct SentChallenge {
    challenge: Vec<u8>,
    sequence: u32,
    session: Option<Zeroizing<Vec<u8>>>,
}

impl Host {
    fn wrong(&self, explanation: Explanation, what: &'static str) -> HostAuthError {
        let failure = Failure::new(MessageId::FAILURE2, self.transaction, explanation);
        HostAuthError::ControllerRejected { what, failure2: failure.as_bytes().to_vec() }
    }

    fn secrets(&self) -> &HostSecrets {
        self.config.secrets.get(&self.host).expect("looked for at the beginning")
    }

    fn question<'a>(
        &'a self,
        responder: Responder,
        hash: Hash,
        challenge: &'a [u8],
        session: Option<&'a Zeroizing<Vec<u8>>>,
        sequence: u32,
    ) -> ResponseInput<'a> {
        ResponseInput {
            responder,
            hash,
            challenge,
            session: session.map(|session| &session[..]),
            sequence,
            transaction: self.transaction,
            host: &self.host,
            subsystem: &self.subsystem,
        }
    }

    /// Checks that a message is the expected one.
    fn check(&self, message: &[u8], wanted: MessageId) -> Result<(), HostAuthError> {
        let (header, _) = Header::read_from_prefix(message)
            .map_err(|_| self.wrong(Explanation::PAYLOAD, "a message of less than its header"))?;
        if header.message() == MessageId::FAILURE1 {
            let failure = Failure::read_from_prefix(message);
            let why = failure.map_or(0, |(failure, _)| failure.explanation);
            return Err(HostAuthError::Refused(Explanation(why)));
        }
        if header.message() != wanted || header.transaction.get() != self.transaction {
            let what = "a message of another kind or transaction than is to come";
            return Err(self.wrong(Explanation::MESSAGE, what));
        }
        Ok(())
    }
}

impl AwaitChallenge {
    /// Starts an authentication. Returns Negotiate, to be sent; `None` if the host has no secret.
    pub fn begin(
        config: &Arc<AuthConfig>,
        host: &str,
        subsystem: &str,
        transaction: u16,
    ) -> Option<(Vec<u8>, Self)> {
        if !config.secrets.has(host) {
            return None;
        }
        let header = Header::new(MessageId::NEGOTIATE, transaction);
        let negotiate = Negotiate { header, concatenation: 0, protocols: 1 };
        let mut protocol = Protocol { id: DHCHAP, ..Protocol::zeroed() };
        for (to, hash) in protocol.hashes.iter_mut().zip(&config.hashes) {
            *to = *hash as u8;
            protocol.hash_count += 1;
        }
        for (to, group) in protocol.groups.iter_mut().zip(&config.groups) {
            *to = *group as u8;
            protocol.group_count += 1;
        }
        let message = [negotiate.as_bytes(), protocol.as_bytes()].concat();
        let (host, subsystem) = (host.to_owned(), subsystem.to_owned());
        let host = Host { config: Arc::clone(config), host, subsystem, transaction };
        Some((message, AwaitChallenge(host)))
    }

    /// Handles the challenge. Returns Reply, to be sent.
    ///
    /// # Errors
    /// Why the authentication failed.
    pub fn take(self, message: &[u8]) -> Result<(Vec<u8>, AwaitSuccess), HostAuthError> {
        let host = self.0;
        host.check(message, MessageId::CHALLENGE)?;
        let payload = |what| host.wrong(Explanation::PAYLOAD, what);
        let (fixed, rest) = Challenge::read_from_prefix(message)
            .map_err(|_| payload("a challenge of less than its fixed part"))?;
        let hash = Hash::from_id(fixed.hash).filter(|hash| host.config.hashes.contains(hash));
        let hash = hash.filter(|hash| fixed.hash_len == hash.size_byte());
        let hash = hash
            .ok_or_else(|| host.wrong(Explanation::HASH, "a hash function that was not offered"))?;
        let group = Group::from_id(fixed.group);
        let group = group
            .filter(|group| host.config.groups.contains(group))
            .ok_or_else(|| host.wrong(Explanation::GROUP, "a DH group that was not offered"))?;
        let value_len = usize::from(group.size());
        if fixed.value_len.get() != group.size() || rest.len() < hash.size() + value_len {
            return Err(payload("a challenge of another length than its parts have"));
        }
        let (challenge, rest) = rest.split_at(hash.size());
        let pair = KeyPair::new(group, &host.config.random);
        let session = match &pair {
            Some(pair) => Some(
                pair.shared(&rest[..value_len])
                    .ok_or_else(|| payload("a DH value that is none of the group"))?,
            ),
            None => None,
        };
        let sequence = fixed.sequence.get();
        let question = host.question(Responder::Host, hash, challenge, session.as_ref(), sequence);
        let response = question.respond(&host.secrets().host.key(&host.host));
        let mut reply = ReplyMessage::zeroed();
        reply.header = Header::new(MessageId::REPLY, host.transaction);
        (reply.hash_len, reply.value_len) = (hash.size_byte(), group.size().into());
        let mut challenge = vec![0; hash.size()];
        let mut asked = None;
        if host.config.secrets.requires_bidirectional(&host.host) {
            let sequence = host.config.sequence();
            challenge = host.config.bytes(hash.size());
            (reply.challenges, reply.sequence) = (1, sequence.into());
            asked = Some(SentChallenge { challenge: challenge.clone(), sequence, session });
        }
        let public = pair.as_ref().map_or(&[][..], |pair| &pair.public);
        let message = [reply.as_bytes(), &response, &challenge, public].concat();
        Ok((message, AwaitSuccess { host, hash, asked }))
    }
}

impl AwaitSuccess {
    /// Handles Success1. Returns Success2, to be sent, if the controller was challenged.
    ///
    /// # Errors
    /// Why the authentication failed.
    pub fn take(self, message: &[u8]) -> Result<Option<Vec<u8>>, HostAuthError> {
        let AwaitSuccess { host, hash, asked } = self;
        host.check(message, MessageId::SUCCESS1)?;
        let (fixed, rest) = Success1::read_from_prefix(message).map_err(|_| {
            host.wrong(Explanation::PAYLOAD, "a success of less than its fixed part")
        })?;
        if fixed.hash_len != hash.size_byte() {
            return Err(host.wrong(Explanation::PAYLOAD, "a hash of another length than agreed on"));
        }
        let (Some(asked), Some(secret)) = (asked, &host.secrets().controller) else {
            return Ok(None);
        };
        let response = rest.get(..hash.size()).filter(|_| fixed.responds != 0);
        let SentChallenge { challenge, sequence, session } = &asked;
        let question =
            host.question(Responder::Controller, hash, challenge, session.as_ref(), *sequence);
        let key = secret.key(&host.subsystem);
        if !response.is_some_and(|response| question.verify(&key, response)) {
            return Err(host.wrong(Explanation::FAILED, "the controller does not have its secret"));
        }
        let header = Header::new(MessageId::SUCCESS2, host.transaction);
        Ok(Some(Success2 { header, ..Success2::zeroed() }.as_bytes().to_vec()))
    }
}
