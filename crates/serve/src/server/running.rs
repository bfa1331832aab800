//! Devices that are being served, until they are stopped.
use super::ServeError;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use zonal_backend::Stack;
use zonal_device::control::Lateness;
use zonal_device::quantity::format_time;
use zonal_frontend::nvme_tcp::Path;
use zonal_frontend::zonefs::ZoneFs;
use zonal_os::RealClock;

/// An export of devices. Dropping it ends it.
pub trait Export: Send {
    /// Its address, as users write it.
    fn location(&self) -> String;

    /// The paths over which hosts reach it, if it has ANA states.
    fn paths(&self) -> Vec<Path> {
        Vec::new()
    }

    /// The zones as files, if the export has one.
    fn files(&self) -> Option<Arc<ZoneFs>> {
        None
    }
}

/// An event that a server waits for.
pub enum Event {
    /// It is to stop.
    Stopped,
    /// An export ended by itself, for this reason.
    #[cfg_attr(not(feature = "fuse"), allow(dead_code))]
    Ended(String),
    /// An export failed, for this reason.
    Failed(String),
}

/// Stops a server, from any thread.
#[derive(Clone)]
pub struct Stopper(Sender<Event>);

impl Stopper {
    /// [`Running::wait`] returns, now or as soon as it is called.
    pub fn stop(&self) {
        // Without a receiver the server is already shutting down.
        let _ = self.0.send(Event::Stopped);
    }
}

/// The events that a server waits for, and their sender.
pub struct Stopping {
    sender: Sender<Event>,
    events: Receiver<Event>,
}

/// Makes the [`Stopping`] of a server that does not exist yet: a signal may come before it.
pub fn stopping() -> Stopping {
    let (sender, events) = channel();
    Stopping { sender, events }
}

impl Stopping {
    /// Stops the server.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.sender.clone())
    }

    pub(super) fn sender(&self) -> Sender<Event> {
        self.sender.clone()
    }
}

/// Devices that are being served. Dropping it is [`stop`](Running::stop) without its errors, which are
/// logged.
pub struct Running {
    // In this order: the exports have ended before the devices go.
    exports: Vec<Box<dyn Export>>,
    /// Exports that serve devices; the others control them.
    served: usize,
    stacks: Vec<Stack>,
    /// That of the exports.
    clock: RealClock,
    stopping: Stopping,
}

impl Running {
    pub(super) fn new(
        exports: Vec<Box<dyn Export>>,
        served: usize,
        stacks: Vec<Stack>,
        clock: RealClock,
        stopping: Stopping,
    ) -> Self {
        Running { exports, served, stacks, clock, stopping }
    }

    /// Where the exports are, as users write it, ready for clients: first those that serve devices, then
    /// the control socket, the metrics and the page.
    pub fn locations(&self) -> Vec<String> {
        self.exports.iter().map(|export| export.location()).collect()
    }

    /// The devices.
    pub fn stacks(&self) -> &[Stack] {
        &self.stacks
    }

