//! The admin queue of a device in use: says in time that the host lives, and goodbye.
use super::exchange::Exchange;
use super::scan::{SHUTDOWN, property_set};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use zonal_nvme::wire::Sqe;
use zonal_nvme::wire::opcode::AdminOpcode;
use zonal_nvme::wire::property::Property;

/// How long the target may take to say that it heard the goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// A thread with the admin queue; dropping it shuts the controller down.
pub(super) struct KeepAlive {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl KeepAlive {
    /// Sends a Keep Alive every `period` from now on.
    pub fn start(admin: Exchange, period: Duration) -> std::io::Result<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let theirs = Arc::clone(&stop);
        let thread = thread::Builder::new().name("keep-alive".to_owned());
        let thread = thread.spawn(move || run(admin, period, &theirs))?;
        Ok(KeepAlive { stop, thread: Some(thread) })
    }
}

fn run(mut admin: Exchange, period: Duration, (stop, changed): &(Mutex<bool>, Condvar)) {
    let mut stopped = stop.lock().expect("stop lock");
    loop {
        (stopped, _) =
            changed.wait_timeout_while(stopped, period, |stopped| !*stopped).expect("stop lock");
        if *stopped {
            // The target may be gone: then there is nobody to say it to.
            let _ = admin.send_within(
                GOODBYE,
                "shutdown",
                property_set(Property::CC, SHUTDOWN),
                Vec::new(),
                0,
            );
            return;
        }
        drop(stopped);
        let alive = Sqe::new(AdminOpcode::KEEP_ALIVE.0, 0, 0);
        if admin.send_within(period, "Keep Alive", alive, Vec::new(), 0).is_err() {
            // The target ends the I/O queues with this one; requests then say so.
            return;
        }
        stopped = stop.lock().expect("stop lock");
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        let (stop, changed) = &*self.stop;
        *stop.lock().expect("stop lock") = true;
        changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It panics nowhere; if it did it has said so.
            let _ = thread.join();
        }
    }
}
