//! Whether a queue takes commands: its host may have to say who it is first.
//!
//! Takes the commands of a queue before anybody else; gives the outcome of those that authenticate,
//! and of those that come too early. Keeps true: until its host is known a queue executes nothing
//! (Base section 6.3, AUTHREQ).
use super::response::{CommandOutput, CommandResult, INVALID_FIELD};
use crate::NvmeStatus;
use crate::auth::{AuthState, ControllerAuth};
use crate::wire::Sqe;
use crate::wire::auth::{AuthCommand, SECURITY_PROTOCOL};
use crate::wire::opcode::{FABRICS, FabricsType};

/// The most room for a message that is filled, in bytes.
const MAX_ROOM: u32 = 64 << 10;

/// The gate of a queue; open from the beginning where nobody has to authenticate.
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

    /// The outcome of a command that does not get further than here; `None` for the others.
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
    auth.send(message.ok_or(NvmeStatus::SGL_LENGTH.do_not_retry())?);
    Ok(CommandOutput::EMPTY)
}

fn receive(auth: &mut ControllerAuth, command: &AuthCommand) -> CommandResult {
    check_form(command)?;
    let room = command.length.get().min(command.dptr.length.get()).min(MAX_ROOM) as usize;
    let mut message = auth.receive(room).ok_or(NvmeStatus::SEQUENCE.do_not_retry())?;
    message.resize(room, 0);
    Ok(CommandOutput::data(message))
}
