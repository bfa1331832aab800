//! The controller's side of an authentication.
//!
//! A message that is out of sequence or invalid fails the authentication, and with it the connection.
//! A host that authenticates again stays authenticated until that fails.
use super::response::{Responder, ResponseInput};
use super::secret::HostSecrets;
use super::{AuthConfig, Group, Hash, KeyPair};
use crate::wire::auth::{
    Challenge, DHCHAP, Explanation, Failure, Header, MessageId, Negotiate, Protocol, ReplyMessage,
    Success1,
};
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

/// Authentication state of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthState {
    /// Not authenticated yet.
    Unauthenticated,
    /// Authenticated, or not required to be.
    Authenticated,
    /// Authentication failed: the connection has to be closed.
    Failed(Explanation),
}

/// The controller's side of one authentication.
pub struct ControllerAuth {
    config: Arc<AuthConfig>,
    host: String,
    subsystem: String,
    state: State,
    /// The host has authenticated before.
    authenticated: bool,
}

/// The message that is expected next.
enum State {
    /// Negotiate from the host.
    Negotiate,
    /// The host has to fetch the challenge.
    Challenge(Negotiated),
    /// Reply from the host.
    Reply(SentChallenge),
    /// The host has to fetch this Success1.
    Success1 { transaction: u16, message: Vec<u8>, responds: bool },
    /// Success2 from the host, which has challenged the controller.
    Success2 { transaction: u16 },
    /// None, or another Negotiate.
    Done,
    /// The host has to fetch the reason of the failure.
    Failure1 { transaction: u16, explanation: Explanation },
    /// None.
    Failed(Explanation),
}

/// The result of the negotiation.
struct Negotiated {
    transaction: u16,
    hash: Hash,
    group: Group,
}

/// The challenge of the host.
struct SentChallenge {
    chosen: Negotiated,
    challenge: Vec<u8>,
    sequence: u32,
    pair: Option<KeyPair>,
}

impl ControllerAuth {
    /// For a host and a subsystem with these NQNs. `None` if there is no secret for the host.
    pub fn new(config: &Arc<AuthConfig>, host: &str, subsystem: &str) -> Option<Self> {
        config.secrets.has(host).then(|| ControllerAuth {
            config: Arc::clone(config),
            host: host.to_owned(),
            subsystem: subsystem.to_owned(),
            state: State::Negotiate,
            authenticated: false,
        })
    }

    /// The state of the host.
    pub fn auth_state(&self) -> AuthState {
        match self.state {
            State::Failed(explanation) => AuthState::Failed(explanation),
            State::Failure1 { .. } => AuthState::Unauthenticated,
            _ if self.authenticated => AuthState::Authenticated,
            _ => AuthState::Unauthenticated,
        }
    }

    /// Handles the message of Authentication Send.
    pub fn auth_send(&mut self, message: &[u8]) {
        let header = Header::read_from_prefix(message).ok().map(|(header, _)| header);
        let transaction = header.map_or(0, |header| header.transaction.get());
        let id = header.map(|header| header.message());
        self.state = match (std::mem::replace(&mut self.state, State::Negotiate), id) {
            (State::Failed(explanation), _) => State::Failed(explanation),
            (_, Some(MessageId::FAILURE2)) => State::Failed(explanation(message)),
            (State::Failure1 { explanation, .. }, _) => State::Failed(explanation),
            (State::Negotiate | State::Done, Some(MessageId::NEGOTIATE)) => self
                .negotiate(message)
                .map_or_else(|why| failure(transaction, why), State::Challenge),
            (State::Reply(asked), Some(MessageId::REPLY))
                if asked.chosen.transaction == transaction =>
            {
                self.reply(&asked, message).unwrap_or_else(|why| failure(transaction, why))
            }
            (State::Success2 { transaction: ours }, Some(MessageId::SUCCESS2))
                if ours == transaction =>
            {
                self.done()
            }
            (_, None) => failure(0, Explanation::PAYLOAD),
            _ => failure(transaction, Explanation::MESSAGE),
        };
    }

    /// The message for Authentication Receive. `None` if there is none, which is an error of the host,
    /// or if it is longer than the allocation length (AL).
    pub fn auth_receive(&mut self, allocation_len: usize) -> Option<Vec<u8>> {
        let (message, next) = match std::mem::replace(&mut self.state, State::Negotiate) {
            State::Challenge(chosen) => {
                let (message, asked) = self.challenge(chosen);
                (message, State::Reply(asked))
            }
            State::Success1 { transaction, message, responds } => {
                let next = if responds { State::Success2 { transaction } } else { self.done() };
                (message, next)
            }
            State::Failure1 { transaction, explanation } => {
                let failure = Failure::new(MessageId::FAILURE1, transaction, explanation);
                (failure.as_bytes().to_vec(), State::Failed(explanation))
            }
            State::Failed(explanation) => (Vec::new(), State::Failed(explanation)),
            _ => (Vec::new(), State::Failed(Explanation::MESSAGE)),
        };
        let fits = !message.is_empty() && message.len() <= allocation_len;
        self.state = if fits || matches!(next, State::Failed(_)) {
            next
        } else {
            State::Failed(Explanation::PAYLOAD)
        };
        fits.then_some(message)
    }

