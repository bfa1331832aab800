//! The promises of zone write plugging, by the numbers of the behaviours (A1 to A47).
#![allow(clippy::cast_possible_truncation, reason = "the numbers of these tests are small")]
mod append;
mod attach;
mod channels;
mod errors;
mod faults;
mod freeze;
mod life_cycle;
mod management;
mod model;
mod properties;
mod qd1;
mod revalidate;
mod seen;
mod settings;
mod table;
mod timeout;
mod wake;
mod writes;
mod zrwa;
