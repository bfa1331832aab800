//! The emulated subsystem, as a host sees it.
mod admin;
mod ana;
mod any;
mod auth;
mod connect;
mod io;
mod network;
mod placement;
mod sequence;
mod shutdown;
mod stages;
mod status;
mod support;
mod table;
mod zones;