    /// Stops it from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stopping.stopper()
    }

    /// Waits until the server is stopped, or no export that serves devices is left.
    ///
    /// # Errors
    /// An export failed.
    pub fn wait(&self) -> Result<(), ServeError> {
        let mut left = self.served;
        while left > 0 {
            let event = self.stopping.events.recv();
            match event.expect("the server itself has a sender") {
                Event::Stopped => break,
                Event::Ended(why) => {
                    tracing::info!("{why}");
                    left -= 1;
                }
                Event::Failed(why) => return Err(ServeError::Failed(why)),
            }
        }
        Ok(())
    }

    /// Ends the exports, once I/O in flight has completed, flushes the devices, and ends the recordings.
    ///
    /// # Errors
    /// A device cannot be flushed, or a log not written.
    pub fn stop(mut self) -> Result<(), ServeError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ServeError> {
        self.exports.clear();
        let stacks = std::mem::take(&mut self.stacks);
        // Each, also after one that fails.
        let flushed = stacks.iter().map(|stack| stack.flush(&self.clock)).fold(Ok(()), Result::and);
        stacks.iter().for_each(report_lateness);
        let mut recordings = stacks.iter().filter_map(|stack| stack.recording.as_ref());
        let recorded = recordings.try_for_each(|recording| recording.finish());
        flushed.map_err(ServeError::Flush).and(recorded.map_err(ServeError::from))
    }

    /// As [`stop`](Self::stop), but returns after `limit`, when the exports still have I/O in flight. They
    /// then end on a thread of their own, once it has completed. Where no thread can be started it waits
    /// for them.
    ///
    /// # Errors
    /// As [`stop`](Self::stop), or [`ServeError::Busy`] after `limit`.
    pub fn stop_within(self, limit: Duration) -> Result<(), ServeError> {
        self.stop_on(limit, |stop| thread::Builder::new().name("stop".to_owned()).spawn(stop))
    }

    fn stop_on<T>(
        self,
        limit: Duration,
        start: impl FnOnce(Box<dyn FnOnce() + Send>) -> io::Result<T>,
    ) -> Result<(), ServeError> {
        let (sender, stopped) = channel();
        // What is not started would be dropped with what it owns.
        let running = Arc::new(Mutex::new(Some(self)));
        let take = |running: &Mutex<Option<Self>>| running.lock().expect("lock").take();
        let there = Arc::clone(&running);
        let stop = move || {
            let running = take(&there).expect("nobody else stops it");
            // There is no receiver after the limit.
            drop(sender.send(running.stop()));
        };
        match start(Box::new(stop)) {
            Ok(_) => stopped.recv_timeout(limit).unwrap_or(Err(ServeError::Busy(limit))),
            Err(error) => {
                tracing::warn!("cannot start a thread, and waits until I/O has completed: {error}");
                take(&running).expect("nobody else stops it").stop()
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!("{error}");
        }
    }
}

/// Says how often a model was polled too late.
fn report_lateness(device: &Stack) {
    if let Some(lateness) = device.model.lateness().filter(|lateness| lateness.completions > 0) {
        let (Lateness { completions, late, total, largest }, percent) =
            (lateness, lateness.percent());
        tracing::info!(
            "late_completions: device={}, completions={completions}, late={late}, \
             percent={percent:.2}, sum={}, largest={}",
            device.name,
            format_time(total.0 / 1000 * 1000),
            format_time(largest.0 / 1000 * 1000)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An export with I/O in flight until the sender is gone.
    struct BusyExport(Receiver<()>);

    impl Export for BusyExport {
        fn location(&self) -> String {
            "nowhere".to_owned()
        }
    }

    impl Drop for BusyExport {
        fn drop(&mut self) {
            self.0.recv().expect_err("nothing is sent");
        }
    }

    #[test]
    fn stop_returns_at_its_limit_or_when_io_has_completed() {
        let running = |io| {
            Running::new(
                vec![Box::new(BusyExport(io))],
                1,
                Vec::new(),
                RealClock::start(),
                stopping(),
            )
        };
        let (in_flight, io) = channel();
        let error = running(io).stop_within(Duration::ZERO).expect_err("I/O is in flight");
        assert!(matches!(error, ServeError::Busy(Duration::ZERO)), "{error}");
        drop(in_flight);
        let (_, io) = channel();
        running(io).stop_within(Duration::MAX).expect("nothing is in flight");
    }

    #[test]
    fn server_is_stopped_where_no_thread_can_be_started() {
        /// Says that it ended.
        struct Ending(Sender<()>);

        impl Export for Ending {
            fn location(&self) -> String {
                "nowhere".to_owned()
            }
        }

        impl Drop for Ending {
            fn drop(&mut self) {
                self.0.send(()).expect("the test waits");
            }
        }

        let (ending, ended) = channel();
        let running = Running::new(
            vec![Box::new(Ending(ending))],
            1,
            Vec::new(),
            RealClock::start(),
            stopping(),
        );
        let fails = |_| Err::<(), _>(io::ErrorKind::WouldBlock.into());
        running.stop_on(Duration::ZERO, fails).expect("it has stopped");
        ended.try_recv().expect("its export has ended");
    }
}
