//! Whether a queue takes commands: its host may have to say who it is first.
//!
//! Takes the commands of a queue before anybody else; gives the outcome of those that authenticate,
//! and of those that come too early. Keeps true: until its host is known a queue executes nothing
//! (Base section 6.3, AUTHREQ).
use super::reply::{INVALID_FIELD, Outcome, Reply};
use crate::NvmeStatus;
use crate::auth::{ControllerAuth, Standing};
use crate::wire::Sqe;
use crate::wire::auth::{AuthCommand, SECURITY_PROTOCOL};
use crate::wire::opcode::{FABRICS, FabricsType};

/// The most room for a message that is filled, in bytes.
const MAX_ROOM: u32 = 64 << 10;

/// The gate of a queue; open from the beginning where nobody has to authenticate.
pub(super) struct Gate(Option<Box<ControllerAuth>>);

impl Gate {
    pub const OPEN: Gate = Gate(None);

    pub fn guarded(auth: ControllerAuth) -> Self {
        Gate(Some(Box::new(auth)))
    }

    pub fn standing(&self) -> Standing {
        self.0.as_ref().map_or(Standing::Proved, |auth| auth.standing())
    }

    pub fn is_open(&self) -> bool {
        self.standing() == Standing::Proved
    }

    /// The outcome of a command that does not get further than here; `None` for the others.
    pub fn check(&mut self, sqe: &Sqe, data: &[u8]) -> Option<Outcome> {
        let auth = self.0.as_mut()?;
        let command = AuthCommand::from(*sqe);
        match FabricsType(command.fctype) {
            FabricsType::AUTH_SEND if sqe.opcode == FABRICS => Some(send(auth, &command, data)),
            FabricsType::AUTH_RECEIVE if sqe.opcode == FABRICS => Some(receive(auth, &command)),
            _ if auth.standing() == Standing::Proved => None,
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

fn send(auth: &mut ControllerAuth, command: &AuthCommand, data: &[u8]) -> Outcome {
    check_form(command)?;
    let message = data.get(..command.length.get() as usize);
    auth.send(message.ok_or(NvmeStatus::SGL_LENGTH.do_not_retry())?);
    Ok(Reply::DONE)
}

fn receive(auth: &mut ControllerAuth, command: &AuthCommand) -> Outcome {
    check_form(command)?;
    let room = command.length.get().min(command.dptr.length.get()).min(MAX_ROOM) as usize;
    let mut message = auth.receive(room).ok_or(NvmeStatus::SEQUENCE.do_not_retry())?;
    message.resize(room, 0);
    Ok(Reply::data(message))
}
