//! Whether a benchmark that was started is to measure.

/// Whether to measure. `cargo test` runs benchmarks as well, as tests, and does not pass `--bench` as
/// `cargo bench` does: then this says that nothing is measured. A benchmark that is started without
/// cargo measures.
pub fn measures() -> bool {
    let by_cargo = std::env::var_os("CARGO_MANIFEST_DIR").is_some();
    let measures = !by_cargo || std::env::args_os().any(|arg| arg == "--bench");
    if !measures {
        println!("{}: nothing is measured without cargo bench", env!("CARGO_CRATE_NAME"));
    }
    measures
}
