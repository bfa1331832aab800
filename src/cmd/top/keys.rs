//! Keys of the terminal, and whether it is still there.
//!
//! A terminal that is gone can be read immediately, and has nothing to read. crossterm would try for ever,
//! so it is asked only when there is something.
use anyhow::{Result, ensure};
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Where crossterm reads keys from: standard input, or this if that is no terminal.
pub struct Keys(Option<File>);

impl Keys {
    /// Finds the terminal.
    ///
    /// # Errors
    /// The program has none.
    pub fn open() -> io::Result<Self> {
        let has_input = io::stdin().is_terminal();
        Ok(Keys(if has_input { None } else { Some(File::open("/dev/tty")?) }))
    }

    /// The terminal's next report, now or before `wait` is over.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn during(&self, wait: Duration) -> Result<Vec<Event>> {
        let stdin = io::stdin();
        let terminal: BorrowedFd<'_> = self.0.as_ref().map_or(stdin.as_fd(), File::as_fd);
        let mut seen = [PollFd::from_borrowed_fd(terminal, PollFlags::IN)];
        match poll(&mut seen, Some(&Timespec::try_from(wait)?)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        ensure!(!seen[0].revents().intersects(gone), "the terminal is gone");
        let mut events = Vec::new();
        while event::poll(Duration::ZERO)? {
            events.push(event::read()?);
        }
        Ok(events)
    }
}
