//! What zone write plugging promises, by the numbers of the behaviours (A1 to A47).
mod append;
mod attach;
mod channels;
mod errors;
mod freeze;
mod life_cycle;
mod management;
mod qd1;
mod seen;
mod writes;
