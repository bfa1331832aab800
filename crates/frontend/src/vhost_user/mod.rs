//! A virtio block device for a virtual machine, over vhost-user: with zones, if the device has them.
//!
//! ```text
//!  Server          for one client at a time: a virtual machine monitor
//!  Endpoint        the device, and the client that has it; Stepped is one without threads
//!  Session         negotiation, memory, rings
//!  VirtioDevice    features and configuration space
//!  Worker          the frontend of a ring, on a thread of its own: chains -> bios -> used elements
//!  Ring, Chain     a split virtqueue and its descriptor chains in guest memory
//!  Requests        what is in a chain (VIRTIO 1.3 section 5.2)
//!  Inflight        requests in flight, for the next server if this one is killed
//! ```
//!
//! A client that breaks the protocol is disconnected, and a guest that breaks a ring has it stopped. When
//! a client is gone, the next one may come.
mod chain;
mod device;
mod endpoint;
mod inflight;
mod messages;
mod refusal;
mod request;
mod ring;
mod server;
mod session;
mod stepped;
mod wire;
mod worker;

pub use device::DeviceError;
pub use server::{Server, ServerConfig, VhostUserError};
pub use stepped::Stepped;
