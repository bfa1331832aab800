//! An emulated NVM subsystem: a target without the network.
//!
//! ```text
//!  Connect      -> Target ------> Subsystem     namespaces, controllers, what changed
//!                                    |
//!                  QueueAuth     if hosts have to authenticate: nothing else before they have
//!  admin command -> Controller    properties, Identify, log pages, features, events
//!  I/O command   -> IoQueue       bios of a Zonal queue, by a Channel of its own; zone management
//!                      |
//!                    Response       a completion, and data for the host
//! ```
//!
//! Over PCIe there is no Connect: [`pcie::Function`] has the registers and the queues in memory, and
//! a controller of its own.
//!
//! A `Controller` is the admin queue of an association, an `IoQueue` one of its I/O queues; each
//! belongs to one thread. They share a [`Subsystem`], whose locks no I/O takes. Every command gets one
//! response; responses are in any order. [`Controller::poll`] and [`IoQueue::poll`] return those of
//! commands that complete later, and `next_event` says when to call them.
mod admin;
mod association;
mod async_events;
mod connect;
mod data_pointer;
mod feature_commands;
mod features;
mod identify;
mod io;
mod logs;
mod namespace;
pub mod pcie;
mod placement;
mod queue_auth;
mod response;
mod shutdown;
mod subsystem;

pub use admin::Controller;
pub use connect::{ConnectedQueue, Target};
pub use io::IoQueue;
pub use namespace::{Namespace, NamespaceError, OfflineZones, PutMark};
pub use response::{Data, Response};
pub use subsystem::{AddNamespaceError, Subsystem, SubsystemConfig};

use crate::wire::opcode::{AdminOpcode, FeatureId};

/// The transport that brings the commands of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    /// Connections, of which each is a queue.
    Fabrics,
    /// Queues in memory.
    Pcie,
}

impl Transport {
    /// Whether the transport has an admin command.
    fn has_command(self, opcode: AdminOpcode) -> bool {
        match opcode {
            AdminOpcode::CREATE_SQ
            | AdminOpcode::DELETE_SQ
            | AdminOpcode::CREATE_CQ
            | AdminOpcode::DELETE_CQ
            | AdminOpcode::DOORBELL_BUFFER_CONFIG => self == Transport::Pcie,
            // A function whose host is gone is reset by the thread that has the bus.
            AdminOpcode::KEEP_ALIVE => self == Transport::Fabrics,
            _ => true,
        }
    }

    /// Whether the transport has a feature.
    fn has_feature(self, feature: FeatureId) -> bool {
        match feature {
            FeatureId::INTERRUPT_COALESCING | FeatureId::INTERRUPT_VECTOR => {
                self == Transport::Pcie
            }
            FeatureId::KEEP_ALIVE_TIMER => self == Transport::Fabrics,
            _ => true,
        }
    }
}

/// The version that controllers report: 1.4, as older hosts expect it of a target with I/O command
/// sets.
const VERSION: u32 = 0x0001_0400;
/// Maximum entries of a queue (CAP.MQES).
const MAX_QUEUE: u16 = 1024;
/// I/O queues that a controller offers.
const MAX_IO_QUEUES: u16 = 128;
/// Namespaces of a subsystem, and the largest of their identifiers (NN, MNAN).
pub const MAX_NAMESPACES: u32 = 1024;
/// Asynchronous Event Requests outstanding at the same time.
const MAX_EVENT_REQUESTS: usize = 4;
/// Longest text of a mark, in bytes.
const MAX_MARK: usize = 4096;
/// Entries of the error log.
const ERROR_ENTRIES: usize = 64;
/// Granularity of the keep alive timer in units of 100 ms (KAS): a second.
const KAS: u16 = 10;
/// The temperature of the emulated drive, 20 degrees Celsius, in kelvins.
const TEMPERATURE: u16 = 293;
/// The temperature from which on there is a warning (WCTEMP), 70 degrees Celsius, in kelvins.
const WARNING_TEMPERATURE: u16 = 343;
/// A temperature at which the drive would stop (CCTEMP), 80 degrees Celsius, in kelvins.
const CRITICAL_TEMPERATURE: u16 = 353;
/// log2 of the longest transfer in units of 4 KiB (MDTS): 1 MiB.
const MDTS: u8 = 8;
/// The same of discovery controllers, which anybody can reach: 16 KiB.
const DISCOVERY_MDTS: u8 = 2;
/// Data that a command capsule may carry, in bytes.
pub const IN_CAPSULE: u32 = 16 << 10;
