//! The version of the library.
use std::ffi::c_int;

/// The version of the library that runs, as `ZONAL_VERSION` is that of the header: 10000 for each major
/// version, 100 for each minor one, 1 for each patch. A library with another major version, or before 1.0
/// another minor one, needs a program that was compiled again.
#[unsafe(no_mangle)]
pub extern "C" fn zonal_version() -> c_int {
    let part = |text: &str| text.parse::<c_int>().expect("cargo checks versions");
    let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    part(major) * 10_000 + part(minor) * 100 + part(env!("CARGO_PKG_VERSION_PATCH"))
}
