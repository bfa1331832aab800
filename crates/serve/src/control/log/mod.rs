//! The log: events of `tracing` as lines on standard error.
//!
//! ```text
//!  tracing::warn!   any thread, never waits
//!    RateLimit        messages of one place in five seconds
//!    line             text or JSON, escaped and bounded
//!    Writer           a queue, and the thread that writes to standard error
//! ```
//!
//! If nobody reads standard error, or it is closed, lines are lost, and the next one that is not
//! says how many.
mod line;
mod rate_limit;
mod writer;

use line::Content;
use rate_limit::RateLimit;
use serde_json::Value;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use writer::Writer;

/// How an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `zonal: MESSAGE`, for commands whose user is present.
    Plain,
    /// The time in UTC, the level, the message, and values as `NAME=VALUE`.
    Text,
    /// An object with the keys `time`, `level`, `message`, and the names of values.
    Json,
}

/// Which events are logged, and how.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// The form of a line.
    pub format: Format,
    /// Events of this level and above.
    pub level: Level,
    /// Whether the messages of each place in the program are limited to 100 in 5 seconds.
    pub limited: bool,
}

/// The log of this process.
#[derive(Clone)]
pub struct Log(Writer);

impl Log {
    /// Writes the events of all threads to standard error, from now on.
    ///
    /// # Errors
    /// The process has no resources left, or another log.
    pub fn start(options: LogOptions) -> io::Result<Self> {
        // Not through `std::io::stderr()`, whose lock a write that blocks would hold.
        let out = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let writer = Writer::start(out)?;
        let LogOptions { format, level, limited } = options;
        let limit = limited.then(Mutex::default);
        let lines = Lines { writer: writer.clone(), format, limit, lost: AtomicU64::new(0) };
        let subscriber =
            tracing_subscriber::registry().with(LevelFilter::from_level(level)).with(lines);
        tracing::subscriber::set_global_default(subscriber).map_err(io::Error::other)?;
        Ok(Log(writer))
    }

    /// Waits until what has been logged is written, or for a second if nobody reads it.
    pub fn flush(&self) {
        self.0.flush();
    }
}

/// Makes lines of events.
struct Lines {
    writer: Writer,
    format: Format,
    limit: Option<Mutex<RateLimit>>,
    /// Messages that found the queue full, since the last one that did not.
    lost: AtomicU64,
}

impl Lines {
    /// How many messages like this one were suppressed before it; `None` to suppress it, too.
    fn admit(&self, event: &Event<'_>) -> Option<u32> {
        let Some(limit) = &self.limit else { return Some(0) };
        let mut limit = limit.lock().unwrap_or_else(PoisonError::into_inner);
        limit.admit(event.metadata().callsite(), Instant::now())
    }

    fn write(&self, level: Level, content: &Content) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let write = |level, content: &Content| {
            self.writer.write(line::line(self.format, SystemTime::now(), level, content))
        };
        let reported = lost == 0 || write(Level::WARN, &count("messages were lost", lost));
        let written = reported && write(level, content);
        let missing = if reported { 0 } else { lost } + u64::from(!written);
        self.lost.fetch_add(missing, Ordering::Relaxed);
    }
}

fn count(message: &str, count: u64) -> Content {
    Content { message: message.to_owned(), fields: vec![("count", Value::from(count))] }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(suppressed) = self.admit(event) else { return };
        let level = *event.metadata().level();
        let mut content = Content::default();
        event.record(&mut content);
        if suppressed > 0 {
            self.write(level, &count("similar messages were suppressed", suppressed.into()));
        }
        self.write(level, &content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Sends each line, once it may.
    struct Gate {
        open: Receiver<()>,
        lines: Sender<String>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Without a sender it is open.
            let _ = self.open.recv();
            let line = String::from_utf8(bytes.to_vec()).expect("a whole line");
            self.lines.send(line).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn messages_that_nobody_reads_are_lost_and_counted() {
        const MESSAGES: usize = 5000;
        let ((gate, open), (lines, written)) = (channel(), channel());
        let writer = Writer::start(Gate { open, lines }).expect("a thread");
        let lost = AtomicU64::new(0);
        let layer = Lines { writer: writer.clone(), format: Format::Plain, limit: None, lost };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            (0..MESSAGES).for_each(|number| tracing::info!(number, "one of many"));
            drop(gate);
            writer.flush();
            tracing::info!("the next");
        });
        writer.flush();
        let lines: Vec<String> = written.try_iter().collect();
        // The thread may take its first line only after others were lost: that is a report more.
        let count = |line: &String| {
            let count = line.strip_prefix("zonal: messages were lost count=")?.trim_end();
            Some(count.parse::<usize>().expect("a number"))
        };
        let lost: Vec<usize> = lines.iter().filter_map(count).collect();
        let messages = lines.len() - lost.len() - 1;
        assert!(messages < MESSAGES, "{messages}");
        assert_eq!(messages + lost.iter().sum::<usize>(), MESSAGES);
        assert!(count(&lines[lines.len() - 2]).is_some(), "the report comes first");
        assert_eq!(lines.last().map(String::as_str), Some("zonal: the next\n"));
    }
}
