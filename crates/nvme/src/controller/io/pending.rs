//! Commands whose bios are in flight.
use super::status::{check_compare, of_zone};
use crate::NvmeStatus;
use crate::controller::logs;
use crate::controller::namespace::Namespace;
use crate::controller::response::{Data, Response, SqHead};
use crate::controller::subsystem::Totals;
use crate::wire::Sqe;
use std::sync::atomic::Ordering;
use zonal_blk::{Buf, Completion, Sector, Status};

/// What the completion of a bio means for its command.
#[derive(Debug)]
pub(super) enum CompletionKind {
    /// Its status is the command's.
    Plain,
    /// Its data go to the host.
    Read,
    /// It wrote this many sectors.
    Write(u32),
    /// As [`CompletionKind::Write`]; the sector written to is the command's result.
    Append(u32),
    /// Its data must equal these.
    Compare(Buf),
}

impl CompletionKind {
    /// Bytes of the buffer that the command keeps.
    pub fn bytes(&self) -> usize {
        if let CompletionKind::Compare(expected) = self { expected.capacity() } else { 0 }
    }
}

#[derive(Debug)]
pub(super) struct Pending {
    pub sqe: Sqe,
    kind: CompletionKind,
    /// Bios in flight.
    parts: usize,
    /// Bytes of the buffers.
    pub bytes: usize,
    status: NvmeStatus,
    result: u64,
    /// For the host.
    data: Option<Buf>,
    /// The buffer of the data from the host, when the device has finished with it.
    received: Option<Buf>,
}

impl Pending {
    pub fn new(sqe: Sqe, kind: CompletionKind, parts: usize, bytes: usize) -> Self {
        let status = NvmeStatus::SUCCESS;
        Pending { sqe, kind, parts, bytes, status, result: 0, data: None, received: None }
    }

    /// Handles the completion of one of the bios. Returns its buffer if that is not needed any more.
    pub fn complete(&mut self, namespace: &Namespace, mut completion: Completion) -> Option<Buf> {
        self.parts -= 1;
        if let CompletionKind::Write(_) | CompletionKind::Append(_) = self.kind {
            self.received = completion.buf.take();
        }
        if !self.status.is_success() {
            return completion.buf;
        }
        if completion.status != Status::Ok {
            self.status = of_zone(namespace, &self.sqe, completion.status);
            return completion.buf;
        }
        match &self.kind {
            CompletionKind::Plain | CompletionKind::Write(_) => {}
            CompletionKind::Read => {
                self.data = completion.buf;
                return None;
            }
            CompletionKind::Append(_) => self.result = namespace.to_blocks(completion.sector),
            CompletionKind::Compare(expected) => {
                self.status = check_compare(expected, completion.buf.as_ref());
            }
        }
        completion.buf
    }

    pub fn is_done(&self) -> bool {
        self.parts == 0
    }

    pub fn status(&self) -> Result<(), NvmeStatus> {
        if self.status.is_success() { Ok(()) } else { Err(self.status) }
    }

    /// Adds the command to the totals of the SMART log page.
    pub fn count(&self, totals: &Totals) {
        if self.status == NvmeStatus::UNRECOVERED_READ.do_not_retry()
            || self.status == NvmeStatus::WRITE_FAULT
        {
            totals.media_errors.fetch_add(1, Ordering::Relaxed);
        }
        match self.kind {
            CompletionKind::Read => {
                let len = self.data.as_ref().map_or(0, |data| data.len() as u64 / 512);
                logs::account(&totals.reads, &totals.sectors_read, Sector(len));
            }
            CompletionKind::Write(len) | CompletionKind::Append(len)
                if self.status.is_success() =>
            {
                logs::account(&totals.writes, &totals.sectors_written, Sector(len.into()));
            }
            _ => {}
        }
    }

    pub fn response(self, head: &SqHead) -> Response {
        let received = match self.kind {
            CompletionKind::Compare(expected) => Some(expected),
            _ => self.received,
        };
        let cqe = head.complete(self.sqe.cid.get(), self.status, self.result);
        let data = self.data.filter(|_| self.status.is_success());
        Response { cqe, data: data.map(Data::Buf), received }
    }
}
