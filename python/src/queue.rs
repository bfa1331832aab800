//! I/O in flight on a device: submit, then poll.
//!
//! ```text
//!  Device (one after another) --+
//!  Queue (several in flight) ---+--> Open: one channel, one time --> the block layer
//! ```
use crate::device::{Command, Device, Failure, SECTOR, zone_op};
use crate::error::InputError;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBlockingIOError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use zonal_backend::Stack;
use zonal_blk::{Bio, BioFlags, Completion as BioCompletion, Nanos, Op, Status};
use zonal_lab::zone::{Advance, SyncChannel};

/// What submitting beyond the depth is (errno.h).
const EAGAIN: i32 = 11;
/// Time between two looks at signals while a device is waited for.
const INTERVAL: Duration = Duration::from_millis(100);

/// An I/O that was submitted.
struct Flight {
    /// The number of its queue; `None` for an operation of the device itself.
    queue: Option<u64>,
    op: Op,
    offset: u64,
    length: u64,
    submitted: Nanos,
}

/// An I/O that has completed.
struct Done {
    number: u64,
    flight: Flight,
    completion: BioCompletion,
    at: Nanos,
    /// Why it failed, if it did and the device knows.
    why: Option<String>,
}

/// An open device and its one channel, so that the device and its queues have one time, and no wait of one
/// is for a completion that only another gets.
pub struct Open {
    pub attached: Stack,
    channel: SyncChannel,
    /// By the `user_data` of their bios.
    flights: HashMap<u64, Flight>,
    /// In the order of their completion.
    done: VecDeque<Done>,
    next_number: u64,
    next_queue: u64,
}

impl Open {
    pub fn new(attached: Stack, channel: SyncChannel) -> Self {
        let (flights, done) = (HashMap::new(), VecDeque::new());
        Open { attached, channel, flights, done, next_number: 0, next_queue: 0 }
    }

    /// The number of a new queue.
    pub fn new_queue(&mut self) -> u64 {
        self.next_queue += 1;
        self.next_queue
    }

    /// The virtual time.
    pub fn seconds(&self) -> f64 {
        seconds(self.channel.now())
    }

    /// Submits a bio, for a queue or for the device itself. Returns its number.
    pub fn submit(&mut self, bio: Bio, queue: Option<u64>) -> u64 {
        self.next_number += 1;
        let flight = Flight {
            queue,
            op: bio.op,
            offset: bio.sector.0 * SECTOR,
            length: u64::from(bio.nr_sectors) * SECTOR,
            submitted: self.channel.now(),
        };
        self.flights.insert(self.next_number, flight);
        self.channel.submit(Bio { user_data: self.next_number, ..bio });
        self.next_number
    }

    /// Gathers what has completed.
    fn gather(&mut self) {
        let mut completions = Vec::new();
        self.channel.poll(&mut completions);
        let failures = self.channel.take_failures();
        for completion in completions {
            let number = completion.user_data;
            let flight = self.flights.remove(&number).expect("an I/O completes once");
            let failed = failures.iter().rev().find(|failure| {
                let at = flight.offset / SECTOR;
                let has = failure.sector.0..failure.sector.0 + u64::from(failure.nr_sectors).max(1);
                completion.status != Status::Ok && failure.op == flight.op && has.contains(&at)
            });
            let why = failed.map(|failure| failure.to_string());
            self.done.push_back(Done { number, flight, completion, at: self.channel.now(), why });
        }
    }

    /// Looks for the completion of one I/O; without it, goes to the next event.
    pub fn step(&mut self, number: u64) -> (Option<(BioCompletion, Option<String>)>, Advance) {
        self.gather();
        let at = self.done.iter().position(|done| done.number == number);
        match at.and_then(|at| self.done.remove(at)) {
            Some(done) => (Some((done.completion, done.why)), Advance::Passed),
            None => (None, self.channel.advance()),
        }
    }

    /// I/Os of a queue that were submitted and not given out.
    fn outstanding(&self, queue: u64) -> usize {
        let flights = self.flights.values().filter(|flight| flight.queue == Some(queue));
        flights.count() + self.done.iter().filter(|done| done.flight.queue == Some(queue)).count()
    }

