//! What the frontends of virtual machines share.
//!
//! ```text
//!  GuestMemory  memory that the client shares, by guest address; every access is checked
//!  bus_error    survives that a client takes shared memory away
//! ```
pub mod bus_error;
pub mod memory;
