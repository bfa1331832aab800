//! A client: negotiation, then memory, regions and interrupts of the function.
use super::super::guest::memory::{GuestMemory, MAX_REGIONS, PAGE, RegionRequest};
use super::super::guest::socket::{MAX_FDS, Message, MessageSocket};
use super::messages::{Disconnect, MAX_DATA};
use super::vectors::Vectors;
use super::wire::{self, *};
use rustix::io::Errno;
use serde_json::{Value, json};
use std::os::fd::OwnedFd;
use std::sync::{Arc, RwLock};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};
use zonal_blk::{Nanos, Wake};
use zonal_nvme::controller::pcie::{BAR_SIZE, CONFIG_SIZE, Function};
use zonal_os::poll::WaitSet;

type Reply = Result<Vec<u8>, Errno>;

/// State that the sessions of a server share with its workers.
#[derive(Clone)]
pub struct FunctionShared {
    pub memory: Arc<RwLock<GuestMemory>>,
    pub vectors: Arc<Vectors>,
}

/// A connected client.
pub struct Session {
    messages: MessageSocket<Header>,
    shared: FunctionShared,
    negotiated: bool,
    /// A reset whose reply waits until I/O has ended.
    resetting: Option<Header>,
}

/// The device, as a message may use it.
pub struct Device<'a> {
    pub function: &'a mut Function,
    pub now: Nanos,
}

impl Session {
    pub fn new(messages: MessageSocket<Header>, shared: FunctionShared) -> Self {
        Session { messages, shared, negotiated: false, resetting: None }
    }

    /// Whether a message may be received now.
    fn wants_input(&self) -> bool {
        self.resetting.is_none() && !self.messages.has_unsent()
    }

    /// When the client has been too slow.
    pub fn next_event(&self) -> Wake {
        self.messages.next_event()
    }

    /// Adds the client's socket.
    pub fn wait_fds(&self, set: &mut WaitSet) {
        self.messages.wait_fds(self.wants_input(), set);
    }

    /// Executes the messages that have arrived, and sends replies. Returns whether there was anything
    /// to do.
    ///
    /// # Errors
    /// Why the client is to be disconnected.
    pub fn poll(&mut self, device: &mut Device<'_>) -> Result<bool, Disconnect> {
        let mut worked = self.messages.send(device.now)?;
        if self.resetting.is_some() && device.function.is_quiescent() {
            let header = self.resetting.take().expect("it was there");
            self.messages.reply(&header, Ok(Vec::new()));
            worked |= self.messages.send(device.now)?;
        }
        if self.wants_input()
            && let Some(message) = self.messages.receive(device.now)?
        {
            worked = true;
            self.handle(message, device)?;
            self.messages.send(device.now)?;
        }
        if self.memory().is_lost() {
            return Err(Disconnect::LostMemory);
        }
        Ok(worked)
    }