    /// Takes what has completed of a queue. Without any, goes to the next event if the queue has an I/O
    /// in flight.
    fn take(&mut self, queue: u64) -> (Vec<Done>, Option<Advance>) {
        self.gather();
        let (mine, others): (VecDeque<Done>, VecDeque<Done>) =
            self.done.drain(..).partition(|done| done.flight.queue == Some(queue));
        self.done = others;
        let waits = mine.is_empty() && self.outstanding(queue) > 0;
        (mine.into(), waits.then(|| self.channel.advance()))
    }
}

impl Drop for Open {
    /// Waits for what is in flight: each bio completes.
    fn drop(&mut self) {
        self.gather();
        while !self.flights.is_empty() {
            if self.channel.advance() == Advance::Outside {
                thread::yield_now();
            }
            self.gather();
        }
    }
}

fn seconds(nanos: Nanos) -> f64 {
    nanos.0 as f64 / 1e9
}

/// An I/O that has completed.
#[pyclass(module = "zonal", frozen, get_all)]
pub struct Completion {
    /// The number that submitting it returned.
    number: u64,
    /// read, write, append, flush, reset, open, close or finish.
    op: &'static str,
    /// In bytes; of an append, where the data landed.
    offset: u64,
    /// In bytes.
    length: u64,
    /// What was read.
    data: Option<Py<PyBytes>>,
    /// Why it failed; None if it did not.
    error: Option<String>,
    /// The device's virtual time at which it completed, in seconds.
    time: f64,
    /// The virtual time in seconds from its submission to its completion.
    latency: f64,
}

#[pymethods]
impl Completion {
    fn __repr__(&self) -> String {
        let Completion { number, op, offset, length, latency, .. } = self;
        let error = self.error.as_ref().map_or(String::new(), |error| format!(", error={error:?}"));
        format!(
            "Completion(number={number}, op='{op}', offset={offset}, length={length}, \
             latency={latency:.9}{error})"
        )
    }
}

/// The name of an operation that a queue has.
fn op_name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::ZoneAppend => "append",
        Op::Flush => "flush",
        Op::ZoneReset => "reset",
        Op::ZoneOpen => "open",
        Op::ZoneClose => "close",
        Op::ZoneFinish => "finish",
        other => other.info().name,
    }
}

/// I/O in flight on a device: operations are submitted, and `poll` returns those that have completed.
#[pyclass(module = "zonal", frozen)]
pub struct Queue {
    device: Py<Device>,
    /// Which of the device's queues it is.
    number: u64,
    depth: usize,
    is_closed: AtomicBool,
}

impl Queue {
    pub fn new(device: Py<Device>, number: u64, depth: usize) -> Self {
        Queue { device, number, depth, is_closed: AtomicBool::new(false) }
    }

    fn submit(&self, py: Python<'_>, command: Command) -> PyResult<u64> {
        let device = self.device.get();
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(InputError::new_err("the queue is closed"));
        }
        let submitted = py.detach(|| {
            let bio = device.bio(command)?;
            device.with(|open| {
                let has_room = open.outstanding(self.number) < self.depth;
                Ok(has_room.then(|| open.submit(bio, Some(self.number))))
            })
        })?;
        submitted.ok_or_else(|| {
            let text = format!("{} I/Os are in flight, the depth of the queue", self.depth);
            PyBlockingIOError::new_err((EAGAIN, text))
        })
    }

    /// Waits for at least one completion until a time, while any is in flight.
    fn wait(&self, until: Instant) -> Result<Vec<Done>, Failure> {
        let device = self.device.get();
        loop {
            match device.with(|open| Ok(open.take(self.number)))? {
                (done, None) => return Ok(done),
                (_, Some(Advance::Passed)) => {}
                (_, Some(Advance::Outside)) if Instant::now() >= until => return Ok(Vec::new()),
                // Outside of the lock, so that others can submit.
                (_, Some(Advance::Outside)) => thread::yield_now(),
            }
        }
    }

    fn completion(&self, py: Python<'_>, done: Done) -> PyResult<Completion> {
        let Done { number, flight, completion, at, why } = done;
        let device = self.device.get();
        let has_failed = completion.status != Status::Ok;
        let what = || device.what(flight.op, flight.offset, flight.length);
        let error = has_failed.then(|| match why {
            Some(why) => format!("device {}: {why}", device.name()),
            None => format!("{}: {}", what(), completion.status),
        });
        let data = match (flight.op, &completion.buf) {
            (Op::Read, _) if has_failed => None,
            (Op::Read, Some(buf)) => Some(PyBytes::new(py, buf).unbind()),
            // A device that keeps no data reads as zeroes.
            (Op::Read, None) => {
                let length = usize::try_from(flight.length)?;
                Some(PyBytes::new_with(py, length, |_| Ok(()))?.unbind())
            }
            _ => None,
        };
        Ok(Completion {
            number,
            op: op_name(flight.op),
            offset: completion.sector.0 * SECTOR,
            length: flight.length,
            data,
            error,
            time: seconds(at),
            latency: seconds(Nanos(at.0.saturating_sub(flight.submitted.0))),
        })
    }
}

