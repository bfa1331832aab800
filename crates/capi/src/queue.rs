//! Many commands in flight: submit, then poll for completions. A queue is a channel of the block
//! layer; a program has one for each thread.
use crate::channel::{Command, Io, Memory, Outcome};
use crate::device::{self, Device};
use crate::error::{Error, Result, guard};
use crate::handles::Handles;
use std::collections::VecDeque;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use zonal_blk::{BioFlags, Clock, Nanos, Op, Status};

struct Queue {
    device: Arc<Device>,
    depth: usize,
    /// One thread at a time.
    state: Mutex<State>,
}

struct State {
    io: Io,
    /// Completions that the program had no room for.
    left: VecDeque<Outcome>,
    /// Kept for its capacity.
    outcomes: Vec<Outcome>,
}

static QUEUES: Handles<Queue> = Handles::new("queue");

impl State {
    /// The descriptor of the queue, if there is one, can be read when there is something to poll.
    fn arm(&mut self) {
        self.io.arm(!self.left.is_empty());
    }
}

impl Queue {
    fn state(&self) -> Result<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(Error::new(libc::EBUSY, "the queue is in use by another thread"))
            }
        }
    }
}

/// Operations of a `zonal_io`.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum zonal_op {
    /// Reads `length` bytes at `offset`.
    ZONAL_READ = 0,
    /// Writes `length` bytes at `offset`.
    ZONAL_WRITE = 1,
    /// Appends `length` bytes to the zone that starts at `offset`.
    ZONAL_APPEND = 2,
    /// Makes what has completed durable.
    ZONAL_FLUSH = 3,
    /// Writes zeroes, without data.
    ZONAL_WRITE_ZEROES = 4,
    /// The data are no longer needed.
    ZONAL_DISCARD = 5,
    /// Empties the zone that starts at `offset`.
    ZONAL_RESET = 6,
    /// Opens the zone that starts at `offset`.
    ZONAL_ZONE_OPEN = 7,
    /// Closes the zone that starts at `offset`.
    ZONAL_ZONE_CLOSE = 8,
    /// Makes the zone that starts at `offset` full.
    ZONAL_FINISH = 9,
}

/// By `zonal_op`.
const OPS: [Op; 10] = [
    Op::Read,
    Op::Write,
    Op::ZoneAppend,
    Op::Flush,
    Op::WriteZeroes,
    Op::Discard,
    Op::ZoneReset,
    Op::ZoneOpen,
    Op::ZoneClose,
    Op::ZoneFinish,
];

/// Flag of a `zonal_io`: a write is durable when it completes.
pub const ZONAL_FUA: c_uint = 1;

/// A command.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zonal_io {
    /// A `zonal_op`.
    pub op: c_uint,
    /// 0 or `ZONAL_FUA`.
    pub flags: c_uint,
    /// Where, in bytes.
    pub offset: u64,
    /// How much, in bytes; 0 where the operation has no range.
    pub length: u64,
    /// The data. The memory stays valid, and nobody else uses it, until the command has
    /// completed.
    pub data: *mut c_void,
    /// Comes back with the completion.
    pub user_data: u64,
}

/// How a command ended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zonal_completion {
    /// The user data of the command.
    pub user_data: u64,
    /// The length of the command, or a negative error number.
    pub result: i64,
    /// The offset of the command; of an append, where the data are.
    pub offset: u64,
}

impl From<Outcome> for zonal_completion {
    fn from(Outcome { user_data, status, length, offset }: Outcome) -> Self {
        let result = match status {
            Status::Ok => i64::try_from(length).unwrap_or(i64::MAX),
            failed => -i64::from(failed.errno()),
        };
        zonal_completion { user_data, result, offset }
    }
}

/// Opens a queue for up to `depth` commands in flight. Returns its handle, or -1.
///
/// One thread at a time may use a queue: a call while another thread is in one fails with `EBUSY`.
#[unsafe(no_mangle)]
pub extern "C" fn zonal_queue_open(device: c_int, depth: c_uint) -> c_int {
    guard(|| {
        let device = device::get(device)?;
        if depth == 0 {
            return Err(Error::invalid("depth 0: expected at least 1"));
        }
        let io = Io::open(&device.attached, &device.clock)?;
        let state = State { io, left: VecDeque::new(), outcomes: Vec::new() };
        QUEUES.add(Queue { device, depth: depth as usize, state: Mutex::new(state) })
    })
}

/// Waits for the commands in flight, drops their completions and closes the queue. Returns 0, or -1 with
/// `EBADF` or `EBUSY`.
#[unsafe(no_mangle)]
pub extern "C" fn zonal_queue_close(queue: c_int) -> c_int {
    guard(|| {
        // Not while another thread is in it, which would have to wait for itself.
        drop(QUEUES.get(queue)?.state()?);
        QUEUES.remove(queue).map(|_| 0)
    })
}

