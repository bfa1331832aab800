//! Clients of the other exports that misbehave: monitors of virtual machines, browsers, and whoever has
//! the control socket.
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use zonal_nvme::NvmeStatus;
use zonal_nvme::wire::opcode::AdminOpcode;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Commands of vfio-user.
const VERSION: u16 = 1;
const DMA_MAP: u16 = 2;
const SET_IRQS: u16 = 8;
const REGION_WRITE: u16 = 10;

/// Where a server listens.
#[derive(Clone, Debug)]
pub struct LocalVictim {
    pub vfio_user: PathBuf,
    pub control: PathBuf,
    /// Address and port of the page, and of the metrics.
    pub web: String,
    pub metrics: String,
}

/// What attackers hold on to until the hoard is dropped.
#[derive(Default)]
pub struct LocalHoard {
    unix: Vec<UnixStream>,
    tcp: Vec<TcpStream>,
}

/// An attack: one round of it. The server may refuse, close or not answer.
pub type LocalAttack = fn(&LocalVictim, &mut LocalHoard) -> io::Result<()>;

/// All attacks, by name.
pub const LOCAL_ATTACKS: [(&str, LocalAttack); 8] = [
    ("part of a huge page", huge_pages),
    ("memory that is truncated", truncated_memory),
    ("a full eventfd that blocks", full_eventfd),
    ("its own end in half a message", hidden_end),
    ("a page that nobody reads", unread_page),
    ("half a request", half_a_request),
    ("overlong commands", overlong_command),
    ("control connections without a word", silent_control),
];

/// Sends bytes with descriptors.
pub fn send_with(socket: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)), "there is room");
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Memory of a huge page that most likely does not exist.
pub fn huge_memory() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    let file = memfd_create("huge", flags)?;
    ftruncate(&file, 2 << 20)?;
    Ok(file)
}

/// Memory of small pages.
pub fn memory(len: u64) -> io::Result<OwnedFd> {
    let file = memfd_create("memory", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, len)?;
    Ok(file)
}

/// An eventfd whose counter is full, so that writes to it block.
pub fn full_event() -> io::Result<OwnedFd> {
    let event = eventfd(0, EventfdFlags::CLOEXEC)?;
    rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes())?;
    Ok(event)
}

/// A monitor.
pub struct Monitor(UnixStream);

impl Monitor {
    /// Connects, and agrees on a version.
    pub fn connect(victim: &LocalVictim) -> io::Result<Self> {
        let socket = UnixStream::connect(&victim.vfio_user)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut monitor = Monitor(socket);
        monitor.call(VERSION, b"\0\0\x01\0{}\0", &[])?;
        Ok(monitor)
    }

    /// Sends a command, and reads the header of the reply and its body.
    fn call(&mut self, command: u16, body: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let size = u32::try_from(16 + body.len()).expect("short").to_le_bytes();
        let message = [&[1, 0], &command.to_le_bytes()[..], &size, &[0; 8], body].concat();
        send_with(&self.0, &message, fds)?;
        let mut header = [0; 16];
        self.0.read_exact(&mut header)?;
        let len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        self.0.read_exact(&mut vec![0; len as usize - 16])
    }

    fn map(&mut self, address: u64, size: u64, file: &OwnedFd) -> io::Result<()> {
        let numbers = [0, address, size].map(u64::to_le_bytes).concat();
        let body = [&32_u32.to_le_bytes()[..], &3_u32.to_le_bytes(), &numbers].concat();
        self.call(DMA_MAP, &body, &[file.as_fd()])
    }

    fn set_register(&mut self, offset: u64, value: u64, len: usize) -> io::Result<()> {
        let value = &value.to_le_bytes()[..len];
        let len = u32::try_from(len).expect("8 at most").to_le_bytes();
        let body = [&offset.to_le_bytes()[..], &[0; 4], &len, value].concat();
        self.call(REGION_WRITE, &body, &[])
    }

