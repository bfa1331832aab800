//! Adds a ublk device, serves it, and deletes it.
//!
//! Invariants: a device that was added is deleted, whichever step fails after that. A quiesced device
//! that waits for another server is left alone unless it is recovered here.
use super::abi::{ANY_ID, DevInfo, MAX_IDS, Params, feature, param, state};
use super::control::{Control, ControlError, PATH};
use super::io_buffers::Notify;
use super::params::{ParamsError, params};
use super::queue::{Driver, Queue};
use super::ring::Ring;
use rustix::process::configure_io_flusher_behavior;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use zerocopy::FromZeros;
use zonal_blk::Channel;
use zonal_os::RealClock;
use zonal_os::poll::{Poller, WaitPolicy, retry, serve};

/// How long the device's file may take to appear, and a killed server to exit.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often that is checked.
const DEVICE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The device that a server offers.
#[derive(Clone)]
pub struct ServerConfig {
    /// The device's number; `None` for any that is free.
    pub id: Option<u32>,
    /// Queues, each with a thread; the driver creates no more than there are processors.
    pub queues: u16,
    /// Requests in flight of a queue, 1 to [`MAX_QUEUE_DEPTH`](super::MAX_QUEUE_DEPTH).
    pub depth: u16,
    /// The device waits for another server when this one is killed, and a device that waits is
    /// recovered.
    pub recover: bool,
    /// Writes complete when they are durable: nothing that was answered is lost with this server. The next
    /// one is given flushes of the kernel that cover writes which this one has answered.
    pub durable_writes: bool,
    /// Data are copied even where zero copy is possible.
    pub force_copy: bool,
    /// The clock; all exports of a device share one.
    pub clock: RealClock,
    /// Called with messages for the user.
    pub notify: Notify,
    /// Called with the reason when the device stops without the server being dropped.
    pub ended: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Why a device is not served.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The driver is missing, too old, or refused a command.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// ublk cannot offer a device like this one.
    #[error(transparent)]
    ParamsError(#[from] ParamsError),
    /// The number is too large.
    #[error("ublk device {0}: expected a number below {MAX_IDS}")]
    Id(u32),
    /// Another process serves it.
    #[error("ublk device {id} is served by process {pid}")]
    InUse {
        /// Its number.
        id: u32,
        /// The process.
        pid: i32,
    },
    /// It is quiesced: its server was killed.
    #[error(
        "ublk device {0} waits for another server, since the last one was killed: --recover \
         continues it"
    )]
    AwaitsRecovery(u32),
    /// It is quiesced, but was not made for this device.
    #[error("ublk device {id} waits for another server, but not for this device: {what}")]
    Differs {
        /// Its number.
        id: u32,
        /// The parameter that differs.
        what: String,
    },
    /// A killed server has not exited yet.
    #[error("ublk device {0}: its last server does not exit")]
    ServerStillRunning(u32),
    /// The device's file cannot be opened.
    #[error("cannot open {0}: {1}")]
    Open(String, io::Error),
    /// A queue could not be set up.
    #[error("ublk queue {queue}: {error}")]
    Queue {
        /// Its number.
        queue: u16,
        /// The error.
        error: io::Error,
    },
}

/// A device that is served. Dropping it drains its I/O and deletes it.
pub struct Server {
    control: Control,
    id: u32,
    /// False until a recovered device is served.
    delete_on_drop: bool,
    dropped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Serves a device.
    ///
    /// # Errors
    /// The driver is missing or too old, it has no devices like this one, or the number is taken.
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

    /// Gives a block device the size that its device has now ([`zonal_blk::Queue::revalidate`]). May be
    /// called while the device is served.
    ///
    /// # Errors
    /// The driver is older than Linux 6.16, or has no device of this number.
    pub fn resize(id: u32, queue: &zonal_blk::Queue) -> Result<(), UblkError> {
        let mut control = Control::open(Path::new(PATH), feature::UPDATE_SIZE)?;
        Ok(control.update_size(id, queue.capacity().0)?)
    }

