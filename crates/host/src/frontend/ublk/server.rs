//! Makes a ublk device, serves it, and deletes it.
//!
//! Takes the block layer of a device; gives a block device of this machine. Keeps true: what was
//! made is deleted, in whatever step something went wrong; a device that waits for a server is left
//! as it is unless it is this one.
use super::abi::{ANY_ID, DevInfo, MAX_IDS, Params, feature, param, state};
use super::control::{Control, ControlError, PATH};
use super::io_buffers::Notify;
use super::params::{ParamsError, params};
use super::queue::Queue;
use super::ring::Ring;
use super::worker;
use crate::RealClock;
use rustix::process::configure_io_flusher_behavior;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use zerocopy::FromZeros;

/// How long a file of the device may take to appear, and a killed server to be gone.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often that is looked at.
const DEVICE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What a server is to be.
#[derive(Clone)]
pub struct ServerConfig {
    /// The device's number; `None` for any that is free.
    pub id: Option<u32>,
    /// Queues, each with a thread; the driver makes no more than there are processors.
    pub queues: u16,
    /// Requests that a queue has at once, 1 to [`MAX_QUEUE_DEPTH`](super::MAX_QUEUE_DEPTH).
    pub depth: u16,
    /// The device waits for another server when this one is killed, and one that waits is
    /// continued.
    pub recover: bool,
    /// Data are copied, also where the kernel lends its pages and the device takes them.
    pub copies: bool,
    /// The time; all who use a device go by the same clock.
    pub clock: RealClock,
    /// Is told, in words for people, what a user may want to know.
    pub notify: Notify,
    /// Is told why the device ended that was not dropped.
    pub ended: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Why a device is not served.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The driver.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The device.
    #[error(transparent)]
    ParamsError(#[from] ParamsError),
    /// The number is too large.
    #[error("ublk device {0}: expected a number below {MAX_IDS}")]
    Id(u32),
    /// Somebody serves it.
    #[error("ublk device {id} is served by process {pid}")]
    InUse {
        /// Its number.
        id: u32,
        /// Who.
        pid: i32,
    },
    /// It waits for a server.
    #[error(
        "ublk device {0} waits for another server, since the last one was killed: --recover goes \
         on with it"
    )]
    AwaitsRecovery(u32),
    /// It is another one.
    #[error("ublk device {id} waits for another server, but not for this device: {what}")]
    Differs {
        /// Its number.
        id: u32,
        /// What is different.
        what: String,
    },
    /// A killed server is not yet gone.
    #[error("ublk device {0}: its last server does not end")]
    ServerStillRunning(u32),
    /// A file of the device.
    #[error("cannot open {0}: {1}")]
    Open(String, io::Error),
    /// A queue could not be set up.
    #[error("ublk queue {queue}: {error}")]
    Queue {
        /// Its number.
        queue: u16,
        /// What failed.
        error: io::Error,
    },
}

/// A device that is served. Dropping it deletes it, after the I/O that was begun.
pub struct Server {
    control: Control,
    id: u32,
    /// Not if it is to wait for another server.
    delete_on_drop: bool,
    dropped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Serves a device.
    ///
    /// # Errors
    /// The driver is not there or too old, the device is none for it, or the number is taken.
    pub fn start(
        queue: &Arc<zonal_blk::Queue>,
        config: &ServerConfig,
    ) -> Result<Server, UblkError> {
        let mut params = params(queue)?;
        let mut flags = feature::USER_COPY | feature::CMD_IOCTL_ENCODE;
        if params.types & param::ZONED != 0 {
            flags |= feature::ZONED;
        }
        if config.recover {
            flags |= feature::USER_RECOVERY | feature::USER_RECOVERY_REISSUE;
        }
        if let Some(id) = config.id.filter(|id| *id >= MAX_IDS) {
            return Err(UblkError::Id(id));
        }
        let mut control = Control::open(Path::new(PATH), flags)?;
        if let Some(Ok(alignment)) = zero_copy(&control, queue, config) {
            flags |= feature::SUPPORT_ZERO_COPY;
            params.align(alignment);
        }
        let waiting = match config.id {
            Some(id) => find_recoverable(&mut control, id, config)?,
            None => None,
        };
        match waiting {
            Some(info) => resume(control, queue, config, info, flags, &params),
            None => create(control, queue, config, flags, &params),
        }
    }

    /// The block device.
    pub fn path(&self) -> String {
        format!("/dev/ublkb{}", self.id)
    }

