//! Completion statuses, and the block layer's statuses for them.
use crate::wire::values;
use zonal_blk::Status;

values! {
    /// The status of a completion without its phase tag (Base section 3.3.3.2.1): status code in
    /// bits 7:0, status code type in bits 10:8, CRD in 12:11, More in 13, Do Not Retry in 14.
    pub struct NvmeStatus(u16) {
        /// Successful Completion.
        SUCCESS = 0x000,
        /// Invalid Command Opcode.
        INVALID_OPCODE = 0x001,
        /// Invalid Field in Command.
        INVALID_FIELD = 0x002,
        /// Command ID Conflict.
        CID_CONFLICT = 0x003,
        /// Data Transfer Error.
        DATA_TRANSFER = 0x004,
        /// Commands Aborted due to Power Loss Notification.
        POWER_LOSS = 0x005,
        /// Internal Error.
        INTERNAL = 0x006,
        /// Command Abort Requested.
        ABORT_REQUESTED = 0x007,
        /// Command Aborted due to SQ Deletion.
        QUEUE_DELETED = 0x008,
        /// Invalid Namespace or Format.
        INVALID_NAMESPACE = 0x00b,
        /// Command Sequence Error.
        SEQUENCE = 0x00c,
        /// Invalid Number of SGL Descriptors.
        SGL_COUNT = 0x00d,
        /// Data SGL Length Invalid.
        SGL_LENGTH = 0x00f,
        /// SGL Descriptor Type Invalid.
        SGL_TYPE = 0x011,
        /// PRP Offset Invalid.
        PRP_OFFSET = 0x013,
        /// Operation Denied.
        DENIED = 0x015,
        /// SGL Offset Invalid.
        SGL_OFFSET = 0x016,
        /// Keep Alive Timeout Expired.
        KEEP_ALIVE_EXPIRED = 0x019,
        /// Keep Alive Timeout Invalid.
        KEEP_ALIVE_INVALID = 0x01a,
        /// Command Aborted due to Preempt and Abort.
        PREEMPTED = 0x01b,
        /// Namespace is Write Protected.
        WRITE_PROTECTED = 0x020,
        /// Transient Transport Error.
        TRANSPORT = 0x022,
        /// FDP Disabled.
        FDP_DISABLED = 0x029,
        /// LBA Out of Range.
        LBA_RANGE = 0x080,
        /// Capacity Exceeded.
        CAPACITY_EXCEEDED = 0x081,
        /// Namespace Not Ready.
        NOT_READY = 0x082,
        /// Completion Queue Invalid.
        INVALID_CQ = 0x100,
        /// Invalid Queue Identifier.
        INVALID_QUEUE = 0x101,
        /// Invalid Queue Size.
        INVALID_QUEUE_SIZE = 0x102,
        /// Abort Command Limit Exceeded.
        ABORT_LIMIT = 0x103,
        /// Asynchronous Event Request Limit Exceeded.
        EVENT_LIMIT = 0x105,
        /// Invalid Interrupt Vector.
        INVALID_VECTOR = 0x108,
        /// Invalid Log Page.
        INVALID_LOG = 0x109,
        /// Invalid Queue Deletion.
        INVALID_QUEUE_DELETION = 0x10c,
        /// Feature Identifier Not Saveable.
        NOT_SAVEABLE = 0x10d,
        /// Feature Not Changeable.
        NOT_CHANGEABLE = 0x10e,
        /// Feature Not Namespace Specific.
        NOT_NAMESPACE_SPECIFIC = 0x10f,
        /// Incompatible Format (fabrics, Connect).
        INCOMPATIBLE_FORMAT = 0x180,
        /// Controller Busy (fabrics, Connect).
        CONTROLLER_BUSY = 0x181,
        /// Connect Invalid Parameters (fabrics, Connect).
        CONNECT_PARAMETERS = 0x182,
        /// Connect Invalid Host (fabrics, Connect).
        CONNECT_HOST = 0x184,
        /// Authentication Required (fabrics).
        AUTH_REQUIRED = 0x191,
        /// Invalid Zone Operation Request (ZNS section 3.1, and the following).
        ZONE_INVALID_OPERATION = 0x1b6,
        /// ZRWA Resources Unavailable.
        ZRWA_UNAVAILABLE = 0x1b7,
        /// Zone Boundary Error.
        ZONE_BOUNDARY = 0x1b8,
        /// Zone Is Full.
        ZONE_FULL = 0x1b9,
        /// Zone Is Read Only.
        ZONE_READ_ONLY = 0x1ba,
        /// Zone Is Offline.
        ZONE_OFFLINE = 0x1bb,
        /// Zone Invalid Write.
        ZONE_INVALID_WRITE = 0x1bc,
        /// Too Many Active Zones.
        TOO_MANY_ACTIVE = 0x1bd,
        /// Too Many Open Zones.
        TOO_MANY_OPEN = 0x1be,
        /// Invalid Zone State Transition.
        ZONE_TRANSITION = 0x1bf,
        /// Write Fault.
        WRITE_FAULT = 0x280,
        /// Unrecovered Read Error.
        UNRECOVERED_READ = 0x281,
        /// End-to-end Guard Check Error.
        GUARD_CHECK = 0x282,
        /// End-to-end Application Tag Check Error.
        APPLICATION_CHECK = 0x283,
        /// End-to-end Reference Tag Check Error.
        REFERENCE_CHECK = 0x284,
        /// Compare Failure.
        COMPARE_FAILURE = 0x285,
        /// Internal Path Error (Base section 3.3.3.2.1.4, path related status, and the following).
        INTERNAL_PATH = 0x300,
        /// Asymmetric Access Persistent Loss.
        ANA_PERSISTENT_LOSS = 0x301,
        /// Asymmetric Access Inaccessible.
        ANA_INACCESSIBLE = 0x302,
        /// Asymmetric Access Transition.
        ANA_TRANSITION = 0x303,
        /// Controller Pathing Error.
        CONTROLLER_PATHING = 0x360,
        /// Host Pathing Error.
        HOST_PATHING = 0x370,
        /// Command Aborted By Host.
        ABORTED_BY_HOST = 0x371,
    }
}

