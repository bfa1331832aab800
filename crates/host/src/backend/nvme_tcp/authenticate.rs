//! Authentication of a connection, between Connect and everything else.
//!
//! Takes what Connect gave; gives a connection that both sides believe in. Keeps true: a host that
//! has a secret of the controller is not content with one that does not authenticate.
use super::queue_connection::{ConnectError, QueueConnection};
use crate::backend::nvme_tcp::address::Address;
use crate::secrets::{SecretsFileError, load_secrets};
use std::sync::Arc;
use zonal_nvme::auth::{AwaitChallenge, HostAuthError};
use zonal_nvme::wire::auth::{AuthCommand, SECURITY_PROTOCOL};
use zonal_nvme::wire::fabrics::{AUTH_SECURE_CHANNEL, AUTH_TRANSACTION};
use zonal_nvme::wire::opcode::{FABRICS, FabricsType};
use zonal_nvme::wire::sqe::PSDT_SGL;

/// Room for a message, in bytes: more than any has.
const MAX_MESSAGE: u32 = 4096;
/// The transaction's identifier: there is one on a connection.
const TRANSACTION: u16 = 1;

/// Why the two sides do not believe each other.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The secrets cannot be read.
    #[error(transparent)]
    Secrets(#[from] SecretsFileError),
    /// The host has nothing to authenticate with.
    #[error("the target wants hosts to authenticate, expected dhchap_secrets=FILE after ?")]
    Required,
    /// The host has secrets of others.
    #[error("found no secret of {0} among the secrets, expected one: the target wants it")]
    NoSecret(String),
    /// The controller is to prove who it is, and does not ask for anything.
    #[error("the target does not authenticate, and there is a secret that it should have")]
    NotOffered,
    /// A secure channel, which this host does not have.
    #[error("the target wants a secure channel (TLS), which there is none of here")]
    SecureChannel,
    /// One does not believe the other.
    #[error("authentication failed")]
    Failed(#[from] HostAuthError),
}

fn command(fctype: FabricsType, len: u32) -> AuthCommand {
    let mut command = AuthCommand::zeroed();
    (command.opcode, command.flags, command.fctype) = (FABRICS, PSDT_SGL, fctype.0);
    (command.specific_0, command.specific_1) = (1, 1);
    (command.protocol, command.length) = (SECURITY_PROTOCOL, len.into());
    command
}

impl QueueConnection {
    /// Authenticates as `result`, the result of Connect, wants it.
    ///
    /// # Errors
    /// Why it did not work out.
    pub(super) fn authenticate(
        &mut self,
        address: &Address,
        result: u64,
    ) -> Result<(), ConnectError> {
        let secrets = address.dhchap_secrets.as_deref().map(load_secrets);
        let config = secrets.transpose().map_err(AuthError::from)?;
        let host = &address.host_nqn;
        if result & AUTH_SECURE_CHANNEL != 0 {
            return Err(AuthError::SecureChannel.into());
        }
        if result & AUTH_TRANSACTION == 0 {
            let doubts = config.is_some_and(|config| config.secrets.requires_bidirectional(host));
            return if doubts { Err(AuthError::NotOffered.into()) } else { Ok(()) };
        }
        let config = Arc::new(config.ok_or(AuthError::Required)?);
        let begun = AwaitChallenge::begin(&config, host, &address.nqn, TRANSACTION);
        let (negotiate, waits) = begun.ok_or_else(|| AuthError::NoSecret(host.clone()))?;
        self.auth_send(negotiate)?;
        let challenge = self.auth_receive()?;
        let (reply, waits) = waits.take(&challenge).map_err(|error| self.send_failure2(error))?;
        self.auth_send(reply)?;
        let success1 = self.auth_receive()?;
        match waits.take(&success1).map_err(|error| self.send_failure2(error))? {
            Some(success2) => self.auth_send(success2),
            None => Ok(()),
        }
    }

    fn auth_send(&mut self, message: Vec<u8>) -> Result<(), ConnectError> {
        let len = u32::try_from(message.len()).expect("a message is short");
        let command = command(FabricsType::AUTH_SEND, len);
        self.execute("Authentication Send", command.into(), message, 0).map(drop)
    }

    fn auth_receive(&mut self) -> Result<Vec<u8>, ConnectError> {
        let command = command(FabricsType::AUTH_RECEIVE, MAX_MESSAGE);
        Ok(self.execute("Authentication Receive", command.into(), Vec::new(), MAX_MESSAGE)?.1)
    }

    fn send_failure2(&mut self, error: HostAuthError) -> ConnectError {
        if let HostAuthError::ControllerRejected { failure2, .. } = &error {
            // Whether it hears that or not, the connection ends.
            let _ = self.auth_send(failure2.clone());
        }
        AuthError::from(error).into()
    }
}