    /// Whether the device's data are lent; of a device that takes them so it is said.
    fn report_zero_copy(
        &self,
        queue: &zonal_blk::Queue,
        config: &ServerConfig,
        info: &DevInfo,
    ) -> bool {
        let Some(zero_copy) = zero_copy(&self.control, queue, config) else { return false };
        let path = self.path();
        let made_so = info.flags & feature::SUPPORT_ZERO_COPY != 0;
        let lack = zero_copy
            .and_then(|_| if made_so { Ok(()) } else { Err("as when it was made".to_owned()) });
        (config.notify)(&match &lack {
            Ok(()) => {
                format!("{path}: zero copy: the device moves data to and from the kernel's pages")
            }
            Err(why) => format!("{path}: data are copied: {why}"),
        });
        lack.is_ok()
    }

    /// Starts the threads; gives back when the driver has the commands of all queues.
    fn serve(
        &mut self,
        queue: &Arc<zonal_blk::Queue>,
        config: &ServerConfig,
        info: &DevInfo,
        max_request_sectors: u32,
    ) -> Result<(), UblkError> {
        let zero_copy = self.report_zero_copy(queue, config, info);
        let file = Arc::new(open_char(self.id)?);
        let failed = |queue: u16, error: io::Error| UblkError::Queue { queue, error };
        let mut threads = Vec::new();
        for number in 0..info.nr_hw_queues {
            let channel = queue.channel().map_err(|e| failed(number, io::Error::other(e)))?;
            threads.push(Thread {
                file: Arc::clone(&file),
                queue: Queue::new(channel, info.queue_depth, max_request_sectors),
                number,
                depth: info.queue_depth,
                zero_copy: (zero_copy, Arc::clone(&config.notify)),
                clock: config.clock.clone(),
                dropped: Arc::clone(&self.dropped),
                ended: Arc::clone(&config.ended),
            });
        }
        let (tell, told) = mpsc::channel();
        let mut outcome = Ok(());
        for thread in threads {
            let (number, tell) = (thread.number, tell.clone());
            let named = thread::Builder::new().name(format!("ublk-{number}"));
            match named.spawn(move || thread.run(tell)) {
                Ok(thread) => self.threads.push(thread),
                Err(error) => outcome = Err(failed(number, error)),
            }
        }
        drop(tell);
        // All of them, so that none is still sending commands when the device is stopped.
        for ready in told {
            outcome = outcome.and(ready.map_err(|(queue, error)| failed(queue, error)));
        }
        outcome
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Release);
        if !self.delete_on_drop {
            return;
        }
        // Nobody is left to be told if it fails: it was deleted by others then.
        let _ = self.control.stop(self.id);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // Whoever still has the block device open is not waited for.
        let _ = self.control.delete_later(self.id);
    }
}

