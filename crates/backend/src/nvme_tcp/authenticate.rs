//! Authentication of a connection (DH-HMAC-CHAP), right after Connect.
//!
//! A host that has a secret of the controller refuses one that does not authenticate.
use super::address::Address;
use super::error::{AuthError, ConnectError};
use super::queue_connection::QueueConnection;
use super::secrets::load_secrets;
use std::sync::Arc;
use zonal_nvme::auth::{AwaitChallenge, HostAuthError};
use zonal_nvme::wire::auth::{AuthCommand, SECURITY_PROTOCOL};
use zonal_nvme::wire::fabrics::{AUTH_SECURE_CHANNEL, AUTH_TRANSACTION};
use zonal_nvme::wire::opcode::{FABRICS, FabricsType};
use zonal_nvme::wire::queue::PSDT_SGL;

/// Allocation length for a message, in bytes: longer than any.
const MAX_MESSAGE: u32 = 4096;
/// T_ID: a connection has one transaction.
const TRANSACTION: u16 = 1;

fn command(fctype: FabricsType, len: u32) -> AuthCommand {
    let mut command = AuthCommand::zeroed();
    (command.opcode, command.flags, command.fctype) = (FABRICS, PSDT_SGL, fctype.0);
    (command.specific_0, command.specific_1) = (1, 1);
    (command.protocol, command.length) = (SECURITY_PROTOCOL, len.into());
    command
}

impl QueueConnection {
    /// Authenticates if `result`, that of Connect, requires it.
    ///
    /// # Errors
    /// Why it failed.
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
            let required = config.is_some_and(|config| config.secrets.requires_bidirectional(host));
            return if required { Err(AuthError::NotOffered.into()) } else { Ok(()) };
        }
        let config = Arc::new(config.ok_or(AuthError::Required)?);
        let begun = AwaitChallenge::begin(&config, host, &address.nqn, TRANSACTION);
        let (negotiate, state) = begun.ok_or_else(|| AuthError::NoSecret(host.clone()))?;
        self.auth_send(negotiate)?;
        let challenge = self.auth_receive()?;
        let (reply, state) = state.take(&challenge).map_err(|error| self.send_failure2(error))?;
        self.auth_send(reply)?;
        let success1 = self.auth_receive()?;
        match state.take(&success1).map_err(|error| self.send_failure2(error))? {
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
            // Best effort: the connection is closed in any case.
            let _ = self.auth_send(failure2.clone());
        }
        AuthError::from(error).into()
    }
}
