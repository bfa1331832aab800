//! Interrupts: the first one asks the program to end, the second one ends it.
//!
//! A program that was asked to end may wait for a device for hours. The second signal therefore ends
//! the process from the signal's handler, whatever its threads do. Nothing is flushed then: an image
//! is left as by a power loss, and its lock ends with the process.
use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use zonal_serve::control::log::Log;

const SIGNALS: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];
/// Exit code of a process that a signal ended, less the signal's number.
const EXIT_BY_SIGNAL: i32 = 128;
/// Exit code after the time to end has passed.
const EXIT_BY_DEADLINE: i32 = 1;
/// A signal has arrived.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The first signal's number; 0 before it.
static SIGNAL: AtomicUsize = AtomicUsize::new(0);

/// Makes a write beyond the limit of a file's size (RLIMIT_FSIZE) an error of that write, `EFBIG`, instead
/// of the end of the process with all that it serves. Commands that the process starts have the signal as
/// before.
///
/// # Errors
/// The handler cannot be installed.
pub fn survive_file_size_limit() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}

/// The exit code after an interrupt; `None` if there was none.
pub fn exit_code() -> Option<ExitCode> {
    let signal = u8::try_from(SIGNAL.load(Ordering::Relaxed)).ok().filter(|&signal| signal > 0)?;
    Some(ExitCode::from(EXIT_BY_SIGNAL as u8 + signal))
}

/// Sets `stop` on an interrupt. Only the first call has an effect: a process has one handler.
///
/// # Errors
/// The handlers cannot be installed.
pub fn set_on_interrupt(stop: &Arc<AtomicBool>) -> Result<()> {
    static IS_SET: AtomicBool = AtomicBool::new(false);
    if IS_SET.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    end_on_second()
        .and_then(|()| {
            let set = |signal| flag::register(signal, Arc::clone(stop)).map(drop);
            SIGNALS.into_iter().try_for_each(set)
        })
        .context("cannot handle interrupts")
}

/// Calls `ask` on an interrupt, and if the process is still there after `timeout`, ends it.
///
/// # Errors
/// The handlers cannot be installed.
pub fn end_on_interrupt(
    ask: impl FnOnce() + Send + 'static,
    timeout: Duration,
    log: Log,
) -> Result<()> {
    let wait = |mut signals: Signals| {
        move || {
            signals.forever().next();
            ask();
            thread::sleep(timeout);
            tracing::error!(
                "still waiting {} s after an interrupt: ends now, as by a power loss",
                timeout.as_secs_f64()
            );
            log.flush();
            low_level::exit(EXIT_BY_DEADLINE)
        }
    };
    end_on_second()
        .and_then(|()| Signals::new(SIGNALS))
        .and_then(|signals| thread::Builder::new().name("signals".to_owned()).spawn(wait(signals)))
        .context("cannot handle interrupts")?;
    Ok(())
}

/// Ends the process on the second signal.
fn end_on_second() -> io::Result<()> {
    for signal in SIGNALS {
        // In this order: the first signal finds the flag not set.
        flag::register_conditional_shutdown(signal, EXIT_BY_SIGNAL + signal, &INTERRUPTED)?;
        flag::register(signal, &INTERRUPTED)?;
        flag::register_usize(signal, &SIGNAL, signal.unsigned_abs() as usize)?;
    }
    Ok(())
}
