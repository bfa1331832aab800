//! The rotating disk, from outside: through the block layer, in virtual time unless a test says so.
mod cache;
mod clocks;
mod mechanics;
mod profiles;
mod properties;
mod rig;
mod smr;
