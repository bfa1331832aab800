//! The rotating disk through the block layer, in virtual time unless a test says otherwise.
mod cache;
mod clocks;
mod mechanics;
mod profiles;
mod properties;
mod rig;
mod smr;
