//! NVMe/TCP on the loopback: both ends, and peers that do not behave.
mod auth;
mod limits;
mod loopback;
mod paths;
mod peers;
mod support;
