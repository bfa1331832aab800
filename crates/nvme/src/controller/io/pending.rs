//! Commands whose bios are in flight, and the status that their completions give them.
use crate::NvmeStatus;
use crate::controller::logs;
use crate::controller::namespace::Namespace;
use crate::controller::response::{Data, Response, SqHead};
use crate::controller::subsystem::Totals;
use crate::wire::Sqe;
use crate::wire::io::RwCommand;
use crate::wire::opcode::IoOpcode;
use std::sync::atomic::Ordering;
use zonal_blk::{Buf, Completion, Sector, Status, Zone, ZoneCondition};

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
    /// Bios are left to submit.
    unfinished: bool,
    /// Bytes of the buffers.
    pub bytes: usize,
    /// Bytes that each bio is charged in addition.
    pub bytes_of_bio: usize,
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
        Pending {
            sqe,
            kind,
            parts,
            unfinished: false,
            bytes,
            bytes_of_bio: 0,
            status,
            result: 0,
            data: None,
            received: None,
        }
    }

    /// A command whose bios are added one by one, until the last or
    /// until it fails.
    pub fn long(sqe: Sqe, kind: CompletionKind, bytes_of_bio: usize) -> Self {
        Pending { unfinished: true, bytes_of_bio, ..Pending::new(sqe, kind, 0, 0) }
    }

    /// Bios in flight.
    pub fn bios(&self) -> usize {
        self.parts
    }

    /// One more bio is in flight, perhaps the last.
    pub fn add_bio(&mut self, last: bool) {
        self.parts += 1;
        self.unfinished = !last;
    }

    /// No bio will be added.
    pub fn stop(&mut self) {
        self.unfinished = false;
    }

    /// The command fails, and no bio will be added.
    pub fn fail(&mut self, status: NvmeStatus) {
        self.status = status;
        self.unfinished = false;
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
        self.parts == 0 && !self.unfinished
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

/// The status of a command whose bio completed with `status`.
fn of_zone(namespace: &Namespace, sqe: &Sqe, status: Status) -> NvmeStatus {
    let unclear = matches!(status, Status::IoError | Status::Offline);
    if !namespace.is_zoned() || !unclear {
        return general(sqe, status);
    }
    match IoOpcode(sqe.opcode) {
        IoOpcode::ZONE_MANAGEMENT_SEND => NvmeStatus::ZONE_TRANSITION.do_not_retry(),
        IoOpcode::WRITE | IoOpcode::WRITE_ZEROES | IoOpcode::ZONE_APPEND => {
            let command = RwCommand::from(*sqe);
            match namespace.report_zone(command.slba.get()) {
                Some(zone) => of_write(namespace, &command, &zone),
                None => general(sqe, status),
            }
        }
        _ => general(sqe, status),
    }
}

fn general(sqe: &Sqe, status: Status) -> NvmeStatus {
    let reads =
        matches!(IoOpcode(sqe.opcode), IoOpcode::READ | IoOpcode::COMPARE | IoOpcode::VERIFY);
    match status {
        Status::IoError if reads => NvmeStatus::UNRECOVERED_READ.do_not_retry(),
        Status::IoError => NvmeStatus::WRITE_FAULT,
        status => NvmeStatus::from_blk_status(status),
    }
}

/// Why a write to `zone` failed (ZNS section 2.1.1.2.1). If the write was valid, the medium failed.
fn of_write(namespace: &Namespace, command: &RwCommand, zone: &Zone) -> NvmeStatus {
    let append = command.opcode == IoOpcode::ZONE_APPEND.0;
    let len = u64::from(command.blocks());
    let at = if append { zone.wp } else { namespace.to_sector(command.slba.get()) };
    match zone.cond {
        ZoneCondition::Full => NvmeStatus::ZONE_FULL.do_not_retry(),
        ZoneCondition::ReadOnly => NvmeStatus::ZONE_READ_ONLY.do_not_retry(),
        ZoneCondition::Offline => NvmeStatus::ZONE_OFFLINE.do_not_retry(),
        _ if at + namespace.to_sector(len) > zone.writable_end() => {
            NvmeStatus::ZONE_BOUNDARY.do_not_retry()
        }
        _ if at != zone.wp => NvmeStatus::ZONE_INVALID_WRITE.do_not_retry(),
        _ => NvmeStatus::WRITE_FAULT,
    }
}

/// The status of a Compare.
fn check_compare(expected: &Buf, found: Option<&Buf>) -> NvmeStatus {
    if found.is_some_and(|found| found[..] == expected[..]) {
        NvmeStatus::SUCCESS
    } else {
        NvmeStatus::COMPARE_FAILURE.do_not_retry()
    }
}
