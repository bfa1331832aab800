//! A client of vhost-user: a virtual machine monitor, in this process.
//!
//! Messages are made by hand here, so that they can be wrong.
use crate::guest_memory::{Memory, PATIENCE, send_with};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::{ErrorKind, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub const GET_FEATURES: u32 = 1;
pub const SET_FEATURES: u32 = 2;
pub const SET_OWNER: u32 = 3;
pub const SET_MEM_TABLE: u32 = 5;
pub const SET_VRING_NUM: u32 = 8;
pub const SET_VRING_ADDR: u32 = 9;
pub const SET_VRING_BASE: u32 = 10;
pub const GET_VRING_BASE: u32 = 11;
pub const SET_VRING_KICK: u32 = 12;
pub const SET_VRING_CALL: u32 = 13;
pub const SET_VRING_ERR: u32 = 14;
pub const GET_PROTOCOL_FEATURES: u32 = 15;
pub const SET_PROTOCOL_FEATURES: u32 = 16;
pub const GET_QUEUE_NUM: u32 = 17;
pub const SET_VRING_ENABLE: u32 = 18;
pub const GET_CONFIG: u32 = 24;
pub const SET_CONFIG: u32 = 25;
pub const GET_INFLIGHT_FD: u32 = 31;
pub const SET_INFLIGHT_FD: u32 = 32;
pub const RESET_DEVICE: u32 = 34;
pub const GET_MAX_MEM_SLOTS: u32 = 36;
pub const ADD_MEM_REG: u32 = 37;
pub const REM_MEM_REG: u32 = 38;

/// The client's address of the guest's first byte.
pub const USER: u64 = 0x7f00_0000_0000;
pub const EVENT_IDX: u64 = 1 << 29;
pub const INDIRECT: u64 = 1 << 28;
pub const ZONED: u64 = 1 << 17;
pub const PROTOCOL_FEATURES: u64 = 1 << 30;

/// A connection.
pub struct Client {
    pub socket: UnixStream,
    /// Whether requests without a reply are acknowledged.
    acknowledged: bool,
}

impl Client {
    /// Connects, without a word.
    pub fn connect(path: &Path) -> Self {
        let socket = UnixStream::connect(path).expect("a server");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Client { socket, acknowledged: false }
    }

    /// Connects and negotiates all features but `without`. Returns those that the server has.
    pub fn negotiated(path: &Path, without: u64) -> (Self, u64) {
        let mut client = Client::connect(path);
        let features = client.number(GET_FEATURES);
        assert_ne!(features & PROTOCOL_FEATURES, 0);
        let protocol = client.number(GET_PROTOCOL_FEATURES);
        client.send(SET_PROTOCOL_FEATURES, &protocol.to_le_bytes(), &[]);
        client.acknowledged = protocol & 1 << 3 != 0;
        client.set(SET_OWNER, &[], &[]).expect("an owner");
        client.set(SET_FEATURES, &(features & !without).to_le_bytes(), &[]).expect("features");
        (client, features)
    }

    pub fn send_raw(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        send_with(&self.socket, bytes, fds);
    }

    pub fn send(&self, request: u32, body: &[u8], fds: &[BorrowedFd<'_>]) {
        let size = u32::try_from(body.len()).expect("short");
        let flags = if self.acknowledged { 1 | 1 << 3 } else { 1 };
        let header = [request, flags, size].map(u32::to_le_bytes).concat();
        self.send_raw(&[header, body.to_vec()].concat(), fds);
    }

    /// The reply to a request, and its descriptor.
    pub fn receive(&mut self, request: u32) -> (Vec<u8>, Option<OwnedFd>) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut header = [0; 12];
        let mut data = [IoSliceMut::new(&mut header)];
        let received = recvmsg(&self.socket, &mut data, &mut control, RecvFlags::WAITALL);
        assert_eq!(received.expect("a reply").bytes, 12);
        let mut fd = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(mut fds) = message {
                fd = fds.next();
            }
        }
        let number = |at| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        assert_eq!((number(0), number(4)), (request, 1 | 1 << 2));
        let mut body = vec![0; number(8) as usize];
        self.socket.read_exact(&mut body).expect("a reply");
        (body, fd)
    }

    pub fn call(&mut self, request: u32, body: &[u8]) -> Vec<u8> {
        self.send(request, body, &[]);
        self.receive(request).0
    }

    /// A request whose reply is a number.
    pub fn number(&mut self, request: u32) -> u64 {
        u64::from_le_bytes(self.call(request, &[]).try_into().expect("a number"))
    }

    /// A request that is acknowledged.
    pub fn set(&mut self, request: u32, body: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), u64> {
        self.send(request, body, fds);
        if !self.acknowledged {
            return Ok(());
        }
        let (body, _) = self.receive(request);
        match u64::from_le_bytes(body.try_into().expect("a number")) {
            0 => Ok(()),
            error => Err(error),
        }
    }

    /// Whether the server closes the connection, without another word.
    pub fn is_closed(&mut self) -> bool {
        let read = self.socket.read(&mut [0; 16]).map_err(|error| error.kind());
        matches!(read, Ok(0) | Err(ErrorKind::ConnectionReset))
    }

    /// Shares a guest's memory.
    pub fn share(&mut self, memory: &Memory) {
        let table = mem_table(&[(0, memory.len as u64, USER, 0)]);
        self.set(SET_MEM_TABLE, &table, &[memory.file.as_fd()]).expect("memory");
    }

    pub fn state(&mut self, request: u32, index: u32, number: u32) -> Result<(), u64> {
        self.set(request, &state(index, number), &[])
    }

    /// Gives a ring an eventfd of a kind.
    pub fn eventfd(&mut self, request: u32, index: u64) -> OwnedFd {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd");
        self.set(request, &index.to_le_bytes(), &[event.as_fd()]).expect("an eventfd");
        event
    }

    pub fn config(&mut self, offset: u32, size: u32) -> Vec<u8> {
        let range = [offset, size, 0].map(u32::to_le_bytes).concat();
        let reply = self.call(GET_CONFIG, &[range.clone(), vec![0; size as usize]].concat());
        assert_eq!(reply[..12], range);
        reply[12..].to_vec()
    }
}

pub fn state(index: u32, number: u32) -> Vec<u8> {
    [index, number].map(u32::to_le_bytes).concat()
}

/// Guest address, size, the client's address, offset in the file of each region.
pub fn mem_table(regions: &[(u64, u64, u64, u64)]) -> Vec<u8> {
    let count = u32::try_from(regions.len()).expect("few");
    let mut table = [count, 0].map(u32::to_le_bytes).concat();
    for &(guest, size, user, offset) in regions {
        table.extend([guest, size, user, offset].map(u64::to_le_bytes).concat());
    }
    table
}

/// The addresses of a ring: descriptors, used, available.
pub fn vring_addr(index: u32, [desc, used, avail]: [u64; 3]) -> Vec<u8> {
    let addresses = [desc, used, avail, 0].map(u64::to_le_bytes).concat();
    [[index, 0].map(u32::to_le_bytes).concat(), addresses].concat()
}