impl NvmeStatus {
    /// DNR: a retry of the command would fail.
    pub const DO_NOT_RETRY: u16 = 1 << 14;

    /// M: the Error Information log page has an entry for the command.
    pub const MORE: u16 = 1 << 13;

    /// The same status with M set.
    pub const fn with_more(self) -> Self {
        NvmeStatus(self.0 | Self::MORE)
    }

    /// The same status with DNR set.
    pub const fn do_not_retry(self) -> Self {
        NvmeStatus(self.0 | Self::DO_NOT_RETRY)
    }

    /// Status code type and status code alone.
    pub const fn code(self) -> Self {
        NvmeStatus(self.0 & 0x7ff)
    }

    /// Whether the command succeeded.
    pub fn is_success(self) -> bool {
        self.code() == NvmeStatus::SUCCESS
    }

    /// Whether the command failed because of its zone's state or write pointer (ZNS section 3.1), with
    /// a status for which the block layer has an I/O error only.
    pub const fn is_zone_error(self) -> bool {
        matches!(
            self.code(),
            NvmeStatus::ZONE_BOUNDARY
                | NvmeStatus::ZONE_FULL
                | NvmeStatus::ZONE_READ_ONLY
                | NvmeStatus::ZONE_INVALID_WRITE
                | NvmeStatus::ZONE_INVALID_OPERATION
                | NvmeStatus::ZONE_TRANSITION
        )
    }

    /// Whether the medium failed the command (Base section 3.3.3.2.1.3, status code type 2h): all
    /// but Compare Failure.
    pub const fn is_media_error(self) -> bool {
        self.0 & 0x700 == 0x200 && !matches!(self.code(), NvmeStatus::COMPARE_FAILURE)
    }

    /// Whether the command failed because of its path and may be retried on another: status code type
    /// 3h without Do Not Retry, as in Linux (`nvme_is_path_error`, 6.12).
    pub const fn is_path_error(self) -> bool {
        self.0 & 0x700 == 0x300 && self.0 & Self::DO_NOT_RETRY == 0
    }

    /// Whether the namespace could not be reached at the controller: one of the statuses of Asymmetric
    /// Namespace Access (Base section 8.1), with or without Do Not Retry.
    pub const fn is_ana_error(self) -> bool {
        matches!(
            self.code(),
            NvmeStatus::ANA_PERSISTENT_LOSS
                | NvmeStatus::ANA_INACCESSIBLE
                | NvmeStatus::ANA_TRANSITION
        )
    }