    /// The number of the device.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Whether the device moves data without copies. Tells the user if it is one that could.
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
            .and_then(|_| if made_so { Ok(()) } else { Err("as when it was added".to_owned()) });
        (config.notify)(&match &lack {
            Ok(()) => {
                format!("{path}: zero copy: the device moves data to and from the kernel's pages")
            }
            Err(why) => format!("{path}: data are copied: {why}"),
        });
        lack.is_ok()
    }

    /// Starts the threads and returns when the driver has the commands of all queues.
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
                channel,
                number,
                depth: info.queue_depth,
                max_request_sectors,
                durable_writes: config.durable_writes,
                zero_copy: (zero_copy, Arc::clone(&config.notify)),
                clock: config.clock.clone(),
                dropped: Arc::clone(&self.dropped),
                ended: Arc::clone(&config.ended),
            });
        }
        let (ready, reports) = mpsc::channel();
        let mut outcome = Ok(());
        for thread in threads {
            let (number, ready) = (thread.number, ready.clone());
            let named = thread::Builder::new().name(format!("ublk-{number}"));
            match named.spawn(move || thread.run(ready)) {
                Ok(thread) => self.threads.push(thread),
                Err(error) => outcome = Err(failed(number, error)),
            }
        }
        drop(ready);
        // All of them, so that none is still sending commands when the device is stopped.
        for report in reports {
            outcome = outcome.and(report.map_err(|(queue, error)| failed(queue, error)));
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
        // If it fails, another program has deleted the device.
        let _ = self.control.stop(self.id);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // Does not wait for programs that still have the block device open.
        let _ = self.control.delete_later(self.id);
    }
}

