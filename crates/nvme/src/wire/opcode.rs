//! Opcodes, identifiers of Identify data, log pages and features.
use super::values;

/// The opcode of all fabrics commands (Base section 6).
pub const FABRICS: u8 = 0x7f;

values! {
    /// Opcodes of admin commands (Base section 5).
    pub struct AdminOpcode(u8) {
        /// Delete I/O Submission Queue (5.7); over PCIe, like those of queues below.
        DELETE_SQ = 0x00,
        /// Create I/O Submission Queue (5.5).
        CREATE_SQ = 0x01,
        /// Get Log Page (5.16).
        GET_LOG_PAGE = 0x02,
        /// Delete I/O Completion Queue (5.6).
        DELETE_CQ = 0x04,
        /// Create I/O Completion Queue (5.4).
        CREATE_CQ = 0x05,
        /// Identify (5.17).
        IDENTIFY = 0x06,
        /// Abort (5.1).
        ABORT = 0x08,
        /// Set Features (5.27).
        SET_FEATURES = 0x09,
        /// Get Features (5.15).
        GET_FEATURES = 0x0a,
        /// Asynchronous Event Request (5.2).
        ASYNC_EVENT_REQUEST = 0x0c,
        /// Directive Send (5.10); with data placement, as Directive Receive.
        DIRECTIVE_SEND = 0x19,
        /// Directive Receive (5.9).
        DIRECTIVE_RECEIVE = 0x1a,
        /// Keep Alive (5.18).
        KEEP_ALIVE = 0x18,
        /// Doorbell Buffer Config (5.9); over PCIe.
        DOORBELL_BUFFER_CONFIG = 0x7c,
        /// Mark: vendor specific, with data from the host, which are a text for the log of a
        /// recording. Changes nothing.
        MARK = 0xc1,
    }

    /// Opcodes of I/O commands (NVM section 3, ZNS section 3).
    pub struct IoOpcode(u8) {
        /// Flush (Base 7.1).
        FLUSH = 0x00,
        /// Write (NVM 3.2.6).
        WRITE = 0x01,
        /// Read (NVM 3.2.4).
        READ = 0x02,
        /// Compare (NVM 3.2.1).
        COMPARE = 0x05,
        /// Write Zeroes (NVM 3.2.8).
        WRITE_ZEROES = 0x08,
        /// Dataset Management (NVM 3.2.3).
        DATASET_MANAGEMENT = 0x09,
        /// Verify (NVM 3.2.5).
        VERIFY = 0x0c,
        /// I/O Management Receive (Base 2.1 7.3); with data placement, as I/O Management Send.
        IO_MANAGEMENT_RECEIVE = 0x12,
        /// I/O Management Send (Base 2.1 7.4).
        IO_MANAGEMENT_SEND = 0x1d,
        /// Zone Management Send (ZNS 3.4.3).
        ZONE_MANAGEMENT_SEND = 0x79,
        /// Zone Management Receive (ZNS 3.4.2).
        ZONE_MANAGEMENT_RECEIVE = 0x7a,
        /// Zone Append (ZNS 3.4.1).
        ZONE_APPEND = 0x7d,
    }

    /// Types of fabrics commands (Base section 6, FCTYPE).
    pub struct FabricsType(u8) {
        /// Property Set (6.6).
        PROPERTY_SET = 0x00,
        /// Connect (6.3).
        CONNECT = 0x01,
        /// Property Get (6.5).
        PROPERTY_GET = 0x04,
        /// Authentication Send (6.2).
        AUTH_SEND = 0x05,
        /// Authentication Receive (6.1).
        AUTH_RECEIVE = 0x06,
        /// Disconnect (6.4).
        DISCONNECT = 0x08,
    }

    /// Data structures of Identify (Base section 5.17.1, CNS).
    pub struct Cns(u8) {
        /// Identify Namespace, for namespaces with LBA formats.
        NAMESPACE = 0x00,
        /// Identify Controller.
        CONTROLLER = 0x01,
        /// Active Namespace ID list.
        ACTIVE_NAMESPACES = 0x02,
        /// Namespace Identification Descriptor list.
        NAMESPACE_DESCRIPTORS = 0x03,
        /// I/O Command Set specific Identify Namespace.
        CSI_NAMESPACE = 0x05,
        /// I/O Command Set specific Identify Controller.
        CSI_CONTROLLER = 0x06,
        /// I/O Command Set specific Active Namespace ID list.
        CSI_ACTIVE_NAMESPACES = 0x07,
        /// I/O Command Set independent Identify Namespace.
        INDEPENDENT_NAMESPACE = 0x08,
        /// Endurance Group list.
        ENDURANCE_GROUPS = 0x19,
        /// I/O Command Set list.
        COMMAND_SETS = 0x1c,
    }

    /// I/O command sets (Base section 5.17.1, CSI).
    pub struct Csi(u8) {
        /// NVM Command Set.
        NVM = 0x00,
        /// Zoned Namespace Command Set.
        ZNS = 0x02,
    }

    /// Log pages (Base section 5.16.1, LID).
    pub struct LogId(u8) {
        /// Supported Log Pages.
        SUPPORTED = 0x00,
        /// Error Information.
        ERROR = 0x01,
        /// SMART / Health Information.
        SMART = 0x02,
        /// Firmware Slot Information.
        FIRMWARE = 0x03,
        /// Changed Namespace List.
        CHANGED_NAMESPACES = 0x04,
        /// Commands Supported and Effects.
        EFFECTS = 0x05,
        /// Endurance Group Information; with data placement, as those from 20h to 23h.
        ENDURANCE_GROUP = 0x09,
        /// Asymmetric Namespace Access; over fabrics.
        ANA = 0x0c,
        /// FDP Configurations.
        FDP_CONFIGURATIONS = 0x20,
        /// Reclaim Unit Handle Usage.
        UNIT_HANDLE_USAGE = 0x21,
        /// FDP Statistics.
        FDP_STATISTICS = 0x22,
        /// FDP Events.
        FDP_EVENTS = 0x23,
        /// Discovery.
        DISCOVERY = 0x70,
        /// Changed Zone List (ZNS section 4.1.4).
        CHANGED_ZONES = 0xbf,
    }

    /// Features (Base section 5.27.1, FID).
    pub struct FeatureId(u8) {
        /// Arbitration.
        ARBITRATION = 0x01,
        /// Power Management.
        POWER_MANAGEMENT = 0x02,
        /// Temperature Threshold.
        TEMPERATURE_THRESHOLD = 0x04,
        /// Error Recovery (NVM section 4.1.3.2).
        ERROR_RECOVERY = 0x05,
        /// Volatile Write Cache.
        VOLATILE_WRITE_CACHE = 0x06,
        /// Number of Queues.
        NUMBER_OF_QUEUES = 0x07,
        /// Interrupt Coalescing; over PCIe.
        INTERRUPT_COALESCING = 0x08,
        /// Interrupt Vector Configuration; over PCIe.
        INTERRUPT_VECTOR = 0x09,
        /// Write Atomicity Normal (NVM section 4.1.3.3).
        WRITE_ATOMICITY = 0x0a,
        /// Asynchronous Event Configuration.
        ASYNC_EVENT = 0x0b,
        /// Timestamp.
        TIMESTAMP = 0x0e,
        /// Keep Alive Timer.
        KEEP_ALIVE_TIMER = 0x0f,
        /// Host Behavior Support.
        HOST_BEHAVIOR = 0x16,
        /// Flexible Data Placement; on a subsystem that has it, as FDP Events.
        DATA_PLACEMENT = 0x1d,
        /// FDP Events.
        DATA_PLACEMENT_EVENTS = 0x1e,
    }
}
