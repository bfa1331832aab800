//! `zonal top`: what a served device does, in a terminal.
//!
//! ```text
//!  control socket --> client    asks for views, in a thread of its own: a device may keep it waiting
//!                     screen    what is selected, asked and remembered; keys change it
//!                     draw      the screen as text
//! ```
mod client;
mod draw;
mod screen;

use anyhow::{Context, Result, bail};
use clap::Args;
use client::{Client, News};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use screen::{Action, Screen};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use zonal_host::control::ControlClient;

/// How soon a key is seen.
const KEY_INTERVAL: Duration = Duration::from_millis(50);

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
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=10))]
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
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        !self.no_color && !self.once && !unwanted
    }
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
    let mut screen = Screen::new(args.color());
    if args.once {
        return once(args, connect()?, &mut screen);
    }
    if !io::stdout().is_terminal() {
        bail!("standard output is not a terminal; --once prints the screen once");
    }
    let client = Client::start(connect()?, args.device)?;
    let mut terminal = ratatui::try_init().context("the terminal")?;
    let shown = show(&mut terminal, &client, &mut screen, args.rate);
    ratatui::restore();
    shown.map(|()| ExitCode::SUCCESS)
}

/// Draws views as they come, and acts on keys.
fn show(
    terminal: &mut ratatui::DefaultTerminal,
    client: &Client,
    screen: &mut Screen,
    rate: u8,
) -> Result<()> {
    let interval = Duration::from_secs(1) / rate.into();
    let (mut due, mut asked) = (Instant::now(), false);
    loop {
        terminal.draw(|frame| draw::draw(frame, screen))?;
        if !asked && Instant::now() >= due {
            client.ask(screen.range());
            (asked, due) = (true, Instant::now() + interval);
        }
        while let Some(news) = client.news()? {
            match news {
                News::View(range, view) => {
                    screen.update(range, *view);
                    asked = false;
                }
                News::Done(result) => screen.done(result),
            }
        }
        if event::poll(KEY_INTERVAL)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            match screen.key(key) {
                Action::None => {}
                Action::Quit => return Ok(()),
                Action::Send(command) => client.send(command),
            }
        }
    }
}

/// Prints the screen once.
fn once(args: &TopArgs, mut client: ControlClient, screen: &mut Screen) -> Result<ExitCode> {
    let mut terminal = Terminal::new(TestBackend::new(80, 24))?;
    // The first one tells how large the map is, the second how many zones there are, and two views
    // have rates.
    for pause in [0, 0, 1] {
        std::thread::sleep(Duration::from_secs(pause));
        terminal.draw(|frame| draw::draw(frame, screen))?;
        let range = screen.range();
        let view = client::view(&mut client, args.device, range)?;
        screen.update(range, view);
    }
    terminal.draw(|frame| draw::draw(frame, screen))?;
    let mut out = io::stdout().lock();
    let buffer = terminal.backend().buffer();
    for row in buffer.content.chunks(usize::from(buffer.area.width)) {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}
