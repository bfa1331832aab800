//! A client of vfio-user: a virtual machine monitor and its guest, in this process.
//!
//! Messages are made by hand here, so that they can be wrong.
use crate::guest_memory::send_with;
pub use crate::guest_memory::{Memory, PATIENCE, wait};
use rustix::event::{EventfdFlags, eventfd};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use zerocopy::{FromBytes, IntoBytes};

pub const VERSION: u16 = 1;
pub const DMA_MAP: u16 = 2;
pub const DMA_UNMAP: u16 = 3;
pub const SET_IRQS: u16 = 8;
pub const REGION_READ: u16 = 9;
pub const REGION_WRITE: u16 = 10;
pub const RESET: u16 = 13;
pub const CONFIG: u32 = 7;

/// A connection.
pub struct Client {
    pub socket: UnixStream,
    next: u16,
}

impl Client {
    /// Connects, without a word.
    pub fn connect(path: &Path) -> Self {
        let socket = UnixStream::connect(path).expect("a server");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Client { socket, next: 0 }
    }

    /// Connects and negotiates.
    pub fn negotiated(path: &Path) -> Self {
        let mut client = Client::connect(path);
        let reply = client.call(VERSION, &version(r#"{"capabilities":{"max_msg_fds":8}}"#), &[]);
        let reply = reply.expect("a version");
        assert_eq!(reply[..4], [0, 0, 1, 0]);
        let text = std::str::from_utf8(&reply[4..reply.len() - 1]).expect("UTF-8");
        assert!(text.contains(r#""max_msg_fds":8"#) && !text.contains("migration"), "{text}");
        client
    }

    pub fn send_raw(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        send_with(&self.socket, bytes, fds);
    }

    pub fn send(&mut self, command: u16, body: &[u8], fds: &[BorrowedFd<'_>]) {
        self.next = self.next.wrapping_add(1);
        let size = u32::try_from(16 + body.len()).expect("short");
        let mut message = [self.next.to_le_bytes(), command.to_le_bytes()].concat();
        message.extend(size.to_le_bytes());
        message.extend([0; 8]);
        message.extend(body);
        self.send_raw(&message, fds);
    }

    /// The reply to the last command: its body, or the error.
    pub fn receive(&mut self) -> Result<Vec<u8>, u32> {
        let mut header = [0; 16];
        self.socket.read_exact(&mut header).expect("a reply");
        let number = |at| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        assert_eq!(header[..2], self.next.to_le_bytes());
        assert_eq!(number(8) & 0xf, 1, "a reply");
        let mut body = vec![0; number(4) as usize - 16];
        self.socket.read_exact(&mut body).expect("a reply");
        if number(8) & 1 << 5 == 0 { Ok(body) } else { Err(number(12)) }
    }

    pub fn call(
        &mut self,
        command: u16,
        body: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<Vec<u8>, u32> {
        self.send(command, body, fds);
        self.receive()
    }

    /// Whether the server closes the connection, without another word.
    pub fn is_closed(&mut self) -> bool {
        let read = self.socket.read(&mut [0; 16]).map_err(|error| error.kind());
        matches!(read, Ok(0) | Err(ErrorKind::ConnectionReset))
    }

    pub fn read_region(&mut self, region: u32, offset: u64, len: u32) -> Vec<u8> {
        let reply = self.call(REGION_READ, &access(region, offset, len), &[]).expect("a region");
        assert_eq!(reply.len(), 16 + len as usize);
        reply[16..].to_vec()
    }

    pub fn write_region(&mut self, region: u32, offset: u64, data: &[u8]) {
        let len = u32::try_from(data.len()).expect("short");
        let body = [access(region, offset, len), data.to_vec()].concat();
        self.call(REGION_WRITE, &body, &[]).expect("a region");
    }

    pub fn register(&mut self, offset: u64) -> u32 {
        u32::read_from_bytes(&self.read_region(0, offset, 4)).expect("four bytes")
    }

    pub fn set_register(&mut self, offset: u64, value: u32) {
        self.write_region(0, offset, &value.to_le_bytes());
    }

    /// Shares memory from `offset` of a file on at a guest address.
    pub fn map(
        &mut self,
        address: u64,
        size: u64,
        offset: u64,
        file: &[BorrowedFd<'_>],
    ) -> Result<Vec<u8>, u32> {
        self.call(DMA_MAP, &dma_map(address, size, offset), file)
    }

    pub fn unmap(&mut self, address: u64, size: u64) -> Result<Vec<u8>, u32> {
        let numbers = [address, size].map(u64::to_le_bytes).concat();
        let body = [24_u32.to_le_bytes().as_slice(), &[0; 4], &numbers].concat();
        self.call(DMA_UNMAP, &body, &[])
    }

    /// Gives an MSI-X vector an eventfd.
    pub fn set_vector(&mut self, vector: u32) -> OwnedFd {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd");
        let body = set_irqs(1 << 2 | 1 << 5, 2, vector, 1);
        self.call(SET_IRQS, &body, &[event.as_fd()]).expect("a vector");
        event
    }
}

pub fn version(capabilities: &str) -> Vec<u8> {
    [&[0, 0, 1, 0], capabilities.as_bytes(), &[0]].concat()
}

pub fn dma_map(address: u64, size: u64, offset: u64) -> Vec<u8> {
    let numbers = [offset, address, size].map(u64::to_le_bytes).concat();
    [32_u32.to_le_bytes().as_slice(), &3_u32.to_le_bytes(), &numbers].concat()
}

pub fn access(region: u32, offset: u64, len: u32) -> Vec<u8> {
    [offset.to_le_bytes().as_slice(), &region.to_le_bytes(), &len.to_le_bytes()].concat()
}

pub fn set_irqs(flags: u32, index: u32, start: u32, count: u32) -> Vec<u8> {
    [20, flags, index, start, count].as_bytes().to_vec()
}

/// The value of a number that the device writes.
pub fn load(number: &AtomicU32) -> u32 {
    u32::from_le(number.load(Ordering::Acquire))
}
