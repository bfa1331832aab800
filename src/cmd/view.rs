//! `zonal view`: recordings of runs as a page, side by side.
use crate::args::address;
use crate::interrupt::{exit_code, set_on_interrupt};
use crate::terminal::stdout;
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use zonal_serve::web::{self, Recording, WebServer};

/// Most recordings at a time.
const MAX_FILES: usize = 4;
/// How soon an interrupt is seen.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(100);

/// Options of `zonal view`.
#[derive(Args, Debug)]
pub struct ViewArgs {
    /// What `zonal run --record-view` wrote; several are shown side by side
    #[arg(value_name = "FILE", required = true, num_args = 1..=MAX_FILES)]
    files: Vec<PathBuf>,
    /// The address of the page; port 0 for any that is free. On an address that other machines reach,
    /// the page has a token in its URL
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0", value_parser = address)]
    web: SocketAddr,
    /// Write the page with everything in it to a file, and serve nothing
    #[arg(long, value_name = "OUT", conflicts_with = "web")]
    html: Option<PathBuf>,
}

/// Shows recordings until an interrupt, or writes them as a page.
///
/// # Errors
/// A file is not a recording, or the page cannot be served or written.
pub fn run(args: &ViewArgs) -> Result<ExitCode> {
    let mut recordings = Vec::new();
    for file in &args.files {
        let recording = Recording::open(file).with_context(|| file.display().to_string())?;
        let empty = recording.devices.iter().all(|device| device.frames.is_empty());
        ensure!(!empty, "{}: found no frames", file.display());
        recordings.push(recording);
    }
    if let Some(out) = &args.html {
        fs::write(out, web::standalone(recordings))
            .with_context(|| format!("--html {}", out.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let stop: Arc<AtomicBool> = Arc::default();
    set_on_interrupt(&stop)?;
    let server =
        WebServer::replay(args.web, recordings).with_context(|| format!("--web {}", args.web))?;
    let mut out = stdout();
    writeln!(out, "{}", server.url())?;
    out.flush()?;
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(INTERRUPT_INTERVAL);
    }
    Ok(exit_code().unwrap_or(ExitCode::SUCCESS))
}
