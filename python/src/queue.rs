//! I/O in flight on a device: submit, then poll.
//!
//! ```text
//!  Device (one after another) --+
//!  Queue (several in flight) ---+--> Open: one channel, one time --> the block layer
//! ```
use crate::device::{Command, Device, Failure, zone_op};
use crate::error::InputError;
use crate::open::{Done, SECTOR, seconds};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBlockingIOError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use zonal_blk::{BioFlags, Nanos, Op, Status};
use zonal_lab::zone::Advance;

/// What submitting beyond the depth is (errno.h).
const EAGAIN: i32 = 11;
/// Time between two looks at signals while a device is waited for.
const INTERVAL: Duration = Duration::from_millis(100);

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
///
/// >>> device = zonal.Device("zns-1t")
/// >>> with zonal.Queue(device, depth=2) as queue:
/// ...     numbers = [queue.append(0, bytes(65536)) for _ in range(2)]
/// ...     landed = []
/// ...     while queue.in_flight:
/// ...         landed += [done.offset for done in queue.poll()]
/// >>> sorted(landed)
/// [0, 65536]
#[pyclass(module = "zonal", frozen)]
pub struct Queue {
    device: Py<Device>,
    /// Which of the device's queues it is.
    number: u64,
    depth: usize,
    is_closed: AtomicBool,
}

impl Queue {
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
    #[new]
    #[pyo3(signature = (device, depth=32))]
    fn new(py: Python<'_>, device: Py<Device>, depth: usize) -> PyResult<Self> {
        let of = device.get();
        if depth == 0 {
            let text = format!("device {}: depth 0: expected at least 1", of.name());
            return Err(InputError::new_err(text));
        }
        let number = py.detach(|| of.with(|open| Ok(open.new_queue())))?;
        Ok(Queue { device, number, depth, is_closed: AtomicBool::new(false) })
    }

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
