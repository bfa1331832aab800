//! The emulated subsystem, as a host sees it.
mod admin;
mod any;
mod connect;
mod io;
mod sequence;
mod support;
mod zones;
