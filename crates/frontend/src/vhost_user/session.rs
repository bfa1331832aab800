//! A client: negotiation, memory and rings.
use super::super::guest::eventfd::Eventfd;
use super::super::guest::memory::{GuestMemory, MAX_REGIONS, RegionRequest};
use super::super::guest::socket::{MAX_FDS, Message, MessageSocket};
use super::device::{PROTOCOL, VirtioDevice};
use super::inflight::{self, InflightMemory};
use super::messages::Disconnect;
use super::refusal::Refusal;
use super::ring::{Layout, MAX_RING, Ring};
use super::wire::{
    BlkConfig, ConfigRange, Header, InflightArea, MemRegion, MemTable, NEED_REPLY, NO_FD,
    OneRegion, RING_NUMBER, VringAddr, VringState, feature, protocol, request,
};
use super::worker::{NewWorker, RingControl, RunningWorker, StartWorker, Stop, Worker};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLock, RwLockReadGuard};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zonal_blk::{Nanos, Wake, WakeUp};
use zonal_os::poll::WaitSet;

/// Bytes of configuration space that a client may ask for.
const MAX_CONFIG: u32 = 256;

/// State that a server shares with its sessions.
pub struct DeviceShared {
    pub device: Arc<VirtioDevice>,
    pub memory: Arc<RwLock<GuestMemory>>,
    /// Of the thread that has the client.
    pub waker: Arc<dyn WakeUp>,
    pub start: StartWorker,
}

/// A ring as the client has set it up.
struct Vring {
    control: Arc<RingControl>,
    size: u16,
    addresses: Option<VringAddr>,
    /// The index of the next chain.
    base: u16,
    running: Option<RunningWorker>,
    /// What the last worker has answered is durable.
    committed: bool,
}

impl Vring {
    fn new() -> Self {
        let control = Arc::new(RingControl::new());
        Vring { control, size: 0, addresses: None, base: 0, running: None, committed: true }
    }

    fn wake(&self) {
        self.running.iter().for_each(RunningWorker::wake);
    }

    fn stop(&self, how: Stop) {
        self.control.stop(how);
        self.wake();
    }

    /// Whether there is no worker, or none any more.
    fn is_stopped(&mut self) -> bool {
        let Some(worker) = &self.running else { return true };
        let Some(next) = worker.finished() else { return false };
        (self.base, self.committed) = (next, worker.has_committed());
        self.running.take().into_iter().for_each(RunningWorker::join);
        true
    }
}

/// The answer to a request.
enum Answer {
    /// Nothing to say, unless the client wants to know.
    Done,
    Reply(Vec<u8>),
    WithFd(Vec<u8>, OwnedFd),
    /// The index of a ring's next chain, when the ring has stopped and what it answered is durable.
    Base(usize),
    /// The same as `Done`, when all rings have stopped.
    Stopped,
}

/// A connected client.
pub struct Session {
    messages: MessageSocket<Header>,
    shared: Arc<DeviceShared>,
    features: u64,
    protocol: u64,
    /// The client's addresses of its memory: first, size, guest address.
    user: Vec<(u64, u64, u64)>,
    inflight: Option<InflightMemory>,
    rings: Vec<Vring>,
    /// A request whose answer waits for rings to stop.
    waiting: Option<(Header, Answer)>,
}

impl Session {
    pub fn new(messages: MessageSocket<Header>, shared: Arc<DeviceShared>) -> Self {
        let rings = (0..shared.device.config.queues.get()).map(|_| Vring::new()).collect();
        Session {
            messages,
            shared,
            features: 0,
            protocol: 0,
            user: Vec::new(),
            inflight: None,
            rings,
            waiting: None,
        }
    }