/// A descriptor to wait for in poll(2) or epoll(7): it can be read when `zonal_poll` may have something to
/// do, which is also when commands that wait in the library are to be sent on, so that `zonal_poll` may
/// give out 0 completions. Call that with a `timeout` of 0, until the descriptor cannot be read any more.
///
/// The descriptor is closed with the queue; nothing is read from it. Returns it, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn zonal_queue_fd(queue: c_int) -> c_int {
    guard(|| {
        let queue = QUEUES.get(queue)?;
        let mut state = queue.state()?;
        let fd = state.io.descriptor()?;
        state.io.disarm();
        state.arm();
        Ok(fd)
    })
}

/// Submits the first `count` commands of `ios`, in order, as far as the depth allows. Returns how many
/// were submitted, or -1 if none: `EAGAIN` with as many in flight as the depth, else why the first
/// one was refused. A command that was submitted ends with a completion.
///
/// # Safety
/// `ios` is NULL or to `count` commands, whose memory is as `zonal_io` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_submit(queue: c_int, ios: *const zonal_io, count: c_uint) -> c_int {
    guard(|| {
        let queue = QUEUES.get(queue)?;
        let mut state = queue.state()?;
        if ios.is_null() && count > 0 {
            return Err(Error::new(libc::EFAULT, "ios: found NULL"));
        }
        state.io.disarm();
        let mut submitted = 0;
        let mut refused = None;
        for number in 0..count as usize {
            // SAFETY: the caller's promise.
            let io = unsafe { &*ios.add(number) };
            // SAFETY: the caller's promise.
            match unsafe { submit(&queue, &mut state, io) } {
                Ok(()) => submitted += 1,
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        state.arm();
        match refused {
            Some(error) if submitted == 0 => Err(error),
            _ => Ok(submitted),
        }
    })
}

/// # Safety
/// The memory of the command is as `zonal_io` says.
unsafe fn submit(queue: &Queue, state: &mut State, io: &zonal_io) -> Result<()> {
    if state.io.in_flight() + state.left.len() >= queue.depth {
        let depth = queue.depth;
        return Err(Error::new(libc::EAGAIN, format_args!("{depth} commands are in flight")));
    }
    let op = usize::try_from(io.op).ok().and_then(|op| OPS.get(op)).copied();
    let op = op.ok_or_else(|| {
        Error::invalid(format_args!(
            "op {}: expected one of zonal_op, 0 to {}",
            io.op,
            OPS.len() - 1
        ))
    })?;
    queue.device.allows(op)?;
    let flags = match io.flags {
        0 => BioFlags::NONE,
        ZONAL_FUA => BioFlags::FUA,
        flags => {
            return Err(Error::invalid(format_args!("flags {flags}: expected 0 or ZONAL_FUA, 1")));
        }
    };
    let memory = Memory(io.data.cast());
    let (offset, length) = (io.offset, io.length);
    let command = Command { op, flags, offset, length, memory, user_data: io.user_data };
    // SAFETY: the caller's promise.
    unsafe { state.io.submit(command) }
}

/// Gives out up to `max` completions. With none there yet, waits for one: not at all with a `timeout`
/// of 0, for that many nanoseconds, or with a negative one for as long as commands are in flight.
/// Returns how many there are, 0 after the timeout or with nothing in flight, or -1.
///
/// # Safety
/// `completions` is NULL or to room for `max` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zonal_poll(
    queue: c_int,
    completions: *mut zonal_completion,
    max: c_uint,
    timeout: i64,
) -> c_int {
    guard(|| {
        let queue = QUEUES.get(queue)?;
        let mut state = queue.state()?;
        if completions.is_null() || max == 0 {
            return Err(Error::invalid("completions: found no room, expected some for at least 1"));
        }
        let State { io, left, outcomes } = &mut *state;
        io.disarm();
        if left.is_empty() {
            let until = match timeout {
                0 => Some(Nanos(0)),
                timeout => u64::try_from(timeout)
                    .ok()
                    .map(|timeout| Nanos(queue.device.clock.now().0.saturating_add(timeout))),
            };
            io.poll(until, outcomes);
            left.extend(outcomes.drain(..));
        }
        let count = left.len().min(max as usize).min(c_int::MAX as usize);
        for (number, outcome) in left.drain(..count).enumerate() {
            // SAFETY: the caller's promise; `number` is below `max`.
            unsafe { completions.add(number).write(outcome.into()) };
        }
        state.arm();
        Ok(c_int::try_from(count).expect("at most the largest int"))
    })
}
