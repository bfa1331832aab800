//! libzonal: the devices of Zonal for programs in C and C++. `zonal.h` is made from this crate
//! (`cargo xtask capi`).
//!
//! ```text
//!  device   open, close, what a device is
//!  create   images
//!  zones    report and management, by the functions of libzbd under other names
//!  io       read, write and append, one after another
//!  queue    many commands in flight: submit, then poll for completions
//!  serve    a device that is served to others
//!  version  of the library
//!  channel  what io and queue have in common: a channel of the block layer, and buffers
//!  handles  numbers for what C holds, so that a closed one is found out
//!  error    errno and a text, for the thread that called
//! ```
//!
//! Rules of the border: a function that fails returns -1, with `errno` set and a text for people in
//! [`error::zonal_error`]. Nothing panics across it: a panic is an error with `EIO`. Null pointers and
//! handles that are closed are errors. What cannot be found out is in the documentation of each function: a
//! pointer has to be to as much memory as the function says.
#![allow(non_camel_case_types, reason = "the names are C's")]
#![warn(clippy::undocumented_unsafe_blocks)]

mod channel;
pub mod create;
pub mod device;
pub mod error;
mod handles;
pub mod io;
pub mod queue;
pub mod serve;
pub mod version;
pub mod zones;