    /// For the host: the block layer's status for this one, as Linux maps statuses to error numbers.
    /// Those without one are I/O errors.
    pub fn to_blk_status(self) -> Status {
        match self.code() {
            _ if self.is_path_error() => Status::Transport,
            NvmeStatus::SUCCESS => Status::Ok,
            NvmeStatus::CAPACITY_EXCEEDED | NvmeStatus::ZRWA_UNAVAILABLE => Status::NoSpace,
            NvmeStatus::INVALID_OPCODE => Status::NotSupported,
            NvmeStatus::INVALID_FIELD | NvmeStatus::LBA_RANGE => Status::Invalid,
            NvmeStatus::INVALID_NAMESPACE | NvmeStatus::ZONE_OFFLINE => Status::Offline,
            NvmeStatus::ABORT_REQUESTED => Status::Timeout,
            // With Do Not Retry it is permanent.
            NvmeStatus::NOT_READY if self.0 & Self::DO_NOT_RETRY != 0 => Status::Offline,
            NvmeStatus::NOT_READY => Status::Again,
            NvmeStatus::WRITE_FAULT
            | NvmeStatus::UNRECOVERED_READ
            | NvmeStatus::COMPARE_FAILURE => Status::Medium,
            NvmeStatus::GUARD_CHECK
            | NvmeStatus::APPLICATION_CHECK
            | NvmeStatus::REFERENCE_CHECK => Status::Protection,
            NvmeStatus::TOO_MANY_ACTIVE => Status::ZoneActiveResource,
            NvmeStatus::TOO_MANY_OPEN => Status::ZoneOpenResource,
            _ => Status::IoError,
        }
    }

    /// For the controller: the status of a read whose bio completed with `status`. Other commands have
    /// other errors of the medium, and for an I/O error the state of the zone can tell more.
    pub const fn from_blk_status(status: Status) -> Self {
        match status {
            Status::Ok => NvmeStatus::SUCCESS,
            Status::NotSupported => NvmeStatus::INVALID_OPCODE.do_not_retry(),
            Status::Timeout => NvmeStatus::ABORT_REQUESTED,
            Status::Transport => NvmeStatus::INTERNAL_PATH,
            Status::NoSpace => NvmeStatus::CAPACITY_EXCEEDED.do_not_retry(),
            Status::Medium => NvmeStatus::UNRECOVERED_READ.do_not_retry(),
            Status::Protection => NvmeStatus::GUARD_CHECK.do_not_retry(),
            Status::IoError => NvmeStatus::INTERNAL,
            Status::Again => NvmeStatus::NOT_READY,
            Status::ZoneOpenResource => NvmeStatus::TOO_MANY_OPEN,
            Status::ZoneActiveResource => NvmeStatus::TOO_MANY_ACTIVE,
            Status::Offline => NvmeStatus::ZONE_OFFLINE.do_not_retry(),
            Status::Invalid => NvmeStatus::INVALID_FIELD.do_not_retry(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_related_status_goes_over_another_path_unless_it_is_not_to_be_retried() {
        for status in [
            NvmeStatus::INTERNAL_PATH,
            NvmeStatus::ANA_PERSISTENT_LOSS,
            NvmeStatus::ANA_INACCESSIBLE,
            NvmeStatus::ANA_TRANSITION,
            NvmeStatus::CONTROLLER_PATHING,
            NvmeStatus::HOST_PATHING,
            NvmeStatus::ABORTED_BY_HOST,
        ] {
            assert!(status.is_path_error(), "{status:?}");
            assert_eq!(status.to_blk_status(), Status::Transport);
            // CRD and More are ignored.
            assert!(NvmeStatus(status.0 | 0x3800).is_path_error());
            assert_eq!(status.do_not_retry().to_blk_status(), Status::IoError);
            let is_ana_error = status != NvmeStatus::INTERNAL_PATH && status.0 < 0x310;
            assert_eq!(status.is_ana_error(), is_ana_error, "{status:?}");
        }
        for status in
            [NvmeStatus::INTERNAL, NvmeStatus::ZONE_INVALID_WRITE, NvmeStatus::WRITE_FAULT]
        {
            assert!(!status.is_path_error(), "{status:?}");
        }
    }
}
