//! Clients that misbehave at the exports that have one device: monitors of virtio disks, programs that use
//! the zones as files, and programs that use a block device.
use super::local::{full_event, huge_memory, memory, send_with};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Requests of vhost-user.
const GET_FEATURES: u32 = 1;
const SET_FEATURES: u32 = 2;
const SET_OWNER: u32 = 3;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_VRING_KICK: u32 = 12;
const SET_VRING_CALL: u32 = 13;
const SET_VRING_ERR: u32 = 14;
const GET_PROTOCOL_FEATURES: u32 = 15;
const SET_PROTOCOL_FEATURES: u32 = 16;
const SET_VRING_ENABLE: u32 = 18;
const GET_INFLIGHT_FD: u32 = 31;

/// The monitor's address of the guest's first byte.
const USER: u64 = 0x7f00_0000_0000;
/// The ring's parts in the guest's memory, and its entries.
const DESC: u64 = 0;
const AVAIL: u64 = 0x2000;
const USED: u64 = 0x4000;
const SIZE: u32 = 64;
/// Flags of a descriptor.
const NEXT: u16 = 1;
const WRITE: u16 = 2;

/// Where a server exports its only device.
#[derive(Clone, Debug)]
pub struct SingleVictim {
    pub vhost_user: PathBuf,
    /// Where the zones are files, if they are.
    pub files: Option<PathBuf>,
    /// The block device, if there is one.
    pub block: Option<PathBuf>,
    /// Zones whose data nobody needs, by number, and the bytes of each.
    pub zones: std::ops::Range<u64>,
    pub zone_size: u64,
}

/// Files that attackers keep open until the hoard is dropped.
#[derive(Default)]
pub struct SingleHoard(Vec<File>);

/// An attack: one round of it. The server may refuse, close or not answer.
pub type SingleAttack = fn(&SingleVictim, &mut SingleHoard) -> io::Result<()>;

/// All attacks, by name. Those on files or on a block device do nothing if the server has none.
pub const SINGLE_ATTACKS: [(&str, SingleAttack); 11] = [
    ("virtio: garbage", garbage),
    ("virtio: its own end in half a message", hidden_end),
    ("virtio: part of a huge page", huge_pages),
    ("virtio: memory that is truncated", truncated_memory),
    ("virtio: a full eventfd that blocks", full_eventfd),
    ("virtio: a ring that contradicts itself", broken_ring),
    ("files: held open", held_files),
    ("files: writes and lengths that are not allowed", misplaced_writes),
    ("files: names that there are not", unknown_names),
    ("files: readers that are killed", killed_readers),
    ("block device: used out of its bounds", block_device),
];

/// A monitor with a ring.
pub struct Monitor(UnixStream);

impl Monitor {
    /// Connects, and negotiates all features.
    pub fn connect(victim: &SingleVictim) -> io::Result<Self> {
        let socket = UnixStream::connect(&victim.vhost_user)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut monitor = Monitor(socket);
        let features = monitor.number(GET_FEATURES)?;
        let protocol = monitor.number(GET_PROTOCOL_FEATURES)?;
        monitor.send(SET_PROTOCOL_FEATURES, &protocol.to_le_bytes(), &[])?;
        monitor.send(SET_OWNER, &[], &[])?;
        monitor.send(SET_FEATURES, &features.to_le_bytes(), &[])?;
        Ok(monitor)
    }

    fn send(&self, request: u32, body: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let size = u32::try_from(body.len()).expect("short");
        let header = [request, 1, size].map(u32::to_le_bytes).concat();
        send_with(&self.0, &[&header, body].concat(), fds)
    }

    /// The answer to a request, which is a number.
    fn number(&mut self, request: u32) -> io::Result<u64> {
        self.send(request, &[], &[])?;
        let mut reply = [0; 20];
        self.0.read_exact(&mut reply)?;
        Ok(u64::from_le_bytes(reply[12..].try_into().expect("eight bytes")))
    }

    /// Shares memory, and starts a ring in it that signals this eventfd, or none.
    fn start(&self, file: &OwnedFd, len: u64, call: Option<&OwnedFd>) -> io::Result<()> {
        self.share(file, len)?;
        self.start_ring(0, call, None)
    }

