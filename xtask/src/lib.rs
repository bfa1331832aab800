//! The common parts of `cargo xtask`'s commands and tests.
#![forbid(unsafe_code)]
pub mod capi;
pub mod flash;
pub mod full;
pub mod lines;
pub mod man3;
pub mod mutants;
pub mod site;
pub mod size;

use std::path::Path;

/// The root of the workspace.
///
/// # Panics
/// Never: xtask is a folder of it.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}