    /// Whether a message may be received now.
    fn wants_input(&self) -> bool {
        self.waiting.is_none() && !self.messages.has_unsent()
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
    pub fn poll(&mut self, now: Nanos) -> Result<bool, Disconnect> {
        let mut worked = self.messages.send(now)?;
        if let Some((header, answer)) = self.waiting.take() {
            if self.has_stopped(&answer) {
                worked = true;
                self.answer(&header, answer)?;
                self.messages.send(now)?;
            } else {
                self.waiting = Some((header, answer));
            }
        }
        if self.wants_input()
            && let Some(message) = self.messages.receive(now)?
        {
            worked = true;
            self.handle(message)?;
            self.messages.send(now)?;
        }
        let lost = self.inflight.as_ref().is_some_and(InflightMemory::is_lost);
        if lost || self.memory().is_lost() {
            return Err(Disconnect::LostMemory);
        }
        Ok(worked)
    }

    /// Has the workers end. Returns whether they have, all requests being answered.
    pub fn drain(&mut self) -> bool {
        self.rings.iter().for_each(|ring| ring.stop(Stop::Drain));
        self.rings.iter_mut().all(Vring::is_stopped)
    }

    /// Ends the workers, and takes the guest's memory from them. Returns those that there are.
    pub fn leave(self) -> Vec<RunningWorker> {
        self.rings.iter().for_each(|ring| ring.stop(Stop::Abandon));
        self.shared.memory.write().expect("memory lock").clear();
        self.rings.into_iter().filter_map(|ring| ring.running).collect()
    }

    fn memory(&self) -> RwLockReadGuard<'_, GuestMemory> {
        self.shared.memory.read().expect("memory lock")
    }

    fn has_stopped(&mut self, answer: &Answer) -> bool {
        match answer {
            Answer::Base(index) => self.rings[*index].is_stopped(),
            Answer::Stopped => {
                let stopped = self.rings.iter_mut().all(Vring::is_stopped);
                if stopped {
                    self.features = 0;
                    self.rings.iter_mut().for_each(|ring| *ring = Vring::new());
                }
                stopped
            }
            _ => true,
        }
    }

    fn answer(&mut self, header: &Header, answer: Answer) -> Result<(), Disconnect> {
        match answer {
            Answer::Done | Answer::Stopped => self.acknowledge(header, 0),
            Answer::Reply(body) => self.messages.reply(header, &body, None),
            Answer::WithFd(body, fd) => self.messages.reply(header, &body, Some(fd)),
            // The reply cannot say so.
            Answer::Base(index) if !self.rings[index].committed => {
                return Err(Disconnect::NotCommitted(index));
            }
            Answer::Base(index) => {
                let number = u32::from(self.rings[index].base).into();
                let index = u32::try_from(index).expect("256 at most").into();
                self.messages.reply(header, VringState { index, number }.as_bytes(), None);
            }
        }
        Ok(())
    }

    fn wants_reply(&self, header: &Header) -> bool {
        self.protocol & protocol::REPLY_ACK != 0 && header.flags.get() & NEED_REPLY != 0
    }

    fn acknowledge(&mut self, header: &Header, error: u64) {
        if self.wants_reply(header) {
            self.messages.reply(header, &error.to_le_bytes(), None);
        }
    }

    fn handle(&mut self, message: Message<Header>) -> Result<(), Disconnect> {
        let Message { header, body, fds } = message;
        let request = header.request.get();
        match self.execute(request, &body, fds) {
            Ok(answer) if self.has_stopped(&answer) => self.answer(&header, answer)?,
            Ok(answer) => self.waiting = Some((header, answer)),
            Err(why) if self.wants_reply(&header) && !has_reply(request) => {
                tracing::debug!("vhost-user: request {request}: {why}");
                self.acknowledge(&header, 1);
            }
            // The client would go on as if all were well.
            Err(why) => return Err(Disconnect::Refused { request, why }),
        }
        Ok(())
    }

