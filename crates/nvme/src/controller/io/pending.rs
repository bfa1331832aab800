//! Commands whose bios are on their way.
use super::status::{check_compare, of_zone};
use crate::NvmeStatus;
use crate::controller::logs;
use crate::controller::namespace::Namespace;
use crate::controller::response::{Data, Response, SqHead};
use crate::controller::subsystem::Totals;
use crate::wire::Sqe;
use std::sync::atomic::Ordering;
use zonal_blk::{Buf, Completion, Sector, Status};

/// What is done with a bio's completion.
#[derive(Debug)]
pub(super) enum Kind {
    /// Its status is the command's.
    Plain,
    /// Its data are the host's.
    Read,
    /// It wrote so many sectors.
    Write(u32),
    /// As [`Kind::Write`]; where it landed is the command's result.
    Append(u32),
    /// Its data must be these.
    Compare(Buf),
}

impl Kind {
    /// Bytes of the buffer that is kept for it.
    pub fn bytes(&self) -> usize {
        if let Kind::Compare(expected) = self { expected.capacity() } else { 0 }
    }
}

#[derive(Debug)]
pub(super) struct Pending {
    pub sqe: Sqe,
    kind: Kind,
    /// Bios that have not ended.
    parts: usize,
    /// Bytes of its buffers.
    pub bytes: usize,
    status: NvmeStatus,
    result: u64,
    data: Option<Buf>,
}

impl Pending {
    pub fn new(sqe: Sqe, kind: Kind, parts: usize, bytes: usize) -> Self {
        Pending { sqe, kind, parts, bytes, status: NvmeStatus::SUCCESS, result: 0, data: None }
    }

    /// One of its bios has ended; gives the buffer, if the command does not need it.
    pub fn ended(&mut self, namespace: &Namespace, completion: Completion) -> Option<Buf> {
        self.parts -= 1;
        if !self.status.is_success() {
            return completion.buf;
        }
        if completion.status != Status::Ok {
            self.status = of_zone(namespace, &self.sqe, completion.status);
            return completion.buf;
        }
        match &self.kind {
            Kind::Plain | Kind::Write(_) => {}
            Kind::Read => {
                self.data = completion.buf;
                return None;
            }
            Kind::Append(_) => self.result = namespace.to_blocks(completion.sector),
            Kind::Compare(expected) => {
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
            Kind::Read => {
                let len = self.data.as_ref().map_or(0, |data| data.len() as u64 / 512);
                logs::account(&totals.reads, &totals.sectors_read, Sector(len));
            }
            Kind::Write(len) | Kind::Append(len) if self.status.is_success() => {
                logs::account(&totals.writes, &totals.sectors_written, Sector(len.into()));
            }
            _ => {}
        }
    }

    pub fn answer(self, head: &SqHead) -> Response {
        let cqe = head.complete(self.sqe.cid.get(), self.status, self.result);
        let data = self.data.filter(|_| self.status.is_success());
        Response { cqe, data: data.map(Data::Buf) }
    }
}
