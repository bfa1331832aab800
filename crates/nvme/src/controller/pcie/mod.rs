//! A controller as a PCIe function: registers, and queues in the memory of a guest.
//!
//! ```text
//!  config space   -> ConfigSpace    identity, capabilities, function level reset
//!  BAR 0          -> Function       registers, doorbells, the admin queue, MSI-X table
//!                       |
//!                    IoWorker       one for each I/O completion queue: its submission queues, PRP
//!                       |           lists and SGLs, completions; belongs to one thread
//!                    Dma            guest memory, by address; every access can fail
//! ```
//!
//! The commands are executed by the [`Controller`](super::Controller) and the
//! [`IoQueue`](super::IoQueue)s that NVMe/TCP has, too. Data are copied between guest memory and the
//! buffers of bios.
//!
//! The guest is hostile: whatever it writes to registers and memory, nothing here panics, and each
//! `poll` does a bounded amount of work. An error of a queue's own memory is fatal for the controller
//! (CSTS.CFS), until it is reset.
mod admin_queue;
mod config_space;
mod dma;
mod function;
mod pointers;
mod ring;
mod shared;
mod worker;

pub use config_space::BAR_SIZE;
pub use config_space::CONFIG_SIZE;
pub use dma::{Dma, DmaError};
pub use function::Function;
pub use worker::{IoWorker, Polled};

/// The vendor and the device in configuration space. Nobody has registered them.
pub const VENDOR: u16 = 0x5a4e;
const DEVICE: u16 = 0x0001;
/// The only page size, in bytes (CC.MPS 0).
const PAGE: u64 = 4096;
/// Commands fetched from a queue in one `poll`.
const BATCH: usize = 64;