    /// Waits until the server has noticed what became of the memory. It answers until then.
    fn wait(&mut self) -> io::Result<()> {
        for _ in 0..100 {
            self.set_register(0x1000, 1, 4)?;
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Shares memory, and enables the controller with an admin queue of 64 entries in it: submissions at
    /// guest address 0, completions at 0x1000.
    pub fn enable(&mut self) -> io::Result<File> {
        let file = memory(1 << 20)?;
        self.map(0, 1 << 20, &file)?;
        // AQA, ASQ, ACQ, CC.
        for (offset, value, len) in
            [(0x24, 0x003f_003f, 4), (0x28, 0, 8), (0x30, 0x1000, 8), (0x14, 0x0046_0001, 4)]
        {
            self.set_register(offset, value, len)?;
        }
        Ok(file.into())
    }

    /// Has the controller create completion queues 1 to `count`, fewer than 64, and waits for that.
    /// Returns the status of each.
    pub fn create_queues(&mut self, memory: &File, count: u16) -> io::Result<Vec<u16>> {
        for qid in 1..=count {
            let mut create = [0; 64];
            create[0] = AdminOpcode::CREATE_CQ.0;
            create[2..4].copy_from_slice(&qid.to_le_bytes());
            // None of them has a completion, so all may be in one page.
            create[24..32].copy_from_slice(&0x2000_u64.to_le_bytes());
            // Two entries, contiguous.
            create[40..44].copy_from_slice(&(1 << 16 | u32::from(qid)).to_le_bytes());
            create[44..48].copy_from_slice(&1_u32.to_le_bytes());
            memory.write_all_at(&create, 64 * u64::from(qid - 1))?;
        }
        self.set_register(0x1000, count.into(), 4)?;
        let mut statuses = Vec::new();
        for entry in 0..count {
            statuses.push(loop {
                let mut completion = [0; 16];
                memory.read_exact_at(&mut completion, 0x1000 + 16 * u64::from(entry))?;
                let status = u16::from_le_bytes([completion[14], completion[15]]);
                if status & 1 == 1 {
                    break NvmeStatus(status >> 1).code().0;
                }
                // An answer: the server has not ended.
                self.set_register(0x1004, 0, 4)?;
            });
        }
        Ok(statuses)
    }

    /// Has the server read the admin queue, which is at guest address 0.
    fn use_queues(&mut self) -> io::Result<()> {
        // AQA, ASQ, ACQ, CC, and the doorbell of the admin queue.
        for (offset, value, len) in [
            (0x24, 0x000f_000f, 4),
            (0x28, 0, 8),
            (0x30, 0, 8),
            (0x14, 0x0046_0001, 4),
            (0x1000, 1, 4),
        ] {
            self.set_register(offset, value, len)?;
        }
        Ok(())
    }
}

/// How an attack may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The server has answered what asks for an answer.
    Served,
    /// It has closed the connection.
    Disconnected,
}

impl Ended {
    /// How one has ended.
    pub fn of(result: io::Result<()>) -> io::Result<Self> {
        match result.map_err(|error| (error.kind(), error)) {
            Ok(()) => Ok(Ended::Served),
            Err((
                ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset,
                _,
            )) => Ok(Ended::Disconnected),
            Err((_, error)) => Err(error),
        }
    }
}

/// How a client without memory ends: in huge pages, as many as there are are served.
pub fn without_huge_pages() -> Ended {
    let pages = std::fs::read_to_string("/proc/sys/vm/nr_hugepages");
    let none = pages.is_ok_and(|pages| pages.trim() == "0");
    if none { Ended::Disconnected } else { Ended::Served }
}

/// Whether metrics are served.
pub fn serves_metrics(victim: &LocalVictim) -> io::Result<bool> {
    let mut stream = TcpStream::connect(&victim.metrics)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut status = [0; 12];
    stream.read_exact(&mut status)?;
    Ok(&status == b"HTTP/1.1 200")
}

/// Whether a monitor is served that behaves.
pub fn is_served(victim: &LocalVictim) -> bool {
    Monitor::connect(victim).is_ok()
}

/// Memory in a part of a huge page that there is not.
fn huge_pages(victim: &LocalVictim, _hoard: &mut LocalHoard) -> io::Result<()> {
    let file = huge_memory()?;
    let mut monitor = Monitor::connect(victim)?;
    monitor.map(0, 4096, &file)?;
    monitor.use_queues()?;
    monitor.wait()
}

fn truncated_memory(victim: &LocalVictim, _hoard: &mut LocalHoard) -> io::Result<()> {
    let file = memory(1 << 20)?;
    let mut monitor = Monitor::connect(victim)?;
    monitor.map(0, 1 << 20, &file)?;
    ftruncate(&file, 0)?;
    monitor.use_queues()?;
    monitor.wait()
}

fn full_eventfd(victim: &LocalVictim, _hoard: &mut LocalHoard) -> io::Result<()> {
    let event = full_event()?;
    let mut monitor = Monitor::connect(victim)?;
    let irqs = |flags: u32| [20, flags, 2, 0, 1].map(u32::to_le_bytes).concat();
    // Trigger by eventfd, then now.
    monitor.call(SET_IRQS, &irqs(1 << 2 | 1 << 5), &[event.as_fd()])?;
    for _ in 0..16 {
        rustix::fs::fcntl_setfl(&event, rustix::fs::OFlags::empty())?;
        monitor.call(SET_IRQS, &irqs(1 | 1 << 5), &[])?;
    }
    Ok(())
}

fn hidden_end(victim: &LocalVictim, _hoard: &mut LocalHoard) -> io::Result<()> {
    let socket = UnixStream::connect(&victim.vfio_user)?;
    let own = socket.try_clone()?;
    send_with(&socket, &[1, 0, 1], &[own.as_fd()])
}

fn unread_page(victim: &LocalVictim, hoard: &mut LocalHoard) -> io::Result<()> {
    for _ in 0..4 {
        let mut stream = TcpStream::connect(&victim.web)?;
        stream.write_all(b"GET /frames HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        hoard.tcp.push(stream);
    }
    Ok(())
}

fn half_a_request(victim: &LocalVictim, hoard: &mut LocalHoard) -> io::Result<()> {
    for address in [&victim.web, &victim.metrics] {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: loc")?;
        hoard.tcp.push(stream);
    }
    Ok(())
}

fn overlong_command(victim: &LocalVictim, _hoard: &mut LocalHoard) -> io::Result<()> {
    let mut stream = UnixStream::connect(&victim.control)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&vec![b'{'; 1 << 20])
}

fn silent_control(victim: &LocalVictim, hoard: &mut LocalHoard) -> io::Result<()> {
    for _ in 0..4 {
        hoard.unix.push(UnixStream::connect(&victim.control)?);
    }
    Ok(())
}
