//! `zonal top`: what a served device does, in a terminal; `zonal run --top`: the same of a run.
//!
//! ```text
//!  control socket, or
//!  devices of a run --> client  asks for views, in a thread of its own: a device may keep it waiting
//!                      screen  what is selected, asked and remembered; keys change it
//!                      draw    the screen as text
//!                      keys    the terminal's keys, and whether there still is one
//! ```
mod client;
mod draw;
mod keys;
mod screen;

use crate::terminal::stdout;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use client::{Client, Execute, Response};
use keys::Keys;
use ratatui::backend::TestBackend;
use ratatui::{DefaultTerminal, Terminal};
use screen::{Action, Screen};
use signal_hook::consts::SIGINT;
use signal_hook::low_level::raise;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use zonal_serve::control::{ControlClient, DeviceManager};

/// The longest time until a response that has arrived is drawn.
const RESPONSE_INTERVAL: Duration = Duration::from_millis(50);
/// Updates a second unless it is said otherwise.
const RATE: u8 = 4;

/// Options of `zonal top`.
#[derive(Args, Debug)]
pub struct TopArgs {
    /// The socket that `zonal serve --ctl` made
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    /// The device, by its number, if several are served
    #[arg(long, value_name = "N", default_value_t = 1)]
    device: usize,
    /// Updates a second, 1 to 10
    #[arg(long, value_name = "N", default_value_t = RATE, value_parser = clap::value_parser!(u8).range(1..=10))]
    rate: u8,
    /// Without colours, as with NO_COLOR in the environment: each condition has its letter
    #[arg(long)]
    no_color: bool,
    /// Print the screen once, as text of 80 columns, with the rates of a second
    #[arg(long)]
    once: bool,
}

impl TopArgs {
    fn color(&self) -> bool {
        !self.no_color && !self.once && wants_color()
    }
}

fn wants_color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Shows a device until a key ends it.
///
/// # Errors
/// There is no server or no such device, or standard output is not a terminal.
pub fn run(args: &TopArgs) -> Result<ExitCode> {
    let connect = || {
        let socket = args.socket.display();
        ControlClient::connect(&args.socket).with_context(|| {
            format!("{socket}: expected the control socket of a `zonal serve --ctl`")
        })
    };
    let mut screen = Screen::new(args.color(), args.device);
    if args.once {
        return once(client::remote(connect()?), &mut screen);
    }
    if !io::stdout().is_terminal() {
        bail!("standard output is not a terminal; --once prints the screen once");
    }
    let client = Client::start(client::remote(connect()?))?;
    let keys = Keys::open().context("the terminal's keys")?;
    let mut terminal = ratatui::try_init().context("the terminal")?;
    let over = AtomicBool::new(false);
    let shown = show(&mut terminal, &keys, &client, &mut screen, args.rate, &over);
    restore(terminal);
    shown.map(|_| ExitCode::SUCCESS)
}

/// Leaves the terminal as it was. One that is gone is not dropped, since ratatui would panic over a
/// message that has no place to go.
fn restore(mut terminal: DefaultTerminal) {
    let _gone = ratatui::try_restore();
    if terminal.show_cursor().is_err() {
        std::mem::forget(terminal);
    }
}

/// The devices of a run in the terminal, until it is dropped or a key ends it.
pub struct RunScreen {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RunScreen {
    /// Checks that there is a terminal.
    ///
    /// # Errors
    /// Standard output is not one.
    pub fn check() -> Result<()> {
        ensure!(io::stdout().is_terminal(), "--top: standard output is not a terminal");
        Ok(())
    }

    /// Shows the devices from now on. The key that interrupts a program interrupts the run; the one
    /// that ends the view does not.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub fn start(manager: DeviceManager) -> Result<Self> {
        let client = Client::start(client::local(manager))?;
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let keys = Keys::open().context("--top: the terminal's keys")?;
        let mut terminal = ratatui::try_init().context("--top: the terminal")?;
        let work = move || {
            let mut screen = Screen::new(wants_color(), 1);
            let shown = show(&mut terminal, &keys, &client, &mut screen, RATE, &seen);
            restore(terminal);
            match shown {
                Ok(Ended::Interrupted) => drop(raise(SIGINT)),
                Ok(Ended::Left) => {}
                Err(error) => tracing::warn!("--top: {error:#}"),
            }
        };
        let thread = thread::Builder::new().name("top".to_owned()).spawn(work)?;
        Ok(RunScreen { over, thread: Some(thread) })
    }
}

impl Drop for RunScreen {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Why a view ended.
enum Ended {
    /// A key left it, or there is nothing to see any more.
    Left,
    /// The key that interrupts a program.
    Interrupted,
}

/// Draws views as they come, and acts on keys, until it is `over`.
fn show(
    terminal: &mut DefaultTerminal,
    keys: &Keys,
    client: &Client,
    screen: &mut Screen,
    rate: u8,
    over: &AtomicBool,
) -> Result<Ended> {
    let interval = Duration::from_secs(1) / rate.into();
    let (mut due, mut asked, mut changed) = (Instant::now(), false, true);
    while !over.load(Ordering::Relaxed) {
        if std::mem::take(&mut changed) {
            terminal.draw(|frame| draw::draw(frame, screen))?;
        }
        if !asked && Instant::now() >= due {
            client.request_view(screen.device, screen.range());
            (asked, due) = (true, Instant::now() + interval);
        }
        while let Some(response) = client.response()? {
            changed = true;
            match response {
                Response::View(device, range, view) => {
                    if device == screen.device {
                        screen.update(range, *view);
                    }
                    asked = false;
                }
                Response::Done(result) => screen.done(result),
            }
        }
        let wait = if changed { Duration::ZERO } else { RESPONSE_INTERVAL };
        for event in keys.during(wait)? {
            changed = true;
            let Some(key) = event.as_key_press_event() else { continue };
            match screen.key(key) {
                Action::None => {}
                Action::Quit => return Ok(Ended::Left),
                Action::Interrupt => return Ok(Ended::Interrupted),
                Action::Send(command) => client.send(screen.device, command),
            }
        }
    }
    Ok(Ended::Left)
}

/// Prints the screen once.
fn once(mut execute: Execute, screen: &mut Screen) -> Result<ExitCode> {
    let mut terminal = Terminal::new(TestBackend::new(80, 24))?;
    // The first one tells how large the map is, the second how many zones there are, and two views
    // have rates.
    for pause in [0, 0, 1] {
        std::thread::sleep(Duration::from_secs(pause));
        terminal.draw(|frame| draw::draw(frame, screen))?;
        let range = screen.range();
        let view = client::view(&mut execute, screen.device, range)?;
        screen.update(range, view);
    }
    terminal.draw(|frame| draw::draw(frame, screen))?;
    let mut out = stdout();
    let buffer = terminal.backend().buffer();
    for row in buffer.content.chunks(usize::from(buffer.area.width)) {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}
