//! Authentication of a queue. Until its host has authenticated, a queue executes nothing else (Base
//! section 6.3, AUTHREQ).
use super::response::{CommandOutput, CommandResult, INVALID_FIELD};
use crate::NvmeStatus;
use crate::auth::{AuthState, ControllerAuth};
use crate::wire::Sqe;
use crate::wire::auth::{AuthCommand, SECURITY_PROTOCOL};
use crate::wire::opcode::{FABRICS, FabricsType};

/// Maximum length of a message for the host, in bytes. The longest is a challenge with a DH value of
/// 1024 bytes.
const MAX_MESSAGE: u32 = 4096;

/// Authentication of a queue; `None` if it is not required.
pub(super) struct QueueAuth(Option<Box<ControllerAuth>>);

impl QueueAuth {
    pub const NOT_REQUIRED: QueueAuth = QueueAuth(None);

    pub fn required(auth: ControllerAuth) -> Self {
        QueueAuth(Some(Box::new(auth)))
    }

    pub fn auth_state(&self) -> AuthState {
        self.0.as_ref().map_or(AuthState::Authenticated, |auth| auth.auth_state())
    }

    pub fn is_authenticated(&self) -> bool {
        self.auth_state() == AuthState::Authenticated
    }

    /// The result of a command for authentication, or that requires it; `None` for others.
    pub fn check(&mut self, sqe: &Sqe, data: &[u8]) -> Option<CommandResult> {
        let auth = self.0.as_mut()?;
        let command = AuthCommand::from(*sqe);
        match FabricsType(command.fctype) {
            FabricsType::AUTH_SEND if sqe.opcode == FABRICS => Some(send(auth, &command, data)),
            FabricsType::AUTH_RECEIVE if sqe.opcode == FABRICS => Some(receive(auth, &command)),
            _ if auth.auth_state() == AuthState::Authenticated => None,
            _ => Some(Err(NvmeStatus::AUTH_REQUIRED.do_not_retry())),
        }
    }
}

fn check_form(command: &AuthCommand) -> Result<(), NvmeStatus> {
    let specific = (command.specific_0, command.specific_1);
    if command.protocol != SECURITY_PROTOCOL || specific != (1, 1) || command.length.get() == 0 {
        return Err(INVALID_FIELD);
    }
    Ok(())
}

fn send(auth: &mut ControllerAuth, command: &AuthCommand, data: &[u8]) -> CommandResult {
    check_form(command)?;
    let message = data.get(..command.length.get() as usize);
    auth.auth_send(message.ok_or(NvmeStatus::SGL_LENGTH.do_not_retry())?);
    Ok(CommandOutput::EMPTY)
}

fn receive(auth: &mut ControllerAuth, command: &AuthCommand) -> CommandResult {
    check_form(command)?;
    let len = command.length.get().min(command.dptr.length.get()).min(MAX_MESSAGE) as usize;
    let mut message = auth.auth_receive(len).ok_or(NvmeStatus::SEQUENCE.do_not_retry())?;
    message.resize(len, 0);
    Ok(CommandOutput::data(message))
}
