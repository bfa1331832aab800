//! Completions of commands, and the submission queue head that they report.
use crate::NvmeStatus;
use crate::wire::fabrics::{ConnectCommand, DISABLE_SQ_FLOW, SQ_FLOW_DISABLED};
use crate::wire::{Cqe, Sqe};
use zonal_blk::Buf;

/// The completion of a command.
#[derive(Debug)]
pub struct Response {
    /// The completion queue entry.
    pub cqe: Cqe,
    /// Data for the host, to be sent before the completion.
    pub data: Option<Data>,
    /// The buffer that the command's data were received in, for reuse.
    pub received: Option<Buf>,
}

impl Response {
    /// A response without data.
    pub fn new(cqe: Cqe) -> Self {
        Response { cqe, data: None, received: None }
    }
}

/// Data for the host.
#[derive(Debug)]
pub enum Data {
    /// A structure.
    Bytes(Vec<u8>),
    /// Data that were read.
    Buf(Buf),
}

impl std::ops::Deref for Data {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Data::Bytes(bytes) => bytes,
            Data::Buf(buf) => buf,
        }
    }
}

/// The output of a command that succeeds.
#[derive(Debug, Default)]
pub(super) struct CommandOutput {
    pub result: u64,
    pub data: Option<Vec<u8>>,
}

impl CommandOutput {
    /// No result, no data.
    pub const EMPTY: CommandOutput = CommandOutput { result: 0, data: None };

    /// A result in dwords 0 and 1.
    pub fn result(result: u64) -> Self {
        CommandOutput { result, data: None }
    }

    /// Data for the host.
    pub fn data(data: Vec<u8>) -> Self {
        CommandOutput { result: 0, data: Some(data) }
    }
}

/// Zeroes for the host, as many as it chose.
///
/// # Errors
/// There is no memory for them.
pub(super) fn zeroes(len: usize) -> Result<Vec<u8>, NvmeStatus> {
    let mut data = Vec::new();
    data.try_reserve_exact(len).map_err(|_| NvmeStatus::INTERNAL)?;
    data.resize(len, 0);
    Ok(data)
}

/// The result of a command that completes immediately.
pub(super) type CommandResult = Result<CommandOutput, NvmeStatus>;

/// Invalid Field in Command, which a retry would get again.
pub(super) const INVALID_FIELD: NvmeStatus = NvmeStatus::INVALID_FIELD.do_not_retry();

/// The head of a submission queue (Base section 3.3.3.2, SQHD).
#[derive(Clone, Debug)]
pub(super) struct SqHead {
    head: u16,
    /// Entries.
    size: u32,
    /// The host does without flow control of the queue: SQHD is reserved.
    disabled: bool,
}

impl SqHead {
    /// For a queue in memory, whose owner knows the head.
    pub const fn unknown() -> Self {
        SqHead { head: 0, size: 1, disabled: true }
    }

    /// For the queue of a Connect, which is its first entry.
    pub fn connected(command: &ConnectCommand) -> Self {
        let disabled = command.attributes & DISABLE_SQ_FLOW != 0;
        let mut head = SqHead { head: 0, size: u32::from(command.sqsize.get()) + 1, disabled };
        head.advance();
        head
    }

    /// The completion of Connect.
    pub fn complete_connect(&self, cid: u16, status: NvmeStatus, result: u64) -> Cqe {
        let mut cqe = self.complete(cid, status, result);
        if self.disabled && status.is_success() {
            cqe.sqhd = SQ_FLOW_DISABLED.into();
        }
        cqe
    }

    /// Consumes an entry.
    pub fn advance(&mut self) {
        let next = (u32::from(self.head) + 1) % self.size;
        self.head = u16::try_from(next).expect("a head is less than the queue's size");
    }

    /// The completion of command `cid`.
    pub fn complete(&self, cid: u16, status: NvmeStatus, result: u64) -> Cqe {
        let mut cqe = Cqe::new(cid, status).with_result(result);
        cqe.sqhd = if self.disabled { 0 } else { self.head }.into();
        cqe
    }

    /// The response to a command, whose host has a buffer of `room` bytes: longer data are an error.
    pub fn response(&self, sqe: &Sqe, room: u32, result: CommandResult) -> Response {
        let cid = sqe.cid.get();
        let failed = |status| Response::new(self.complete(cid, status, 0));
        match result {
            Ok(CommandOutput { data: Some(data), .. }) if data.len() as u64 > room.into() => {
                failed(NvmeStatus::SGL_LENGTH.do_not_retry())
            }
            Ok(CommandOutput { result, data }) => {
                let cqe = self.complete(cid, NvmeStatus::SUCCESS, result);
                Response { data: data.map(Data::Bytes), ..Response::new(cqe) }
            }
            Err(status) => failed(status),
        }
    }
}