/// A queue's thread before it starts.
struct Thread {
    file: Arc<File>,
    channel: Channel,
    number: u16,
    depth: u16,
    max_request_sectors: u32,
    durable_writes: bool,
    zero_copy: (bool, Notify),
    clock: RealClock,
    dropped: Arc<AtomicBool>,
    ended: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Thread {
    /// Serves the queue; reports on `ready` when the driver has its commands, or why not.
    fn run(self, ready: mpsc::Sender<Result<(), (u16, io::Error)>>) {
        let (number, clock) = (self.number, self.clock.clone());
        let (dropped, ended) = (Arc::clone(&self.dropped), Arc::clone(&self.ended));
        // Memory that this thread allocates must not have to wait for its own device. That takes
        // CAP_SYS_RESOURCE; without it, only a machine that is out of memory is the worse for it.
        let _ = configure_io_flusher_behavior(true);
        let (outcome, begun) = match self.begin() {
            Ok(begun) => (Ok(()), Some(begun)),
            Err(error) => (Err((number, error)), None),
        };
        // The thread that started this one waits for this, and for `ready` to be dropped.
        let _ = ready.send(outcome);
        drop(ready);
        let Some((mut queue, mut poller)) = begun else { return };
        let served = serve(&mut queue, &clock, &mut poller);
        if dropped.load(Ordering::Acquire) {
            return;
        }
        match served {
            Ok(()) => ended("the device was stopped by another program"),
            Err(error) => ended(&format!("queue {number}: {error}")),
        }
    }

    /// Gives the driver the commands of all tags.
    fn begin(self) -> io::Result<(Queue<Ring>, Poller)> {
        let Thread { file, channel, number, depth, max_request_sectors, zero_copy, .. } = self;
        let durable_writes = self.durable_writes;
        let poller = Poller::new(WaitPolicy::Sleep(Duration::ZERO))?;
        let ring = Ring::open(file, number, depth, zero_copy)?;
        let mut queue = Queue::new(ring, channel, depth, max_request_sectors);
        if durable_writes {
            queue.make_writes_durable();
        }
        queue.fetch_all();
        queue.driver.submit()?;
        Ok((queue, poller))
    }
}

/// The device of this number if it is quiesced and has to be recovered. A dead one is deleted.
fn find_recoverable(
    control: &mut Control,
    id: u32,
    config: &ServerConfig,
) -> Result<Option<DevInfo>, UblkError> {
    let mut pid = 0;
    let found = retry(DEVICE_POLL_INTERVAL, DEVICE_TIMEOUT, || {
        let info = match control.info(id) {
            Ok(Some(info)) => info,
            Ok(None) => return Some(Ok(None)),
            Err(error) => return Some(Err(error.into())),
        };
        if info.state == state::QUIESCED {
            let quiesced = config.recover.then_some(Some(info));
            return Some(quiesced.ok_or(UblkError::AwaitsRecovery(id)));
        }
        pid = info.ublksrv_pid;
        match is_alive(pid) {
            false if info.state == state::DEAD => {
                Some(control.delete(id).map(|()| None).map_err(UblkError::from))
            }
            true if !config.recover => Some(Err(UblkError::InUse { id, pid })),
            // A process that was just killed takes a moment to exit.
            _ => None,
        }
    });
    found.unwrap_or_else(|| {
        Err(if is_alive(pid) {
            UblkError::InUse { id, pid }
        } else {
            UblkError::ServerStillRunning(id)
        })
    })
}

/// Whether there is such a process, and it is no zombie.
fn is_alive(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    // The state follows the name, which may contain parentheses.
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
    let started = retry(DEVICE_POLL_INTERVAL, DEVICE_TIMEOUT, || {
        let started = control.start_recovery(id);
        (!matches!(started, Ok(false))).then_some(started)
    });
    started.ok_or(UblkError::ServerStillRunning(id))??;
    let mut server = Server::new(control, id, false);
    server.serve(queue, config, &info, params.basic.max_sectors)?;
    server.control.end_recovery(id, std::process::id())?;
    server.delete_on_drop = true;
    (config.notify)(&format!("{} continues", server.path()));
    Ok(server)
}

/// The alignment in memory that zero copy needs, or why data are copied; `None` for a device without
/// zero copy.
fn zero_copy(
    control: &Control,
    queue: &zonal_blk::Queue,
    config: &ServerConfig,
) -> Option<Result<u32, String>> {
    let alignment = queue.device().external_buf_alignment()?;
    if config.force_copy {
        return Some(Err("as requested".to_owned()));
    }
    let lack = control.require(feature::LENDING).map_err(|lack| lack.to_string());
    Some(lack.map(|()| alignment))
}

/// In what the parameters of two devices differ, for the user.
fn difference(theirs: &Params, ours: &Params, their_flags: u64, our_flags: u64) -> Option<String> {
    let zoned = |flags: u64| if flags & feature::ZONED != 0 { "zones" } else { "no zones" };
    let (a, b) = (zoned(their_flags), zoned(our_flags));
    if a != b {
        return Some(format!("it has {a}, and this one {b}"));
    }
    // A device without zero copy may go on without it.
    if our_flags & !their_flags & !feature::SUPPORT_ZERO_COPY != 0 {
        return Some("another program added it with other features".to_owned());
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

/// Opens the device's character device, which udev may take a moment to create.
fn open_char(id: u32) -> Result<File, UblkError> {
    let path = format!("/dev/ublkc{id}");
    let open = || File::options().read(true).write(true).open(&path);
    let is_early = |error: &io::Error| {
        let kinds = [ErrorKind::NotFound, ErrorKind::PermissionDenied, ErrorKind::ResourceBusy];
        kinds.contains(&error.kind())
    };
    let opened = retry(DEVICE_POLL_INTERVAL, DEVICE_TIMEOUT, || {
        let opened = open();
        (!opened.as_ref().is_err_and(is_early)).then_some(opened)
    });
    opened.unwrap_or_else(open).map_err(|error| UblkError::Open(path.clone(), error))
}