/// A queue's thread before it starts.
struct Thread {
    file: Arc<File>,
    queue: Queue,
    number: u16,
    depth: u16,
    zero_copy: (bool, Notify),
    clock: RealClock,
    dropped: Arc<AtomicBool>,
    ended: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Thread {
    /// Serves the queue; says when the driver has its commands, or why not.
    fn run(self, tell: mpsc::Sender<Result<(), (u16, io::Error)>>) {
        let Thread { file, mut queue, number, depth, zero_copy, clock, dropped, ended } = self;
        // Memory that this thread asks for must not have to wait for its own device. That takes
        // CAP_SYS_RESOURCE; without it, only a machine that is out of memory is the worse for it.
        let _ = configure_io_flusher_behavior(true);
        let begun = Ring::open(file, number, depth, zero_copy).and_then(|mut ring| {
            worker::begin(&mut queue, &mut ring)?;
            Ok(ring)
        });
        let (ready, ring) = match begun {
            Ok(ring) => (Ok(()), Some(ring)),
            Err(error) => (Err((number, error)), None),
        };
        // Who started the thread waits for this, and for the end of `tell`.
        let _ = tell.send(ready);
        drop(tell);
        let Some(mut ring) = ring else { return };
        let outcome = worker::run(&mut queue, &mut ring, &clock);
        if dropped.load(Ordering::Acquire) {
            return;
        }
        match outcome {
            Ok(()) => ended("the device was stopped by another program"),
            Err(error) => ended(&format!("queue {number}: {error}")),
        }
    }
}

/// A device of this number that waits for a server and is to be continued. One that nobody serves
/// and that waits for nobody is deleted.
fn find_recoverable(
    control: &mut Control,
    id: u32,
    config: &ServerConfig,
) -> Result<Option<DevInfo>, UblkError> {
    let begin = Instant::now();
    while let Some(info) = control.info(id)? {
        if info.state == state::QUIESCED {
            return if config.recover {
                Ok(Some(info))
            } else {
                Err(UblkError::AwaitsRecovery(id))
            };
        }
        let pid = info.ublksrv_pid;
        let alive = is_alive(pid);
        if !alive && info.state == state::DEAD {
            control.delete(id)?;
            return Ok(None);
        }
        // One that was just killed takes its time.
        if alive && !config.recover || begin.elapsed() > DEVICE_TIMEOUT {
            return Err(if alive {
                UblkError::InUse { id, pid }
            } else {
                UblkError::ServerStillRunning(id)
            });
        }
        thread::sleep(DEVICE_POLL_INTERVAL);
    }
    Ok(None)
}

/// Whether there is such a process, that was not yet told to end.
fn is_alive(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    // The state is behind the name, which may have parentheses.
    let state = status.ok().and_then(|s| s.rsplit(')').next()?.trim_start().chars().next());
    pid > 0 && state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

fn create(
    mut control: Control,
    queue: &Arc<zonal_blk::Queue>,
    config: &ServerConfig,
    flags: u64,
    params: &Params,
) -> Result<Server, UblkError> {
    let mut info = DevInfo {
        nr_hw_queues: config.queues,
        queue_depth: config.depth,
        max_io_buf_bytes: params.basic.max_sectors * 512,
        dev_id: config.id.unwrap_or(ANY_ID),
        ublksrv_pid: i32::try_from(std::process::id()).unwrap_or(-1),
        flags,
        ..DevInfo::new_zeroed()
    };
    control.add(&mut info)?;
    let mut server = Server::new(control, info.dev_id, true);
    server.control.set_params(info.dev_id, params)?;
    server.serve(queue, config, &info, params.basic.max_sectors)?;
    server.control.start(info.dev_id, std::process::id())?;
    Ok(server)
}

fn resume(
    mut control: Control,
    queue: &Arc<zonal_blk::Queue>,
    config: &ServerConfig,
    info: DevInfo,
    flags: u64,
    params: &Params,
) -> Result<Server, UblkError> {
    let id = info.dev_id;
    let theirs = control.params(id)?;
    if let Some(what) = difference(&theirs, params, info.flags, flags) {
        return Err(UblkError::Differs { id, what });
    }
    let begin = Instant::now();
    while !control.start_recovery(id)? {
        if begin.elapsed() > DEVICE_TIMEOUT {
            return Err(UblkError::ServerStillRunning(id));
        }
        thread::sleep(DEVICE_POLL_INTERVAL);
    }
    let mut server = Server::new(control, id, false);
    server.serve(queue, config, &info, params.basic.max_sectors)?;
    server.control.end_recovery(id, std::process::id())?;
    server.delete_on_drop = true;
    (config.notify)(&format!("{} goes on", server.path()));
    Ok(server)
}

/// The alignment in memory of data that are lent, or why they are copied; `None` for a device that
/// takes none that are lent.
fn zero_copy(
    control: &Control,
    queue: &zonal_blk::Queue,
    config: &ServerConfig,
) -> Option<Result<u32, String>> {
    let alignment = queue.device().external_buf_alignment()?;
    if config.copies {
        return Some(Err("as was asked for".to_owned()));
    }
    let lack = control.has(feature::LENDING).map_err(|lack| lack.to_string());
    Some(lack.map(|()| alignment))
}

/// What tells one device from another, in words.
fn difference(theirs: &Params, ours: &Params, their_flags: u64, our_flags: u64) -> Option<String> {
    let zoned = |flags: u64| if flags & feature::ZONED != 0 { "zones" } else { "no zones" };
    let (a, b) = (zoned(their_flags), zoned(our_flags));
    if a != b {
        return Some(format!("it has {a}, and this one {b}"));
    }
    // Without zero copy a device is the same.
    if our_flags & !their_flags & !feature::SUPPORT_ZERO_COPY != 0 {
        return Some("it was made with other features, by another program".to_owned());
    }
    let (a, b) = (theirs.basic, ours.basic);
    if a != b {
        let say = |p: super::abi::ParamBasic| {
            let (sectors, zone) = (p.dev_sectors, p.chunk_sectors);
            let (block, most) = (1u32 << (p.logical_bs_shift & 31), p.max_sectors);
            format!("{sectors} sectors, zones of {zone}, blocks of {block} bytes, I/O of {most}")
        };
        return Some(format!("it has {}, and this one {}", say(a), say(b)));
    }
    if theirs.zoned != ours.zoned {
        let (a, b) = (theirs.zoned, ours.zoned);
        return Some(format!("its limits on zones are {a:?}, and this one's {b:?}"));
    }
    None
}

impl Server {
    fn new(control: Control, id: u32, delete_on_drop: bool) -> Self {
        Server { control, id, delete_on_drop, dropped: Arc::default(), threads: Vec::new() }
    }
}

/// Opens the file that the server talks to, which may take its time to appear.
fn open_char(id: u32) -> Result<File, UblkError> {
    let path = format!("/dev/ublkc{id}");
    let begin = Instant::now();
    loop {
        match File::options().read(true).write(true).open(&path) {
            Ok(file) => return Ok(file),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::ResourceBusy
                ) && begin.elapsed() < DEVICE_TIMEOUT =>
            {
                thread::sleep(DEVICE_POLL_INTERVAL);
            }
            Err(error) => return Err(UblkError::Open(path, error)),
        }
    }
}