#[pymethods]
impl Queue {
    /// The most I/Os in flight.
    #[getter]
    fn depth(&self) -> usize {
        self.depth
    }

    /// I/Os that were submitted and not returned by `poll`.
    #[getter]
    fn in_flight(&self, py: Python<'_>) -> PyResult<usize> {
        let device = self.device.get();
        Ok(py.detach(|| device.with(|open| Ok(open.outstanding(self.number))))?)
    }

    /// Submits a read. Returns its number.
    fn read(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<u64> {
        self.submit(py, Command::new(Op::Read, offset, length))
    }

    /// Submits a write: in a sequential zone at the write pointer, or after writes that are in flight.
    /// Returns its number.
    #[pyo3(signature = (offset, data, *, fua=false))]
    fn write(&self, py: Python<'_>, offset: u64, data: PyBuffer<u8>, fua: bool) -> PyResult<u64> {
        let flags = if fua { BioFlags::FUA } else { BioFlags::NONE };
        self.submit(py, Command::of_data(py, (Op::Write, flags, offset), &data)?)
    }

    /// Submits an append to a zone. Returns its number; its completion says where the data landed.
    fn append(&self, py: Python<'_>, zone: u32, data: PyBuffer<u8>) -> PyResult<u64> {
        let start = self.device.get().zone_start(zone)?;
        self.submit(py, Command::of_data(py, (Op::ZoneAppend, BioFlags::NONE, start), &data)?)
    }

    /// Submits a flush, which makes durable what has completed. Returns its number.
    fn flush(&self, py: Python<'_>) -> PyResult<u64> {
        self.submit(py, Command::new(Op::Flush, 0, 0))
    }

    /// Submits one of reset, open, close and finish of a zone. Returns its number.
    fn manage(&self, py: Python<'_>, op: &str, zone: u32) -> PyResult<u64> {
        let command = Command::new(zone_op(op)?, self.device.get().zone_start(zone)?, 0);
        self.submit(py, command)
    }

    /// Returns what has completed, in that order. With nothing there yet, waits until something has: for as
    /// many seconds of real time as `timeout` says, or as long as I/O is in flight. A model's time is
    /// virtual: its next completion is there without waiting.
    #[pyo3(signature = (timeout=None))]
    fn poll(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<Completion>> {
        let limit = timeout.map(Duration::try_from_secs_f64).transpose().map_err(|_| {
            let found = timeout.unwrap_or_default();
            InputError::new_err(format!("timeout: found {found}, expected 0 seconds or more"))
        })?;
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            let look = Instant::now() + INTERVAL;
            let found = py.detach(|| self.wait(end.map_or(look, |end| end.min(look))))?;
            let is_over = end.is_some_and(|end| end <= Instant::now());
            if !found.is_empty() || is_over || self.in_flight(py)? == 0 {
                return found.into_iter().map(|done| self.completion(py, done)).collect();
            }
            py.check_signals()?;
        }
    }

    /// Waits for what is in flight, drops its completions and closes the queue.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.is_closed.store(true, Ordering::Relaxed);
        if self.device.get().is_open(py) {
            while self.in_flight(py)? > 0 {
                self.poll(py, None)?;
            }
        }
        Ok(())
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("Queue(device='{}', depth={})", self.device.get().name(), self.depth)
    }
}
