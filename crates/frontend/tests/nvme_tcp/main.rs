//! NVMe/TCP on the loopback: both ends, and misbehaving peers.
mod access;
mod ana_events;
mod auth;
#[path = "../held_reads/mod.rs"]
mod held_reads;
#[path = "../../../../tests/hostile/mod.rs"]
mod hostile;
mod limits;
mod loopback;
mod paths;
mod peers;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod transcripts;
mod wake;
