//! Texts of values to values: pure functions, one file for each kind.
pub(crate) mod cpus;
pub(crate) mod distance;
pub(crate) mod errors;
pub(crate) mod expr;
pub(crate) mod number;
pub(crate) mod pattern;
pub(crate) mod size;
pub(crate) mod time;
pub(crate) mod triple;