    fn memory(&self) -> std::sync::RwLockReadGuard<'_, GuestMemory> {
        self.shared.memory.read().expect("memory lock")
    }

    fn handle(
        &mut self,
        message: Message<Header>,
        device: &mut Device<'_>,
    ) -> Result<(), Disconnect> {
        let Message { header, body, fds } = message;
        let command = header.command.get();
        if !self.negotiated {
            if command != command::VERSION {
                return Err(Disconnect::NoVersion(command));
            }
            let reply = negotiate(&body).inspect_err(|_| {
                self.messages.reply(&header, Err(Errno::INVAL));
                // Best effort: the client sees that the connection is closed.
                let _ = self.messages.send(device.now);
            });
            self.messages.reply(&header, Ok(reply?));
            self.negotiated = true;
            return Ok(());
        }
        if command == command::RESET && body.is_empty() {
            device.function.reset(device.now);
            self.resetting = Some(header);
            return Ok(());
        }
        let reply = self.execute(command, &body, fds, device);
        if let Err(error) = reply {
            tracing::debug!("vfio-user: command {command} of {} bytes: {error}", body.len());
        }
        self.messages.reply(&header, reply);
        Ok(())
    }

    fn execute(
        &mut self,
        command: u16,
        body: &[u8],
        mut fds: Vec<OwnedFd>,
        device: &mut Device<'_>,
    ) -> Reply {
        match command {
            command::DMA_MAP if fds.len() <= 1 => return self.map(&exact(body)?, fds.pop()),
            command::SET_IRQS => return self.set_irqs(body, fds),
            // Other commands have none.
            _ if !fds.is_empty() => return Err(Errno::INVAL),
            _ => {}
        }
        match command {
            command::DMA_UNMAP => self.unmap(&exact(body)?),
            command::GET_INFO => get_info(exact(body)?),
            command::GET_REGION_INFO => get_region_info(exact(body)?),
            command::GET_IRQ_INFO => self.get_irq_info(exact(body)?),
            command::REGION_READ => region_read(&exact(body)?, device),
            command::REGION_WRITE => self.region_write(body, device),
            command::REGION_WRITE_MULTI => self.region_write_multi(body, device),
            // The device has neither descriptors for doorbells nor a state that could be moved.
            command::GET_REGION_IO_FDS
            | command::DIRTY_PAGES
            | command::FEATURE
            | command::MIGRATION_READ
            | command::MIGRATION_WRITE => Err(Errno::OPNOTSUPP),
            _ => Err(Errno::INVAL),
        }
    }

    fn map(&self, map: &DmaMap, file: Option<OwnedFd>) -> Reply {
        let flags = map.flags.get();
        if flags & !(DMA_READABLE | DMA_WRITABLE) != 0 {
            return Err(Errno::INVAL);
        }
        let request = RegionRequest {
            address: map.address.get(),
            size: map.size.get(),
            offset: if file.is_some() { map.offset.get() } else { 0 },
            readable: flags & DMA_READABLE != 0,
            writable: flags & DMA_WRITABLE != 0,
        };
        self.shared.memory.write().expect("memory lock").map(&request, file)?;
        Ok(Vec::new())
    }

    /// Replies when no worker can be accessing the memory any more: they hold the lock meanwhile.
    fn unmap(&self, unmap: &DmaUnmap) -> Reply {
        let mut memory = self.shared.memory.write().expect("memory lock");
        match unmap.flags.get() {
            0 => memory.unmap(unmap.address.get(), unmap.size.get())?,
            DMA_UNMAP_ALL if unmap.address.get() == 0 && unmap.size.get() == 0 => memory.clear(),
            _ => return Err(Errno::INVAL),
        }
        Ok(unmap.as_bytes().to_vec())
    }

    fn get_irq_info(&self, request: IrqInfo) -> Reply {
        check_room(request.argsz.get(), size_of::<IrqInfo>())?;
        let index = request.index.get();
        if index >= IRQS {
            return Err(Errno::INVAL);
        }
        let count = self.shared.vectors.count(index);
        let flags = if count > 0 { IRQ_EVENTFD } else { 0 };
        let info = IrqInfo {
            argsz: argsz::<IrqInfo>(),
            flags: flags.into(),
            index: index.into(),
            count: count.into(),
        };
        Ok(info.as_bytes().to_vec())
    }

    fn region_write(&self, body: &[u8], device: &mut Device<'_>) -> Reply {
        let (access, data) = RegionAccess::read_from_prefix(body).map_err(|_| Errno::INVAL)?;
        if check_access(&access)? != data.len() {
            return Err(Errno::INVAL);
        }
        self.write(&access, data, device);
        Ok(access.as_bytes().to_vec())
    }

    fn region_write_multi(&self, body: &[u8], device: &mut Device<'_>) -> Reply {
        let (count, writes) = body.split_first_chunk().ok_or(Errno::INVAL)?;
        let writes = <[MultiWrite]>::ref_from_bytes(writes).map_err(|_| Errno::INVAL)?;
        let whole = writes.len() as u64 == u64::from_le_bytes(*count);
        let fits =
            |one: &MultiWrite| check_access(&one.access).is_ok_and(|len| len <= one.data.len());
        if !whole || !writes.iter().all(fits) {
            return Err(Errno::INVAL);
        }
        for one in writes {
            self.write(&one.access, &one.data[..one.access.count.get() as usize], device);
        }
        Ok(count.to_vec())
    }

    fn write(&self, access: &RegionAccess, data: &[u8], device: &mut Device<'_>) {
        let offset = access.offset.get();
        match access.region.get() {
            REGION_CONFIG => {
                device.function.write_config(device.now, offset, data);
                // It may have been a reset, after which no worker accesses the guest's memory: one that
                // does has it locked.
                drop(self.shared.memory.write().expect("memory lock"));
            }
            _ => device.function.write_bar(device.now, offset, data),
        }
    }

    fn set_irqs(&self, body: &[u8], fds: Vec<OwnedFd>) -> Reply {
        let (request, data) = SetIrqs::read_from_prefix(body).map_err(|_| Errno::INVAL)?;
        let [flags, index, start, count] =
            [request.flags, request.index, request.start, request.count].map(|field| field.get());
        let vectors = &self.shared.vectors;
        // Interrupts cannot be masked here: the client does that.
        if index >= IRQS
            || flags & set_irqs::ACTION != set_irqs::ACTION_TRIGGER
            || flags & !(set_irqs::ACTION | set_irqs::DATA) != 0
        {
            return Err(Errno::INVAL);
        }
        let kind = flags & set_irqs::DATA;
        if kind != set_irqs::DATA_EVENTFD && !fds.is_empty() {
            return Err(Errno::INVAL);
        }
        match kind {
            set_irqs::DATA_NONE if (start, count) == (0, 0) => {
                vectors.set(index, 0, vectors.count(index), Vec::new())?;
            }
            set_irqs::DATA_NONE => vectors.trigger(index, start, count, |_| true)?,
            set_irqs::DATA_BOOL => {
                let wanted = data.get(..count as usize).ok_or(Errno::INVAL)?;
                vectors.trigger(index, start, count, |number| wanted[number] != 0)?;
            }
            set_irqs::DATA_EVENTFD => vectors.set(index, start, count, fds)?,
            _ => return Err(Errno::INVAL),
        }
        Ok(Vec::new())
    }
}