    /// Shares memory.
    pub fn share(&self, file: &OwnedFd, len: u64) -> io::Result<()> {
        let table =
            [&[1, 0, 0, 0, 0, 0, 0, 0], &[0, len, USER, 0].map(u64::to_le_bytes).concat()[..]];
        self.send(SET_MEM_TABLE, &table.concat(), &[file.as_fd()])
    }

    /// Starts a ring in the shared memory, at the place of all, that signals these eventfds for
    /// requests that have completed and for its errors.
    pub fn start_ring(
        &self,
        ring: u32,
        call: Option<&OwnedFd>,
        error: Option<&OwnedFd>,
    ) -> io::Result<()> {
        self.send(SET_VRING_NUM, &[ring, SIZE].map(u32::to_le_bytes).concat(), &[])?;
        let number = u64::from(ring);
        let parts = [number, USER + DESC, USER + USED, USER + AVAIL, 0].map(u64::to_le_bytes);
        self.send(SET_VRING_ADDR, &parts.concat(), &[])?;
        for (request, event) in [(SET_VRING_CALL, call), (SET_VRING_ERR, error)] {
            if let Some(event) = event {
                self.send(request, &number.to_le_bytes(), &[event.as_fd()])?;
            }
        }
        let kick = rustix::event::eventfd(1, rustix::event::EventfdFlags::CLOEXEC)?;
        self.send(SET_VRING_KICK, &number.to_le_bytes(), &[kick.as_fd()])?;
        self.send(SET_VRING_ENABLE, &[ring, 1].map(u32::to_le_bytes).concat(), &[])
    }

    /// Waits until the server has executed what was sent.
    pub fn wait(&mut self) -> io::Result<()> {
        self.number(GET_FEATURES).map(|_| ())
    }
}

/// Whether a well-behaved monitor is served.
pub fn is_served(victim: &SingleVictim) -> bool {
    Monitor::connect(victim).and_then(|mut monitor| monitor.wait()).is_ok()
}

/// Puts a descriptor of the ring into the guest's memory.
fn describe(
    memory: &File,
    at: u64,
    address: u64,
    len: u32,
    flags: u16,
    next: u16,
) -> io::Result<()> {
    let tail = [flags, next].map(u16::to_le_bytes).concat();
    let bytes = [&address.to_le_bytes()[..], &len.to_le_bytes(), &tail].concat();
    memory.write_all_at(&bytes, DESC + 16 * at)
}

/// Makes as many requests available as the ring has entries, each a read of 4 KiB.
fn offer_reads(memory: &File) -> io::Result<()> {
    // A header, and data with a status.
    describe(memory, 0, 0x8000, 16, NEXT, 1)?;
    describe(memory, 1, 0x1_0000, 4097, WRITE, 0)?;
    memory.write_all_at(&[0, 0, 64, 0], AVAIL)
}

fn garbage(victim: &SingleVictim, _hoard: &mut SingleHoard) -> io::Result<()> {
    let mut monitor = Monitor::connect(victim)?;
    for request in 0..48 {
        monitor.send(request, &[0xff; 64], &[])?;
    }
    monitor.wait()
}

fn hidden_end(victim: &SingleVictim, _hoard: &mut SingleHoard) -> io::Result<()> {
    let socket = UnixStream::connect(&victim.vhost_user)?;
    let own = socket.try_clone()?;
    send_with(&socket, &[1, 0, 0], &[own.as_fd()])
}

fn huge_pages(victim: &SingleVictim, _hoard: &mut SingleHoard) -> io::Result<()> {
    let mut monitor = Monitor::connect(victim)?;
    monitor.start(&huge_memory()?, 0x8000, None)?;
    monitor.wait()
}

fn truncated_memory(victim: &SingleVictim, _hoard: &mut SingleHoard) -> io::Result<()> {
    let mut monitor = Monitor::connect(victim)?;
    let file = File::from(memory(1 << 20)?);
    offer_reads(&file)?;
    let file = OwnedFd::from(file);
    monitor.start(&file, 1 << 20, None)?;
    rustix::fs::ftruncate(&file, 0)?;
    monitor.send(GET_INFLIGHT_FD, &[0; 20], &[])?;
    monitor.wait()
}

