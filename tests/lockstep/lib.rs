//! The block layer judged by the kernel: the same bios through both, on the same device.
//!
//! A [`script`] is [drawn](draw) from a seed. In a guest, [`kernel`] submits it to a disk that
//! `zonal serve` serves, with no plugs of its own; [`layer`] submits it to a queue on the
//! same device. Faults and conditions of zones come from the same wrappers below both, and the same
//! recorder logs what reaches the device. [`compare`] compares, round by round, each bio's result,
//! what the device executed in each zone and in which order, and the zones afterwards. A device that loses its
//! power is not recorded: of it, results and zones are compared.
//!
//! Both are deterministic because the device stands still while a round is submitted: the server is
//! stopped, the queue is not polled. A bio is submitted when the one before it waits in the kernel.
#![forbid(unsafe_code)]

pub mod compare;
pub mod draw;
pub mod kernel;
pub mod layer;
pub mod observe;
pub mod script;
