//! A PCIe NVMe controller for a virtual machine, over vfio-user.
//!
//! ```text
//!  Server       for one client at a time: a virtual machine monitor
//!  Endpoint     the function, and the client that has it; Stepped is one without threads
//!  Session      negotiation, memory, regions, interrupts -> zonal_nvme::controller::pcie::Function
//!  Worker       the frontend of a completion queue, on a thread of its own
//!  Vectors      eventfds by which the guest is interrupted
//! ```
//!
//! A client that breaks the protocol is disconnected. When it is gone the controller is reset, and the
//! next one finds it as the first did.
mod endpoint;
mod messages;
mod server;
mod session;
mod stepped;
mod vectors;
mod wire;
mod worker;

pub use server::{Server, ServerConfig};
pub use stepped::Stepped;