/// A message that is a structure and nothing else.
fn exact<T: FromBytes + KnownLayout + Immutable + Unaligned>(body: &[u8]) -> Result<T, Errno> {
    T::read_from_bytes(body).map_err(|_| Errno::INVAL)
}

/// Whether the client has room for a reply of `len` bytes.
fn check_room(argsz: u32, len: usize) -> Result<(), Errno> {
    if (argsz as usize) < len { Err(Errno::INVAL) } else { Ok(()) }
}

/// ARGSZ of a reply that is a structure.
fn argsz<T>() -> zerocopy::little_endian::U32 {
    u32::try_from(size_of::<T>()).expect("a structure is short").into()
}

/// The reply to VERSION: what the client proposes, as far as there is it here.
fn negotiate(body: &[u8]) -> Result<Vec<u8>, Disconnect> {
    let fail = |why: String| Disconnect::Version(why);
    let (version, text) = wire::Version::read_from_prefix(body)
        .map_err(|_| fail(format!("{} bytes, expected 4 or more", body.len())))?;
    let (major, minor) = (version.major.get(), version.minor.get());
    if major != 0 {
        return Err(fail(format!("the client's is {major}.{minor}, expected 0.1 or 0.0")));
    }
    let text = text.strip_suffix(&[0]).unwrap_or(text);
    let proposed: Value = if text.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(text).map_err(|error| fail(format!("its capabilities: {error}")))?
    };
    let multiple = proposed["capabilities"]["write_multiple"] == true;
    let mut capabilities = json!({
        "max_msg_fds": MAX_FDS,
        "max_data_xfer_size": MAX_DATA,
        "max_dma_maps": MAX_REGIONS,
        "pgsizes": PAGE,
    });
    if multiple {
        capabilities["write_multiple"] = true.into();
    }
    let version = wire::Version { minor: minor.min(1).into(), ..version };
    let mut reply = version.as_bytes().to_vec();
    reply.extend(json!({ "capabilities": capabilities }).to_string().bytes());
    reply.push(0);
    Ok(reply)
}

fn get_info(request: DeviceInfo) -> Reply {
    check_room(request.argsz.get(), size_of::<DeviceInfo>())?;
    let info = DeviceInfo {
        argsz: argsz::<DeviceInfo>(),
        flags: DEVICE_FLAGS.into(),
        regions: REGIONS.into(),
        irqs: IRQS.into(),
    };
    Ok(info.as_bytes().to_vec())
}

fn region_size(index: u32) -> u64 {
    match index {
        REGION_BAR0 => BAR_SIZE.into(),
        REGION_CONFIG => CONFIG_SIZE as u64,
        _ => 0,
    }
}

fn get_region_info(request: RegionInfo) -> Reply {
    check_room(request.argsz.get(), size_of::<RegionInfo>())?;
    let index = request.index.get();
    if index >= REGIONS {
        return Err(Errno::INVAL);
    }
    let size = region_size(index);
    let info = RegionInfo {
        argsz: argsz::<RegionInfo>(),
        flags: if size > 0 { REGION_READ_WRITE } else { 0 }.into(),
        index: index.into(),
        size: size.into(),
        ..RegionInfo::default()
    };
    Ok(info.as_bytes().to_vec())
}

/// The bytes of an access, which must be in its region.
fn check_access(access: &RegionAccess) -> Result<usize, Errno> {
    let count = access.count.get();
    let end = access.offset.get().checked_add(count.into());
    let size = region_size(access.region.get());
    match end {
        Some(end) if end <= size && count as usize <= MAX_DATA => Ok(count as usize),
        _ => Err(Errno::INVAL),
    }
}

fn region_read(access: &RegionAccess, device: &mut Device<'_>) -> Reply {
    let mut reply = access.as_bytes().to_vec();
    let start = reply.len();
    reply.resize(start + check_access(access)?, 0);
    let (offset, data) = (access.offset.get(), &mut reply[start..]);
    match access.region.get() {
        REGION_CONFIG => device.function.read_config(offset, data),
        _ => device.function.read_bar(offset, data),
    }
    Ok(reply)
}
