//! A device over several paths that fail and return, in virtual time.
mod cases;
mod path;
mod property;
mod threads;
mod world;
