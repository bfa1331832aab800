//! The `zonal` program.
fn main() {}