    fn done(&mut self) -> State {
        self.authenticated = true;
        State::Done
    }

    fn negotiate(&self, message: &[u8]) -> Result<Negotiated, Explanation> {
        let (negotiate, mut rest) =
            Negotiate::read_from_prefix(message).map_err(|_| Explanation::PAYLOAD)?;
        if negotiate.concatenation != 0 {
            return Err(Explanation::CONCATENATION);
        }
        for _ in 0..negotiate.protocols {
            let (protocol, behind) =
                Protocol::read_from_prefix(rest).map_err(|_| Explanation::PAYLOAD)?;
            if protocol.id == DHCHAP {
                return self.choose(negotiate.header.transaction.get(), &protocol);
            }
            rest = behind;
        }
        Err(Explanation::NOT_USABLE)
    }

    /// The first of our list that the host offers.
    fn choose(&self, transaction: u16, protocol: &Protocol) -> Result<Negotiated, Explanation> {
        let hashes = protocol.hashes.get(..usize::from(protocol.hash_count));
        let groups = protocol.groups.get(..usize::from(protocol.group_count));
        let (Some(hashes), Some(groups)) = (hashes, groups) else {
            return Err(Explanation::PAYLOAD);
        };
        let hash = self.config.hashes.iter().find(|hash| hashes.contains(&(**hash as u8)));
        let group = self.config.groups.iter().find(|group| groups.contains(&(**group as u8)));
        let hash = *hash.ok_or(Explanation::HASH)?;
        Ok(Negotiated { transaction, hash, group: *group.ok_or(Explanation::GROUP)? })
    }

    fn challenge(&self, chosen: Negotiated) -> (Vec<u8>, SentChallenge) {
        let challenge = self.config.bytes(chosen.hash.size());
        let sequence = self.config.sequence();
        let pair = KeyPair::new(chosen.group, &self.config.random);
        let header = Header::new(MessageId::CHALLENGE, chosen.transaction);
        let mut fixed = Challenge { header, ..Challenge::zeroed() };
        fixed.hash_len = chosen.hash.size_byte();
        (fixed.hash, fixed.group) = (chosen.hash as u8, chosen.group as u8);
        (fixed.value_len, fixed.sequence) = (chosen.group.size().into(), sequence.into());
        let public = pair.as_ref().map_or(&[][..], |pair| &pair.public);
        let message = [fixed.as_bytes(), &challenge, public].concat();
        (message, SentChallenge { chosen, challenge, sequence, pair })
    }

    fn secrets(&self) -> &HostSecrets {
        self.config.secrets.get(&self.host).expect("looked for when this was made")
    }

    fn reply(&self, asked: &SentChallenge, message: &[u8]) -> Result<State, Explanation> {
        let Negotiated { transaction, hash, group } = asked.chosen;
        let (reply, rest) =
            ReplyMessage::read_from_prefix(message).map_err(|_| Explanation::PAYLOAD)?;
        let value_len = usize::from(group.size());
        let whole = rest.len() >= 2 * hash.size() + value_len;
        if reply.hash_len != hash.size_byte() || reply.value_len.get() != group.size() || !whole {
            return Err(Explanation::PAYLOAD);
        }
        let (response, rest) = rest.split_at(hash.size());
        let (counter, rest) = rest.split_at(hash.size());
        let session = match &asked.pair {
            Some(pair) => Some(pair.shared(&rest[..value_len]).ok_or(Explanation::PAYLOAD)?),
            None => None,
        };
        let question = |responder, challenge, sequence| ResponseInput {
            responder,
            hash,
            challenge,
            session: session.as_deref().map(Vec::as_slice),
            sequence,
            transaction,
            host: &self.host,
            subsystem: &self.subsystem,
        };
        let asked_host = question(Responder::Host, &asked.challenge, asked.sequence);
        if !asked_host.verify(&self.secrets().host.key(&self.host), response) {
            return Err(Explanation::FAILED);
        }
        let responds = reply.challenges != 0;
        let mut success = Success1::zeroed();
        success.header = Header::new(MessageId::SUCCESS1, transaction);
        success.hash_len = hash.size_byte();
        let mut message = success.as_bytes().to_vec();
        if responds {
            // The same challenge back would be our own one, reflected.
            let secret = self.secrets().controller.as_ref().filter(|_| counter != asked.challenge);
            let secret = secret.ok_or(Explanation::FAILED)?.key(&self.subsystem);
            let ours = question(Responder::Controller, counter, reply.sequence.get());
            success.responds = 1;
            message = [success.as_bytes(), &ours.respond(&secret)].concat();
        }
        Ok(State::Success1 { transaction, message, responds })
    }
}

fn failure(transaction: u16, explanation: Explanation) -> State {
    State::Failure1 { transaction, explanation }
}

/// Why the host failed the authentication.
fn explanation(message: &[u8]) -> Explanation {
    let failure = Failure::read_from_prefix(message);
    failure.map_or(Explanation::PAYLOAD, |(failure, _)| Explanation(failure.explanation))
}
