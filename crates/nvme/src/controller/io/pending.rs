//! Commands whose bios are in flight, and the status that their completions give them.
use crate::NvmeStatus;
use crate::controller::namespace::{Namespace, is_failed};
use crate::controller::response::{Data, Response, SqHead};
use crate::controller::subsystem::Counted;
use crate::wire::Sqe;
use crate::wire::io::RwCommand;
use crate::wire::opcode::IoOpcode;
use crate::wire::zone::{ALLOCATE_ZRWA, SELECT_ALL, SendAction, ZoneSend};
use zonal_blk::{Buf, Completion, Op, Status, Zone, ZoneCondition, ZoneRefusal};

/// The meaning of a bio's completion for its command.
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
    /// Success, or how the first of the bios that failed did.
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
            let Completion { status, refused, .. } = completion;
            self.status = failure(namespace, &self.sqe, status, refused);
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

    /// Counts the command for the totals of the SMART log page.
    pub fn count(&self, namespace: &Namespace, counted: &mut Counted) {
        if self.status.is_media_error() {
            counted.media_errors += 1;
        }
        let sectors = |buf: &Buf| buf.len() as u64 / 512;
        match &self.kind {
            CompletionKind::Read => {
                counted.reads += 1;
                counted.sectors_read += self.data.as_ref().map_or(0, sectors);
            }
            CompletionKind::Compare(expected) => {
                counted.reads += 1;
                counted.sectors_read += sectors(expected);
            }
            CompletionKind::Write(len) | CompletionKind::Append(len)
                if self.status.is_success() =>
            {
                counted.writes += 1;
                counted.sectors_written += u64::from(*len);
            }
            // Reads the medium, but is no read command (NVM, SMART log).
            CompletionKind::Plain
                if self.sqe.opcode == IoOpcode::VERIFY.0 && self.status.is_success() =>
            {
                let blocks = RwCommand::from(self.sqe).blocks();
                counted.sectors_read += namespace.to_sector(blocks.into()).0;
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

/// The status of a command whose bio failed with `status`. `refused` if the layer or the device says
/// that the zone did not allow it: only then is the medium not to blame for an I/O error, whatever has
/// become of the zone since.
fn failure(namespace: &Namespace, sqe: &Sqe, status: Status, refused: bool) -> NvmeStatus {
    let opcode = IoOpcode(sqe.opcode);
    let of_zone = namespace.is_zoned() && matches!(status, Status::IoError | Status::Offline);
    match opcode {
        // All random write areas are in use.
        IoOpcode::ZONE_MANAGEMENT_SEND if status == Status::NoSpace => NvmeStatus::ZRWA_UNAVAILABLE,
        IoOpcode::ZONE_MANAGEMENT_SEND if of_zone => of_management(namespace, sqe, refused),
        IoOpcode::WRITE | IoOpcode::WRITE_ZEROES | IoOpcode::ZONE_APPEND if of_zone => {
            let command = RwCommand::from(*sqe);
            let zone = namespace.report_zone(command.slba.get());
            let reason = zone.and_then(|zone| of_write(namespace, &command, &zone));
            match reason {
                Some(reason) => reason,
                // Nothing was written: the host may append again.
                None if refused && opcode == IoOpcode::ZONE_APPEND => NvmeStatus::INTERNAL,
                None if refused => NvmeStatus::ZONE_INVALID_WRITE.do_not_retry(),
                None => general(opcode, status),
            }
        }
        // ZNS has a status for a zone, the NVM Command Set none for one that is not there.
        _ if status == Status::Offline && !namespace.is_zoned() => {
            NvmeStatus::NOT_READY.do_not_retry()
        }
        _ => general(opcode, status),
    }
}

fn general(opcode: IoOpcode, status: Status) -> NvmeStatus {
    let reads = matches!(opcode, IoOpcode::READ | IoOpcode::COMPARE | IoOpcode::VERIFY);
    match status {
        Status::Medium | Status::IoError if reads => NvmeStatus::UNRECOVERED_READ.do_not_retry(),
        Status::Medium | Status::IoError => NvmeStatus::WRITE_FAULT,
        status => NvmeStatus::from_blk_status(status),
    }
}

/// Why a zone was not opened, closed, finished or reset (ZNS section 3.4.3): its state has no such
/// transition, or something else failed.
fn of_management(namespace: &Namespace, sqe: &Sqe, refused: bool) -> NvmeStatus {
    let command = ZoneSend::from(*sqe);
    let one = command.options & SELECT_ALL == 0;
    let zone = one.then(|| namespace.report_zone(command.slba.get())).flatten();
    let failed = zone.is_some_and(|zone| is_failed(&zone));
    // A zone that is active cannot be given a ZRWA, and there is nothing to flush in one without.
    let lacks_zrwa = match SendAction(command.action) {
        SendAction::OPEN if command.options & ALLOCATE_ZRWA != 0 => {
            zone.is_some_and(|zone| zone.cond.is_active())
        }
        SendAction::ZRWA_FLUSH => !failed,
        _ => false,
    };
    if lacks_zrwa {
        return NvmeStatus::ZONE_INVALID_OPERATION.do_not_retry();
    }
    let allowed = zone.is_some_and(|zone| match SendAction(command.action) {
        SendAction::OPEN => zone.cond != ZoneCondition::Full,
        SendAction::CLOSE => zone.cond.is_active(),
        _ => true,
    });
    if refused || failed || !allowed {
        NvmeStatus::ZONE_TRANSITION.do_not_retry()
    } else {
        NvmeStatus::INTERNAL
    }
}

/// Why `zone`, as it is now, does not allow a write (ZNS section 2.1.1.2.1); `None` if it does.
fn of_write(namespace: &Namespace, command: &RwCommand, zone: &Zone) -> Option<NvmeStatus> {
    let op = match IoOpcode(command.opcode) {
        IoOpcode::ZONE_APPEND => Op::ZoneAppend,
        _ => Op::Write,
    };
    let at = namespace.to_sector(command.slba.get());
    let len = namespace.to_sectors(command.blocks())?;
    let refusal = ZoneRefusal::of_write(namespace.limits().zrwa, (op, at, len), zone)?;
    let reason = match refusal {
        ZoneRefusal::Offline => NvmeStatus::ZONE_OFFLINE,
        ZoneRefusal::ReadOnly => NvmeStatus::ZONE_READ_ONLY,
        ZoneRefusal::Full => NvmeStatus::ZONE_FULL,
        ZoneRefusal::AppendToZrwa => NvmeStatus::ZONE_INVALID_OPERATION,
        ZoneRefusal::CrossesZone | ZoneRefusal::BeyondCapacity => NvmeStatus::ZONE_BOUNDARY,
        ZoneRefusal::OutsideZrwa | ZoneRefusal::NotAtWritePointer => NvmeStatus::ZONE_INVALID_WRITE,
    };
    Some(reason.do_not_retry())
}

/// The status of a Compare.
fn check_compare(expected: &Buf, found: Option<&Buf>) -> NvmeStatus {
    if found.is_some_and(|found| found[..] == expected[..]) {
        NvmeStatus::SUCCESS
    } else {
        NvmeStatus::COMPARE_FAILURE.do_not_retry()
    }
}