fn full_eventfd(victim: &SingleVictim, _hoard: &mut SingleHoard) -> io::Result<()> {
    let mut monitor = Monitor::connect(victim)?;
    let file = File::from(memory(1 << 20)?);
    offer_reads(&file)?;
    monitor.start(&file.into(), 1 << 20, Some(&full_event()?))?;
    monitor.wait()
}

fn broken_ring(victim: &SingleVictim, _hoard: &mut SingleHoard) -> io::Result<()> {
    let mut monitor = Monitor::connect(victim)?;
    let file = File::from(memory(1 << 20)?);
    // A chain without end, and an index that jumps.
    describe(&file, 0, 0x8000, 16, NEXT, 0)?;
    file.write_all_at(&[0, 0, 0xff, 0x7f], AVAIL)?;
    monitor.start(&file.into(), 1 << 20, None)?;
    monitor.wait()
}

/// The files of the zones whose data nobody needs.
fn zone_files(victim: &SingleVictim) -> impl Iterator<Item = PathBuf> {
    let dir = victim.files.iter().map(|dir| dir.join("seq"));
    dir.flat_map(|dir| victim.zones.clone().map(move |zone| dir.join(zone.to_string())))
}

/// Lists the zones' files, and reads from some, as a program does that behaves.
pub fn read_zones(victim: &SingleVictim) -> io::Result<()> {
    let Some(dir) = &victim.files else { return Ok(()) };
    fs::read_dir(dir.join("seq"))?.try_for_each(|entry| entry?.metadata().map(|_| ()))?;
    zone_files(victim).take(4).try_for_each(|path| fs::read(path).map(|_| ()))
}

fn held_files(victim: &SingleVictim, hoard: &mut SingleHoard) -> io::Result<()> {
    // The test has few descriptors of its own.
    hoard.0.truncate(128);
    for path in zone_files(victim).take(16) {
        hoard.0.push(File::open(&path)?);
        hoard.0.push(OpenOptions::new().append(true).open(&path)?);
    }
    Ok(())
}

fn misplaced_writes(victim: &SingleVictim, _hoard: &mut SingleHoard) -> io::Result<()> {
    for path in zone_files(victim).take(4) {
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let size = file.metadata()?.len();
        for (len, at) in [(4096, size + 4096), (4096, 0), (4095, size), (8 << 20, size)] {
            let _ = file.write_at(&vec![7; len], at);
        }
        for len in [1, size + 1, u64::MAX >> 1, victim.zone_size, 0] {
            let _ = file.set_len(len);
        }
        let _ = file.write_at(&vec![7; 64 << 10], 0);
        let _ = file.read_at(&mut vec![0; 8 << 20], size / 2);
        let _ = (file.sync_all(), fs::remove_file(&path), fs::rename(&path, "other"));
    }
    Ok(())
}

fn unknown_names(victim: &SingleVictim, _hoard: &mut SingleHoard) -> io::Result<()> {
    let Some(dir) = &victim.files else { return Ok(()) };
    for name in ["seq/-1", "seq/99999999999999999999", "cnv/0", "../seq/x", "seq/\u{1b}[2J"] {
        let _ = (fs::metadata(dir.join(name)), File::create(dir.join(name)));
    }
    let _ = (fs::metadata(dir.join("n".repeat(255))), fs::create_dir(dir.join("seq/new")));
    fs::read_dir(dir.join("seq"))?.try_for_each(|entry| entry?.metadata().map(|_| ()))
}

fn killed_readers(victim: &SingleVictim, _hoard: &mut SingleHoard) -> io::Result<()> {
    for path in zone_files(victim).take(2) {
        let mut reader = Command::new("cat");
        let mut reader = reader.arg(path).stdout(Stdio::piped()).spawn()?;
        reader.kill()?;
        reader.wait()?;
    }
    Ok(())
}

fn block_device(victim: &SingleVictim, hoard: &mut SingleHoard) -> io::Result<()> {
    let Some(path) = &victim.block else { return Ok(()) };
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let (start, end) = (victim.zones.start * victim.zone_size, victim.zones.end * victim.zone_size);
    for (len, at) in
        [(4096, start + victim.zone_size / 2), (1, start), (8 << 20, end), (4096, start)]
    {
        let _ = file.write_at(&vec![7; len], at);
        let _ = file.read_at(&mut vec![0; len], at);
    }
    let _ = file.sync_all();
    hoard.0.truncate(128);
    hoard.0.push(file);
    Ok(())
}