    fn execute(&mut self, code: u32, body: &[u8], fds: Vec<OwnedFd>) -> Result<Answer, Refusal> {
        match code {
            request::SET_MEM_TABLE => return self.set_mem_table(body, fds),
            request::ADD_MEM_REG => return self.add_region(&exact(body)?, fds),
            request::SET_INFLIGHT_FD => return self.set_inflight(body, fds),
            request::SET_VRING_KICK | request::SET_VRING_CALL | request::SET_VRING_ERR => {
                return self.set_eventfd(code, exact(body)?, fds);
            }
            // Some clients send the region's descriptor once more.
            request::REM_MEM_REG if fds.len() <= 1 => {}
            _ if !fds.is_empty() => return Err(Refusal::Fds { found: fds.len(), expected: 0 }),
            _ => {}
        }
        match code {
            request::SET_OWNER => {}
            request::GET_FEATURES => return reply(self.shared.device.features),
            request::GET_PROTOCOL_FEATURES => return reply(PROTOCOL),
            request::GET_QUEUE_NUM => return reply(self.rings.len() as u64),
            request::GET_MAX_MEM_SLOTS => return reply(MAX_REGIONS as u64),
            request::SET_FEATURES => self.set_features(exact(body)?)?,
            request::SET_PROTOCOL_FEATURES => {
                let features: u64 = exact(body)?;
                let known = features & !PROTOCOL == 0;
                self.protocol =
                    if known { features } else { return Err(Refusal::Features(features)) };
            }
            request::RESET_OWNER | request::RESET_DEVICE => {
                self.rings.iter().for_each(|ring| ring.stop(Stop::Abandon));
                return Ok(Answer::Stopped);
            }
            request::GET_CONFIG => return self.get_config(body),
            request::SET_CONFIG => return Err(Refusal::ReadOnly),
            request::GET_INFLIGHT_FD => return self.get_inflight(body),
            request::REM_MEM_REG => self.remove_region(&exact(body)?)?,
            request::GET_VRING_BASE => {
                let state: VringState = exact(body)?;
                let index = self.ring(state.index.get().into())?;
                self.rings[index].stop(Stop::Drain);
                return Ok(Answer::Base(index));
            }
            request::SET_VRING_ADDR => {
                let addresses: VringAddr = exact(body)?;
                self.stopped(addresses.index.get())?.addresses = Some(addresses);
            }
            request::SET_VRING_NUM | request::SET_VRING_BASE | request::SET_VRING_ENABLE => {
                self.set_state(code, &exact(body)?)?;
            }
            _ => return Err(Refusal::Unknown),
        }
        Ok(Answer::Done)
    }

    /// The place of a ring.
    fn ring(&self, number: u64) -> Result<usize, Refusal> {
        let rings = self.rings.len();
        let index = usize::try_from(number).ok().filter(|index| *index < rings);
        index.ok_or(Refusal::Ring { found: number, rings })
    }

    /// A ring that is not served.
    fn stopped(&mut self, number: u32) -> Result<&mut Vring, Refusal> {
        let index = self.ring(number.into())?;
        let ring = &mut self.rings[index];
        if ring.is_stopped() { Ok(ring) } else { Err(Refusal::Running) }
    }

    fn set_features(&mut self, features: u64) -> Result<(), Refusal> {
        if features & !self.shared.device.features != 0 {
            return Err(Refusal::Features(features));
        }
        self.features = features;
        if features & feature::PROTOCOL_FEATURES == 0 {
            self.rings.iter().for_each(|ring| {
                ring.control.enabled.store(true, Ordering::Release);
                ring.wake();
            });
        }
        Ok(())
    }

    fn set_state(&mut self, code: u32, state: &VringState) -> Result<(), Refusal> {
        let (index, number) = (state.index.get(), state.number.get());
        if code == request::SET_VRING_ENABLE {
            let index = self.ring(index.into())?;
            self.rings[index].control.enabled.store(number != 0, Ordering::Release);
            self.rings[index].wake();
            return Ok(());
        }
        let ring = self.stopped(index)?;
        let short = u16::try_from(number).ok();
        if code == request::SET_VRING_BASE {
            ring.base = short.ok_or(Refusal::RingSize(number))?;
        } else {
            let size = short.filter(|size| size.is_power_of_two() && *size <= MAX_RING);
            ring.size = size.ok_or(Refusal::RingSize(number))?;
        }
        Ok(())
    }

