//! A device over several paths that fail and come back, in virtual time.
mod cases;
mod path;
mod property;
mod threads;
mod world;
