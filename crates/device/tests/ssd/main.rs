//! The ordinary flash drive below a queue, in virtual time.
mod drive;
mod map;
mod placement;
mod rig;