    fn get_config(&self, body: &[u8]) -> Result<Answer, Refusal> {
        let wrong = || Refusal::Size(body.len());
        let (range, bytes) = ConfigRange::read_from_prefix(body).map_err(|_| wrong())?;
        let (offset, size) = (range.offset.get(), range.size.get());
        let fits = offset.checked_add(size).is_some_and(|end| end <= MAX_CONFIG);
        if !fits || bytes.len() != size as usize {
            return Err(wrong());
        }
        // The rest is zeroes.
        let mut space = [0; MAX_CONFIG as usize];
        let device = &self.shared.device;
        let config = BlkConfig { capacity: device.capacity().0.into(), ..device.config };
        space[..size_of::<BlkConfig>()].copy_from_slice(config.as_bytes());
        let asked = &space[offset as usize..][..size as usize];
        Ok(Answer::Reply([range.as_bytes(), asked].concat()))
    }

    fn get_inflight(&self, body: &[u8]) -> Result<Answer, Refusal> {
        let (asked, _) =
            InflightArea::read_from_prefix(body).map_err(|_| Refusal::Size(body.len()))?;
        let rings = u16::try_from(self.rings.len()).expect("256 at most");
        let (file, area) =
            inflight::create(rings, asked.queue_size.get()).map_err(Refusal::Inflight)?;
        // As long as the request: some clients have padding.
        let mut reply = area.as_bytes().to_vec();
        reply.resize(body.len(), 0);
        Ok(Answer::WithFd(reply, file))
    }

    fn set_inflight(&mut self, body: &[u8], fds: Vec<OwnedFd>) -> Result<Answer, Refusal> {
        let (area, _) =
            InflightArea::read_from_prefix(body).map_err(|_| Refusal::Size(body.len()))?;
        let file = one(fds)?;
        let rings = u16::try_from(self.rings.len()).expect("256 at most");
        self.inflight = Some(InflightMemory::new(&area, rings, file).map_err(Refusal::Inflight)?);
        Ok(Answer::Done)
    }

    fn set_mem_table(&mut self, body: &[u8], fds: Vec<OwnedFd>) -> Result<Answer, Refusal> {
        let wrong = || Refusal::Size(body.len());
        let (table, regions) = MemTable::read_from_prefix(body).map_err(|_| wrong())?;
        let count = table.regions.get();
        if count as usize > MAX_FDS {
            return Err(Refusal::Regions(count));
        }
        let regions = <[MemRegion]>::ref_from_prefix_with_elems(regions, count as usize);
        let (regions, _) = regions.map_err(|_| wrong())?;
        if fds.len() != regions.len() {
            return Err(Refusal::Fds { found: fds.len(), expected: regions.len() });
        }
        let (mut memory, mut user) = (GuestMemory::default(), Vec::new());
        for (region, file) in regions.iter().zip(fds) {
            user.push(map(&mut memory, region, file)?);
        }
        // Waits until no worker accesses the old one.
        *self.shared.memory.write().expect("memory lock") = memory;
        self.user = user;
        Ok(Answer::Done)
    }

    fn add_region(&mut self, region: &OneRegion, fds: Vec<OwnedFd>) -> Result<Answer, Refusal> {
        let file = one(fds)?;
        let mut memory = self.shared.memory.write().expect("memory lock");
        self.user.push(map(&mut memory, &region.region, file)?);
        Ok(Answer::Done)
    }

    fn remove_region(&mut self, region: &OneRegion) -> Result<(), Refusal> {
        let MemRegion { guest, size, .. } = region.region;
        let mut memory = self.shared.memory.write().expect("memory lock");
        memory.unmap(guest.get(), size.get()).map_err(Refusal::Memory)?;
        self.user.retain(|known| (known.1, known.2) != (size.get(), guest.get()));
        Ok(())
    }

    /// The guest address of an address of the client.
    fn guest_address(&self, user: u64) -> Result<u64, Refusal> {
        let mut regions = self.user.iter();
        let found = regions.find(|(first, size, _)| user >= *first && user - first < *size);
        found.map(|(first, _, guest)| guest + (user - first)).ok_or(Refusal::Address(user))
    }

    fn set_eventfd(&mut self, code: u32, value: u64, fds: Vec<OwnedFd>) -> Result<Answer, Refusal> {
        let index = self.ring(value & RING_NUMBER)?;
        let eventfd = if value & NO_FD == 0 {
            let new = if code == request::SET_VRING_KICK { Eventfd::new } else { Eventfd::or_pipe };
            Some(Arc::new(new(one(fds)?).map_err(Refusal::Eventfd)?))
        } else if fds.is_empty() {
            None
        } else {
            return Err(Refusal::Fds { found: fds.len(), expected: 0 });
        };
        let control = &self.rings[index].control;
        match code {
            request::SET_VRING_CALL => *control.call.lock().expect("eventfd lock") = eventfd,
            request::SET_VRING_ERR => *control.error.lock().expect("eventfd lock") = eventfd,
            _ if eventfd.is_none() => return Err(Refusal::NoKick),
            _ => {
                control.set_kick(eventfd);
                self.start(index)?;
            }
        }
        Ok(Answer::Done)
    }

    /// Starts the worker of a ring; one that is there goes on.
    fn start(&mut self, index: usize) -> Result<(), Refusal> {
        if !self.rings[index].is_stopped() {
            self.rings[index].wake();
            return Ok(());
        }
        let ring = &self.rings[index];
        let (size, base, control) = (ring.size, ring.base, Arc::clone(&ring.control));
        let addresses = ring.addresses.ok_or(Refusal::NotReady)?;
        let [desc, avail, used] = [addresses.desc, addresses.avail, addresses.used]
            .map(|address| self.guest_address(address.get()));
        let layout = Layout { size, desc: desc?, avail: avail?, used: used? };
        if !layout.is_sound() {
            return Err(Refusal::NotReady);
        }
        let number = u16::try_from(index).expect("256 at most");
        let inflight = self.inflight.as_ref().and_then(|memory| memory.ring(number, size));
        let DeviceShared { device, memory, waker, start } = &*self.shared;
        let channel = device.queue.channel().map_err(|e| Refusal::Thread(io::Error::other(e)))?;
        let served = Ring::new(&self.memory(), layout, base, self.features)?;
        let worker = Worker::new(NewWorker {
            ring: served,
            channel,
            device: Arc::clone(device),
            memory: Arc::clone(memory),
            features: self.features,
            control: Arc::clone(&control),
            inflight,
            server: Arc::clone(waker),
        })?;
        control.begin();
        let running = start(format!("vhost-user-{index}"), worker);
        self.rings[index].running = Some(running.map_err(Refusal::Thread)?);
        Ok(())
    }
}

/// A message that is a structure or a number and nothing else.
fn exact<T: FromBytes + KnownLayout + Immutable>(body: &[u8]) -> Result<T, Refusal> {
    T::read_from_bytes(body).map_err(|_| Refusal::Size(body.len()))
}

/// The only descriptor of a message.
fn one(fds: Vec<OwnedFd>) -> Result<OwnedFd, Refusal> {
    let found = fds.len();
    <[OwnedFd; 1]>::try_from(fds).map(|[fd]| fd).map_err(|_| Refusal::Fds { found, expected: 1 })
}

fn reply(number: u64) -> Result<Answer, Refusal> {
    Ok(Answer::Reply(number.to_le_bytes().to_vec()))
}

/// Whether the client waits for a reply of this request's own.
fn has_reply(request: u32) -> bool {
    matches!(
        request,
        request::GET_FEATURES
            | request::GET_PROTOCOL_FEATURES
            | request::GET_QUEUE_NUM
            | request::GET_MAX_MEM_SLOTS
            | request::GET_VRING_BASE
            | request::GET_CONFIG
            | request::GET_INFLIGHT_FD
    )
}

/// Maps a region. Returns where the client has it.
fn map(
    memory: &mut GuestMemory,
    region: &MemRegion,
    file: OwnedFd,
) -> Result<(u64, u64, u64), Refusal> {
    let (user, size, guest) = (region.user.get(), region.size.get(), region.guest.get());
    let offset = region.offset.get();
    let request = RegionRequest { address: guest, size, offset, readable: true, writable: true };
    memory.map(&request, Some(file)).map_err(Refusal::Memory)?;
    Ok((user, size, guest))
}
